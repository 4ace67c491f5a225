package ledger

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"testing"
	"time"
)

// TestAround checks which functions see a call, in which order, and what a failure after the call
// leaves.
func TestAround(t *testing.T) {
	l := openFile(t, temporary(t), Options{Pages: 4})
	var seen []string
	note := func(name string) Around {
		return func(ctx context.Context, c *Call, next func(ctx context.Context) error) error {
			if c.Operation != "sequence" || c.Page != 3 {
				t.Errorf("call %+v", c)
			}
			seen = append(seen, name)
			err := next(ctx)
			seen = append(seen, name)
			return err
		}
	}
	inner := l.Around(note("inner"))
	outer := inner.Around(note("outer"))
	for _, l := range []*Ledger{l, outer, inner} {
		if _, err := l.Sequence(t.Context(), 3); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"outer", "inner", "inner", "outer", "inner", "inner"}; !slices.Equal(seen, want) {
		t.Errorf("seen by %v, want %v", seen, want)
	}

	lost := errors.New("lost")
	deaf := l.Around(func(ctx context.Context, _ *Call, next func(ctx context.Context) error) error {
		return errors.Join(next(ctx), lost)
	})
	row := Row{Owner: "1", Kind: "hide", Target: "p"}
	receipt, err := deaf.Record(t.Context(), time.Time{}, []Change{{Rows: []Row{row}}})
	if !errors.Is(err, lost) || receipt.Changed != nil {
		t.Errorf("receipt %+v, error %v", receipt, err)
	}
	if rows, _, err := deaf.Keys(t.Context(), 0); !errors.Is(err, lost) || rows != nil {
		t.Errorf("rows %v, error %v", rows, err)
	}
	if n, err := l.Counts(t.Context(), CountQuery{Owner: "1", Kinds: []string{"hide"}, Most: 2}); err != nil || n["hide"] != 1 {
		t.Errorf("rows %v, %v, want 1", n, err)
	}

	if err := outer.Close(); err != nil {
		t.Error(err)
	}
	if err := l.Ping(t.Context()); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestCallTimeout: a URL can give calls more time than the default, not less.
func TestCallTimeout(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"": callTimeout, "300ms": callTimeout, "0": callTimeout, "6000": 6 * time.Second, "6s": 6 * time.Second, "1%20min": time.Minute,
		"2h": 2 * time.Hour, "soon": callTimeout, "-1": callTimeout,
	} {
		url := "postgres://h/d"
		if value != "" {
			url += "?statement_timeout=" + value
		}
		u, err := parsePostgres(url)
		if err != nil || u.callTimeout() != want {
			t.Errorf("statement_timeout=%s: %v, %v, want %v", value, u.callTimeout(), err, want)
		}
	}
}
