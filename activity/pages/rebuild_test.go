package pages

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// The pause after a failed rebuild depends on the number of failures in a row, and on how long the
// last one took.
func TestPauses(t *testing.T) {
	const again = -1 // the rebuild succeeds
	failed := errors.New("failed")
	repeat := func(n int) (took []time.Duration) { return make([]time.Duration, n) }
	for _, c := range []struct {
		name string
		took []time.Duration
		want time.Duration
	}{
		{"a first failure", repeat(1), 0},
		{"a first failure just below a second", []time.Duration{cheapFailure - 1}, 0},
		{"a first failure of a second", []time.Duration{cheapFailure}, cheapFailure},
		{"a first failure of some seconds", []time.Duration{5 * time.Second}, 5 * time.Second},
		{"a first failure of a minute", []time.Duration{time.Minute}, costlyPause},
		{"two failures", repeat(2), firstPause},
		{"three", repeat(3), 2 * firstPause},
		{"five", repeat(5), 8 * firstPause},
		{"seven", repeat(7), longestPause},
		{"a thousand", repeat(1000), longestPause},
		{"a failure after a success", []time.Duration{0, 0, again, 0}, 0},
		{"two failures after a success", []time.Duration{0, 0, 0, again, 0, 0}, firstPause},
	} {
		b, now := newRebuilds(nil), int64(0)
		for _, took := range c.took {
			now += int64(time.Hour)
			if took == again {
				b.done(3, nil, 0, now)
				if len(b.failed) > 0 {
					t.Errorf("%s: a failure is kept after a success", c.name)
				}
				continue
			}
			b.done(3, failed, took, now)
		}
		if got := time.Duration(max(0, b.failed[3].until-now)); got != c.want {
			t.Errorf("%s: a pause of %v, want %v", c.name, got, c.want)
		}
		b.endPauses()
		if f := b.failed[3]; f.until > 0 {
			t.Errorf("%s: the pause goes on after it was forgiven", c.name)
		}
		b.done(3, failed, 0, now)
		if b.failed[3].until > now {
			t.Errorf("%s: the next failure after it was forgiven is not the first", c.name)
		}
		b.done(3, failed, 0, now)
		if b.failed[3].until != now+int64(firstPause) {
			t.Errorf("%s: the failure after that is not the second", c.name)
		}
	}
}

// A page whose read timed out is read in parts until a rebuild succeeds.
func TestSlowPages(t *testing.T) {
	b := newRebuilds(nil)
	for _, c := range []struct {
		err  error
		want bool
	}{{errors.New("failed"), false}, {context.DeadlineExceeded, true}, {errors.New("failed"), true}, {nil, false}} {
		b.done(3, c.err, 0, 0)
		if b.failed[3].slow != c.want {
			t.Errorf("after %v: slow %v", c.err, !c.want)
		}
	}
}

// slowKeys, once slow, holds back each answer of Keys until told to pass it on.
type slowKeys struct {
	slow atomic.Bool
	pass chan struct{}
}

func (l *slowKeys) around() ledger.Around {
	return after(func(context.Context) error {
		if l.slow.Load() {
			<-l.pass
		}
		return nil
	}, "keys")
}

// A caller that joins a rebuild whose read of the ledger was too early for it gets the next
// rebuild.
func TestRebuildThatLeftTooEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t, 1)
		slow := &slowKeys{pass: make(chan struct{})}
		p := startProcess(t, l.Around(slow.around()), &favfilter.Memory{}, Config{ScrubRate: 1})
		p.record(t, true, add("1", "hide", "a"))
		slow.slow.Store(true)
		sequences := make(chan uint64, 2)
		rebuild := func(want uint64) {
			f, err := p.rebuilder.rebuild(t.Context(), 0, want, "missing", maxFlights)
			must(t, err)
			sequences <- f.page.Header().Sequence
		}
		go rebuild(1)
		synctest.Wait() // the rebuild has read the ledger
		change := changeOf(p.Pages, add("1", "hide", "b"), time.Now())
		_, err := l.Record(t.Context(), time.Now(), []ledger.Change{change}) // as by a process that dies
		must(t, err)
		go rebuild(2)
		synctest.Wait() // the second caller has joined
		slow.pass <- struct{}{}
		if got := <-sequences; got != 1 {
			t.Errorf("the first got sequence %d, want 1", got)
		}
		slow.pass <- struct{}{}
		if got := <-sequences; got != 2 {
			t.Errorf("the second caller got sequence %d, want 2", got)
		}
	})
}

