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

// These constants describe how many activities users have. The logarithm is normal, with a median
// of about 30 and a 99th percentile of about 1,000. The user with the most has 1.5 % of all, or
// more if users are few.
const (
	medianUser = 30
	spreadUser = 1.531
	mostUser   = 0.015

	// BlockEvery is how many activities one block is among; the others are hides.
	BlockEvery  = 10
	blockStride = 7919 // a prime: whom a user blocks
	// ViewerCount is how many users ask for feeds, if there are so many.
	ViewerCount  = 512
	seenByViewer = 100
)

// Population is users and what they did: the same for the same arguments, on every machine.
type Population struct {
	Counts  []int32 // of activities, by user
	Viewers []int   // users who ask for feeds

	seed uint64
}

// Entry is one key that is held: a block leaves two, "block" with the one and "blocked-by" with the
// other.
type Entry struct{ Owner, Kind, Target string }

// NewPopulation makes a population of so many users, 3 or more, with about so many entries, at
// least one activity for each user.
func NewPopulation(users, entries int, seed uint64) (*Population, error) {
	if users < 3 || entries < users || users > 1e7 || entries > 1e9 {
		return nil, fmt.Errorf("a population of %d users with %d entries: want 3 users to 10 million, and one entry for each to 1 billion",
			users, entries)
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

// Users is the number of users.
func (p *Population) Users() int { return len(p.Counts) }

// Entries counts the entries, without the posts that viewers have seen.
func (p *Population) Entries() int {
	n := 0
	for u, count := range p.Counts {
		n += int(count) + p.Blocks(u)
	}
	return n
}

// Blocks is how many others u blocks.
func (p *Population) Blocks(u int) int { return min(int(p.Counts[u])/BlockEvery, len(p.Counts)-1) }

// Blocked is the b-th user whom u blocks; b is below Blocks(u).
func (p *Population) Blocked(u, b int) int {
	others := len(p.Counts) - 1
	stride := blockStride
	if others%blockStride == 0 {
		stride = 1
	}
	return (u + 1 + b*stride%others) % len(p.Counts)
}

// Activity is the n-th activity of u.
func (p *Population) Activity(u, n int) activity.Activity {
	if b := n / BlockEvery; n%BlockEvery == BlockEvery-1 && b < p.Blocks(u) {
		return activity.Activity{User: UserID(u), Kind: Block, Target: UserID(p.Blocked(u, b))}
	}
	return activity.Activity{User: UserID(u), Kind: Hide, Target: HiddenID(u, n)}
}

// UserID is the id of user u. It is text, as a service has to take it: a Redis set of up to 512
// numbers takes less.
func UserID(u int) string { return string(AppendUser(nil, u)) }

// AppendUser appends the id of user u.
func AppendUser(dst []byte, u int) []byte {
	return strconv.AppendInt(append(dst, 'u'), int64(1_000_000+u), 10)
}

// HiddenID is the id of the post that is hidden by the n-th activity of u.
func HiddenID(u, n int) string { return string(AppendHidden(nil, u, n)) }

// AppendHidden appends that id.
func AppendHidden(dst []byte, u, n int) []byte {
	return strconv.AppendInt(append(dst, 'p'), int64(10_000_000_000+u*100_000+n), 10)
}

func seenID(u, n int) string { return "s" + strconv.Itoa(10_000_000_000+u*100_000+n) }

// Activities are all activities, those of different users mixed.
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
		for _, u := range p.Viewers {
			for n := range seenByViewer {
				if !yield(Entry{UserID(u), Seen, seenID(u, n)}) {
					return
				}
			}
		}
	}
}
