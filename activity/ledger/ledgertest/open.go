package ledgertest

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

func (s suite) identity(t *testing.T) {
	url := s.fresh(t)
	l := open(t, url, ledger.Options{})
	id := l.Identity()
	if id.Incarnation == 0 {
		t.Error("incarnation is 0")
	}
	if id.Pages != 16384 {
		t.Errorf("%d pages by default, want 16384", id.Pages)
	}
	shut(t, l)
	for _, pages := range []uint32{0, 16384} {
		l := open(t, url, ledger.Options{Pages: pages})
		if again := l.Identity(); again != id {
			t.Errorf("identity %+v after opening again, was %+v", again, id)
		}
		shut(t, l)
	}
	for _, pages := range []uint32{1, 1 << 24} {
		other := s.make(t, pages).Identity()
		if other.Pages != pages {
			t.Errorf("%d pages, want %d", other.Pages, pages)
		}
		if other.Incarnation == id.Incarnation || other.Seed == id.Seed {
			t.Errorf("two ledgers with identities %+v and %+v", id, other)
		}
	}
}

func (s suite) restored(t *testing.T) {
	url := s.fresh(t)
	l := open(t, url, ledger.Options{Pages: 64})
	before := l.Identity()
	record(t, l, ledger.Change{Rows: []ledger.Row{{Hash: 1, Owner: "a", Kind: "hide", Target: "p"}}})
	shut(t, l)
	if _, err := ledger.Open(t.Context(), url, ledger.Options{Pages: 2, Restored: true}); !errors.Is(err, ledger.ErrPagesDiffer) {
		t.Fatalf("error %v, want ErrPagesDiffer", err)
	}
	l = open(t, url, ledger.Options{})
	if id := l.Identity(); id != before {
		t.Errorf("identity %+v after a refusal, was %+v", id, before)
	}
	shut(t, l)
	l = open(t, url, ledger.Options{Restored: true})
	after := l.Identity()
	if after.Incarnation == before.Incarnation || after.Incarnation == 0 || after.Seed != before.Seed || after.Pages != before.Pages {
		t.Errorf("identity %+v restored, was %+v: want only another incarnation", after, before)
	}
	if rows, s, err := rowsOf(l, 0); err != nil || len(rows) != 1 || s.Sequence != 1 {
		t.Errorf("%v at %d, %v: want one row at 1", rows, s.Sequence, err)
	}
	shut(t, l)
	if id := open(t, url, ledger.Options{}).Identity(); id != after {
		t.Errorf("identity %+v after opening again, was %+v", id, after)
	}
}

func (s suite) pagesInvalid(t *testing.T) {
	url := s.fresh(t)
	for pages, number := range map[uint32]string{3: "3", 1<<24 - 1: "16777215", 1 << 25: "33554432"} {
		_, err := ledger.Open(t.Context(), url, ledger.Options{Pages: pages})
		if err == nil || !strings.Contains(err.Error(), number) {
			t.Errorf("error %v for %d pages, want one naming the number", err, pages)
		}
	}
	if id := open(t, url, ledger.Options{Pages: 2}).Identity(); id.Pages != 2 {
		t.Errorf("%d pages, want 2: a refused call had an effect", id.Pages)
	}
}