// swapping lets a function run ahead of the next Replace.
type swapping struct {
	favfilter.Store

	first atomic.Pointer[func()]
}

func (s *swapping) Replace(ctx context.Context, r favfilter.Replacement) (bool, error) {
	if first := s.first.Swap(nil); first != nil {
		(*first)()
	}
	return s.Store.Replace(ctx, r)
}

// A writer joins a rebuild whose page the store does not take, because it has a newer one. Nothing
// says what that page has: the writer gets the next rebuild, which places a page or finds the newer
// one.
func TestJoinedRebuildThatIsNotPlaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := newLedger(t, 1), &swapping{Store: &favfilter.Memory{}}
		slow := &slowKeys{pass: make(chan struct{})}
		p := newProcess(t, l.Around(slow.around()), store)
		other := newProcess(t, l, store.Store)
		p.record(t, true, add("1", "hide", "a"))
		slow.slow.Store(true)
		got := make(chan *flight, 2)
		rebuild := func() {
			f, err := p.rebuilder.rebuild(t.Context(), 0, 1, "missing", maxFlights)
			must(t, err)
			got <- f
		}
		go rebuild()
		synctest.Wait() // the rebuild has read the ledger
		go rebuild()
		synctest.Wait() // the second caller has joined
		newer := func() { other.record(t, true, add("1", "hide", "b")) }
		store.first.Store(&newer)
		slow.pass <- struct{}{}
		if f := <-got; f.placed || f.page.Header().Sequence != 1 {
			t.Errorf("the first caller: placed %v at sequence %d, want none placed at 1", f.placed, f.page.Header().Sequence)
		}
		slow.pass <- struct{}{}
		if f := <-got; f.page.Header().Sequence != 2 {
			t.Errorf("the caller who joined got sequence %d, want 2", f.page.Header().Sequence)
		}
	})
}

// A Recorder that closes waits for the running rebuilds, and starts no others.
func TestRebuildsClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t, 1)
		slow := &slowKeys{pass: make(chan struct{})}
		p := startProcess(t, l.Around(slow.around()), &favfilter.Memory{}, Config{ScrubRate: 1})
		slow.slow.Store(true)
		go func() { _, _ = p.rebuilder.rebuild(t.Context(), 0, 0, "missing", maxFlights) }()
		synctest.Wait()
		closed := make(chan struct{})
		go func() { p.rebuilder.rebuilds.close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("closed while a rebuild was under way")
		default:
		}
		slow.pass <- struct{}{}
		<-closed
		if f, err := p.rebuilder.rebuild(t.Context(), 0, 0, "missing", maxFlights); !errors.Is(err, ErrClosed) {
			t.Errorf("a rebuild after close: %v, %v", f, err)
		}
	})
}

// A page that has never had a key expires. Others do not: without the ledger, nobody could tell
// that such a page has lost nothing.
func TestRebuildExpiry(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	store := &favfilter.Memory{Now: func() time.Time { return now }}
	g := newRig(t, store, 1)
	rebuild := func() (expires time.Time) {
		t.Helper()
		_, err := g.rebuilder.rebuild(t.Context(), 0, 0, "missing", maxFlights)
		must(t, err)
		_, expires = store.Get(favfilter.PageID{})
		return expires
	}
	if got := rebuild(); !got.Equal(now.Add(emptyExpiry)) {
		t.Errorf("a page without keys is kept until %v, want %v from %v on", got, emptyExpiry, now)
	}
	g.record(t, true, add("1", "hide", "p"))
	if got := rebuild(); !got.IsZero() {
		t.Errorf("a page with a key expires at %v", got)
	}
	g.record(t, true, undo("1", "hide", "p"))
	if got := rebuild(); !got.IsZero() {
		t.Errorf("a page that had a key expires at %v", got)
	}
}

