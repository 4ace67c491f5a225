package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// benchmarkAll runs a benchmark on each kind of ledger. Each call of fresh creates a ledger.
// Commits are durable on both.
func benchmarkAll(b *testing.B, run func(b *testing.B, fresh func(b testing.TB) *ledger.Ledger)) {
	b.Helper()
	b.Run("sqlite", func(b *testing.B) {
		run(b, func(b testing.TB) *ledger.Ledger { return open(b, freshFile(b), ledger.Options{}) })
	})
	b.Run("postgres", func(b *testing.B) {
		server := pgtest.Start(b, "fsync=on", "shared_buffers=128MB")
		run(b, func(b testing.TB) *ledger.Ledger { return open(b, server.Schema(), ledger.Options{}) })
	})
}

// scattered spreads the numbers 0, 1, 2, ... over all hashes (Fibonacci hashing).
func scattered(i int) uint64 { return uint64(i) * 0x9e3779b97f4a7c15 }

// twoWay is a two-way block, mostly on two pages.
func twoWay(i int) ledger.Change {
	a, b := scattered(2*i+1), scattered(2*i+2)
	since := time.UnixMicro(1_700_000_000_000_000 + int64(i))
	owner, target := fmt.Sprintf("user%d", 2*i+1), fmt.Sprintf("user%d", 2*i+2)
	return ledger.Change{Rows: []ledger.Row{
		{Hash: a, Owner: owner, Kind: "block", Target: target, Since: since},
		{Hash: b, Owner: target, Kind: "blocked-by", Target: owner, Since: since},
	}}
}

func oneWay(i int) ledger.Change {
	c := twoWay(i)
	return ledger.Change{Rows: c.Rows[:1]}
}

// BenchmarkRecord records new changes: of one row, and blocks of two rows on two pages.
func BenchmarkRecord(b *testing.B) {
	benchmarkAll(b, func(b *testing.B, fresh func(b testing.TB) *ledger.Ledger) {
		b.Helper()
		for _, shape := range []struct {
			name string
			make func(i int) ledger.Change
		}{{"rows=1", oneWay}, {"rows=2", twoWay}} {
			for _, n := range []int{1, 100, 10_000} {
				b.Run(fmt.Sprintf("%s/changes=%d", shape.name, n), func(b *testing.B) {
					l := fresh(b)
					changes := make([]ledger.Change, n)
					next := 0
					for b.Loop() {
						for i := range changes {
							changes[i] = shape.make(next)
							next++
						}
						if _, err := l.Record(b.Context(), time.Time{}, changes); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	})
}

// BenchmarkSnapshot reads a page of 5,000 rows of fifty users.
func BenchmarkSnapshot(b *testing.B) {
	benchmarkAll(b, func(b *testing.B, fresh func(b testing.TB) *ledger.Ledger) {
		b.Helper()
		l := fresh(b)
		var changes []ledger.Change
		for i := range 5000 {
			changes = append(changes, ledger.Change{Rows: []ledger.Row{{
				Hash: uint64(i % 50), Owner: fmt.Sprintf("user%d", i%50), Kind: "block",
				Target: fmt.Sprintf("user%d", i), Since: time.UnixMicro(int64(i)),
			}}})
		}
		record(b, l, changes...)
		b.ReportAllocs()
		for b.Loop() {
			rows, _, err := l.Snapshot(b.Context(), 0)
			if err != nil || len(rows) != 5000 {
				b.Fatalf("%d rows, %v", len(rows), err)
			}
		}
	})
}

// BenchmarkList lists 50 rows from the middle of lists of different lengths, which should take the
// same time. All rows have the same microsecond, as after an import.
func BenchmarkList(b *testing.B) {
	benchmarkAll(b, func(b *testing.B, fresh func(b testing.TB) *ledger.Ledger) {
		b.Helper()
		for _, n := range []int{1000, 100_000} {
			b.Run(fmt.Sprintf("rows=%d", n), func(b *testing.B) {
				l := fresh(b)
				since := time.UnixMicro(0)
				rows := make([]ledger.Row, n)
				for i := range rows {
					rows[i] = ledger.Row{Owner: "user", Kind: "block", Target: fmt.Sprintf("user%06d", i), Since: since}
				}
				record(b, l, ledger.Change{Rows: rows})
				q := ledger.ListQuery{
					Owner: "user", Kind: "block", Limit: 50,
					Before: &ledger.Row{Since: since, Target: rows[n/2].Target},
				}
				for b.Loop() {
					if list, err := l.List(b.Context(), q); err != nil || len(list) != q.Limit {
						b.Fatalf("%d rows, %v", len(list), err)
					}
				}
			})
		}
	})
}

// BenchmarkChanged polls a ledger of 16,384 pages after one has changed.
func BenchmarkChanged(b *testing.B) {
	benchmarkAll(b, func(b *testing.B, fresh func(b testing.TB) *ledger.Ledger) {
		b.Helper()
		l := fresh(b)
		var changes []ledger.Change
		for i := range 16384 {
			changes = append(changes, ledger.Change{Rows: []ledger.Row{{Hash: uint64(i) << 50, Owner: "u", Kind: "block", Target: "t"}}})
		}
		record(b, l, changes...)
		pages, next := changed(b, l, "")
		if len(pages) != 16384 {
			b.Fatalf("%d pages, want 16384", len(pages))
		}
		record(b, l, oneWay(1))
		for b.Loop() {
			if pages, _ := changed(b, l, next); len(pages) != 1 {
				b.Fatal("the poll did not report exactly one page")
			}
		}
	})
}

// BenchmarkReconnect polls a ledger of 2^20 pages after its server has crashed and is back.
func BenchmarkReconnect(b *testing.B) {
	server := pgtest.Start(b, "fsync=on", "shared_buffers=128MB")
	url := server.Schema()
	l := open(b, url, ledger.Options{Pages: 1 << 20})
	execute(b, raw(b, url), `INSERT INTO pages
		SELECT n, 1, pg_current_xact_id()::text::bigint FROM generate_series(0, (1 << 20) - 1) AS n`)
	_, next := changed(b, l, "")
	for b.Loop() {
		b.StopTimer()
		server.Kill()
		server.Restart()
		b.StartTimer()
		_, next = changed(b, l, next)
	}
}
