package ledgertest

import (
	"maps"
	"sync"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

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
