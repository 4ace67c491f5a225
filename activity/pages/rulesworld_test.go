package pages

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
)

// world is a ledger and a store with any number of processes, in a bubble. The processes poll only
// when a View or a write needs it.
type world struct {
	ledger *ledger.Ledger
	file   string
	store  *favfilter.Memory
	// builder begins and builds layouts, and gives users dedicated pages.
	builder *member
}

// member is a process of a world.
type member struct {
	*rig
	way   *waysToLedger
	steps *steppedStore
}

// inWorld runs the test in a world of [firstPages] pages.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{file: filepath.Join(t.TempDir(), "ledger.db"), store: &favfilter.Memory{}}
		w.ledger = openLedger(t, w.file, firstPages)
		w.builder = w.open(t, Config{})
		test(t, w)
	})
}

// open adds a process with a staleness bound of a minute.
func (w *world) open(t *testing.T, c Config) *member {
	t.Helper()
	way, steps := &waysToLedger{}, &steppedStore{Store: w.store}
	if c.Ledger == nil {
		c.Ledger = w.ledger
	}
	c.Ledger = c.Ledger.Around(way.around)
	c.Store, c.StalenessBound, c.Passive = steps, time.Minute, true
	r, err := openPages(t.Context(), c)
	must(t, err)
	t.Cleanup(r.Close)
	p := &member{&rig{Pages: r, store: steps}, way, steps}
	return p
}

// waysToLedger is a ledger whose polls, or all of whose calls, can be cut off.
type waysToLedger struct {
	accessLedger

	polled func() // called when the ledger has answered a poll, before the answer is applied
	leave  func() // called before a layout leaves
}

func (l *waysToLedger) cut(all bool) {
	l.polls.Store(true)
	l.places.Store(all)
}

// mend ends a cut, once polls that began during it have failed: later callers would join them.
func (l *waysToLedger) mend() {
	synctest.Wait()
	l.polls.Store(false)
	l.places.Store(false)
}

func (l *waysToLedger) around(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
	switch {
	case c.Operation == "leave_layout" && l.leave != nil:
		l.leave()
	case c.Operation == "keys" && l.places.Load():
		return faulttest.ErrInjected
	}
	err := l.accessLedger.around(ctx, c, next)
	if c.Operation == "changed" && l.polled != nil {
		l.polled()
	}
	return err
}

// steppedStore calls a function once before the next call of a kind, and can refuse to replace a
// page.
type steppedStore struct {
	favfilter.Store

	load, apply func()
	refuses     *favfilter.PageID
	down        atomic.Bool
}

func (s *steppedStore) before(step *func()) {
	if do := *step; do != nil {
		*step = nil
		do()
	}
}

func (s *steppedStore) Load(
	ctx context.Context, ids []favfilter.PageID, held ...favfilter.PageID,
) ([]favfilter.Loaded, []favfilter.Version, error) {
	s.before(&s.load)
	if s.down.Load() {
		return nil, nil, faulttest.ErrInjected
	}
	return s.Store.Load(ctx, ids, held...)
}

func (s *steppedStore) Apply(ctx context.Context, batches []favfilter.Batch) []favfilter.Result {
	s.before(&s.apply)
	return s.Store.Apply(ctx, batches)
}

func (s *steppedStore) Replace(ctx context.Context, r favfilter.Replacement) (bool, error) {
	if s.down.Load() || s.refuses != nil && *s.refuses == r.ID {
		return false, faulttest.ErrInjected
	}
	return s.Store.Replace(ctx, r)
}

// build begins the later layout and builds its pages.
func (w *world) build(t *testing.T) {
	t.Helper()
	must(t, w.ledger.BeginLayout(t.Context(), laterPages))
	w.builder.pollNow(t)
	must(t, w.builder.grower.buildPages(t.Context(), laterPages))
}

// change makes the later layout the current one, and tells no process.
func (w *world) change(t *testing.T) {
	t.Helper()
	must(t, w.ledger.SwitchLayout(t.Context(), laterPages))
}

// leave closes the pages of the first layout, and makes the ledger forget that layout.
func (w *world) leave(t *testing.T) {
	t.Helper()
	for page := range uint32(firstPages) {
		must(t, w.builder.rebuilder.closePage(t.Context(), page))
	}
	must(t, w.ledger.LeaveLayout(t.Context(), firstPages))
}

// pageIn returns the user's page in a layout.
func (g *rig) pageIn(pages uint32, user string) uint32 {
	return g.layout.PageIn(pages, g.hashOf(user))
}

// header returns the header of a page in the store; zero if it is missing.
func (w *world) header(t *testing.T, page uint32) favfilter.Header {
	t.Helper()
	return w.headerOf(t, w.builder, page)
}

// headerOf is header for a dedicated page that the process knows of.
func (w *world) headerOf(t *testing.T, p *member, page uint32) favfilter.Header {
	t.Helper()
	loaded, _, err := w.store.Load(t.Context(), []favfilter.PageID{p.layout.PageID(page)})
	must(t, err)
	if loaded[0].Page == nil {
		return favfilter.Header{}
	}
	return loaded[0].Page.Header()
}

// wantClosed checks that the users' pages of the first layout are closed.
func (w *world) wantClosed(t *testing.T, when string, users ...string) {
	t.Helper()
	for _, user := range users {
		if page := w.builder.pageIn(firstPages, user); !isClosed(w.header(t, page)) {
			t.Errorf("%s: page %d of %s is open: a process that has not polled would trust it", when, page, user)
		}
	}
}

// wantOn checks that the user's View finds a hide, and on which page.
func (p *member) wantOn(t *testing.T, page uint32, user, id string) {
	t.Helper()
	v, err := p.view(t.Context(), user)
	must(t, err)
	if !v.has("hide", id) || v.Number != page {
		t.Errorf("found %v of %s on page %d, want it on page %d", v.has("hide", id), id, v.Number, page)
	}
}

// wantUnavailable checks that the user's View fails because of the ledger, instead of giving a
// wrong answer.
func (p *member) wantUnavailable(t *testing.T, when, user string) {
	t.Helper()
	v, err := p.view(t.Context(), user)
	if dependency(err) != "ledger" {
		t.Errorf("%s: %v, want ledger unavailable; page %d", when, err, v.Number)
	}
}

// wantPolls checks how often the process has polled since the count was before.
func (p *member) wantPolls(t *testing.T, when string, before, want uint64) {
	t.Helper()
	if n := p.Stats().Polls - before; n != want {
		t.Errorf("%s: %d polls, want %d", when, n, want)
	}
}
