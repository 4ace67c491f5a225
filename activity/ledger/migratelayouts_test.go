package ledger

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/feedfilter/feedfilter/internal/pgtest"
)

const (
	// beforeSQLite and beforePostgres are the schema versions of the ledgers in testdata.
	beforeSQLite, beforePostgres = 6, 5

	// firstPages is the number of pages with which these ledgers were created.
	firstPages = 16
	// firstOwnPage was the number of the first dedicated page, or page of a range of hashes.
	firstOwnPage = 1 << 24
)

// oldLedgers returns the names of the ledgers in testdata, each with the number of pages of its
// layout after the migration.
func oldLedgers() map[string]uint32 {
	return map[string]uint32{"never": 16, "grown": 64, "half": 64, "shrunk": 16}
}

// oldLedger is a ledger of the version of 2026-11-22. See testdata/README.md.
type oldLedger struct {
	url string
	// query returns all columns of the rows of a query: int64, string or nil.
	query func(t *testing.T, query string) [][]any

	incarnation, seed uint64
	rows              []Row             // all rows, in the order of their keys
	sequences         map[uint32]uint64 // of all pages
	owners            map[uint64]uint32
}

// openOldSQLite unpacks an old SQLite ledger into a directory of the test.
func openOldSQLite(t *testing.T, name string) *oldLedger {
	t.Helper()
	file := temporary(t)
	must(t, os.WriteFile(file, unpack(t, name+".db.gz"), 0o600))
	o := &oldLedger{url: "sqlite:" + file, query: func(t *testing.T, query string) [][]any {
		t.Helper()
		db, err := connect(file, readerParameters, 1)
		must(t, err)
		defer db.Close()
		return queryFile(t, db, query)
	}}
	o.read(t)
	return o
}

func queryFile(t *testing.T, db *sql.DB, query string) (found [][]any) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	for err == nil && rows.Next() {
		values, to := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			to[i] = &values[i]
		}
		found = append(found, values)
		err = rows.Scan(to...)
	}
	if err := errors.Join(err, rows.Err()); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return found
}

// openOldPostgres creates an old PostgreSQL ledger in a schema of the server.
func openOldPostgres(t *testing.T, server *pgtest.Server, name string) *oldLedger {
	t.Helper()
	url, conn := postgresOf(t, server, beforePostgres, string(unpack(t, name+".sql.gz")))
	o := &oldLedger{url: url, query: func(t *testing.T, query string) [][]any {
		t.Helper()
		rows, err := conn.Query(t.Context(), query)
		must(t, err)
		found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) ([]any, error) { return row.Values() })
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		return found
	}}
	o.read(t)
	return o
}

func unpack(t *testing.T, name string) []byte {
	t.Helper()
	packed, err := os.ReadFile(filepath.Join("testdata", name))
	must(t, err)
	r, err := gzip.NewReader(bytes.NewReader(packed))
	must(t, err)
	content, err := io.ReadAll(r)
	must(t, err)
	return content
}

// read reads the state of the ledger before the migration.
func (o *oldLedger) read(t *testing.T) {
	t.Helper()
	meta := make(map[string]string)
	for _, row := range o.query(t, `SELECT name, value FROM meta`) {
		meta[text(row[0])] = text(row[1])
	}
	id, err := parseIdentity(meta)
	if err != nil || id.Pages != firstPages {
		t.Fatalf("identity %+v, %v", id, err)
	}
	o.incarnation, o.seed = id.Incarnation, id.Seed
	for _, row := range o.query(t, `SELECT hash, owner, kind, target, since, until FROM entries ORDER BY hash, owner, kind, target`) {
		r := Row{Hash: unstored(number(row[0])), Owner: text(row[1]), Kind: text(row[2]), Target: text(row[3])}
		r.Since = time.UnixMicro(number(row[4])).UTC()
		if row[5] != nil {
			r.Until = time.UnixMicro(number(row[5])).UTC()
		}
		o.rows = append(o.rows, r)
	}
	o.sequences = make(map[uint32]uint64)
	for _, row := range o.query(t, `SELECT page, sequence FROM pages`) {
		o.sequences[uint32(number(row[0]))] = uint64(number(row[1]))
	}
	o.owners = make(map[uint64]uint32)
	for _, row := range o.query(t, `SELECT hash, page FROM owners`) {
		o.owners[unstored(number(row[0]))] = uint32(number(row[1]))
	}
	if len(o.owners) != 2 {
		t.Fatalf("owners %v, want two", o.owners)
	}
}

func text(value any) string { return fmt.Sprint(value) }

func number(value any) int64 {
	n, _ := value.(int64)
	return n
}

