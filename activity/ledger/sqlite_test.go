package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"modernc.org/sqlite"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openFile(t *testing.T, file string, o Options) *Ledger {
	t.Helper()
	return openURL(t, "sqlite:"+file, o)
}

func openURL(t *testing.T, url string, o Options) *Ledger {
	t.Helper()
	l, err := Open(t.Context(), url, o)
	must(t, err)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// Snapshot returns all rows of a page, in order, with their times, and the state of the page.
func (l *Ledger) Snapshot(ctx context.Context, page uint32) (rows []Row, s PageState, err error) {
	s, err = l.EachRow(ctx, page, func(some []Row) error {
		rows = append(rows, some...)
		return nil
	})
	return inOrder(rows), s, err
}

func file(l *Ledger) *sqliteDatabase { return l.db.(*sqliteDatabase) }

func temporary(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "ledger.db")
}

// TestQueryPlans checks that every statement seeks to its rows, and that none reads all rows of
// an owner or page to sort them.
func TestQueryPlans(t *testing.T) {
	l := openFile(t, temporary(t), Options{})
	const one = "PRIMARY KEY (hash=? AND owner=? AND kind=? AND target=?)"
	dedicated := []string{"o USING INTEGER PRIMARY KEY (rowid=?)", "p USING INTEGER PRIMARY KEY (rowid=?)"}
	all := sqliteDialect()
	for _, c := range []struct {
		sql   string
		seeks []string
		sorts int
	}{
		{sharedStateSQL, []string{
			"layouts USING INTEGER PRIMARY KEY (rowid=?)",
			"pages USING INTEGER PRIMARY KEY (rowid=?)", "pages USING INTEGER PRIMARY KEY (rowid=?)",
		}, 0},
		{dedicatedStateSQL, []string{"o USING COVERING INDEX sqlite_autoindex_owners_1 (page=?)", "p USING INTEGER PRIMARY KEY (rowid=?)"}, 0},
		{all.places, []string{
			"owners USING INTEGER PRIMARY KEY (rowid=?)",
			"pages USING INTEGER PRIMARY KEY (rowid=?)", "pages USING INTEGER PRIMARY KEY (rowid=?)",
		}, 0},
		{rowsSQL(all.places, 64), []string{
			"owners USING INTEGER PRIMARY KEY (rowid=?)",
			"pages USING INTEGER PRIMARY KEY (rowid=?)", "pages USING INTEGER PRIMARY KEY (rowid=?)",
		}, 0},
		{snapshotSQL, []string{"entries USING PRIMARY KEY (hash>? AND hash<?)"}, 0},
		{progressSQL, []string{"pages USING COVERING INDEX pages_changed"}, 0},
		{changedSQL, []string{"pages USING INDEX pages_changed (changed>?)"}, 0},
		{all.endedRows, []string{"entries USING INDEX entries_until (until<?)"}, 0},
		{listNewestRowsSQL, []string{"entries USING COVERING INDEX entries_newest (hash=? AND owner=? AND kind=?)"}, 0},
		{listBeforeRowsSQL, []string{ // each half sorts at most its limit of rows
			"entries USING COVERING INDEX entries_newest (hash=? AND owner=? AND kind=? AND since=? AND target>?)",
			"entries USING COVERING INDEX entries_newest (hash=? AND owner=? AND kind=? AND since<?)",
		}, 2},
		{ownedRowsSQL, []string{"entries USING PRIMARY KEY (hash=? AND owner=? AND (kind,target)>(?,?))"}, 0},
		{namingRowsSQL, []string{"entries USING INDEX entries_naming (target_hash=? AND target=? AND (hash,owner,kind)>(?,?,?))"}, 0},
		{namingEndSQL, []string{"entries USING COVERING INDEX entries_naming (target_hash=? AND target=? AND (hash,owner)>(?,?))"}, 0},
		{listNamingRowsSQL, []string{"entries USING INDEX entries_naming (target_hash=? AND target=? AND (hash,owner)>(?,?) AND (hash,owner)<(?,?))"}, 0},
		{all.tallyRows, []string{"e USING COVERING INDEX entries_newest (hash=? AND owner=? AND kind=?)"}, 0},
		{rowsSQL(all.tallyRows, 64), []string{"e USING COVERING INDEX entries_newest (hash=? AND owner=? AND kind=?)"}, 0},
		{all.lookupRows, []string{"entries USING " + one}, 0},
		{rowsSQL(all.lookupRows, 64), []string{"entries USING " + one}, 0},
		{all.deleteRows, []string{"entries USING " + one}, 0},
		{rowsSQL(all.deleteRows, 64), []string{"entries USING " + one}, 0},
		{allRowsSQL, []string{"entries USING PRIMARY KEY ((hash,owner,kind,target)>(?,?,?,?))"}, 0},
		{countRangeSQL, []string{"entries USING COVERING INDEX entries_newest (hash>? AND hash<?)"}, 0},
		{all.lockDedicated, dedicated, 0},
		{rowsSQL(all.lockDedicated, 64), dedicated, 0},
		{rangesSQL, slices.Repeat([]string{"owners USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"}, 3), 1},
		{newOwnersSQL, []string{"owners USING INDEX owners_changed (changed>?)"}, 0},
		{ownerRangeSQL, []string{"owners USING COVERING INDEX sqlite_autoindex_owners_1 (page=?)"}, 0},
		{greatestPageSQL, []string{"pages"}, 0},
		{all.seedPages[0], []string{"p USING INTEGER PRIMARY KEY (rowid=?)", "pages USING COVERING INDEX pages_changed"}, 0},
		{all.deletePages, []string{"pages USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"}, 0},
		{deleteOwnerSQL, []string{"owners USING INTEGER PRIMARY KEY (rowid=?)"}, 0},
		{rowsSQL(all.lockPages, 64), []string{"pages USING INTEGER PRIMARY KEY (rowid=?)"}, 0},
	} {
		var seeks []string
		sorts := 0
		for _, step := range queryPlan(t, file(l).readers, c.sql) {
			seek, isSeek := strings.CutPrefix(step, "SEARCH ")
			switch {
			case isSeek:
				seeks = append(seeks, seek)
			case strings.HasPrefix(step, "SCAN entries"), strings.HasPrefix(step, "SCAN pages"), strings.HasPrefix(step, "SCAN own"):
				t.Errorf("%s\n%s", c.sql, step)
			case strings.HasPrefix(step, "USE TEMP B-TREE"):
				sorts++
			}
		}
		if !slices.Equal(seeks, c.seeks) || sorts != c.sorts {
			t.Errorf("%s\nseeks %q and sorts %d times, want %q, %d", c.sql, seeks, sorts, c.seeks, c.sorts)
		}
	}
}

