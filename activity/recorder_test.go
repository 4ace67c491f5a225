package activity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// rig is a Recorder on a real ledger, and what it is made of.
type rig struct {
	*Recorder
	using

	ledger *ledger.Ledger
	store  favfilter.Store
	under  *exchangeable
	now    atomic.Int64 // unix nanoseconds
	rate   float64      // false-positive rate of a candidate; 0: the default
	log    bytes.Buffer
}

// exchangeable is a store that can be exchanged for another.
type exchangeable struct{ favfilter.Store }

func openLedger(t testing.TB, file string, pages uint32) *ledger.Ledger {
	t.Helper()
	return openLedgerAt(t, "sqlite:"+file, pages)
}

func openLedgerAt(t testing.TB, url string, pages uint32) *ledger.Ledger {
	t.Helper()
	if strings.HasPrefix(url, "postgres") { // which a busy machine may keep from answering for longer than a service waits
		url += "&connect_timeout=30"
	}
	l, err := ledger.Open(t.Context(), url, ledger.Options{Pages: pages})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// newRig opens a Recorder with that many pages on the store, and closes it when the test ends. The
// Recorder does nothing in the background.
func newRig(t testing.TB, store favfilter.Store, pages uint32) *rig {
	t.Helper()
	g := &rig{ledger: openLedger(t, filepath.Join(t.TempDir(), "ledger.db"), pages), store: store}
	g.now.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	g.open(t, g.ledger, store)
	return g
}

// open opens the Recorder again, as a restart does.
func (g *rig) open(t testing.TB, l *ledger.Ledger, s favfilter.Store) {
	t.Helper()
	if g.Recorder != nil {
		g.Close()
	}
	g.under = &exchangeable{s}
	r, err := Open(t.Context(), Config{
		Ledger: l, Store: g.under, StalenessBound: -1, Passive: true, FalsePositiveRate: g.rate,
		Now:    func() time.Time { return time.Unix(0, g.now.Add(1000)) },
		Logger: slog.New(slog.NewTextHandler(&g.log, nil)),
	})
	must(t, err)
	g.Recorder, g.using = r, using{r}
	t.Cleanup(r.Close)
}

// useStore puts another store under the open Recorder.
func (g *rig) useStore(s favfilter.Store) { g.under.Store = s }

// onStores runs the test on the embedded store and on Redis.
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

func add(user, kind, target string) Activity {
	return Activity{User: user, Kind: kind, Target: target}
}
func undo(user, kind, target string) Activity {
	return Activity{User: user, Kind: kind, Target: target, Remove: true}
}

func TestRecordAndView(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		g := newRig(t, store, 64)
		g.want(t, "1", "block", "2", None)
		g.record(t, true, add("1", "block", "2"))
		g.record(t, false, add("1", "block", "2"))
		g.want(t, "1", "block", "2", Direct)
		g.want(t, "2", "block", "1", Reverse)
		g.record(t, true, add("2", "block", "1")) // both ways at once
		g.record(t, true, undo("1", "block", "2"))
		g.want(t, "1", "block", "2", Reverse)
		g.want(t, "2", "block", "1", Direct)
		g.record(t, false, undo("1", "block", "2"))
		g.record(t, true, undo("2", "block", "1"))
		g.want(t, "1", "block", "2", None)
		g.want(t, "2", "block", "1", None)

		g.record(t, true, add("1", "hide", "p1"))
		g.record(t, true, add("1", "like", "p1"))
		g.record(t, true, add("1", "seen", "p1"))
		g.record(t, false, add("1", "seen", "p1"))
		g.record(t, true, undo("1", "hide", "p1"))
		g.want(t, "1", "hide", "p1", None)
		g.want(t, "1", "like", "p1", Direct)
		g.want(t, "1", "seen", "p1", Direct)
		g.want(t, "2", "seen", "p1", None)
		g.record(t, false, undo("1", "hide", "never"))
	})
}

func TestRecordInOneCall(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		g := newRig(t, store, 2)
		changed, err := g.Record(t.Context(), []Activity{
			add("1", "hide", "a"), add("1", "hide", "a"), undo("1", "hide", "a"), add("1", "hide", "a"),
			add("1", "seen", "a"), add("1", "like", "b"), undo("1", "like", "b"), undo("1", "like", "c"),
			add("1", "block", "2"), undo("1", "block", "2"),
		})
		want := []Outcome{Changed, Unchanged, Changed, Changed, Changed, Changed, Changed, Unchanged, Changed, Changed}
		if err != nil || !slices.Equal(changed, want) {
			t.Fatalf("%v, %v, want %v", changed, err, want)
		}
		g.want(t, "1", "hide", "a", Direct)
		g.want(t, "1", "like", "b", None)
		g.want(t, "2", "block", "1", None)
	})
}

