package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// concurrentLayouts begins, switches and leaves layouts while others record rows of 32 users,
// and dedicate and release pages. It checks that each acknowledged row is on the page of its
// user in the end. It checks that each receipt names pages of the layouts that its transaction
// read, and that each transaction raised its pages of both layouts exactly once.
func (s suite) concurrentLayouts(t *testing.T) {
	const writers, calls, users = 4, 60, 32
	handles := s.handles(t, 2)
	b := &bookkeeping{id: handles[0].Identity(), progress: make(chan struct{}, 1)}
	var rows [writers]map[key]bool // recorded by each writer
	var wg, others sync.WaitGroup
	ended := make(chan struct{})
	for w := range writers {
		random := rand.New(rand.NewPCG(17, uint64(w)))
		l := handles[w%len(handles)]
		rows[w] = map[key]bool{}
		wg.Go(func() {
			for range calls {
				changes := mine(w, users, random)
				receipt, err := l.Record(context.Background(), at(0), changes)
				if err != nil {
					t.Error(err)
					return
				}
				b.add(receipt, changes)
				for _, c := range changes {
					for _, r := range c.Rows {
						rows[w][keyOf(r)] = !c.Remove
					}
				}
			}
		})
	}
	for g := range 2 {
		l, hash := handles[(g+1)%len(handles)], userHash(7*g, users)
		others.Go(func() {
			for n := 0; n < 8 || !isClosed(ended); n++ {
				receipt, err := l.Move(t.Context(), hash, n%2 == 0)
				if err != nil {
					t.Error(err)
					return
				}
				b.addMove(receipt, hash)
			}
		})
	}
	go func() { wg.Wait(); close(ended) }()
	for i, pages := range []uint32{8, 16, 64} {
		b.grow(t, handles, i, pages, ended)
	}
	wg.Wait()
	others.Wait()
	all := map[key]bool{}
	for _, some := range rows {
		maps.Copy(all, some)
	}
	maps.DeleteFunc(all, func(_ key, is bool) bool { return !is })
	checkRowsPlaced(t, handles[0], all)
	b.check(t, handles[0])
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// userHash spreads users over all hashes.
func userHash(user, users int) uint64 { return uint64(user%users) * (^uint64(0) / uint64(users-1)) }

// mine returns changes of rows that no other writer changes.
func mine(writer, users int, random *rand.Rand) []ledger.Change {
	changes := make([]ledger.Change, 1+random.IntN(4))
	for i := range changes {
		changes[i].Remove = random.IntN(3) == 0
		for range 1 + random.IntN(3) {
			user := random.IntN(users)
			changes[i].Rows = append(changes[i].Rows, ledger.Row{
				Hash: userHash(user, users), Owner: fmt.Sprint("u", user), Kind: "block", Target: fmt.Sprint(writer, "-", random.IntN(3)), Since: at(0),
			})
		}
	}
	return changes
}

// event is a receipt with the users of its changes.
type event struct {
	ledger.Receipt
	hashes map[uint64]bool
	move   bool
}

// growth is the sequences that polls reported right after a layout began, and right after the
// switch to it.
type growth struct {
	from, to        uint32
	begun, switched map[uint32]uint64
}

// bookkeeping is everything that writers were told.
type bookkeeping struct {
	id       ledger.Identity
	progress chan struct{}

	mu     sync.Mutex
	events []event

	growths []growth
}

func (b *bookkeeping) add(r ledger.Receipt, changes []ledger.Change) {
	e := event{Receipt: r, hashes: map[uint64]bool{}}
	for _, c := range changes {
		for _, r := range c.Rows {
			e.hashes[r.Hash] = true
		}
	}
	b.mu.Lock()
	b.events = append(b.events, e)
	b.mu.Unlock()
	select {
	case b.progress <- struct{}{}:
	default:
	}
}

func (b *bookkeeping) addMove(r ledger.Receipt, hash uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, event{r, map[uint64]bool{hash: true}, true})
}

