package ledgertest

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// randomChanges returns up to four changes of up to three rows, out of 96 rows on at most 16
// pages.
func randomChanges(intn func(n int) int) []ledger.Change {
	changes := make([]ledger.Change, 1+intn(4))
	for i := range changes {
		changes[i].Remove = intn(2) == 0
		changes[i].Ended = changes[i].Remove && intn(4) == 0
		changes[i].Limit = uint32(intn(3))
		for range 1 + intn(3) {
			row := block(intn(16), string(rune('a'+intn(3))))
			row.Kind = []string{"block", "mute"}[intn(2)]
			if row.Kind == "mute" {
				row.Names, row.TargetHash = true, hashOf(row.Target)
			}
			row.Since = at(int64(intn(5)))
			if intn(3) == 0 {
				row.Until = at(int64(intn(5)))
			}
			changes[i].Rows = append(changes[i].Rows, row)
		}
	}
	return changes
}

// hashOf returns the hash of a user that is a target: 0 for "a".
func hashOf(target string) uint64 { return uint64(target[0]-'a') * math.MaxUint64 }

// handles returns the handles of an empty ledger. It is opened several times, like in several
// processes, if it may be shared.
func (s suite) handles(t *testing.T, pages uint32) []*ledger.Ledger {
	t.Helper()
	p := s.take(t, pages)
	for p.handles[0].Shared() && len(p.handles) < 3 {
		p.open(t, s.owner(t), ledger.Options{})
	}
	return p.handles
}

// together calls do n times at once, each time with the next handle.
func together(handles []*ledger.Ledger, n int, do func(l *ledger.Ledger, i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { do(handles[i%len(handles)], i) })
	}
	wg.Wait()
}

// concurrentRecords records from several goroutines at once. Their receipts, in order of the
// sequences, must be consistent, and must lead to the rows that the ledger then has.
func (s suite) concurrentRecords(t *testing.T) {
	const goroutines, calls = 8, 60
	handles := s.handles(t, 4)
	l := handles[0]
	receipts := make([][]ledger.Receipt, goroutines)
	together(handles, goroutines, func(l *ledger.Ledger, g int) {
		random := rand.New(rand.NewPCG(1, uint64(g)))
		for range calls {
			receipt, err := l.Record(t.Context(), at(0), randomChanges(random.IntN))
			if err != nil {
				t.Error(err)
				return
			}
			receipts[g] = append(receipts[g], receipt)
		}
	})
	for page := range l.Identity().Pages {
		var story []ledger.PageChange
		for _, receipt := range slices.Concat(receipts...) {
			for _, p := range receipt.Pages {
				if p.Page == page && len(p.Added)+len(p.Removed) > 0 {
					story = append(story, p)
				}
			}
		}
		checkPageKeys(t, l, page, tell(t, story), uint64(len(story)))
	}
}

// tell applies the changes of a page in order of their sequences, and returns the remaining
// keys.
func tell(t *testing.T, story []ledger.PageChange) map[key]bool {
	t.Helper()
	slices.SortFunc(story, func(a, b ledger.PageChange) int { return cmp.Compare(a.Sequence, b.Sequence) })
	keys := map[key]bool{}
	for i, p := range story {
		if p.Sequence != uint64(i+1) {
			t.Fatalf("page %d: change %d has sequence %d", p.Page, i+1, p.Sequence)
		}
		for _, r := range p.Removed {
			if !keys[keyOf(r)] {
				t.Errorf("page %d at %d: removed %v, which did not exist", p.Page, p.Sequence, r)
			}
			delete(keys, keyOf(r))
		}
		for _, r := range p.Added {
			if keys[keyOf(r)] {
				t.Errorf("page %d at %d: added %v, which existed", p.Page, p.Sequence, r)
			}
			keys[keyOf(r)] = true
		}
	}
	return keys
}

