package importer_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
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
	_, err = importFile(t, file, r, faulty, 20)
	return err
}

// churn returns a file of n activities that repeat and undo each other, and the activities that
// remain, such as "1 hide 5". They depend on the order.
func churn(n int) (file string, state map[string]bool) {
	random := rand.New(rand.NewPCG(1, 2))
	state = make(map[string]bool)
	for range n {
		user, kind, other := random.IntN(5), []string{"hide", "block"}[random.IntN(2)], 5+random.IntN(5)
		op := []string{"add", "remove"}[random.IntN(2)]
		file += fmt.Sprintf("%d,%s,%d,%s\n", user, kind, other, op)
		if key := fmt.Sprint(user, " ", kind, " ", other); op == "add" {
			state[key] = true
		} else {
			delete(state, key)
		}
	}
	return file, state
}

// wantState checks that the ledger has the activities of the state and no other, and that pages
// report them, those of blocks on both sides.
func wantState(t *testing.T, l *ledger.Ledger, store favfilter.Store, state map[string]bool) {
	t.Helper()
	r, err := activity.Open(t.Context(), activity.Config{Ledger: l, Store: store})
	must(t, err)
	defer r.Close()
	if got := recorded(t, r); !maps.Equal(got, state) {
		t.Fatalf("the ledger has %v, want %v", got, state)
	}
	for row := range state {
		f := strings.Fields(row)
		kind, _ := r.Kinds().Named(f[1])
		sides := [][2]string{{f[0], f[2]}}
		if f[1] == "block" {
			sides = append(sides, [2]string{f[2], f[0]})
		}
		for _, side := range sides {
			v, err := r.View(t.Context(), side[0], []activity.Kind{kind})
			must(t, err)
			if v.Check(0, side[1]) == activity.None {
				t.Errorf("no page of %s reports %q", side[0], row)
			}
		}
	}
}

// Each call of the ledger and the store fails once, before or after it takes effect. Run again, the
// import gives the same result.
func TestLongImportFaultAtEveryStep(t *testing.T) {
	const lines = 200
	text, state := churn(lines)
	for _, after := range []bool{false, true} {
		for at := range faulttest.EachCall() {
			dir := t.TempDir()
			file := filepath.Join(dir, "a.csv")
			writeFile(t, file, text)
			l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(dir, "ledger.db"), ledger.Options{Pages: 4})
			must(t, err)
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
			wantState(t, l, store, state)
			if t.Failed() {
				t.Fatalf("fault at call %d", at)
			}
			must(t, l.Close())
			if !hit {
				t.Logf("after %v: %d calls", after, at-1)
				break
			}
		}
	}
}
