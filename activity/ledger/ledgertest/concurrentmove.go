package ledgertest

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// concurrentMoves dedicates and releases pages while others record rows of the users. The
// receipts of each page, in order of the sequences, must be consistent: a user's rows move with
// the user. They must lead to the rows that the ledger then has on each page.
func (s suite) concurrentMoves(t *testing.T) {
	const writers, calls, movers, moves = 6, 40, 3, 15
	handles := s.handles(t, 2)
	receipts := make([][]ledger.Receipt, writers+movers)
	var wg sync.WaitGroup
	for g := range writers {
		random := rand.New(rand.NewPCG(11, uint64(g)))
		l := handles[g%len(handles)]
		wg.Go(func() {
			for range calls {
				receipt, err := l.Record(t.Context(), at(0), randomChanges(random.IntN))
				if err != nil {
					t.Error(err)
					return
				}
				receipts[g] = append(receipts[g], receipt)
			}
		})
	}
	for g := range movers {
		l, hash := handles[(g+1)%len(handles)], block([]int{0, 3, 15}[g], "").Hash
		wg.Go(func() {
			for i := range moves { // an odd number of moves leaves them on a dedicated page
				receipt, err := l.Move(t.Context(), hash, i%2 == 0)
				if err != nil {
					t.Error(err)
					return
				}
				receipts[writers+g] = append(receipts[writers+g], receipt)
			}
		})
	}
	wg.Wait()
	story := newStory(t, slices.Concat(receipts...))
	for page := range handles[0].Identity().Pages {
		story.tell(t, page, map[key]bool{})
	}
	if want := 2 + movers*(moves+1)/2; len(story.ends) != want {
		t.Errorf("receipts of %d pages, want %d", len(story.ends), want)
	}
	for page, keys := range story.ends {
		if story.released[page] {
			checkGone(t, handles[0], page)
			continue
		}
		checkPageKeys(t, handles[0], page, keys, uint64(len(story.chapters[page])))
	}
}

// chapter is one raise of a page.
type chapter struct {
	ledger.PageChange
	dedicated *ledger.PageChange // of a move: the dedicated page
}

// story is the raises of each page, and the keys that they leave in it.
type story struct {
	chapters map[uint32][]chapter
	ends     map[uint32]map[key]bool
	owners   map[uint32]uint64 // of dedicated pages
	released map[uint32]bool
}

// newStory sorts receipts. Each move among them must have moved a user.
func newStory(t *testing.T, receipts []ledger.Receipt) *story {
	t.Helper()
	s := &story{map[uint32][]chapter{}, map[uint32]map[key]bool{}, map[uint32]uint64{}, map[uint32]bool{}}
	for _, receipt := range receipts {
		if len(receipt.Changed) == 0 {
			shared, dedicated := receipt.Pages[0], receipt.Pages[1]
			s.chapters[shared.Page] = append(s.chapters[shared.Page], chapter{shared, &dedicated})
			s.chapters[dedicated.Page] = append(s.chapters[dedicated.Page], chapter{dedicated, nil})
			for hash, page := range receipt.Owners {
				s.owners[page] = hash
			}
			continue
		}
		for _, p := range receipt.Pages {
			if len(p.Added)+len(p.Removed) > 0 {
				s.chapters[p.Page] = append(s.chapters[p.Page], chapter{p, nil})
			}
		}
	}
	for page, chapters := range s.chapters {
		slices.SortFunc(chapters, func(a, b chapter) int { return cmp.Compare(a.Sequence, b.Sequence) })
		for i, c := range chapters {
			if c.Sequence != uint64(i+1) {
				t.Fatalf("page %d: change %d has sequence %d", page, i+1, c.Sequence)
			}
		}
	}
	return s
}

// tell applies the raises of a page that begins with the given keys.
func (s *story) tell(t *testing.T, page uint32, keys map[key]bool) {
	t.Helper()
	for _, c := range s.chapters[page] {
		for _, r := range c.Removed {
			if !keys[keyOf(r)] {
				t.Errorf("page %d at %d: removed %v, which did not exist", page, c.Sequence, r)
			}
			delete(keys, keyOf(r))
		}
		for _, r := range c.Added {
			if owner, dedicated := s.owners[page]; keys[keyOf(r)] || dedicated && owner != r.Hash {
				t.Errorf("page %d at %d: added %v, which existed or belongs to another page", page, c.Sequence, r)
			}
			keys[keyOf(r)] = true
		}
		switch {
		case c.dedicated == nil:
		case c.dedicated.Sequence == 1:
			mine := map[key]bool{}
			for k := range keys {
				if k.hash == s.owners[c.dedicated.Page] {
					mine[k] = true
					delete(keys, k)
				}
			}
			s.tell(t, c.dedicated.Page, mine)
		default: // the page was released after its last raise
			if last := uint64(len(s.chapters[c.dedicated.Page])); c.dedicated.Sequence != last {
				t.Errorf("page %d was raised to %d after its release at %d", c.dedicated.Page, last, c.dedicated.Sequence)
			}
			maps.Copy(keys, s.ends[c.dedicated.Page])
			s.released[c.dedicated.Page] = true
		}
	}
	s.ends[page] = keys
}

// concurrentMovesTogether dedicates and releases each page in several concurrent calls, which must
// have the effect of one move.
func (s suite) concurrentMovesTogether(t *testing.T) {
	const users, each = 5, 3
	handles := s.handles(t, 2)
	l := handles[0]
	m := newModel(l.Identity())
	for user := range users {
		recordAt(t, l, m, at(0), add(block(3*user, "a")))
	}
	together := func(move func(l *ledger.Ledger, hash uint64) (ledger.Receipt, error)) (pages map[uint64]map[uint32]bool) {
		pages = map[uint64]map[uint32]bool{}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range users * each {
			hash := block(3*(i%users), "").Hash
			wg.Go(func() {
				receipt, err := move(handles[i%len(handles)], hash)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if pages[hash] == nil {
					pages[hash] = map[uint32]bool{}
				}
				for _, p := range receipt.Pages {
					pages[hash][p.Page] = true
				}
			})
		}
		wg.Wait()
		return pages
	}
	told := together(func(l *ledger.Ledger, hash uint64) (ledger.Receipt, error) { return l.Move(t.Context(), hash, true) })
	_, progress := changes(t, l, "")
	if len(progress.Owners) != users {
		t.Fatalf("owners %v, want %d", progress.Owners, users)
	}
	numbers := map[uint32]bool{}
	for hash, page := range progress.Owners {
		if want := map[uint32]bool{m.shared(2, hash): true, page: true}; !maps.Equal(told[hash], want) {
			t.Errorf("user %d has page %d, receipts named %v", hash, page, told[hash])
		}
		numbers[page] = true
		m.dedicate(hash)
		m.owners[hash] = page // the order of the calls is random
	}
	if len(numbers) != users {
		t.Errorf("%d users have %d pages", users, len(numbers))
	}
	m.check(t, l)
	together(func(l *ledger.Ledger, hash uint64) (ledger.Receipt, error) { return l.Move(t.Context(), hash, false) })
	for hash := range progress.Owners {
		m.release(hash)
	}
	m.check(t, l)
}