func TestInvalidChangesNothing(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 64)
	long := string(make([]byte, 257))
	for _, c := range []struct {
		a           Activity
		code, field string
	}{
		{add("", "hide", "p"), CodeInvalidID, "activities[1].user"},
		{add("1", "hide", ""), CodeInvalidID, "activities[1].target"},
		{add("1", "hide", long), CodeInvalidID, "activities[1].target"},
		{add("1", "hide", "a\x00b"), CodeInvalidID, "activities[1].target"},
		{add("1", "hide", "a\u0085b"), CodeInvalidID, "activities[1].target"},
		{add("1", "hide", "\xff"), CodeInvalidID, "activities[1].target"},
		{add("1", "mute", "p"), CodeUnknownKind, "activities[1].kind"},
		{add("1", "blocked-by", "2"), CodeUnknownKind, "activities[1].kind"},
		{add("1", "", "2"), CodeUnknownKind, "activities[1].kind"},
		{add("1", "block", "1"), CodeSelfBlock, "activities[1].target"},
		{undo("1", "seen", "p"), CodeUnsupportedOp, "activities[1].op"},
	} {
		_, err := g.Record(t.Context(), []Activity{add("1", "hide", "p"), c.a})
		var invalid *InvalidError
		if !errors.As(err, &invalid) || invalid.Code != c.code || invalid.Field != c.field {
			t.Errorf("%+v: %v, want code %s of %s", c.a, err, c.code, c.field)
		}
	}
	g.want(t, "1", "hide", "p", None)
	if seq, err := g.ledger.Sequence(t.Context(), g.pageOf(t, "1")); seq != 0 || err != nil {
		t.Errorf("sequence %d, %v", seq, err)
	}
}

func TestClosedRecorder(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 4)
	g.record(t, true, add("1", "hide", "p"))
	bulk, batch := g.NewBulk(), g.NewBatch()
	must(t, batch.Add(add("1", "hide", "q")))
	g.Close()
	g.Close()
	if _, err := g.Record(t.Context(), batch.Activities()); !errors.Is(err, ErrClosed) {
		t.Errorf("record: %v", err)
	}
	if _, err := bulk.Record(t.Context(), batch); !errors.Is(err, ErrClosed) {
		t.Errorf("bulk: %v", err)
	}
	g.open(t, g.ledger, &favfilter.Memory{}) // the embedded store begins empty
	g.want(t, "1", "hide", "p", Direct)
	g.want(t, "1", "hide", "q", None)
}

func TestCancelledCaller(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 4)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Record(ctx, []Activity{add("1", "hide", "p")}); !errors.Is(err, context.Canceled) {
		t.Errorf("record: %v", err)
	}
	if _, err := g.View(ctx, "1", g.Kinds().All()); !errors.Is(err, context.Canceled) {
		t.Errorf("view: %v", err)
	}
	g.record(t, true, add("1", "hide", "q"))
}