func queryPlan(t *testing.T, db *sql.DB, sql string) []string {
	t.Helper()
	arguments := make([]any, strings.Count(sql, "?")+strings.Count(sql, "$"))
	var id, parent, unused int
	var step string
	s := statement{sql: "EXPLAIN QUERY PLAN " + sql, args: arguments, into: []any{&id, &parent, &unused, &step}}
	steps, err := collect(t.Context(), sqliteQueries{on: db}, s, func() string { return step })
	must(t, err)
	return steps
}

// TestConnections checks the settings that make commits durable, on first connections and on their
// replacements.
func TestConnections(t *testing.T) {
	l := openFile(t, temporary(t), Options{})
	for range 2 {
		for _, c := range []struct {
			db           *sql.DB
			pragma, want string
		}{
			{file(l).writer, "journal_mode", "wal"},
			{file(l).writer, "synchronous", "2"}, // FULL
			{file(l).writer, "busy_timeout", "5000"},
			{file(l).readers, "query_only", "1"},
			{file(l).readers, "busy_timeout", "5000"},
		} {
			var got string
			if err := c.db.QueryRowContext(t.Context(), "PRAGMA "+c.pragma).Scan(&got); err != nil || got != c.want {
				t.Errorf("%s is %s, %v, want %s", c.pragma, got, err, c.want)
			}
		}
		for _, db := range []*sql.DB{file(l).writer, file(l).readers} {
			db.SetMaxIdleConns(-1) // closes the connections
			db.SetMaxIdleConns(1)
		}
	}
}

func numbered(n int) []Change {
	var changes []Change
	for i := range n {
		changes = append(changes, Change{Rows: []Row{{
			Hash: uint64(i) << 50, Owner: fmt.Sprint("u", i), Kind: "block", Target: strings.Repeat("t", 200),
		}}})
	}
	return changes
}

func checkRows(t *testing.T, l *Ledger, want int) {
	t.Helper()
	rows, s, err := l.Snapshot(t.Context(), 0)
	if err != nil || len(rows) != want || s.Sequence != uint64(min(1, want)) {
		t.Errorf("%d rows at sequence %d, %v, want %d rows", len(rows), s.Sequence, err, want)
	}
}

