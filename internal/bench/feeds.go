package bench

import (
	"math/rand/v2"
	"strconv"

	"github.com/feedfilter/feedfilter/feed"
)

// KeysPerCandidate is the number of keys that a feed check tests per candidate: block, blocked-by,
// hide and seen.
const KeysPerCandidate = 4

const (
	// minKeys is the minimum number of distinct keys in all feeds of one size: with fewer, a
	// processor predicts the branches.
	minKeys = 1 << 16
	// MinFeeds is the minimum number of feeds of one size.
	MinFeeds = 64
)

// Feed holds the candidates of one feed, and which of them must be dropped.
type Feed struct {
	Viewer string
	Posts  []feed.Post
	// Drop has an element for each candidate. It is true if the viewer has hidden or seen the
	// candidate, or there is a block between viewer and author.
	Drop []bool
}

// Feeds returns feeds of n candidates for the viewers in turn, with at least 65,536 distinct keys
// together. Of 40 candidates, the viewer has hidden two and seen one, and one is by a user who
// blocks the viewer or is blocked; the others are new.
func (p *Population) Feeds(n int) []*Feed {
	by := p.blockers()
	feeds := make([]*Feed, max(MinFeeds, 1+minKeys/(KeysPerCandidate*n)))
	rng := rand.New(rand.NewPCG(p.seed, 3)) //nolint:gosec // deterministic
	fresh := 0
	for i := range feeds {
		u := p.Viewers[i%len(p.Viewers)]
		f := &Feed{Viewer: UserID(u), Posts: make([]feed.Post, n), Drop: make([]bool, n)}
		for c := range f.Posts {
			fresh++
			f.Posts[c] = feed.Post{
				ID:     "p" + strconv.Itoa(70_000_000_000+fresh),
				Author: "u" + strconv.Itoa(50_000_000+fresh),
			}
			f.Drop[c] = p.hit(&f.Posts[c], u, c, by[u], rng)
		}
		feeds[i] = f
	}
	return feeds
}

// hit makes candidate c of viewer u one that must be dropped, if it is its turn.
func (p *Population) hit(post *feed.Post, u, c int, by []int, rng *rand.Rand) bool {
	switch c % 40 {
	case 7, 27:
		if n := rng.IntN(int(p.Counts[u])); p.Activity(u, n).Kind == Hide {
			post.ID = HiddenID(u, n)
			return true
		}
	case 13:
		if n := p.Blocks(u); n > 0 && (len(by) == 0 || rng.IntN(2) == 0) {
			post.Author = UserID(p.Blocked(u, rng.IntN(n)))
			return true
		}
		if len(by) > 0 {
			post.Author = UserID(by[rng.IntN(len(by))])
			return true
		}
	case 33:
		post.ID = seenID(u, rng.IntN(seenByViewer))
		return true
	}
	return false
}

// blockers returns the users who block each viewer.
func (p *Population) blockers() map[int][]int {
	by := make(map[int][]int, len(p.Viewers))
	for _, u := range p.Viewers {
		by[u] = nil
	}
	for u := range p.Counts {
		for b := range p.Blocks(u) {
			v := p.Blocked(u, b)
			if _, asks := by[v]; asks {
				by[v] = append(by[v], u)
			}
		}
	}
	return by
}
