package follow

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// BenchmarkFollow follows a table on this machine: a snapshot of b.N rows, then as many rows in
// transactions of 100 while they are written. As many are written while nobody follows, and deleted
// in one transaction. Then, at 500 commits a second, it measures how long after its commit a reader
// may have a row. Source, ledger and Redis are real, with fsync.
func BenchmarkFollow(b *testing.B) {
	for _, kind := range []string{"block", "hide"} { // a block is two rows of the ledger
		b.Run(kind, func(b *testing.B) { benchmarkFollow(b, kind) })
	}
}

func benchmarkFollow(b *testing.B, kind string) {
	b.Helper()
	source, postgres := pgtest.Start(b, "wal_level=logical", "fsync=on", "max_wal_size=8GB"), pgtest.Start(b, "fsync=on")
	client := redis.NewClient(&redis.Options{Addr: redistest.Start(b).Addr(), ContextTimeoutEnabled: true})
	b.Cleanup(func() { _ = client.Close() })
	conn, err := pgx.Connect(b.Context(), source.URL())
	must(b, err)
	b.Cleanup(func() { _ = conn.Close(context.Background()) })
	exec := func(sql string, args ...any) {
		b.Helper()
		_, err := conn.Exec(b.Context(), sql, args...)
		must(b, err)
	}
	exec(`CREATE TABLE blocks (blocker bigint, blocked bigint, created_at timestamptz DEFAULT now(), PRIMARY KEY (blocker, blocked))`)
	exec(`ALTER TABLE blocks REPLICA IDENTITY FULL`)
	exec(`INSERT INTO blocks SELECT n % 50000, 100000 + n FROM generate_series(1, $1) n`, b.N)
	l, err := ledger.Open(b.Context(), postgres.URL(), ledger.Options{Pages: 16384})
	must(b, err)
	b.Cleanup(func() { _ = l.Close() })
	store, err := redisstore.New(client, "feed")
	must(b, err)
	log := slog.New(slog.DiscardHandler)
	r, err := activity.Open(b.Context(), activity.Config{Ledger: l, Store: store, AfterTimeout: time.Hour, Logger: log})
	must(b, err)
	b.Cleanup(r.Close)
	tables, err := ParseTables([]byte(`{"tables":[{"table":"blocks","kind":"`+kind+`","user":"blocker","target":"blocked","since":"created_at"}]}`), activity.BuiltinKinds())
	must(b, err)
	f := New(r, Options{Name: "app", URL: source.URL(), Tables: tables, Holder: "one", Create: true, TempDir: b.TempDir(), Log: log})
	var running sync.WaitGroup
	var start time.Time
	end := func() {}
	follow := func() {
		ctx, cancel := context.WithCancel(b.Context())
		running.Go(func() { must(b, f.Run(ctx)) })
		end = func() { cancel(); running.Wait() }
		start = time.Now()
	}
	reached := func() {
		b.Helper()
		var text string
		must(b, conn.QueryRow(b.Context(), `SELECT pg_current_wal_flush_lsn()::text`).Scan(&text))
		must(b, r.Await(b.Context(), activity.Freshness{After: text}))
	}
	b.ResetTimer()
	follow()
	for { // until the source is followed at all
		sources, err := l.Sources(b.Context())
		must(b, err)
		if len(sources) > 0 && sources[0].Position.Whole() {
			break
		}
		time.Sleep(time.Millisecond)
	}
	rate := func(what string) {
		b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), what)
		start = time.Now()
	}
	rate("snapshot_rows/s")
	write := func(base int) { // transactions of 100 rows
		for from := 0; from < b.N; from += 100 {
			exec(`INSERT INTO blocks SELECT n % 50000, $3::int + n FROM generate_series($1::int, $2::int) n`, from, min(from+99, b.N-1), base)
		}
	}
	write(20_000_000)
	reached()
	rate("stream_rows/s")
	end()
	write(30_000_000)
	follow()
	reached()
	rate("catchup_rows/s")
	exec(`DELETE FROM blocks WHERE blocked >= 30000000`)
	start = time.Now()
	reached()
	rate("large_rows/s")
	var took []time.Duration
	for next, i := time.Now(), 0; i < min(b.N, 5000); i++ {
		time.Sleep(time.Until(next))
		next = next.Add(2 * time.Millisecond)
		exec(fmt.Sprintf(`INSERT INTO blocks VALUES (%d, %d)`, i%50000, 40_000_000+i))
		if i%10 != 0 {
			continue
		}
		var position pglogrepl.LSN
		committed := time.Now()
		must(b, conn.QueryRow(b.Context(), `SELECT pg_current_wal_flush_lsn()`).Scan(&position))
		must(b, r.Await(b.Context(), activity.Freshness{After: position.String()}))
		took = append(took, time.Since(committed))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "after_p50_ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "after_p99_ms")
	end()
}
