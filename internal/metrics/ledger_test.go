package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/metrics"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// values returns a registry's counters, gauges and counts of histograms by name and labels, such as
// a_total{x="y"}.
func values(t *testing.T, r *metrics.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gatherer().Gather()
	must(t, err)
	all := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := ""
			for _, l := range m.GetLabel() {
				labels += fmt.Sprintf(",%s=%q", l.GetName(), l.GetValue())
			}
			if labels != "" {
				labels = "{" + labels[1:] + "}"
			}
			if h := m.GetHistogram(); h != nil {
				all[f.GetName()+"_count"+labels], all[f.GetName()+"_sum"+labels] = float64(h.GetSampleCount()), h.GetSampleSum()
				continue
			}
			all[f.GetName()+labels] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return all
}

func openLedger(t *testing.T, pages uint32) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{Pages: pages})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// TestLedgerCounts counts calls that succeed, calls that fail and calls that the caller gave up.
func TestLedgerCounts(t *testing.T) {
	r := metrics.New(metrics.Settings{})
	l := openLedger(t, 4)
	m := l.Around(r.Ledger())
	for range 3 {
		if _, err := m.Sequence(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Sequence(t.Context(), 1<<25); err == nil {
		t.Error("Sequence of a page that no layout has returned no error")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Counts(ended, ledger.CountQuery{Hash: 1, Owner: "1", Kinds: []string{"hide"}, Most: 1}); err == nil {
		t.Error("Counts with an ended context returned no error")
	}
	got := values(t, r)
	for series, want := range map[string]float64{
		`feedfilter_ledger_call_seconds_count{operation="sequence"}`: 4,
		`feedfilter_ledger_errors_total{operation="sequence"}`:       1,
		`feedfilter_ledger_call_seconds_count{operation="counts"}`:   1,
		`feedfilter_ledger_errors_total{operation="counts"}`:         0,
		`feedfilter_ledger_call_seconds_count{operation="record"}`:   0,
	} {
		if v, ok := got[series]; !ok || v != want {
			t.Errorf("%s is %v, want %v", series, v, want)
		}
	}
	if got[`feedfilter_ledger_call_seconds_sum{operation="sequence"}`] <= 0 {
		t.Error("four calls took no time")
	}
}

// TestLedgerFailures checks that neither a call that its caller gave up nor an answer counts as
// failed. Answers are given during a change of layout, to a follower that waits, and to a write of
// a followed kind. A poll that was cut off at its limit counts.
func TestLedgerFailures(t *testing.T) {
	limit, stop := context.WithCancelCause(t.Context())
	stop(errors.New("no answer within 1s"))
	for _, c := range []struct {
		ctx       context.Context
		operation string
		err       error
		want      float64
	}{
		{t.Context(), "record", nil, 0},
		{t.Context(), "record", context.Canceled, 0},
		{t.Context(), "keys", ledger.ErrGone, 0},
		{t.Context(), "keys", ledger.ErrLargePage, 0},
		{t.Context(), "begin_layout", ledger.ErrLayoutBusy, 0},
		{t.Context(), "lease", ledger.ErrHeld, 0},
		{t.Context(), "renew", ledger.ErrFenced, 0},
		{t.Context(), "follow", ledger.ErrStrayRow, 0},
		{t.Context(), "record", &ledger.FollowedError{Source: "app", Kind: "block"}, 0},
		{t.Context(), "place", context.DeadlineExceeded, 1},
		{t.Context(), "list", io.EOF, 1},
		{limit, "changed", nil, 0},
		{limit, "changed", context.Canceled, 1},
		{limit, "place", context.Canceled, 0},
	} {
		r := metrics.New(metrics.Settings{})
		want := c.err
		if c.err != nil {
			want = fmt.Errorf("call: %w", c.err)
		}
		err := r.Ledger()(c.ctx, &ledger.Call{Operation: c.operation}, func(context.Context) error { return want })
		got := values(t, r)[fmt.Sprintf("feedfilter_ledger_errors_total{operation=%q}", c.operation)]
		if err != want || got != c.want { //nolint:errorlint // the very error
			t.Errorf("%s, %v: error %v, %v failures, want %v", c.operation, c.err, err, got, c.want)
		}
	}
}

// TestLedgerTotal calls every method of a closed ledger that asks the database. Each counts as an
// operation of its own, which was there before the call if a Recorder makes such calls. So do the
// two ways of a move and of a count.
func TestLedgerTotal(t *testing.T) {
	r := metrics.New(metrics.Settings{})
	l := openLedger(t, 4)
	must(t, l.Close())
	l = l.Around(r.Ledger())
	change := ledger.Change{Rows: []ledger.Row{{Owner: "1", Kind: "hide", Target: "p"}}}
	given := map[reflect.Type]any{
		reflect.TypeFor[context.Context]():    t.Context(),
		reflect.TypeFor[string]():             "x",
		reflect.TypeFor[[]ledger.Change]():    []ledger.Change{change},
		reflect.TypeFor[ledger.LookupQuery](): ledger.LookupQuery{Items: []ledger.Item{{}}},
	}
	calls := map[string]func() error{
		"Move to": func() error { _, err := l.Move(t.Context(), 1, true); return err },
	}
	for name, method := range reflect.ValueOf(l).Methods() {
		of := method.Type()
		if of.NumIn() == 0 || of.In(0) != reflect.TypeFor[context.Context]() {
			continue
		}
		calls[name.Name] = func() error {
			var args []reflect.Value
			for in := range of.Ins() {
				arg := reflect.Zero(in)
				if v, ok := given[in]; ok {
					arg = reflect.ValueOf(v)
				}
				args = append(args, arg)
			}
			call := method.Call
			if of.IsVariadic() {
				call = method.CallSlice
			}
			results := call(args)
			err, _ := reflect.TypeAssert[error](results[len(results)-1])
			return err
		}
	}
	delete(calls, "Place")                                             // it is Places of one user
	rest := map[string]bool{"Checkpoint": true, "SetCheckpoint": true} // no Recorder calls them
	operations := make(map[string]bool)
	for name, call := range calls {
		before := values(t, r)
		if err := call(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%s: error %v, want fs.ErrClosed", name, err)
		}
		for series, v := range values(t, r) {
			was, there := before[series]
			var operation string
			if n, _ := fmt.Sscanf(series, "feedfilter_ledger_errors_total{operation=%q}", &operation); n == 0 || v == was {
				continue
			}
			if operations[operation] || !there && !rest[name] {
				t.Errorf("%s counts as %s: there before %v, as is another call %v", name, operation, there, operations[operation])
			}
			operations[operation] = true
		}
	}
	if len(operations) != len(calls) || len(calls) < 25 {
		t.Errorf("%d calls, %d operations", len(calls), len(operations))
	}
}

// The counters of each operation begin at 0, so that its first failure is an increase.
func TestLedgerOperationsBeginAtZero(t *testing.T) {
	// The name stands in a Call, or after the ledger in a call of what makes one.
	named := regexp.MustCompile(`(?:Operation: |\(ctx, |\n\t\tctx, |operation, what :?= )(?:l, )?"([a-z_]+)"`)
	files, err := filepath.Glob("../../activity/ledger/*.go")
	must(t, err)
	operations := make(map[string]bool)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		must(t, err)
		for _, found := range named.FindAllStringSubmatch(string(source), -1) {
			operations[found[1]] = true
		}
	}
	if len(operations) < 30 {
		t.Fatalf("found only %v in %d files", operations, len(files))
	}
	r := metrics.New(metrics.Settings{})
	r.Ledger()
	begun := values(t, r)
	for operation := range operations {
		name := fmt.Sprintf("feedfilter_ledger_errors_total{operation=%q}", operation)
		if n, ok := begun[name]; !ok || n != 0 {
			t.Errorf("%s is %v before the first call, there: %v", name, n, ok)
		}
	}
}