func TestListing(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 4)
	var want []string
	for i := range 25 {
		id := fmt.Sprint("p ", i)
		g.record(t, true, add("1", "hide", id))
		g.record(t, true, add("2", "hide", id))
		want = append(want, id)
	}
	slices.Reverse(want)
	for _, limit := range []int{1, 7, 24, 25, 26, 1000} {
		var got []string
		cursor := ""
		for {
			l, err := g.List(t.Context(), "1", "hide", cursor, limit)
			if err != nil || len(l.Items) > limit {
				t.Fatalf("%d items, %v", len(l.Items), err)
			}
			for _, item := range l.Items {
				got = append(got, item.Target)
			}
			if cursor = l.Next; cursor == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: %v", limit, got)
		}
	}
	for _, bad := range []struct {
		user, kind, cursor string
		limit              int
		code               string
	}{
		{"1", "hide", "", 0, CodeOutOfRange},
		{"1", "hide", "", 1001, CodeOutOfRange},
		{"", "hide", "", 1, CodeInvalidID},
		{"1", "seen", "", 1, CodeUnknownKind},
		{"1", "blocked-by", "", 1, CodeUnknownKind},
		{"1", "hide", "!!", 1, CodeInvalidCursor},
		{"1", "hide", "YWJj", 1, CodeInvalidCursor},
	} {
		_, err := g.List(t.Context(), bad.user, bad.kind, bad.cursor, bad.limit)
		var invalid *InvalidError
		if !errors.As(err, &invalid) || invalid.Code != bad.code {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestIncoming: others' activities with a user are listed, whatever keeps them in the ledger.
func TestIncoming(t *testing.T) {
	ctx := t.Context()
	kinds, err := NewKinds(append(builtinKinds(),
		Kind{Name: "mute", Plural: "mutes", Target: User, Effect: Drop},
		Kind{Name: "report", Plural: "reports", Target: User, Effect: Drop},
		Kind{Name: "ally", Plural: "allies", Target: User, Effect: Annotate, Fanout: true},
		Kind{Name: "domain-mute", Plural: "domain-mutes", Target: "domain", Effect: Drop, Fold: FoldDomain},
	)...)
	must(t, err)
	g := &rig{ledger: openLedger(t, filepath.Join(t.TempDir(), "ledger.db"), 4)}
	g.Recorder, err = Open(ctx, Config{Ledger: g.ledger, Store: &favfilter.Memory{}, Kinds: kinds})
	must(t, err)
	t.Cleanup(g.Close)
	start, until := time.Now().Add(-time.Hour).Truncate(time.Microsecond).UTC(), time.Now().Add(time.Hour).Truncate(time.Microsecond).UTC()
	var batch []Activity
	var want []string // newest first
	for i := range 25 {
		user := fmt.Sprint("u ", i)
		want = append(want, user)
		for _, kind := range []string{"block", "mute", "ally"} {
			a := Activity{User: user, Kind: kind, Target: "x", Since: start.Add(-time.Duration(i) * time.Second), Until: until}
			other, own, undone := a, a, a
			other.Target, undone.User = "y", "z"
			own.User, own.Target = "x", fmt.Sprint("own ", i)
			batch = append(batch, a, other, own, undone)
		}
		batch = append(batch, add(user, "report", "x"), add("w", "report", "y"))
	}
	for _, kind := range []string{"block", "mute", "ally"} {
		batch = append(batch, undo("z", kind, "x"))
	}
	_, err = g.Record(ctx, batch)
	must(t, err)
	for _, kind := range []string{"block", "blocks", "mute", "ally"} {
		for _, limit := range []int{1, 7, 24, 25, 26, 1000} {
			var got []string
			for cursor := ""; ; {
				l, err := g.Incoming(ctx, "x", kind, cursor, limit)
				if err != nil || len(l.Items) > limit || len(got) > len(want) {
					t.Fatalf("%s: %d items after %d, %v", kind, len(l.Items), len(got), err)
				}
				for _, item := range l.Items {
					if got = append(got, item.User); item.Target != "" || !item.Until.Equal(until) {
						t.Errorf("%s: item %+v", kind, item)
					}
				}
				if cursor = l.Next; cursor == "" {
					break
				}
			}
			if kind == "mute" { // in the order of a hash
				slices.SortFunc(got, func(a, b string) int { return slices.Index(want, a) - slices.Index(want, b) })
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, limit %d: %v", kind, limit, got)
			}
		}
	}
	for kind, code := range map[string]string{"hide": CodeUnsupportedOp, "domain-mute": CodeUnsupportedOp, "seen": CodeUnknownKind, "blocked-by": CodeUnknownKind} {
		if _, err := g.Incoming(ctx, "x", kind, "", 1); !invalid(err, code) {
			t.Errorf("incoming %s: %v", kind, err)
		}
	}

	_, err = g.Record(ctx, []Activity{add("1", "domain-mute", "B.Example.")})
	must(t, err)
	for _, c := range []struct {
		user, kind, target, found string
		until                     time.Time
	}{
		{"u 3", "blocks", "x", "x", until}, {"u 3", "mute", "x", "x", until}, {"u 3", "report", "x", "x", time.Time{}},
		{"z", "block", "x", "", until}, {"x", "report", "u 3", "", until}, {"y", "block", "u 3", "", until}, {"x", "block", "x", "", until},
		{"1", "domain-mute", "b.example", "b.example", time.Time{}}, {"1", "domain-mute", "b.EXAMPLE.", "b.example", time.Time{}},
		{"1", "domain-mute", "a.b.example", "", until},
	} {
		switch item, err := g.Get(ctx, c.user, c.kind, c.target); {
		case err != nil || (item == nil) != (c.found == ""):
			t.Errorf("%+v: %+v, %v", c, item, err)
		case item != nil && (item.Target != c.found || item.User != "" || item.Since.IsZero() || !item.Until.Equal(c.until)):
			t.Errorf("%+v: %+v", c, item)
		}
	}
	for code, a := range map[string]Activity{
		CodeUnknownKind: add("1", "blocked-by", "2"), CodeUnsupportedOp: add("1", "seen", "p"), CodeInvalidID: add("1", "block", ""),
	} {
		if _, err := g.Get(ctx, a.User, a.Kind, a.Target); !invalid(err, code) {
			t.Errorf("get %+v: %v", a, err)
		}
	}
}

// pageOf is the page of a user, by the ledger.
func (g *rig) pageOf(t testing.TB, user string) uint32 {
	t.Helper()
	place, err := g.ledger.Place(t.Context(), g.userHash(user))
	must(t, err)
	return place.Page
}

// kind is one of the Recorder's kinds.
func (g *rig) kind(t testing.TB, name string) Kind {
	t.Helper()
	k, ok := g.Kinds().Named(name)
	if !ok {
		t.Fatalf("there is no kind %s", name)
	}
	return k
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A Recorder needs a ledger.
func TestRecorderNeedsALedger(t *testing.T) {
	r, err := Open(t.Context(), Config{Store: &favfilter.Memory{}})
	if err == nil {
		r.Close()
		t.Fatal("it was opened")
	}
}