// await waits for some more writes, or for the end of the writers.
func (b *bookkeeping) await(ended <-chan struct{}) {
	for range 10 {
		select {
		case <-b.progress:
		case <-ended:
		}
	}
}

// grow begins a layout, switches to it, and leaves the previous one.
func (b *bookkeeping) grow(t *testing.T, handles []*ledger.Ledger, i int, pages uint32, ended <-chan struct{}) {
	t.Helper()
	l := handles[i%len(handles)]
	now, err := l.Layouts(t.Context())
	must(t, err)
	g := growth{from: now.Current, to: pages}
	b.await(ended)
	must(t, l.BeginLayout(t.Context(), pages))
	g.begun, _ = changes(t, l, "")
	b.await(ended)
	must(t, handles[(i+1)%len(handles)].SwitchLayout(t.Context(), pages))
	g.switched, _ = changes(t, l, "")
	b.growths = append(b.growths, g)
	b.await(ended)
	must(t, l.LeaveLayout(t.Context(), g.from))
}

// check checks that the sequence of each page rose by one with each write to it.
func (b *bookkeeping) check(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	raised := map[uint32][]uint64{}
	for _, e := range b.events {
		b.checkEvent(t, e)
		for _, p := range e.Pages {
			if e.move || len(p.Added)+len(p.Removed) > 0 {
				raised[p.Page] = append(raised[p.Page], p.Sequence)
			}
		}
	}
	first, last := map[uint32]uint64{}, map[uint32]uint64{}
	for _, g := range b.growths {
		for page, sequence := range g.switched {
			if b.id.LayoutOf(page) == g.from {
				last[page] = sequence
			}
		}
		built := b.built(g)
		for n := range g.to {
			page := b.id.PageIn(g.to, 0) + n
			from := b.id.PageIn(g.from, 0) + n/(g.to/g.from)
			switch raises := built[page]; {
			case g.begun[page] > 0:
				first[page] = g.begun[page] + uint64(len(raises))
			case len(raises) > 0: // the first raise began with the sequence of the ancestor
				first[page] = slices.Min(raises) + uint64(len(raises)) - 1
			default: // the switch seeded it
				first[page] = g.switched[from]
			}
		}
	}
	end, _ := changes(t, l, "")
	maps.Copy(last, end)
	for page := range raised {
		if last[page] == 0 {
			t.Errorf("page %d was raised, but no poll reported it", page)
		}
	}
	for page, sequence := range last {
		var want []uint64
		for n := first[page] + 1; n <= sequence; n++ {
			want = append(want, n)
		}
		slices.Sort(raised[page])
		if !slices.Equal(raised[page], want) {
			t.Errorf("page %d was raised to %v, want each sequence after %d up to %d", page, raised[page], first[page], sequence)
		}
	}
}

// built returns the raises of pages of the building layout between the poll after its beginning
// and the switch. It names each raise by the sequence that the ancestor got, if that is higher
// than the poll reported.
func (b *bookkeeping) built(g growth) map[uint32][]uint64 {
	built := map[uint32][]uint64{}
	for _, e := range b.events {
		if e.Layouts.Building != g.to {
			continue
		}
		for _, p := range e.Pages {
			if p.Page >= ledger.DedicatedPages || p.Sequence <= g.begun[p.Page] {
				continue
			}
			pages := map[uint32]bool{}
			for _, r := range slices.Concat(p.Added, p.Removed) {
				pages[b.id.PageIn(g.to, r.Hash)] = true
			}
			for hash := range e.hashes {
				if e.move {
					pages[b.id.PageIn(g.to, hash)] = true
				}
			}
			for page := range pages {
				built[page] = append(built[page], p.Sequence)
			}
		}
	}
	return built
}

