package pages

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages/known"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/faulttest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// rig is a Recorder with its ledger and store.
type rig struct {
	*Pages

	ledger *ledger.Ledger
	store  favfilter.Store
	now    atomic.Int64 // unix nanoseconds
	file   string
	bound  time.Duration // default -1: every View asks the ledger
	// meets is what the next calls of the Pages to the ledger meet: see useAround.
	meets atomic.Pointer[ledger.Around]
}

// useAround lets the calls of the open Pages to the ledger go through around.
func (g *rig) useAround(around ledger.Around) { g.meets.Store(&around) }

func (g *rig) around(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
	if around := g.meets.Load(); around != nil {
		return (*around)(ctx, c, next)
	}
	return next(ctx)
}

// newLedger returns a new ledger, until the test ends.
func newLedger(t testing.TB, pages uint32) *ledger.Ledger {
	t.Helper()
	return openLedger(t, filepath.Join(t.TempDir(), "ledger.db"), pages)
}

func openLedger(t testing.TB, file string, pages uint32) *ledger.Ledger {
	t.Helper()
	return openLedgerAt(t, "sqlite:"+file, pages)
}

func openLedgerAt(t testing.TB, url string, pages uint32) *ledger.Ledger {
	t.Helper()
	if strings.HasPrefix(url, "postgres") { // a busy machine may delay answers for longer than a service waits
		url += "&connect_timeout=30"
	}
	l, err := ledger.Open(t.Context(), url, ledger.Options{Pages: pages})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// newRig opens that many pages in the store, and closes them with the test. They do nothing in the
// background.
func newRig(t testing.TB, store favfilter.Store, pages uint32) *rig {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ledger.db")
	g := newRigOn(t, store, "sqlite:"+file, pages)
	g.file = file
	return g
}

func newRigOn(t testing.TB, store favfilter.Store, url string, pages uint32) *rig {
	t.Helper()
	return newRigWith(t, store, openLedgerAt(t, url, pages))
}

func newRigWith(t testing.TB, store favfilter.Store, l *ledger.Ledger) *rig {
	t.Helper()
	g := &rig{ledger: l, store: store}
	g.now.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	g.open(t, g.ledger, store)
	return g
}

// open opens the pages again, as a restart does.
func (g *rig) open(t testing.TB, l *ledger.Ledger, s favfilter.Store) {
	t.Helper()
	if g.Pages != nil {
		g.Close()
	}
	must(t, g.tryOpen(t, l, s))
}

func (g *rig) tryOpen(t testing.TB, l *ledger.Ledger, s favfilter.Store) error {
	t.Helper()
	r, err := openPages(t.Context(), Config{
		Ledger:         l.Around(g.around),
		Store:          s,
		StalenessBound: cmp.Or(g.bound, -1),
		Passive:        true,
		Now:            func() time.Time { return time.Unix(0, g.now.Add(1000)) },
	})
	if err == nil {
		g.Pages = r
		t.Cleanup(r.Close)
	}
	return err
}

// before lets do run ahead of each call of some operations. An error of do fails the call.
func before(do func(ctx context.Context) error, operations ...string) ledger.Around {
	return func(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
		if slices.Contains(operations, c.Operation) {
			if err := do(ctx); err != nil {
				return err
			}
		}
		return next(ctx)
	}
}

// after lets do run after each call of some operations. An error of do fails the call.
func after(do func(ctx context.Context) error, operations ...string) ledger.Around {
	return func(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
		err := next(ctx)
		if slices.Contains(operations, c.Operation) {
			err = cmp.Or(do(ctx), err)
		}
		return err
	}
}

// failing returns a function that fails while on is set.
func failing(on *atomic.Bool) func(ctx context.Context) error {
	return func(context.Context) error {
		if on.Load() {
			return faulttest.ErrInjected
		}
		return nil
	}
}

// useStore replaces the store of the open pages, while they do nothing.
func (g *rig) useStore(s favfilter.Store) { g.storage.store = s }

// onStores runs the test on Memory and on Redis.
func onStores(t *testing.T, run func(t *testing.T, store favfilter.Store)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { run(t, &favfilter.Memory{}) })
	t.Run("redis", func(t *testing.T) { run(t, redisStore(t, redistest.Start(t))) })
}

func redisStore(t testing.TB, server *redistest.Server) favfilter.Store {
	t.Helper()
	s, err := redisstore.New(server.Client(), "feed")
	must(t, err)
	return s
}

