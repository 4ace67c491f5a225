package inspect

import (
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// rig holds activities to inspect, with or without a ledger.
type rig struct {
	activity.Activities

	ledger *ledger.Ledger // nil: none
	store  favfilter.Store
	under  *exchangeable
	now    atomic.Int64 // unix nanoseconds
}

// exchangeable is a store that can be replaced.
type exchangeable struct{ favfilter.Store }

// newRig opens a Recorder that does nothing in the background.
func newRig(t *testing.T, store favfilter.Store, number uint32) *rig {
	t.Helper()
	return newRigAt(t, store, number, 0)
}

// newRigAt is newRig with the given false-positive rate.
func newRigAt(t *testing.T, store favfilter.Store, number uint32, rate float64) *rig {
	t.Helper()
	l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{Pages: number})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	g := &rig{ledger: l, store: store}
	g.now.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	g.open(t, l, store, rate)
	return g
}

// open opens a Recorder of a ledger and a store.
func (g *rig) open(t *testing.T, l *ledger.Ledger, store favfilter.Store, rate float64) {
	t.Helper()
	g.under = &exchangeable{store}
	r, err := activity.Open(t.Context(), activity.Config{
		Ledger: l, Store: g.under, StalenessBound: -1, Passive: true, FalsePositiveRate: rate,
		Now: func() time.Time { return time.Unix(0, g.now.Add(1000)) },
	})
	must(t, err)
	t.Cleanup(r.Close)
	g.Activities = r
}

// openWithout opens activities without a ledger.
func openWithout(t *testing.T, c activity.PlainConfig) *rig {
	t.Helper()
	g := &rig{under: &exchangeable{c.Store}}
	c.Store = g.under
	p, err := activity.OpenPlain(t.Context(), c)
	must(t, err)
	t.Cleanup(p.Close)
	g.Activities = p
	return g
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func add(user, kind, target string) activity.Activity {
	return activity.Activity{User: user, Kind: kind, Target: target}
}

func (g *rig) record(t *testing.T, a activity.Activity) {
	t.Helper()
	changed, err := g.Record(t.Context(), []activity.Activity{a})
	must(t, err)
	if changed[0] != activity.Changed {
		t.Fatalf("%+v: %v", a, changed[0])
	}
}

// check returns the result of a feed check.
func (g *rig) check(t *testing.T, user, kind, id string) activity.Match {
	t.Helper()
	k, _ := g.Kinds().Named(kind)
	v, err := g.View(t.Context(), user, []activity.Kind{k})
	must(t, err)
	return v.Check(0, id)
}

func (g *rig) want(t *testing.T, user, kind, id string, want activity.Match) {
	t.Helper()
	if got := g.check(t, user, kind, id); got != want {
		t.Fatalf("%s of %s with %s: match %d, want %d", kind, user, id, got, want)
	}
}

// slot returns the hash slot of a user.
func (g *rig) slot(user string) uint32 {
	id := g.Inside().Identity()
	return ledger.Identity{Pages: id.Pages}.Slot(pages.UserHash(id.Seed, user))
}

// dedicate gives a user a dedicated page, like another process.
func (g *rig) dedicate(t *testing.T, user string) {
	t.Helper()
	_, err := g.ledger.Move(t.Context(), pages.UserHash(g.Inside().Identity().Seed, user), true)
	must(t, err)
}

func (g *rig) inspectOne(t *testing.T, page uint32) *pages.PageInside {
	t.Helper()
	p, err := g.Inside().InspectPage(t.Context(), page)
	must(t, err)
	return p
}

// recorder returns the activities if they have a ledger, otherwise nil.
func (g *rig) recorder() *activity.Recorder {
	r, _ := g.Activities.(*activity.Recorder)
	return r
}

func (g *rig) inspectedKey(t *testing.T, kind, user, target string) *Key {
	t.Helper()
	in, err := ReadKey(t.Context(), g.Activities, g.recorder(), kind, user, target)
	must(t, err)
	return in
}

// onStores runs the test on the embedded store and on Redis.
func onStores(t *testing.T, run func(t *testing.T, store favfilter.Store)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { run(t, &favfilter.Memory{}) })
	t.Run("redis", func(t *testing.T) {
		store, err := redisstore.New(redistest.Start(t).Client(), "feed")
		must(t, err)
		run(t, store)
	})
}

// put replaces the page in the store.
func put(t *testing.T, store favfilter.Store, page *favfilter.Page) {
	t.Helper()
	id := favfilter.PageID{Number: page.Header().Number}
	loaded, _, err := store.Load(t.Context(), []favfilter.PageID{id})
	must(t, err)
	if done, err := store.Replace(t.Context(), favfilter.Replacement{ID: id, Page: page, Seen: loaded[0].Version}); err != nil || !done {
		t.Fatalf("put a page: %v, %v", done, err)
	}
}

// emptied returns page 0 without keys, at its sequence.
func emptied(t *testing.T, g *rig) *favfilter.Page {
	t.Helper()
	page, err := favfilter.NewPage(g.inspectOne(t, 0).Status.Header)
	must(t, err)
	return page
}

func isInvalid(err error, code, field string) bool {
	invalid, ok := errors.AsType[*activity.InvalidError](err)
	return ok && invalid.Code == code && invalid.Field == field
}