// checkEvent checks that a receipt names the pages of its users in its layouts, and has their
// rows on these pages.
func (b *bookkeeping) checkEvent(t *testing.T, e event) {
	t.Helper()
	named := map[uint32]bool{}
	for _, p := range e.Pages {
		named[p.Page] = true
		if of := b.id.LayoutOf(p.Page); of > 0 && of != e.Layouts.Current {
			t.Errorf("page %d of the layout of %d pages in a receipt of %+v", p.Page, of, e.Layouts)
		}
		for _, r := range slices.Concat(p.Added, p.Removed) {
			if page := pageIn(b.id, e.Layouts, e.Owners, r.Hash); page != p.Page {
				t.Errorf("a receipt has page %d with %v, whose user is on page %d", p.Page, r, page)
			}
		}
	}
	for hash := range e.hashes {
		if !named[b.id.PageIn(e.Layouts.Current, hash)] || !named[pageIn(b.id, e.Layouts, e.Owners, hash)] {
			t.Errorf("the pages of user %d are missing in %+v of %+v", hash, e.Pages, e.Layouts)
		}
	}
}

func pageIn(id ledger.Identity, l ledger.Layouts, owners map[uint64]uint32, hash uint64) uint32 {
	if page, has := owners[hash]; has {
		return page
	}
	return id.PageIn(l.Current, hash)
}

// checkRowsPlaced checks that each row is on the page of its user, and on no other.
func checkRowsPlaced(t *testing.T, l *ledger.Ledger, rows map[key]bool) {
	t.Helper()
	pages, p := changes(t, l, "")
	owners := p.Owners
	found := map[key]bool{}
	for page := range pages {
		held, _, err := rowsOf(l, page)
		if err != nil && !errors.Is(err, ledger.ErrGone) {
			t.Error(err)
		}
		for _, r := range held {
			if want := pageIn(l.Identity(), p.Layouts, owners, r.Hash); want != page {
				t.Errorf("page %d holds %v, whose user is on page %d", page, r, want)
			}
			if found[keyOf(r)] {
				t.Errorf("%v is on two pages", r)
			}
			found[keyOf(r)] = true
		}
	}
	if !maps.Equal(found, rows) {
		t.Errorf("rows %v, want %v", found, rows)
	}
}

// concurrentLayoutsTogether makes each step in several concurrent calls, which must have the effect
// of one call. If the calls ask for different numbers of pages, only one layout begins.
func (s suite) concurrentLayoutsTogether(t *testing.T) {
	const each = 4
	handles := s.handles(t, 2)
	m := newModel(handles[0].Identity())
	recordAt(t, handles[0], m, at(0), add(block(3, "a"), block(12, "a")))
	all := func(step func(l *ledger.Ledger, i int) error) (busy int) {
		var refused atomic.Int64
		together(handles, each*len(handles), func(l *ledger.Ledger, i int) {
			err := step(l, i)
			if errors.Is(err, ledger.ErrLayoutBusy) {
				refused.Add(1)
			} else if err != nil {
				t.Error(err)
			}
		})
		return int(refused.Load())
	}
	for range 2 {
		busy := all(func(l *ledger.Ledger, i int) error { return l.BeginLayout(t.Context(), m.layouts.Current<<(1+i%each)) })
		now, err := handles[0].Layouts(t.Context())
		must(t, err)
		if want := (each - 1) * len(handles); busy != want {
			t.Errorf("%d of %d calls were refused in %+v, want %d", busy, each*len(handles), now, want)
		}
		m.begin(now.Building)
		m.check(t, handles[0])
		all(func(l *ledger.Ledger, _ int) error { return l.SwitchLayout(t.Context(), now.Building) })
		m.switchTo(now.Building)
		m.check(t, handles[0])
		all(func(l *ledger.Ledger, _ int) error { return l.LeaveLayout(t.Context(), now.Current) })
		m.leave(now.Current)
		m.check(t, handles[0])
	}
}

// moment is the result of a full poll at one time.
type moment struct {
	pages   map[uint32]ledger.PageState
	owners  map[uint64]uint32
	layouts ledger.Layouts
	// removed reports whether a page is one of the layout that is being left. Its sequence is removed
	// before the layout ends, so a poll in between does not return it. Nil: no page is.
	removed func(page uint32) bool
}