// open opens the ledger, which migrates it.
func (o *oldLedger) open(t *testing.T, options Options) *Ledger {
	t.Helper()
	return openURL(t, o.url, options)
}

// checkMigrated compares the ledger with the old one.
func (o *oldLedger) checkMigrated(t *testing.T, l *Ledger, pages uint32) {
	t.Helper()
	id := l.Identity()
	if id.Incarnation == o.incarnation || id.Incarnation == 0 {
		t.Errorf("incarnation %d, want another one than %d", id.Incarnation, o.incarnation)
	}
	if id.Seed != o.seed || id.Pages != firstPages {
		t.Errorf("identity %+v, want seed %d and %d pages", id, o.seed, firstPages)
	}
	want := Layouts{Current: pages}
	if pages != firstPages {
		want.Leaving = firstPages // its pages are in the store
	}
	if now, err := l.Layouts(t.Context()); err != nil || now != want {
		t.Fatalf("layouts %+v, %v, want %+v", now, err, want)
	}
	owners := o.checkOwners(t, l)
	o.checkSequences(t, l, pages, owners)
	o.checkRows(t, l, pages, owners)
}

// checkOwners checks that users with a dedicated page keep one, and returns the pages by hash.
func (o *oldLedger) checkOwners(t *testing.T, l *Ledger) map[uint64]uint32 {
	t.Helper()
	progress, err := l.Changed(t.Context(), "", func(uint32, PageState) error { return nil })
	must(t, err)
	owners, pages := progress.Owners, make(map[uint32]bool)
	for hash, page := range owners {
		pages[page] = true
		if page < DedicatedPages {
			t.Errorf("the user of hash %d has page %d, want a dedicated one", hash, page)
		}
		place, err := l.Place(t.Context(), hash)
		if err != nil || place.Page != page {
			t.Errorf("the user of hash %d is on page %d, %v, want %d", hash, place.Page, err, page)
		}
	}
	if got, want := slices.Sorted(maps.Keys(owners)), slices.Sorted(maps.Keys(o.owners)); !slices.Equal(got, want) {
		t.Errorf("owners %v, want %v", got, want)
	}
	if len(pages) != len(o.owners) {
		t.Errorf("owners %v: two on one page", owners)
	}
	return owners
}

// checkSequences checks that each page has the sequence of its ancestor, and that Changed
// reports no other pages.
func (o *oldLedger) checkSequences(t *testing.T, l *Ledger, pages uint32, owners map[uint64]uint32) {
	t.Helper()
	want := make(map[uint32]PageState)
	for n := range pages {
		page := l.id.PageIn(pages, uint64(n)<<shift(pages))
		if s := o.sequences[n/(pages/firstPages)]; s > 0 {
			want[page] = PageState{Sequence: s}
		}
	}
	for hash, page := range owners {
		want[page] = PageState{Sequence: o.sequences[o.owners[hash]]}
	}
	got := make(map[uint32]PageState)
	if _, err := l.Changed(t.Context(), "", func(page uint32, s PageState) error {
		got[page] = s
		return nil
	}); err != nil || !maps.Equal(got, want) {
		t.Errorf("changed %v, %v, want %v", got, err, want)
	}
}

// checkRows checks that each row is on the page of its user, and on no other.
func (o *oldLedger) checkRows(t *testing.T, l *Ledger, pages uint32, owners map[uint64]uint32) {
	t.Helper()
	all := slices.Collect(maps.Values(owners))
	for n := range pages {
		all = append(all, l.id.PageIn(pages, uint64(n)<<shift(pages)))
	}
	var found []Row
	for _, page := range all {
		rows, s, err := l.Snapshot(t.Context(), page)
		if err != nil {
			t.Errorf("page %d: %v", page, err)
		}
		if len(rows) > 0 && s.Sequence == 0 {
			t.Errorf("page %d has %d rows and no sequence", page, len(rows))
		}
		for _, r := range rows {
			want := l.id.PageIn(pages, r.Hash)
			if dedicated, ok := owners[r.Hash]; ok {
				want = dedicated
			}
			if page != want {
				t.Errorf("page %d has the row %v, which belongs on page %d", page, r, want)
			}
		}
		keys, at, err := l.Keys(t.Context(), page)
		if err != nil || at != s || !slices.EqualFunc(keys, rows, func(a, b Row) bool { return a.key() == b.key() }) {
			t.Errorf("page %d: keys %v at %v, %v, want those of %v at %v", page, keys, at, err, rows, s)
		}
		found = append(found, rows...)
	}
	slices.SortFunc(found, func(a, b Row) int { return a.key().compare(b.key()) })
	if !slices.Equal(found, o.rows) {
		t.Errorf("%d rows on all pages, want %d", len(found), len(o.rows))
	}
}