// TestSmallPage checks that EachRow allocates little for a page of few rows.
func TestSmallPage(t *testing.T) {
	const reads, most = 20, 200_000
	l := openFile(t, temporary(t), Options{Pages: 1})
	_, err := l.Record(t.Context(), time.Time{}, numbered(3))
	must(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range reads {
		_, err := l.EachRow(t.Context(), 0, func([]Row) error { return nil })
		must(t, err)
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / reads; each > most {
		t.Errorf("a read of 3 rows allocates %d bytes, want at most %d", each, most)
	}
}

// TestDiskFull fails in the middle of a Record.
func TestDiskFull(t *testing.T) {
	l := openFile(t, temporary(t), Options{Pages: 1})
	limit := func(pages int) {
		_, err := file(l).writer.ExecContext(t.Context(), fmt.Sprint("PRAGMA max_page_count = ", pages))
		must(t, err)
	}
	limit(50)
	_, err := l.Record(t.Context(), time.Time{}, numbered(1000))
	if sqlite := (*sqlite.Error)(nil); !errors.As(err, &sqlite) || sqlite.Code() != 13 {
		t.Errorf("error %v, want SQLITE_FULL", err)
	}
	checkRows(t, l, 0)
	limit(1 << 20)
	if _, err := l.Record(t.Context(), time.Time{}, numbered(1000)); err != nil {
		t.Error(err)
	}
	checkRows(t, l, 1000)
}

// TestCommitFails makes the database refuse a commit.
func TestCommitFails(t *testing.T) {
	l := openFile(t, temporary(t), Options{Pages: 1})
	refuse := func(hook sqlite.CommitHookFn) {
		conn, err := file(l).writer.Conn(t.Context())
		must(t, err)
		defer conn.Close()
		if err := conn.Raw(func(c any) error {
			c.(sqlite.HookRegisterer).RegisterCommitHook(hook)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	refuse(func() int32 { return 1 })
	if _, err := l.Record(t.Context(), time.Time{}, numbered(10)); err == nil || !strings.Contains(err.Error(), "commit") {
		t.Errorf("error %v, want one of the commit", err)
	}
	checkRows(t, l, 0)
	refuse(nil)
	if _, err := l.Record(t.Context(), time.Time{}, numbered(10)); err != nil {
		t.Error(err)
	}
	checkRows(t, l, 10)
}

// TestCancelWhileWaiting ends the context of a Record that waits for another one.
func TestCancelWhileWaiting(t *testing.T) {
	l := openFile(t, temporary(t), Options{Pages: 1})
	turn, err := file(l).writer.Conn(t.Context())
	must(t, err)
	checkCancelled(t, l, turn.Close)
}

// TestCancelWhileLocked ends the context of a Record that waits for another program's lock.
func TestCancelWhileLocked(t *testing.T) {
	file := temporary(t)
	l := openFile(t, file, Options{Pages: 1})
	other, err := connect(file, "?_txlock=immediate", 1)
	must(t, err)
	defer other.Close()
	tx, err := other.BeginTx(t.Context(), nil)
	must(t, err)
	checkCancelled(t, l, tx.Rollback)
}

// checkCancelled ends the context of a Record that waits until release. A later Record succeeds.
func checkCancelled(t *testing.T, l *Ledger, release func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := l.Record(ctx, time.Time{}, numbered(1))
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	checkRows(t, l, 0)
	if _, err := l.Record(t.Context(), time.Time{}, numbered(1)); err != nil {
		t.Error(err)
	}
	checkRows(t, l, 1)
}

// TestCloseAmongRecords closes a ledger during calls of others. It must have exactly the rows that
// those calls reported.
func TestCloseAmongRecords(t *testing.T) {
	file := temporary(t)
	l := openFile(t, file, Options{Pages: 1})
	const goroutines = 4
	var acknowledged [goroutines]int
	var wg sync.WaitGroup
	started := make(chan struct{}, goroutines)
	for g := range goroutines {
		wg.Go(func() {
			for {
				row := Row{Owner: fmt.Sprint("u", g), Kind: "block", Target: fmt.Sprint(acknowledged[g])}
				_, err := l.Record(context.Background(), time.Time{}, []Change{{Rows: []Row{row}}})
				if err != nil {
					if !errors.Is(err, fs.ErrClosed) {
						t.Error(err)
					}
					return
				}
				acknowledged[g]++
				if acknowledged[g] == 10 {
					started <- struct{}{}
				}
			}
		})
	}
	for range goroutines {
		<-started
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	again := openFile(t, file, Options{})
	wg.Wait()
	want := 0
	for _, n := range acknowledged {
		want += n
	}
	rows, s, err := again.Snapshot(t.Context(), 0)
	if err != nil || len(rows) != want || s.Sequence != uint64(want) {
		t.Errorf("%d rows at sequence %d, %v, want %d", len(rows), s.Sequence, err, want)
	}
}

// TestReadsInOneTransaction has one connection for readers. Each read of pages, layouts and
// owners must use one transaction, and so one snapshot. A second transaction would wait for the
// connection forever.
func TestReadsInOneTransaction(t *testing.T) {
	l := openFile(t, temporary(t), Options{Pages: 1})
	_, err := l.Record(t.Context(), time.Time{}, numbered(3))
	must(t, err)
	file(l).readers.SetMaxOpenConns(1)
	for name, read := range map[string]func(ctx context.Context) error{
		"Changed": func(ctx context.Context) error {
			_, err := l.Changed(ctx, "", func(uint32, PageState) error { return nil })
			return err
		},
		"Place":    func(ctx context.Context) error { _, err := l.Place(ctx, 0); return err },
		"Snapshot": func(ctx context.Context) error { _, _, err := l.Snapshot(ctx, 0); return err },
		"Keys":     func(ctx context.Context) error { _, _, err := l.Keys(ctx, 0); return err },
		"EachRow": func(ctx context.Context) error {
			_, err := l.EachRow(ctx, 0, func([]Row) error { return nil })
			return err
		},
		"Sequence": func(ctx context.Context) error { _, err := l.Sequence(ctx, 0); return err },
	} {
		// The timeout ends a read that waits for a second connection.
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if err := read(ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}
