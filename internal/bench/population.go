package bench

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/feedfilter/feedfilter/activity"
)

// Kinds of entries, as in package activity.
const (
	Block     = "block"
	BlockedBy = "blocked-by"
	Hide      = "hide"
	Seen      = "seen"
)

// Activities per user: the logarithm is normally distributed, with a median of about 30 and a 99th
// percentile of about 1,000. The heaviest user has 1.5 % of all activities, or more if there are
// few users.
const (
	medianUser = 30
	spreadUser = 1.531
	mostUser   = 0.015

	// BlockEvery means that one activity in this many is a block; the others are hides.
	BlockEvery  = 10
	blockStride = 7919 // a prime, to choose whom a user blocks
	// ViewerCount is the maximum number of users who ask for feeds.
	ViewerCount  = 512
	seenByViewer = 100
)

// Population is a set of users and their activities. It is the same for the same arguments on every
// machine.
type Population struct {
	Counts  []int32 // of activities, by user
	Viewers []int   // users who ask for feeds

	seed uint64
}

// NewPopulation returns a population of at least 3 users with about the given number of entries,
// and at least one activity for each user.
func NewPopulation(users, entries int, seed uint64) (*Population, error) {
	if users < 3 || entries < users || users > 1e7 || entries > 1e9 {
		return nil, fmt.Errorf(
			"population of %d users and %d entries: "+
				"want 3 to 10 million users, and 1 entry per user to 1 billion entries",
			users, entries,
		)
	}
	p := &Population{Counts: make([]int32, users), seed: seed}
	activities := float64(entries) * BlockEvery / (BlockEvery + 1)
	weights, sum := make([]float64, users), 0.0
	for i := range weights {
		z := math.Sqrt2 * math.Erfinv(2*(float64(i)+0.5)/float64(users)-1)
		weights[i] = medianUser * math.Exp(spreadUser*z)
		sum += weights[i]
	}
	last := weights[users-1]
	most := activities * max(mostUser, last/sum)
	rng := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // to be the same each time
	for i, u := range rng.Perm(users) {
		n := weights[i] / (sum - last) * (activities - most)
		if i == users-1 {
			n = most
		}
		p.Counts[u] = int32(max(1, math.Round(n)))
	}
	p.Viewers = rng.Perm(users)[:min(users, ViewerCount)]
	return p, nil
}

// Users returns the number of users.
func (p *Population) Users() int { return len(p.Counts) }

// Entries returns the number of entries, without seen posts.
func (p *Population) Entries() int {
	n := 0
	for u, count := range p.Counts {
		n += int(count) + p.Blocks(u)
	}
	return n
}

// Blocks returns how many users u blocks.
func (p *Population) Blocks(u int) int { return min(int(p.Counts[u])/BlockEvery, len(p.Counts)-1) }

// Blocked returns the b-th user whom u blocks; b is below Blocks(u).
func (p *Population) Blocked(u, b int) int {
	others := len(p.Counts) - 1
	stride := blockStride
	if others%blockStride == 0 {
		stride = 1
	}
	return (u + 1 + b*stride%others) % len(p.Counts)
}

// Activity returns the n-th activity of u.
func (p *Population) Activity(u, n int) activity.Activity {
	if b := n / BlockEvery; n%BlockEvery == BlockEvery-1 && b < p.Blocks(u) {
		return activity.Activity{User: UserID(u), Kind: Block, Target: UserID(p.Blocked(u, b))}
	}
	return activity.Activity{User: UserID(u), Kind: Hide, Target: HiddenID(u, n)}
}

// UserID returns the id of user u. It is not a number, because Redis stores sets of up to 512
// numbers in less memory.
func UserID(u int) string { return "u" + strconv.Itoa(1_000_000+u) }

// HiddenID returns the id of the post that the n-th activity of u hides.
func HiddenID(u, n int) string { return "p" + strconv.Itoa(10_000_000_000+u*100_000+n) }

func seenID(u, n int) string { return "s" + strconv.Itoa(10_000_000_000+u*100_000+n) }

// Activities returns all activities, with users mixed.
func (p *Population) Activities() iter.Seq[activity.Activity] {
	return func(yield func(activity.Activity) bool) {
		turns := make([]int32, 0, p.Entries())
		for u, n := range p.Counts {
			for range n {
				turns = append(turns, int32(u))
			}
		}
		rng := rand.New(rand.NewPCG(p.seed, 2)) //nolint:gosec // to be the same each time
		rng.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
		next := make([]int, len(p.Counts))
		for _, u := range turns {
			if !yield(p.Activity(int(u), next[u])) {
				return
			}
			next[u]++
		}
	}
}

// Seen returns the views of posts by viewers, viewer by viewer.
func (p *Population) Seen() iter.Seq[activity.Activity] {
	return func(yield func(activity.Activity) bool) {
		for _, u := range p.Viewers {
			for n := range seenByViewer {
				if !yield(activity.Activity{User: UserID(u), Kind: Seen, Target: seenID(u, n)}) {
					return
				}
			}
		}
	}
}