// checkGone checks that old pages are no longer served, and that their tables are gone.
func (o *oldLedger) checkGone(t *testing.T, l *Ledger, pages uint32) {
	t.Helper()
	gone := []uint32{DedicatedPages + 1} // its user went back before the migration
	if pages > firstPages {
		gone = append(gone, 0, firstPages-1)
	}
	for _, page := range gone {
		if rows, _, err := l.Snapshot(t.Context(), page); !errors.Is(err, ErrGone) {
			t.Errorf("page %d: %d rows, %v, want ErrGone", page, len(rows), err)
		}
	}
	if _, _, err := l.Snapshot(t.Context(), firstOwnPage); err == nil {
		t.Errorf("page %d is served, which no layout has", uint32(firstOwnPage))
	}
	names := make(map[string]bool)
	for _, row := range o.query(t, `SELECT name FROM meta`) {
		names[text(row[0])] = true
	}
	if want := map[string]bool{"incarnation": true, "seed": true, "pages": true}; !maps.Equal(names, want) {
		t.Errorf("meta has %v, want %v", names, want)
	}
}

// checkUse changes the rows of shared and dedicated pages, and the number of pages.
func (o *oldLedger) checkUse(t *testing.T, l *Ledger, pages uint32) {
	t.Helper()
	owner := slices.Sorted(maps.Keys(o.owners))[0]
	shared := slices.IndexFunc(o.rows, func(r Row) bool { return o.owners[r.Hash] == 0 })
	for _, hash := range []uint64{owner, o.rows[shared].Hash} {
		before, err := l.Place(t.Context(), hash)
		must(t, err)
		row := Row{Hash: hash, Owner: "new", Kind: "hide", Target: "new", Since: time.UnixMicro(7).UTC()}
		receipt, err := l.Record(t.Context(), time.UnixMicro(8), []Change{{Rows: []Row{row}}})
		if err != nil || !receipt.Changed[0] {
			t.Fatalf("%+v, %v", receipt, err)
		}
		after, err := l.Place(t.Context(), hash)
		before.Sequence++
		if err != nil || after != before {
			t.Errorf("after a write the user is at %+v, %v, want %+v", after, err, before)
		}
		o.rows = append(o.rows, row)
	}
	slices.SortFunc(o.rows, func(a, b Row) int { return a.key().compare(b.key()) })
	released, err := l.Move(t.Context(), owner, false)
	if err != nil || len(released.Pages) != 2 {
		t.Fatalf("release: %+v, %v", released, err)
	}
	dedicated, err := l.Move(t.Context(), o.rows[shared].Hash, true)
	if err != nil || len(dedicated.Pages) != 2 {
		t.Fatalf("dedicate: %+v, %v", dedicated, err)
	}
	owners := map[uint64]uint32{o.rows[shared].Hash: dedicated.Pages[1].Page}
	for hash := range o.owners {
		if place, err := l.Place(t.Context(), hash); err != nil || (place.Page >= DedicatedPages) != (hash != owner) {
			t.Errorf("the user of hash %d is on page %d, %v", hash, place.Page, err)
		} else if hash != owner {
			owners[hash] = place.Page
		}
	}
	o.checkRows(t, l, pages, owners)
	must(t, l.LeaveLayout(t.Context(), firstPages))
	for _, change := range []func(context.Context, uint32) error{l.BeginLayout, l.SwitchLayout} {
		must(t, change(t.Context(), 2*pages))
	}
	must(t, l.LeaveLayout(t.Context(), pages))
	o.checkRows(t, l, 2*pages, owners)
}

// checkOldLedger migrates an old ledger, and opens it again. left is a query for the names of
// tables that the migration removes. version is a query for the number of migrations that are left.
func checkOldLedger(t *testing.T, o *oldLedger, pages uint32, left, version string) {
	t.Helper()
	o.checkActivities(t)
	if names := o.query(t, left); len(names) == 0 {
		t.Fatal("the old ledger has no old tables")
	}
	l := o.open(t, Options{Pages: pages})
	o.checkMigrated(t, l, pages)
	o.checkGone(t, l, pages)
	first := l.Identity()
	must(t, l.Close())
	l = o.open(t, Options{Pages: firstPages}) // the first number is valid, too
	if id := l.Identity(); id != first {
		t.Errorf("identity %+v when it is opened again, want %+v", id, first)
	}
	o.checkMigrated(t, l, pages)
	o.checkUse(t, l, pages)
	must(t, l.Close())
	l = o.open(t, Options{})
	if now, err := l.Layouts(t.Context()); err != nil || now != (Layouts{Current: 2 * pages}) {
		t.Errorf("layouts %+v, %v, want only %d pages", now, err, 2*pages)
	}
	must(t, l.Close())
	if names := o.query(t, left); len(names) > 0 {
		t.Errorf("the ledger still has %v", names)
	}
	if left := o.query(t, version); number(left[0][0]) != 0 {
		t.Errorf("%v migrations are left", left)
	}
}