// image makes the page of the given rows.
func (p *Pages) image(ctx context.Context, number uint32, rows []ledger.Row, s ledger.PageState) (*favfilter.Page, error) {
	keys, err := p.rebuilder.keysOf(ctx, rows)
	if err != nil {
		return nil, err
	}
	return p.rebuilder.imageOf(number, []rowKeys{keys}, s)
}

func (g *rig) inspectOne(t *testing.T, page uint32) *PageInside {
	t.Helper()
	p, err := g.inspector.InspectPage(t.Context(), page)
	must(t, err)
	return p
}

// polledAt returns when the last successful poll began, as elapsed.
func (g *rig) polledAt() int64 {
	age := g.known.Age()
	return g.life.Elapsed() - int64(age) // a nanosecond or a few later
}

// wantAccess fails unless the ledger can be read as it should.
func (g *rig) wantAccess(t *testing.T, want known.Access) {
	t.Helper()
	if got := g.known.Access(); got != want {
		t.Fatalf("access %d to the ledger, want %d", got, want)
	}
}

func (g *rig) hashOf(user string) uint64 { return UserHash(g.storage.identity.Seed, user) }

func (g *rig) pageOf(user string) uint32 { return g.layout.PageOf(g.hashOf(user)) }

// userOn returns a user of the page.
func (g *rig) userOn(page uint32) string {
	for i := 0; ; i++ {
		if user := fmt.Sprint("on", i); g.pageOf(user) == page {
			return user
		}
	}
}

// recordInBulk records activities in a Bulk of their own.
func (g *rig) recordInBulk(t testing.TB, acts ...act) {
	t.Helper()
	bulk := g.NewBulk()
	_, err := recordBulk(t.Context(), bulk, acts)
	must(t, err)
	must(t, bulk.Finish(t.Context()))
}

func (g *rig) header(t testing.TB, number uint32) favfilter.Header {
	t.Helper()
	l, _, err := g.store.Load(t.Context(), []favfilter.PageID{{Number: number}})
	if err != nil || l[0].Page == nil {
		t.Fatalf("page %d: %+v, %v", number, l[0], err)
	}
	return l[0].Page.Header()
}

func versionAt(t testing.TB, s favfilter.Store, id favfilter.PageID) favfilter.Version {
	t.Helper()
	loaded, _, err := s.Load(t.Context(), []favfilter.PageID{id})
	must(t, err)
	return loaded[0].Version
}

// put replaces what the store has for a page of the first layout.
func put(t testing.TB, s favfilter.Store, page *favfilter.Page) {
	t.Helper()
	id := favfilter.PageID{Number: page.Header().Number}
	done, err := s.Replace(t.Context(), favfilter.Replacement{ID: id, Page: page, Seen: versionAt(t, s, id)})
	if err != nil || !done {
		t.Fatalf("put a page: %v, %v", done, err)
	}
}

// emptyPage removes all keys from a page, and keeps its sequence.
func (g *rig) emptyPage(t *testing.T, number uint32) {
	t.Helper()
	page, err := favfilter.NewPage(g.inspectOne(t, number).Status.Header)
	must(t, err)
	put(t, g.store, page)
}

// losePage removes a page from the store, however often others replace it meanwhile.
func losePage(t testing.TB, s favfilter.Store, id favfilter.PageID) {
	t.Helper()
	for done := false; !done; {
		var err error
		done, err = s.Replace(t.Context(), favfilter.Replacement{ID: id, Seen: versionAt(t, s, id)})
		must(t, err)
	}
}

// losePages removes pages, by default all that the ledger backs.
func (g *rig) losePages(t *testing.T, pages ...uint32) {
	t.Helper()
	if len(pages) == 0 {
		pages = g.allPages(t)
	}
	for _, page := range pages {
		losePage(t, g.store, g.layout.PageID(page))
	}
}

// setBack returns a function that sets a page back to what it is now.
func setBack(t *testing.T, s favfilter.Store, id favfilter.PageID) func() {
	t.Helper()
	loaded, err := s.LoadWhole(t.Context(), []favfilter.PageID{id})
	must(t, err)
	old := loaded[0].Page.Clone()
	return func() {
		done, err := s.Replace(t.Context(), favfilter.Replacement{ID: id, Page: old, Seen: versionAt(t, s, id)})
		must(t, err)
		if !done {
			t.Fatal("the page could not be set back")
		}
	}
}
