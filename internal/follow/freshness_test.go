package follow

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity"
)

func TestFreshness(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	var f freshness
	for i, c := range []struct {
		end   pglogrepl.LSN // that a look found, which began at the second i; 0: no look
		has   pglogrepl.LSN // the ledger
		until time.Time
	}{
		{has: 100},
		{end: 120, has: 110},
		{end: 130, has: 119}, // the first goal stays
		{has: 120, until: at(1)},
		{has: 140, until: at(1)}, // no look has told what the end is
		{end: 140, has: 140, until: at(5)},
		{end: 150, has: 160, until: at(6)},
		{end: 200, has: 170, until: at(6)},
		{has: 500, until: at(7)},
	} {
		if c.end > 0 {
			f.saw(c.end, at(i))
		}
		if got := f.at(c.has); !got.Equal(c.until) {
			t.Errorf("step %d: with %s the ledger lacks nothing until %v, want %v", i, c.has, got, c.until)
		}
	}
}

func TestEndOfLog(t *testing.T) {
	for _, c := range []struct {
		line   string
		want   pglogrepl.LSN
		onDisk bool
	}{
		{"0/16B3748 8192 0/16B3748", 0x16B3748, true},
		{"0/16B3748 8192 0/16B3747", 0x16B3748, false},
		{"0/16B4000 8192 0/16B4001", 0x16B4000, true},
		{"0/16B4018 8192 0/16B4000", 0x16B4000, true}, // behind the header of a page
		{"0/17000028 8192 0/17000000", 0x17000000, true},
		{"0/16B4029 8192 0/16B4000", 0x16B4029, false},
		{"0/16B4018 65536 0/16B4018", 0x16B4018, true},
	} {
		if got, onDisk, err := endOfLog(c.line); got != c.want || onDisk != c.onDisk || err != nil {
			t.Errorf("%q: the log ends at %s, on disk %v, %v, want %s, %v", c.line, got, onDisk, err, c.want, c.onDisk)
		}
	}
	for _, line := range []string{"", "0/16B3748 8192", "0/16B3748 0 0/16B3748", "16 8192 0/16B3748", "0/16B3748 8192 16"} {
		if got, _, err := endOfLog(line); err == nil {
			t.Errorf("%q: %s, want an error", line, got)
		}
	}
}

// A source that commits nothing has a record in memory, of a transaction that is open or of a page
// that a query has cleaned up. Feeds with within are answered nevertheless.
func TestWithinOfUnwrittenLog(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	var writer int // writes it to disk after 15 s at the latest
	must(t, a.conn.QueryRow(t.Context(), `SELECT pid FROM pg_stat_activity WHERE backend_type = 'background writer'`).Scan(&writer))
	must(t, syscall.Kill(writer, syscall.SIGSTOP))
	t.Cleanup(func() { _ = syscall.Kill(writer, syscall.SIGCONT) })
	a.start(a.follower("one"))
	a.reached()
	open, err := pgx.Connect(t.Context(), a.server.URL())
	must(t, err)
	defer open.Close(context.Background())
	_, err = open.Exec(t.Context(), `BEGIN; INSERT INTO blocks (blocker_id, blocked_id) VALUES (1, 2)`)
	must(t, err)
	begun := time.Now()
	soon(t, "freshness", func() bool {
		return a.recorder.Await(t.Context(), activity.Freshness{Within: time.Since(begun)}) == nil
	})
}