func (m moment) same(v *view) bool {
	pages, seen := m.pages, v.pages
	if m.removed != nil {
		pages, seen = maps.Clone(pages), maps.Clone(seen)
		for _, states := range []map[uint32]ledger.PageState{pages, seen} {
			maps.DeleteFunc(states, func(page uint32, _ ledger.PageState) bool { return m.removed(page) })
		}
	}
	return m.layouts == v.layouts && maps.Equal(m.owners, v.owners) && maps.Equal(pages, seen)
}

// moments are the moments of a ledger, in order.
type moments struct {
	mu   sync.Mutex
	all  []moment
	done int // how many of them belong to calls that have returned
}

func (ms *moments) add(more ...moment) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.all = append(ms.all, more...)
}

func (ms *moments) returned() {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.done = len(ms.all)
}

// concurrentPolls polls while one goroutine applies random operations. After each poll the view
// must equal one moment, and not a moment from before the poll.
func (s suite) concurrentPolls(t *testing.T) {
	const pollers, steps = 3, 160
	handles := s.handles(t, 2)
	m := newModel(handles[0].Identity())
	ms := &moments{}
	note := func() moment {
		return moment{pages: maps.Clone(m.states), owners: maps.Clone(m.owners), layouts: m.layouts}
	}
	ms.add(note())
	ms.returned()
	var wg, ready sync.WaitGroup
	ended := make(chan struct{})
	for i := range pollers {
		l := handles[i%len(handles)]
		ready.Add(1)
		wg.Go(func() { ms.follow(t, l, ready.Done, ended) })
	}
	ready.Wait()
	random := rand.New(rand.NewPCG(23, 5))
	l := handles[len(handles)-1]
	for n := range steps {
		hash := block([]int{0, 3, 15}[random.IntN(3)], "").Hash
		var err error
		switch what := random.IntN(8); {
		case n%10 == 9 && m.layouts.Current < 32:
			err = ms.grow(t, l, m, note)
		case what < 3:
			m.dedicate(hash)
			ms.add(note())
			_, err = l.Move(t.Context(), hash, true)
		case what < 6:
			m.release(hash)
			ms.add(note())
			_, err = l.Move(t.Context(), hash, false)
		default:
			changes := randomChanges(random.IntN)
			m.record(changes)
			ms.add(note())
			_, err = l.Record(t.Context(), at(0), changes)
		}
		if err != nil {
			t.Error(err)
			break
		}
		ms.returned()
	}
	close(ended)
	wg.Wait()
	m.check(t, l)
}

// grow takes the next step of a growth.
func (ms *moments) grow(t *testing.T, l *ledger.Ledger, m *model, note func() moment) error {
	t.Helper()
	before, steps := note(), m.steps()
	switch steps {
	case 0:
		m.begin(4 * m.layouts.Current)
		before.layouts = m.layouts // the new pages get their sequences afterwards
		ms.add(before, note())
		return l.BeginLayout(t.Context(), m.layouts.Building)
	case 1:
		m.seed()
		ms.add(note())
		m.switchTo(m.layouts.Building)
		ms.add(note())
		return l.SwitchLayout(t.Context(), m.layouts.Current)
	default:
		leaving := m.layouts.Leaving
		before.removed = func(page uint32) bool { return l.Identity().LayoutOf(page) == leaving }
		m.leave(leaving)
		ms.add(before, note())
		return l.LeaveLayout(t.Context(), leaving)
	}
}

// follow polls until ended is closed, and once more.
func (ms *moments) follow(t *testing.T, l *ledger.Ledger, ready func(), ended <-chan struct{}) {
	v := newView()
	ready = sync.OnceFunc(ready)
	defer ready()
	for more, polls := true, 0; more; polls++ {
		more = !isClosed(ended)
		ms.mu.Lock()
		least := ms.done - 1
		ms.mu.Unlock()
		v.take(t, l)
		ready()
		ms.mu.Lock()
		found := slices.ContainsFunc(ms.all[least:], func(m moment) bool { return m.same(v) })
		now := ms.all[len(ms.all)-1]
		ms.mu.Unlock()
		if !found {
			t.Errorf("poll %d: the view %+v equals no moment, the last one is %+v", polls, v, now)
			return
		}
	}
}
