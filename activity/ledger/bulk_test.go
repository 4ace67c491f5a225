package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// someChanges returns n changes of every sort, of 700 keys of 9 owners. Rows exist rarely, so
// that whole statements succeed, or often.
func someChanges(rng *rand.Rand, n int, now time.Time) []ledger.Change {
	span := 700
	if rng.IntN(2) == 0 {
		span = 1 << 40
	}
	row := func() ledger.Row {
		user := rng.Uint64N(9)
		r := ledger.Row{
			Hash: user * 0x1fffffffffffffff, Owner: fmt.Sprint("u", user), Kind: []string{"hide", "like"}[rng.IntN(2)],
			Target: fmt.Sprint("p", rng.IntN(span)), Since: now.Add(-time.Duration(rng.IntN(3)) * time.Hour),
		}
		if rng.IntN(20) == 0 {
			r.Until = now.Add(time.Duration(rng.IntN(5)-2) * time.Hour)
		}
		if rng.IntN(20) == 0 {
			r.Names, r.TargetHash = true, rng.Uint64()
		}
		return r
	}
	changes := make([]ledger.Change, n)
	removes, limits := rng.IntN(2) == 0, rng.IntN(2) == 0
	for i := range changes {
		c := ledger.Change{Rows: []ledger.Row{row()}}
		if rng.IntN(5) == 0 {
			c.Rows = append(c.Rows, row())
		}
		switch {
		case removes && rng.IntN(3) == 0:
			c.Remove, c.Ended = true, rng.IntN(3) == 0
		case limits && rng.IntN(3) == 0:
			c.Limit = 1 + rng.Uint32N(60)
		}
		changes[i] = c
	}
	return changes
}

// TestLongPrepared records the same changes in two ledgers, as they are and
// prepared. Receipts and rows must be equal.
func TestLongPrepared(t *testing.T) {
	urls := map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return freshFile(t) },
		"postgres": func(t *testing.T) string { return pgtest.Start(t).Schema() },
	}
	for name, url := range urls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slow, fast := open(t, url(t), ledger.Options{Pages: 8}), open(t, url(t), ledger.Options{Pages: 8})
			rng := rand.New(rand.NewPCG(7, 9))
			now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			for range 40 {
				now = now.Add(time.Duration(rng.IntN(60)) * time.Minute)
				changes := someChanges(rng, 1+rng.IntN(600), now)
				want, err := slow.Record(t.Context(), now, changes)
				if err != nil {
					t.Fatal(err)
				}
				prepared, err := fast.Prepare(changes)
				if err != nil {
					t.Fatal(err)
				}
				got, err := prepared.Record(t.Context(), now)
				if err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("%d changes: the receipts differ", len(changes))
				}
				for page := range uint32(8) {
					wantRows, wantSequence, err := slow.Snapshot(t.Context(), page)
					if err != nil {
						t.Fatal(err)
					}
					rows, sequence, err := fast.Snapshot(t.Context(), page)
					if err != nil || sequence != wantSequence || !reflect.DeepEqual(rows, wantRows) {
						t.Fatalf("page %d: %d rows at sequence %d, %v; want %d at %d", page, len(rows), sequence, err, len(wantRows), wantSequence)
					}
				}
			}
		})
	}
}

// The first call after Open may record prepared changes that meet rows, with no statement prepared.
func TestPostgresFirstPreparedMeetsRows(t *testing.T) {
	url, now := pgtest.Start(t).Schema(), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	hide := func(target string) ledger.Change {
		return ledger.Change{Rows: []ledger.Row{{Hash: 1, Owner: "1", Kind: "hide", Target: target, Since: now}}}
	}
	l := open(t, url, ledger.Options{Pages: 8})
	for _, changes := range [][]ledger.Change{{hide("p")}, {hide("p"), hide("q")}} {
		prepared, err := l.Prepare(changes)
		if err != nil {
			t.Fatal(err)
		}
		receipt, err := prepared.Record(t.Context(), now)
		if err != nil || !receipt.Changed[len(changes)-1] || len(changes) > 1 && receipt.Changed[0] {
			t.Errorf("%d changes: changed %v, %v, want only the last one", len(changes), receipt.Changed, err)
		}
	}
}

// Prepared changes may be recorded a second time, as after an error. That changes nothing.
func TestPreparedAgain(t *testing.T) {
	l := open(t, freshFile(t), ledger.Options{Pages: 8})
	now := time.Now()
	changes := make([]ledger.Change, 300)
	for i := range changes {
		changes[i] = ledger.Change{Rows: []ledger.Row{{Hash: scattered(i), Owner: fmt.Sprint(i), Kind: "hide", Target: "p", Since: now}}}
	}
	prepared, err := l.Prepare(changes)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		receipt, err := prepared.Record(t.Context(), now)
		if err != nil {
			t.Fatal(err)
		}
		for i, changed := range receipt.Changed {
			if changed != (n == 0) {
				t.Fatalf("change %d, time %d: changed %t", i, n, changed)
			}
		}
		for _, p := range receipt.Pages {
			if p.Sequence != 1 {
				t.Fatalf("time %d: page %d at sequence %d, want 1", n, p.Page, p.Sequence)
			}
		}
	}
	if _, err := l.Prepare([]ledger.Change{{Rows: []ledger.Row{{Owner: "\n", Kind: "hide", Target: "p", Since: now}}}}); err == nil {
		t.Error("Prepare accepted an invalid row")
	}
}