// Keys that set more bits than expected get a larger page. It has all of them, and is not overfull.
func TestRebuildOfUnluckyKeys(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	const n = 95
	shape, err := g.rebuilder.shapeFor(n)
	must(t, err)
	usual, err := favfilter.NewPage(favfilter.Header{Identity: g.storage.identity, Shape: shape})
	must(t, err)
	random := rand.New(rand.NewPCG(1, 2))
	var keys []favfilter.Hash
	for len(keys) < n {
		key := favfilter.Hash{H1: random.Uint64(), H2: random.Uint64()}
		more := usual.Clone()
		more.Insert(key)
		if more.Header().Set-usual.Header().Set >= uint32(shape.Hashes)-1 { // it shares at most one bit
			usual, keys = more, append(keys, key)
		}
	}
	if !g.rebuilder.overfull(usual.Header()) {
		t.Fatal("the usual page is not overfull")
	}
	page, err := g.rebuilder.imageOf(0, []rowKeys{{hashes: keys}}, ledger.PageState{Sequence: 1})
	must(t, err)
	if g.rebuilder.overfull(page.Header()) {
		t.Error("the page is overfull")
	}
	for i, key := range keys {
		if !page.Contains(key) {
			t.Errorf("the page lacks key %d", i)
		}
	}
}

// A writer whose page has no users any more closes it. If the store does not take that, the write
// fails: a process that has not polled would trust the page.
func TestRemakeOfAPageWithoutUsers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.open(t, Config{})
		a.usersOn(t, 0, 1)
		w.build(t)
		w.change(t)
		must(t, w.ledger.LeaveLayout(t.Context(), firstPages))
		a.steps.refuses = &favfilter.PageID{Number: 0}
		if err := a.rebuilder.remake(t.Context(), 0, 1, "test"); dependency(err) != "pages" {
			t.Errorf("error %v, want pages unavailable", err)
		}
		a.steps.refuses = nil
		must(t, a.rebuilder.remake(t.Context(), 0, 1, "test"))
		if !isClosed(w.header(t, 0)) {
			t.Error("the page is open")
		}
	})
}

// A dedicated page expires once its user has no key any more. With a key, it does not.
func TestRebuildExpiryOfADedicatedPage(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.open(t, Config{})
		user := a.usersOn(t, 0, 1)[0]
		page := a.move(t, user)
		rebuild := func() (expires time.Time) {
			t.Helper()
			must(t, a.rebuilder.remake(t.Context(), page, 0, "test"))
			_, expires = w.store.Get(a.layout.PageID(page))
			return expires
		}
		if got := rebuild(); !got.IsZero() {
			t.Errorf("a page with a key expires at %v", got)
		}
		a.record(t, true, undo(user, "hide", "before"))
		if got, want := rebuild(), time.Now().Add(emptyExpiry); !got.Equal(want) {
			t.Errorf("a page without keys is kept until %v, want %v", got, want)
		}
	})
}

// BenchmarkRebuild rebuilds a page of 5,000 keys of 50 users from a SQLite ledger.
func BenchmarkRebuild(b *testing.B) {
	g := newRig(b, &favfilter.Memory{}, 1)
	for user := range 50 {
		g.recordAll(b, fmt.Sprint("u", user), posts("p"), 100, false)
	}
	for b.Loop() {
		_, err := g.rebuilder.rebuild(b.Context(), 0, 0, "benchmark", 100)
		must(b, err)
	}
}
