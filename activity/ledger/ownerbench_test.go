package ledger_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// ofUser returns row number i of one user.
func ofUser(i int) ledger.Row {
	return ledger.Row{Hash: 1, Owner: "user", Kind: "block", Target: fmt.Sprintf("user%06d", i), Since: time.UnixMicro(int64(i))}
}

// fill gives the user n rows.
func fill(b *testing.B, l *ledger.Ledger, n int) {
	b.Helper()
	rows := make([]ledger.Row, n)
	for i := range rows {
		rows[i] = ofUser(i)
	}
	for some := range slices.Chunk(rows, 10_000) {
		record(b, l, ledger.Change{Rows: some})
	}
}

// BenchmarkRecordLimited records one new row of a user with many rows, with and without a limit.
// With a limit, all rows must be counted.
func BenchmarkRecordLimited(b *testing.B) {
	benchmarkAll(b, func(b *testing.B, fresh func(b testing.TB) *ledger.Ledger) {
		b.Helper()
		for _, n := range []int{100, 10_000} {
			for _, limit := range []uint32{0, 1_000_000} {
				b.Run(fmt.Sprintf("rows=%d/limit=%d", n, limit), func(b *testing.B) {
					l := fresh(b)
					fill(b, l, n)
					for next := n; b.Loop(); next++ {
						change := ledger.Change{Rows: []ledger.Row{ofUser(next)}, Limit: limit}
						if _, err := l.Record(b.Context(), time.Time{}, []ledger.Change{change}); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	})
}

// BenchmarkLookup looks up items of a user with 100,000 rows, half of them there.
func BenchmarkLookup(b *testing.B) {
	benchmarkAll(b, func(b *testing.B, fresh func(b testing.TB) *ledger.Ledger) {
		b.Helper()
		l := fresh(b)
		fill(b, l, 100_000)
		for _, n := range []int{1, 100, 20_000} {
			b.Run(fmt.Sprintf("items=%d", n), func(b *testing.B) {
				q := ledger.LookupQuery{Hash: 1, Owner: "user"}
				for i := range n {
					target := ofUser(i * 100_000 / n).Target
					if i%2 > 0 {
						target += "x"
					}
					q.Items = append(q.Items, ledger.Item{Kind: "block", Target: target})
				}
				for b.Loop() {
					if rows, err := l.Lookup(b.Context(), q); err != nil || len(rows) != (n+1)/2 {
						b.Fatalf("%d rows, %v", len(rows), err)
					}
				}
			})
		}
	})
}

// BenchmarkCount counts the rows of a user.
func BenchmarkCount(b *testing.B) {
	benchmarkAll(b, func(b *testing.B, fresh func(b testing.TB) *ledger.Ledger) {
		b.Helper()
		for _, n := range []int{100, 100_000} {
			b.Run(fmt.Sprintf("rows=%d", n), func(b *testing.B) {
				l := fresh(b)
				fill(b, l, n)
				for b.Loop() {
					if got, err := l.Counts(b.Context(), 1, "user", "block", time.Time{}); err != nil || got["block"] != n {
						b.Fatalf("rows %v, %v", got, err)
					}
				}
			})
		}
	})
}