func checkPageKeys(t *testing.T, l *ledger.Ledger, page uint32, keys map[key]bool, sequence uint64) {
	t.Helper()
	rows, got := snapshot(t, l, page)
	if got.Sequence != sequence {
		t.Errorf("page %d at sequence %d, want %d", page, got.Sequence, sequence)
	}
	if len(rows) != len(keys) {
		t.Errorf("page %d holds %d rows, want %d", page, len(rows), len(keys))
	}
	for _, r := range rows {
		if !keys[keyOf(r)] {
			t.Errorf("page %d holds unexpected %v", page, r)
		}
	}
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
	all := func(dedicate bool) (pages map[uint64]map[uint32]bool) {
		pages = map[uint64]map[uint32]bool{}
		var mu sync.Mutex
		together(handles, users*each, func(l *ledger.Ledger, i int) {
			hash := block(3*(i%users), "").Hash
			receipt, err := l.Move(t.Context(), hash, dedicate)
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
		return pages
	}
	told := all(true)
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
	all(false)
	for hash := range progress.Owners {
		m.release(hash)
	}
	m.check(t, l)
}

// shot is the result of a snapshot.
type shot struct {
	rows     []ledger.Row
	page     uint32
	sequence uint64
}

// shoot takes snapshots of pages until stop is closed, and one more of each page in use. Between
// two rounds it sends to round if somebody receives. At the end it closes round.
func shoot(
	t *testing.T, l *ledger.Ledger, pages []uint32, round chan<- struct{}, stop <-chan struct{},
) (shots []shot) {
	defer close(round)
	for more := true; more; {
		select {
		case <-stop:
			more = false
		case round <- struct{}{}:
		default:
		}
		for _, page := range pages {
			rows, s, err := rowsOf(l, page)
			switch {
			case err == nil:
				shots = append(shots, shot{rows, page, s.Sequence})
			case !errors.Is(err, ledger.ErrGone):
				t.Error(err)
				return shots
			}
		}
	}
	return shots
}

// history is the rows of shared pages at each of their sequences.
type history map[uint32]map[uint64][]ledger.Row

func (h history) note(m *model) {
	for _, pages := range []uint32{m.layouts.Current, m.layouts.Building} {
		for n := range pages {
			page := m.firstPage(pages) + n
			if h[page] == nil { // a page of a new layout has no sequence for a moment
				h[page] = map[uint64][]ledger.Row{0: m.sharedRows(pages, page)}
			}
			if sequence := m.states[page].Sequence; h[page][sequence] == nil {
				h[page][sequence] = m.sharedRows(pages, page)
			}
		}
	}
}

// concurrentSnapshots takes snapshots while one goroutine writes and grows the number of pages.
// Each snapshot must be the page as it was at the snapshot's sequence.
func (s suite) concurrentSnapshots(t *testing.T) { s.snapshotsAmong(t, 72) }

func (s suite) concurrentSnapshotsLong(t *testing.T) { s.snapshotsAmong(t, 300) }

func (s suite) snapshotsAmong(t *testing.T, records int) {
	t.Helper()
	const readers = 3
	l := s.make(t, 1)
	m := newModel(l.Identity())
	h := history{}
	h.note(m)

	var shots [readers][]shot
	var rounds [readers]chan struct{}
	var wg sync.WaitGroup
	written := make(chan struct{})
	for i := range readers {
		rounds[i] = make(chan struct{})
		wg.Go(func() { shots[i] = shoot(t, l, []uint32{0, 2, 3, 4, 7}, rounds[i], written) })
	}
	finish := sync.OnceFunc(func() { close(written); wg.Wait() })
	defer finish()
	random := rand.New(rand.NewPCG(2, 3))
	for i := range records {
		changes := randomChanges(random.IntN)
		retime(changes)
		checkReceipt(t, record(t, l, changes...), m.record(changes))
		h.note(m)
		move := []func(tester, *ledger.Ledger, *model, uint64){dedicated, released}[random.IntN(2)]
		move(t, l, m, block(random.IntN(16), "").Hash)
		h.note(m)
		// At the end, 4 pages are current and 2 are leaving.
		if every := records / 6; i%every == 0 && i > 0 && i <= 5*every {
			for _, round := range rounds { // each reader has a snapshot of the pages in use
				<-round
				<-round
			}
			grow(t, l, m, i/every-1, 2)
			h.note(m)
		}
	}
	finish()
	for _, s := range slices.Concat(shots[:]...) {
		if rows, was := h[s.page][s.sequence]; !was || !slices.Equal(s.rows, rows) {
			t.Fatalf("snapshot of page %d at sequence %d holds %v, which it never did", s.page, s.sequence, s.rows)
		}
	}
	for _, shots := range shots {
		last := map[uint32]uint64{}
		for _, s := range shots {
			last[s.page] = s.sequence
		}
		for _, page := range []uint32{4, 7} {
			if last[page] != m.states[page].Sequence {
				t.Errorf("the last snapshot of page %d is at sequence %d, want %d", page, last[page], m.states[page].Sequence)
			}
		}
		if len(last) != 5 {
			t.Errorf("snapshots of pages %v, want all 5", last)
		}
	}
}

// retime gives all rows the same times, so that no row has two times at one sequence.
func retime(changes []ledger.Change) {
	for _, c := range changes {
		for i := range c.Rows {
			c.Rows[i].Since, c.Rows[i].Until = at(0), time.Time{}
		}
	}
}

// random applies random operations to a ledger and to a model.
func (s suite) random(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		url := s.fresh(t)
		pages := rapid.SampledFrom([]uint32{1, 2, 16}).Draw(rt, "pages")
		l, err := ledger.Open(t.Context(), url, ledger.Options{Pages: pages})
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { l.Close() }()
		m := newModel(l.Identity())
		v := newView()
		intn := func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "n") }
		rt.Repeat(map[string]func(*rapid.T){
			"record": func(rt *rapid.T) {
				recordAt(rt, l, m, at(int64(intn(6)-1)), randomChanges(intn)...)
			},
			"end": func(*rapid.T) {
				now, limit := at(int64(intn(6)-1)), 1+intn(4)
				rows := endedRows(rt, l, m, now, limit)
				if len(rows) > 0 {
					recordAt(rt, l, m, now, removeEnded(rows...))
				}
			},
			"list":     func(rt *rapid.T) { randomList(rt, l, m, intn) },
			"dedicate": func(rt *rapid.T) { dedicated(rt, l, m, block(intn(16), "").Hash) },
			"release":  func(rt *rapid.T) { released(rt, l, m, block(intn(16), "").Hash) },
			"begin":    func(rt *rapid.T) { begun(rt, l, m, 1<<intn(7)) },
			"switch":   func(rt *rapid.T) { switched(rt, l, m, max(m.layouts.Building, 1<<intn(7))) },
			"leave":    func(rt *rapid.T) { left(rt, l, m, max(m.layouts.Leaving, 1<<intn(7))) },
			"poll":     func(rt *rapid.T) { v.poll(rt, l, m) },
			"look":     func(rt *rapid.T) { m.check(rt, l) },
			"count": func(rt *rapid.T) {
				counted(rt, l, m, block(intn(16), ""), at(int64(intn(6)-1)), 1+intn(5))
			},
			"look up": func(rt *rapid.T) { randomLookups(rt, l, m, intn) },
			"reopen": func(rt *rapid.T) {
				if intn(8) > 0 {
					rt.Skip("slow, so run it seldom")
				}
				if err := l.Close(); err != nil {
					rt.Fatal(err)
				}
				if l, err = ledger.Open(t.Context(), url, ledger.Options{}); err != nil {
					rt.Fatal(err)
				}
				v = newView() // a cursor is valid for one Ledger
			},
		})
		m.check(rt, l)
	})
}

func randomList(t tester, l *ledger.Ledger, m *model, intn func(n int) int) {
	t.Helper()
	owner := block(intn(16), "")
	q := ledger.ListQuery{Hash: owner.Hash, Owner: owner.Owner, Kind: "block", Limit: 1 + intn(4), Now: at(int64(intn(6) - 1))}
	if intn(2) == 0 {
		q.Before = &ledger.Row{Since: at(int64(intn(5))), Target: string(rune('a' + intn(3)))}
	}
	listed(t, l, m, q)
}

func randomLookups(t tester, l *ledger.Ledger, m *model, intn func(n int) int) {
	t.Helper()
	owner := block(intn(16), "")
	owned(t, l, m, owner, ledger.Item{Kind: "block", Target: string(rune('a' + intn(3)))}, 1+intn(4))
	named(t, l, m, string(rune('a'+intn(3))), 1+intn(20))
	q := ledger.LookupQuery{Hash: owner.Hash, Owner: owner.Owner, Now: at(int64(intn(6) - 1))}
	for range intn(5) {
		q.Items = append(q.Items, ledger.Item{Kind: []string{"block", "mute"}[intn(2)], Target: string(rune('a' + intn(3)))})
	}
	lookedUp(t, l, m, q)
}
