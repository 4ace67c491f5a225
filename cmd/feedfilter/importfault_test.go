package main

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/activityfile"
	"github.com/feedfilter/feedfilter/internal/faulttest"
)

// importOnce imports the file into the ledger and the store, with faults.
func importOnce(t *testing.T, file string, l *ledger.Ledger, store favfilter.Store, f *faulttest.Faults) error {
	t.Helper()
	faulty := l.Around(f.Around)
	r, err := activity.Open(t.Context(), activity.Config{
		Ledger: faulty, Store: faulttest.Store{Store: store, Faults: f}, StalenessBound: 10 * time.Millisecond, ScrubRate: 1,
	})
	if err != nil {
		return err
	}
	defer r.Close()
	source, err := activityfile.Open(file, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	im := &importer{source: source, to: r, ledger: r, notes: faulty, batch: 20, std: stdio{out: null, err: null}}
	return im.run(t.Context(), false)
}

// wantPages checks that the pages report every row of the state.
func wantPages(t *testing.T, l *ledger.Ledger, store favfilter.Store, state map[string]bool) {
	t.Helper()
	r, err := activity.Open(t.Context(), activity.Config{Ledger: l, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	block, _ := r.Kinds().Named("block")
	hide, _ := r.Kinds().Named("hide")
	for row := range state {
		f := strings.Fields(row)
		v, err := r.View(t.Context(), f[0], []activity.Kind{block, hide})
		if err != nil {
			t.Fatal(err)
		}
		kind := 0
		if f[1] == "hide" {
			kind = 1
		}
		if v.Check(kind, f[2]) == activity.None {
			t.Errorf("no page reports %q", row)
		}
	}
}

// Each call of the ledger and the store fails once, before or after it takes effect. Run again, the
// import gives the same result.
func TestLongImportFaultAtEveryStep(t *testing.T) {
	const lines = 200
	text, state := churn(lines)
	for _, after := range []bool{false, true} {
		for at := int64(1); ; at++ {
			dir := t.TempDir()
			file := filepath.Join(dir, "a.csv")
			writeFile(t, file, text)
			l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(dir, "ledger.db"), ledger.Options{Pages: 4})
			if err != nil {
				t.Fatal(err)
			}
			store := &favfilter.Memory{}
			f := &faulttest.Faults{At: at, After: after}
			err = importOnce(t, file, l, store, f)
			hit := f.Calls() >= at
			if err != nil {
				if !errors.Is(err, faulttest.ErrInjected) {
					t.Fatalf("fault at call %d: %v", at, err)
				}
				err = importOnce(t, file, l, store, &faulttest.Faults{})
			}
			if err != nil {
				t.Fatalf("fault at call %d, run again: %v", at, err)
			}
			wantPages(t, l, store, state)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if got := rowsOf(t, dir); !maps.Equal(got, state) {
				t.Fatalf("fault at call %d: the ledger has %v, want %v", at, got, state)
			}
			if !hit {
				t.Logf("after %v: %d calls", after, at-1)
				break
			}
		}
	}
}