// activity is an entry of activities.json.gz.
type activity struct {
	User   string    `json:"user"`
	Kind   string    `json:"kind"`
	Target string    `json:"target"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
}

// checkActivities checks that the old ledger has the activities in testdata, and no others: for
// each, the user's row, and for a two-way kind the mirrored row.
func (o *oldLedger) checkActivities(t *testing.T) {
	t.Helper()
	var named struct {
		Recorded []activity `json:"recorded"`
		Undone   []activity `json:"undone"`
	}
	must(t, json.Unmarshal(unpack(t, "activities.json.gz"), &named))
	var want []Row
	for _, a := range named.Recorded {
		row := Row{Owner: a.User, Kind: a.Kind, Target: a.Target, Since: a.Since, Until: a.Until}
		switch a.Kind {
		case "seen": // ledgers have no rows of this kind
			continue
		case "block":
			want = append(want, Row{Owner: a.Target, Kind: "blocked-by", Target: a.User, Since: a.Since, Until: a.Until})
		}
		want = append(want, row)
	}
	got := slices.Clone(o.rows)
	for i := range got {
		got[i].Hash = 0
	}
	for _, rows := range [][]Row{got, want} {
		slices.SortFunc(rows, func(a, b Row) int { return a.key().compare(b.key()) })
	}
	if len(want) < 300 || len(named.Undone) < 40 || !slices.Equal(got, want) {
		t.Fatalf("%d rows, want %d of the activities", len(got), len(want))
	}
}

const (
	leftSQLite = `SELECT name FROM sqlite_schema WHERE tbl_name IN ('ranges', 'homes') OR name IN ('pages_moved', 'dedicated')
		UNION ALL SELECT name FROM pragma_table_info('pages') WHERE name IN ('moves', 'least')`
	leftPostgres = `SELECT relname::text FROM pg_class WHERE relnamespace = current_schema()::regnamespace
			AND relname IN ('ranges', 'homes', 'pages_moved', 'ranges_page', 'homes_pages')
		UNION ALL SELECT attname::text FROM pg_attribute WHERE attrelid = 'pages'::regclass AND attname IN ('moves', 'least')`
)

func TestMigrateLayouts(t *testing.T) {
	version := fmt.Sprintf(`SELECT %d - user_version FROM pragma_user_version`, versions(migrationsOf("sqlite")))
	for name, pages := range oldLedgers() {
		t.Run(name, func(t *testing.T) {
			checkOldLedger(t, openOldSQLite(t, name), pages, leftSQLite, version)
		})
	}
}

func TestLongPostgresMigrateLayouts(t *testing.T) {
	server := pgtest.Start(t)
	version := fmt.Sprintf(`SELECT %d - version FROM ledger_version`, versions(migrationsOf("postgres")))
	for name, pages := range oldLedgers() {
		t.Run(name, func(t *testing.T) {
			checkOldLedger(t, openOldPostgres(t, server, name), pages, leftPostgres, version)
		})
	}
	t.Run("together", func(t *testing.T) { checkOpenedTogether(t, openOldPostgres(t, server, "half")) })
	t.Run("fails", func(t *testing.T) {
		o := openOldPostgres(t, server, "grown")
		conn, err := pgx.Connect(t.Context(), o.url)
		must(t, err)
		defer conn.Close(t.Context())
		err = migratePostgres(t.Context(), conn, failing(t, migrationsOf("postgres")))
		o.checkStays(t, err, `SELECT version FROM ledger_version`, beforePostgres)
	})
}

// checkOpenedTogether opens an old ledger from several processes at once. One of them migrates
// it.
func checkOpenedTogether(t *testing.T, o *oldLedger) {
	t.Helper()
	ledgers := make([]*Ledger, 4)
	var group errgroup.Group
	for i := range ledgers {
		group.Go(func() (err error) {
			ledgers[i], err = Open(t.Context(), o.url, Options{})
			return err
		})
	}
	must(t, group.Wait())
	for _, l := range ledgers {
		if l.Identity() != ledgers[0].Identity() {
			t.Errorf("identity %+v, another has %+v", l.Identity(), ledgers[0].Identity())
		}
		o.checkMigrated(t, l, 64)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// failing returns the migrations, the last of which fails at its end.
func failing(t *testing.T, migrations fs.FS) fs.FS {
	t.Helper()
	files, _ := only(t, migrations, versions(migrations)-1).(fstest.MapFS)
	name, script := lastMigration(t, migrations)
	files[name] = &fstest.MapFile{Data: []byte(script + "\nINSERT INTO no_such_table VALUES (1);")}
	return files
}

// checkStays checks that a failed migration has changed nothing, and that the next one succeeds.
func (o *oldLedger) checkStays(t *testing.T, err error, version string, want int64) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "no_such_table") {
		t.Errorf("error %v, want one naming no_such_table", err)
	}
	o.checkOld(t, version, want)
	o.checkMigrated(t, o.open(t, Options{}), 64)
}

// checkOld checks that the ledger is unchanged.
func (o *oldLedger) checkOld(t *testing.T, version string, want int64) {
	t.Helper()
	if got := o.query(t, version); number(got[0][0]) != want {
		t.Errorf("schema version %v, want %d", got, want)
	}
	again := &oldLedger{url: o.url, query: o.query}
	again.read(t)
	if again.incarnation != o.incarnation || !slices.Equal(again.rows, o.rows) ||
		!maps.Equal(again.sequences, o.sequences) || !maps.Equal(again.owners, o.owners) {
		t.Error("the ledger has changed")
	}
	if ranges := o.query(t, `SELECT least FROM ranges`); len(ranges) == 0 {
		t.Error("the table of ranges is empty")
	}
}

func TestMigrateLayoutsFails(t *testing.T) {
	o := openOldSQLite(t, "grown")
	db, err := connect(strings.TrimPrefix(o.url, "sqlite:"), writerParameters, 1)
	must(t, err)
	err = migrate(t.Context(), db, failing(t, migrationsOf("sqlite")))
	must(t, db.Close())
	o.checkStays(t, err, `SELECT user_version FROM pragma_user_version`, beforeSQLite)
}

// lastMigration returns the migration to layouts.
func lastMigration(t *testing.T, migrations fs.FS) (name, script string) {
	t.Helper()
	names, err := fs.Glob(migrations, "*_layouts.sql")
	if err != nil || len(names) != 1 {
		t.Fatalf("migrations %v, %v", names, err)
	}
	content, err := fs.ReadFile(migrations, names[0])
	must(t, err)
	return names[0], string(content)
}

// beforeLayouts fills a ledger of one page as it was before layouts. A growth to 8 pages was
// requested, and has not begun. Its users are at both ends of the hashes.
const beforeLayouts = `
	INSERT INTO meta VALUES ('incarnation', '5'), ('seed', '6'), ('pages', '1'), ('cut', '8');
	INSERT INTO pages (page, sequence, changed) VALUES (0, 7, 3);
	INSERT INTO entries (hash, owner, kind, target, since) VALUES
		(-9223372036854775808, 'u', 'hide', 'p', 42), (9223372036854775807, 'v', 'hide', 'p', 43)`

// checkGrownFromOne opens a ledger of beforeLayouts.
func checkGrownFromOne(t *testing.T, l *Ledger) {
	t.Helper()
	if now, err := l.Layouts(t.Context()); err != nil || now != (Layouts{Current: 8, Leaving: 1}) {
		t.Errorf("layouts %+v, %v, want 8 pages, and 1 leaving", now, err)
	}
	want := map[uint32]int{8: 1, 15: 1} // rows
	for page := uint32(8); page < 16; page++ {
		rows, s, err := l.Snapshot(t.Context(), page)
		if err != nil || s != (PageState{Sequence: 7}) || len(rows) != want[page] {
			t.Errorf("page %d: %d rows at %+v, %v, want %d at sequence 7", page, len(rows), s, err, want[page])
		}
	}
	for _, page := range []uint32{0, 2, 7} {
		if rows, _, err := l.Snapshot(t.Context(), page); err == nil {
			t.Errorf("page %d: %d rows, want an error", page, len(rows))
		}
	}
}

func TestMigrateLayoutsFromOne(t *testing.T) {
	checkGrownFromOne(t, openFile(t, sqliteOf(t, beforeSQLite, beforeLayouts), Options{}))
}

func TestPostgresMigrateLayoutsFromOne(t *testing.T) {
	url, _ := postgresOf(t, pgtest.Start(t), beforePostgres, beforeLayouts)
	checkGrownFromOne(t, openURL(t, url, Options{}))
}
