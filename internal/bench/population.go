package bench

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/feedfilter/feedfilter/activity"
)

// Kinds of entries, as package activity names them.
const (
	Block     = "block"
	BlockedBy = "blocked-by"
	Hide      = "hide"
	Seen      = "seen"
)

// How many activities users have: the logarithm is normal, with a median of about 30 and a 99th percentile of about
// 1,000, and the user with the most has 1.5 % of all, more where users are few.
const (
	medianUser = 30
	spreadUser = 1.531
	mostUser   = 0.015

	blockEvery   = 10   // one of so many activities is a block, the others are hides
	blockStride  = 7919 // a prime: whom a user blocks
	viewerCount  = 512
	seenByViewer = 100
)

// Population is users and what they did: the same for the same arguments, on every machine.
type Population struct {
	counts  []int32 // of activities, by user
	viewers []int   // users who ask for feeds
	seed    uint64
	entries int
}

// Entry is one key that is held: a block leaves two, "block" with the one and "blocked-by" with the other.
type Entry struct{ Owner, Kind, Target string }

// NewPopulation makes a population of so many users, 3 or more, with about so many entries, at least one activity
// for each user.
func NewPopulation(users, entries int, seed uint64) (*Population, error) {
	if users < 3 || entries < users || users > 1e7 || entries > 1e9 {
		return nil, fmt.Errorf("a population of %d users with %d entries: want 3 users to 10 million, and one entry for each to 1 billion",
			users, entries)
	}
	p := &Population{counts: make([]int32, users), seed: seed}
	activities := float64(entries) * blockEvery / (blockEvery + 1)
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
		p.counts[u] = int32(max(1, math.Round(n)))
		p.entries += int(p.counts[u]) + p.blocks(u)
	}
	p.viewers = rng.Perm(users)[:min(users, viewerCount)]
	return p, nil
}

// Users is the number of users.
func (p *Population) Users() int { return len(p.counts) }

// join adds users with so many activities each. They are the viewers from then on. Whom others block changes.
func (p *Population) join(counts ...int) {
	p.viewers = nil
	for _, n := range counts {
		p.viewers = append(p.viewers, len(p.counts))
		p.counts = append(p.counts, int32(n))
	}
	p.entries = 0
	for u, n := range p.counts {
		p.entries += int(n) + p.blocks(u)
	}
}

// OfViewers are the activities that concern viewers, as theirs or as done to them.
func (p *Population) OfViewers() iter.Seq[activity.Activity] {
	return func(yield func(activity.Activity) bool) {
		asks := make(map[int]bool, len(p.viewers))
		for _, u := range p.viewers {
			asks[u] = true
			for n := range int(p.counts[u]) {
				if !yield(p.act(u, n)) {
					return
				}
			}
		}
		for u := range p.counts {
			for b := range p.blocks(u) {
				if v := p.blocked(u, b); asks[v] && !asks[u] && !yield(activity.Activity{User: userID(u), Kind: Block, Target: userID(v)}) {
					return
				}
			}
		}
	}
}

// Entries is the number of entries, what viewers have seen not counted.
func (p *Population) Entries() int { return p.entries }

// blocks is how many others u blocks.
func (p *Population) blocks(u int) int { return min(int(p.counts[u])/blockEvery, len(p.counts)-1) }

// blocked is the b-th that u blocks, b below blocks.
func (p *Population) blocked(u, b int) int {
	others := len(p.counts) - 1
	stride := blockStride
	if others%blockStride == 0 {
		stride = 1
	}
	return (u + 1 + b*stride%others) % len(p.counts)
}

// act is the n-th activity of u.
func (p *Population) act(u, n int) activity.Activity {
	if b := n / blockEvery; n%blockEvery == blockEvery-1 && b < p.blocks(u) {
		return activity.Activity{User: userID(u), Kind: Block, Target: userID(p.blocked(u, b))}
	}
	return activity.Activity{User: userID(u), Kind: Hide, Target: hiddenID(u, n)}
}

// Ids are text, as a service has to take it: of numbers alone a Redis set of up to 512 would take less.
func userID(u int) string { return string(appendUser(nil, u)) }

func appendUser(dst []byte, u int) []byte {
	return strconv.AppendInt(append(dst, 'u'), int64(1_000_000+u), 10)
}

func hiddenID(u, n int) string { return string(appendHidden(nil, u, n)) }

func appendHidden(dst []byte, u, n int) []byte {
	return strconv.AppendInt(append(dst, 'p'), int64(10_000_000_000+u*100_000+n), 10)
}

func seenID(u, n int) string { return "s" + strconv.Itoa(10_000_000_000+u*100_000+n) }

// Activities are all activities, those of different users mixed.
func (p *Population) Activities() iter.Seq[activity.Activity] {
	return func(yield func(activity.Activity) bool) {
		turns := make([]int32, 0, p.entries)
		for u, n := range p.counts {
			for range n {
				turns = append(turns, int32(u))
			}
		}
		rng := rand.New(rand.NewPCG(p.seed, 2)) //nolint:gosec // to be the same each time
		rng.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
		next := make([]int, len(p.counts))
		for _, u := range turns {
			if !yield(p.act(int(u), next[u])) {
				return
			}
			next[u]++
		}
	}
}

// AllEntries are the entries that Activities leave, in their order.
func (p *Population) AllEntries() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for a := range p.Activities() {
			if !yield(Entry{a.User, a.Kind, a.Target}) {
				return
			}
			if a.Kind == Block && !yield(Entry{a.Target, BlockedBy, a.User}) {
				return
			}
		}
	}
}

// Seen is what viewers have seen, viewer by viewer.
func (p *Population) Seen() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for _, u := range p.viewers {
			for n := range seenByViewer {
				if !yield(Entry{userID(u), Seen, seenID(u, n)}) {
					return
				}
			}
		}
	}
}