// calls returns the methods that take a context, except those that need a lease.
func calls(l *ledger.Ledger) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"Record": func(ctx context.Context) error {
			_, err := l.Record(ctx, at(0), []ledger.Change{add(block(1, "a"))})
			return err
		},
		"Keys":     func(ctx context.Context) error { _, _, err := l.Keys(ctx, 0); return err },
		"Sequence": func(ctx context.Context) error { _, err := l.Sequence(ctx, 0); return err },
		"Changed": func(ctx context.Context) error {
			_, err := l.Changed(ctx, "", func(uint32, ledger.PageState) error { return nil })
			return err
		},
		"Layouts":      func(ctx context.Context) error { _, err := l.Layouts(ctx); return err },
		"Place":        func(ctx context.Context) error { _, err := l.Place(ctx, 1); return err },
		"BeginLayout":  func(ctx context.Context) error { return l.BeginLayout(ctx, 16) },
		"SwitchLayout": func(ctx context.Context) error { return l.SwitchLayout(ctx, 16) },
		"LeaveLayout":  func(ctx context.Context) error { return l.LeaveLayout(ctx, 8) },
		"Dedicate":     func(ctx context.Context) error { _, err := l.Move(ctx, 1, true); return err },
		"Release":      func(ctx context.Context) error { _, err := l.Move(ctx, 1, false); return err },
		"All":          func(ctx context.Context) error { _, err := l.All(ctx, nil, 1); return err },
		"EachRow": func(ctx context.Context) error {
			_, err := l.EachRow(ctx, 0, func([]ledger.Row) error { return nil })
			return err
		},
		"Ended": func(ctx context.Context) error { _, err := l.Ended(ctx, at(0), 1); return err },
		"List": func(ctx context.Context) error {
			_, err := l.List(ctx, ledger.ListQuery{Owner: "u1", Kind: "block", Limit: 1})
			return err
		},
		"ListNaming": func(ctx context.Context) error {
			_, _, err := l.ListNaming(ctx, ledger.ListQuery{Owner: "u1", Kind: "block", Limit: 1})
			return err
		},
		"Lookup": func(ctx context.Context) error {
			_, err := l.Lookup(ctx, ledger.LookupQuery{Owner: "u1", Items: []ledger.Item{{Kind: "block", Target: "a"}}})
			return err
		},
		"Counts": func(ctx context.Context) error {
			_, err := l.Counts(ctx, ledger.CountQuery{Owner: "u1", Kinds: []string{"block"}, Most: 1})
			return err
		},
		"Owned":            func(ctx context.Context) error { _, err := l.Owned(ctx, 0, "u1", nil, 1); return err },
		"Naming":           func(ctx context.Context) error { _, err := l.Naming(ctx, 0, "u1", nil, 1); return err },
		"Kinds":            func(ctx context.Context) error { _, err := l.Kinds(ctx); return err },
		"Declare":          func(ctx context.Context) error { return l.Declare(ctx, kindsOf("hide")) },
		"Checkpoint":       func(ctx context.Context) error { _, _, err := l.Checkpoint(ctx, "id"); return err },
		"SetCheckpoint":    func(ctx context.Context) error { return l.SetCheckpoint(ctx, "id", "1") },
		"RemoveCheckpoint": func(ctx context.Context) error { return l.SetCheckpoint(ctx, "id", "") },
		"Lease": func(ctx context.Context) error {
			_, err := l.Lease(ctx, "app", "one", nil, time.Hour, true)
			return err
		},
		"Unfollow": func(ctx context.Context) error { return l.Unfollow(ctx, "hide") },
		"Sources":  func(ctx context.Context) error { _, err := l.Sources(ctx); return err },
		"Ping":     l.Ping,
	}
}

func (s suite) closed(t *testing.T) {
	l := s.make(t, 16)
	for name, call := range calls(l) {
		if err := call(t.Context()); err != nil {
			t.Errorf("%s of an open ledger: %v", name, err)
		}
	}
	shut(t, l)
	for name, call := range calls(l) {
		if err := call(t.Context()); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%s of a closed ledger: error %v, want fs.ErrClosed", name, err)
		}
	}
	shut(t, l) // a no-op
}

func (s suite) contextEnded(t *testing.T) {
	url := s.fresh(t)
	l := open(t, url, ledger.Options{Pages: 16})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range calls(l) {
		if err := call(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v, want context.Canceled", name, err)
		}
	}
	newModel(l.Identity()).check(t, l)
	if _, found, err := l.Checkpoint(t.Context(), "id"); found || err != nil {
		t.Errorf("checkpoint found: %v, %v", found, err)
	}
	shut(t, l)
	if _, err := ledger.Open(ctx, url, ledger.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Open: error %v, want context.Canceled", err)
	}
}

func (s suite) checkpoint(t *testing.T) {
	url := s.fresh(t)
	l := open(t, url, ledger.Options{})
	want := func(id, value string, found bool) {
		t.Helper()
		got, ok, err := l.Checkpoint(t.Context(), id)
		if got != value || ok != found || err != nil {
			t.Errorf("checkpoint %q is %q, %v, %v, want %q, %v", id, got, ok, err, value, found)
		}
	}
	set := func(id, value string) {
		t.Helper()
		if err := l.SetCheckpoint(t.Context(), id, value); err != nil {
			t.Error(err)
		}
	}
	want("import", "", false)
	set("import", "")
	want("import", "", false)
	set("import", "line 1")
	set("import", "line 2 'ä' %")
	set("other", "x")
	shut(t, l)
	l = open(t, url, ledger.Options{})
	want("import", "line 2 'ä' %", true)
	set("import", "")
	want("import", "", false)
	want("other", "x", true)
	if err := l.SetCheckpoint(t.Context(), "", "x"); err == nil {
		t.Error("SetCheckpoint accepted an empty id")
	}
	anywhere(t, func(ctx context.Context) error { return l.SetCheckpoint(ctx, "other", "y") }, func() { want("other", "x", true) })
	want("other", "y", true)
}
