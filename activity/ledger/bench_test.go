package ledger_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// benchmarkAll runs a benchmark on each kind of ledger. Each call of open creates a ledger.
// Commits are durable on both.
func benchmarkAll(b *testing.B, run func(b *testing.B, open func(b *testing.B) *ledger.Ledger)) {
	b.Helper()
	opener := func(url func(b *testing.B) string) func(b *testing.B) *ledger.Ledger {
		return func(b *testing.B) *ledger.Ledger {
			b.Helper()
			l, err := ledger.Open(b.Context(), url(b), ledger.Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() {
				if err := l.Close(); err != nil {
					b.Error(err)
				}
			})
			return l
		}
	}
	b.Run("sqlite", func(b *testing.B) {
		run(b, opener(func(b *testing.B) string {
			b.Helper()
			return "sqlite:" + filepath.Join(b.TempDir(), "ledger.db")
		}))
	})
	b.Run("postgres", func(b *testing.B) {
		server := pgtest.Start(b, "fsync=on", "shared_buffers=128MB")
		run(b, opener(func(*testing.B) string { return server.Schema() }))
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
func BenchmarkRecord(b *testing.B) { benchmarkAll(b, benchmarkRecord) }

func benchmarkRecord(b *testing.B, open func(b *testing.B) *ledger.Ledger) {
	b.Helper()
	for _, shape := range []struct {
		name string
		make func(i int) ledger.Change
	}{{"rows=1", oneWay}, {"rows=2", twoWay}} {
		for _, n := range []int{1, 100, 10_000} {
			b.Run(fmt.Sprintf("%s/changes=%d", shape.name, n), func(b *testing.B) {
				l := open(b)
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
}

// BenchmarkSnapshot reads a page of 5,000 rows of fifty users.
func BenchmarkSnapshot(b *testing.B) { benchmarkAll(b, benchmarkSnapshot) }

func benchmarkSnapshot(b *testing.B, open func(b *testing.B) *ledger.Ledger) {
	b.Helper()
	l := open(b)
	var changes []ledger.Change
	for i := range 5000 {
		changes = append(changes, ledger.Change{Rows: []ledger.Row{{
			Hash: uint64(i % 50), Owner: fmt.Sprintf("user%d", i%50), Kind: "block",
			Target: fmt.Sprintf("user%d", i), Since: time.UnixMicro(int64(i)),
		}}})
	}
	if _, err := l.Record(b.Context(), time.Time{}, changes); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		rows, _, err := l.Snapshot(b.Context(), 0)
		if err != nil || len(rows) != 5000 {
			b.Fatalf("%d rows, %v", len(rows), err)
		}
	}
}

// BenchmarkList lists 50 rows from the middle of lists of different lengths, which should take the
// same time. All rows have the same microsecond, as after an import.
func BenchmarkList(b *testing.B) { benchmarkAll(b, benchmarkList) }

func benchmarkList(b *testing.B, open func(b *testing.B) *ledger.Ledger) {
	b.Helper()
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("rows=%d", n), func(b *testing.B) {
			l := open(b)
			since := time.UnixMicro(0)
			rows := make([]ledger.Row, n)
			for i := range rows {
				rows[i] = ledger.Row{Owner: "user", Kind: "block", Target: fmt.Sprintf("user%06d", i), Since: since}
			}
			if _, err := l.Record(b.Context(), time.Time{}, []ledger.Change{{Rows: rows}}); err != nil {
				b.Fatal(err)
			}
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
}

// BenchmarkChanged polls a ledger of 16,384 pages after one has changed.
func BenchmarkChanged(b *testing.B) { benchmarkAll(b, benchmarkChanged) }

func benchmarkChanged(b *testing.B, open func(b *testing.B) *ledger.Ledger) {
	b.Helper()
	l := open(b)
	var changes []ledger.Change
	for i := range 16384 {
		changes = append(changes, ledger.Change{Rows: []ledger.Row{{Hash: uint64(i) << 50, Owner: "u", Kind: "block", Target: "t"}}})
	}
	if _, err := l.Record(b.Context(), time.Time{}, changes); err != nil {
		b.Fatal(err)
	}
	var next ledger.Cursor
	poll := func() (n int) {
		progress, err := l.Changed(b.Context(), next, func(uint32, ledger.PageState) error { n++; return nil })
		if err != nil {
			b.Fatal(err)
		}
		next = progress.Next
		return n
	}
	if n := poll(); n != 16384 {
		b.Fatalf("%d pages, want 16384", n)
	}
	if _, err := l.Record(b.Context(), time.Time{}, []ledger.Change{oneWay(1)}); err != nil {
		b.Fatal(err)
	}
	since := next
	for b.Loop() {
		if next = since; poll() != 1 {
			b.Fatal("the poll did not report exactly one page")
		}
	}
}

// BenchmarkReconnect polls a ledger of 2^20 pages after its server has crashed and is back.
func BenchmarkReconnect(b *testing.B) {
	server := pgtest.Start(b, "fsync=on", "shared_buffers=128MB")
	url := server.Schema()
	l, err := ledger.Open(b.Context(), url, ledger.Options{Pages: 1 << 20})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	conn, err := pgx.Connect(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	_, err = conn.Exec(b.Context(), `INSERT INTO pages
		SELECT n, 1, pg_current_xact_id()::text::bigint FROM generate_series(0, (1 << 20) - 1) AS n`)
	if err = errors.Join(err, conn.Close(b.Context())); err != nil {
		b.Fatal(err)
	}
	var next ledger.Cursor
	poll := func() (n int) {
		progress, err := l.Changed(b.Context(), next, func(uint32, ledger.PageState) error { n++; return nil })
		if err != nil {
			b.Fatal(err)
		}
		next = progress.Next
		return n
	}
	poll()
	for b.Loop() {
		b.StopTimer()
		server.Kill()
		server.Restart()
		b.StartTimer()
		poll()
	}
}
