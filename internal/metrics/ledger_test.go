package metrics_test

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/metrics"
)

// values returns a registry's counters, gauges and counts of histograms by name and labels, such as
// a_total{x="y"}.
func values(t *testing.T, r *metrics.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// TestLedgerCounts counts calls that succeed, calls that fail and calls that the caller gave up.
func TestLedgerCounts(t *testing.T) {
	r := metrics.New(metrics.Settings{})
	l := openLedger(t, 4)
	m := r.Ledger(l)
	if m.Identity() != l.Identity() || m.Shared() != l.Shared() {
		t.Error("Ledger returned a different identity")
	}
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
	if _, err := m.Counts(ended, 1, "1", time.Now()); err == nil {
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

// TestLedgerTotal calls every method of the interface on a closed ledger. Each call counts as an
// operation with the method's own name.
func TestLedgerTotal(t *testing.T) {
	r := metrics.New(metrics.Settings{})
	l := openLedger(t, 4)
	m := reflect.ValueOf(r.Ledger(l))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	methods := reflect.TypeFor[activity.Ledger]()
	before, fails := values(t, r), 0
	for of := range methods.Methods() {
		name := of.Name
		if name == "Identity" || name == "Shared" || name == "Prepare" {
			continue
		}
		method := m.MethodByName(name)
		var args []reflect.Value
		for n := range method.Type().NumIn() {
			switch in := method.Type().In(n); {
			case in == reflect.TypeFor[context.Context]():
				args = append(args, reflect.ValueOf(t.Context()))
			case in.Kind() == reflect.Pointer:
				args = append(args, reflect.New(in.Elem()))
			case method.Type().IsVariadic() && n == method.Type().NumIn()-1:
			default:
				args = append(args, reflect.Zero(in))
			}
		}
		wantFailed := 0
		func() {
			defer func() { _ = recover() }() // some methods panic on empty arguments
			if results := method.Call(args); !results[len(results)-1].IsNil() {
				wantFailed = 1
				fails++
			}
		}()
		after := values(t, r)
		counted, failed := 0, 0
		for series, v := range after {
			if v == before[series] {
				continue
			}
			var operation string
			if n, _ := fmt.Sscanf(series, "feedfilter_ledger_call_seconds_count{operation=%q}", &operation); n == 1 {
				counted++
			}
			if n, _ := fmt.Sscanf(series, "feedfilter_ledger_errors_total{operation=%q}", &operation); n == 1 {
				failed++
			}
			if operation != "" && v != 1 {
				t.Errorf("%s counts as %s, like another method", name, operation)
			}
		}
		if counted != 1 || failed != wantFailed {
			t.Errorf("%s: %d operations counted, %d failed", name, counted, failed)
		}
		before = after
	}
	if fails < methods.NumMethod()-7 { // but for those, and where nothing is asked for
		t.Errorf("%d of %d methods fail", fails, methods.NumMethod())
	}
}
