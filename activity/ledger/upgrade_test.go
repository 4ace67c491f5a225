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
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// The ledgers in testdata have a layout of currentPages, and build one of buildingPages. The first
// one had 16 pages.
const currentPages, buildingPages = 32, 64

// releasedLedger is a ledger that release 0.1.0 wrote. See testdata/README.md.
type releasedLedger struct {
	url string
	// query returns all columns of the rows of a query.
	query func(t *testing.T, query string) [][]any

	id     Identity
	rows   []Row // all rows, in the order of their keys
	pages  map[uint32]PageState
	owners map[uint64]uint32
}

// releasedSQLite unpacks the SQLite ledger into a directory of the test.
func releasedSQLite(t *testing.T) *releasedLedger {
	t.Helper()
	file := temporary(t)
	must(t, os.WriteFile(file, unpack(t, "0.1.0.db.gz"), 0o600))
	o := &releasedLedger{url: "sqlite:" + file, query: queryFile(file)}
	o.read(t)
	return o
}

// queryFile returns a function that runs queries on a SQLite file.
func queryFile(file string) func(t *testing.T, query string) [][]any {
	return func(t *testing.T, query string) (found [][]any) {
		t.Helper()
		db, err := connect(file, readerParameters, 1)
		must(t, err)
		defer db.Close()
		rows, err := db.QueryContext(t.Context(), query)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		defer rows.Close()
		for err == nil && rows.Next() {
			var values []any
			values, err = scanAll(rows)
			found = append(found, values)
		}
		if err := errors.Join(err, rows.Err()); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		return found
	}
}

// scanAll returns the columns of a row.
func scanAll(rows *sql.Rows) ([]any, error) {
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	values, to := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		to[i] = &values[i]
	}
	return values, rows.Scan(to...)
}

// releasedPostgres creates the PostgreSQL ledger in a schema of the server.
func releasedPostgres(t *testing.T, server *pgtest.Server) *releasedLedger {
	t.Helper()
	o := &releasedLedger{url: server.Schema()}
	conn, query := querySchema(t, o.url)
	script := strings.ReplaceAll(string(unpack(t, "0.1.0.sql.gz")), "feedfilter", conn.Config().RuntimeParams["search_path"])
	_, err := conn.PgConn().Exec(t.Context(), script+"; RESET ALL").ReadAll()
	must(t, err)
	o.query = query
	o.read(t)
	return o
}

// querySchema returns a connection to the schema in a URL, and a function that runs queries on it.
func querySchema(t *testing.T, url string) (*pgx.Conn, func(t *testing.T, query string) [][]any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn, func(t *testing.T, query string) [][]any {
		t.Helper()
		rows, err := conn.Query(t.Context(), query)
		must(t, err)
		found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) ([]any, error) { return row.Values() })
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		return found
	}
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

// read reads what the ledger holds before the upgrade.
func (o *releasedLedger) read(t *testing.T) {
	t.Helper()
	meta := make(map[string]string)
	for _, row := range o.query(t, `SELECT name, value FROM meta`) {
		meta[fmt.Sprint(row[0])] = fmt.Sprint(row[1])
	}
	var err error
	o.id, err = parseIdentity(meta)
	must(t, err)
	o.rows = nil
	for _, row := range o.query(t, `SELECT hash, owner, kind, target, since, until FROM entries ORDER BY hash, owner, kind, target`) {
		r := Row{
			Hash: unstored(number(row[0])), Owner: fmt.Sprint(row[1]), Kind: fmt.Sprint(row[2]), Target: fmt.Sprint(row[3]),
			Since: time.UnixMicro(number(row[4])).UTC(),
		}
		if row[5] != nil {
			r.Until = time.UnixMicro(number(row[5])).UTC()
		}
		o.rows = append(o.rows, r)
	}
	o.pages = make(map[uint32]PageState)
	for _, row := range o.query(t, `SELECT page, sequence, left_at FROM pages WHERE sequence > 0`) {
		o.pages[uint32(number(row[0]))] = PageState{Sequence: uint64(number(row[1])), Left: uint64(number(row[2]))}
	}
	o.owners = make(map[uint64]uint32)
	for _, row := range o.query(t, `SELECT hash, page FROM owners`) {
		o.owners[unstored(number(row[0]))] = uint32(number(row[1]))
	}
	if len(o.owners) != 2 || len(o.pages) < 20 {
		t.Fatalf("owners %v, want two; %d pages", o.owners, len(o.pages))
	}
}

func number(value any) int64 {
	n, _ := value.(int64)
	return n
}

// checkActivities checks that the ledger has the activities in testdata, and no others: for each,
// the user's row, and for a two-way kind the mirrored row.
func (o *releasedLedger) checkActivities(t *testing.T) {
	t.Helper()
	type activity struct {
		User   string    `json:"user"`
		Kind   string    `json:"kind"`
		Target string    `json:"target"`
		Since  time.Time `json:"since"`
		Until  time.Time `json:"until"`
	}
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
			mirrored := row
			mirrored.Owner, mirrored.Kind, mirrored.Target = a.Target, "blocked-by", a.User
			want = append(want, mirrored)
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

// checkUpgraded checks that the opened ledger holds what it held before the upgrade.
func (o *releasedLedger) checkUpgraded(t *testing.T, l *Ledger) {
	t.Helper()
	if id := l.Identity(); id != o.id { // with another one, all pages in the store would be rebuilt
		t.Errorf("identity %+v, want %+v", id, o.id)
	}
	want := Layouts{Current: currentPages, Building: buildingPages}
	if now, err := l.Layouts(t.Context()); err != nil || now != want {
		t.Errorf("layouts %+v, %v, want %+v", now, err, want)
	}
	got := make(map[uint32]PageState)
	progress, err := l.Changed(t.Context(), "", func(page uint32, s PageState) error {
		got[page] = s
		return nil
	})
	if err != nil || !maps.Equal(got, o.pages) || !maps.Equal(progress.Owners, o.owners) {
		t.Errorf("pages %v of owners %v, %v, want %v of %v", got, progress.Owners, err, o.pages, o.owners)
	}
	o.checkRows(t, l, currentPages)
	kinds := []Kind{
		{Name: "block", Reverse: "blocked-by", Target: User, Weight: -1}, {Name: "hide", Target: Post, Weight: -1},
		{Name: "like", Target: Post, Weight: -1}, {Name: "mute", Target: User, Weight: -1},
	}
	has, err := l.Kinds(t.Context())
	if err != nil || !slices.Equal(plain(has), plain(kinds)) {
		t.Errorf("kinds %v, %v, want %v", has, err, kinds)
	}
	for i := range kinds { // the first process that knows of weights sets them
		if has[i].Weight != -1 && has[i].Weight != i {
			t.Errorf("weight of kind %v, want -1 or %d", has[i], i)
		}
		kinds[i].Weight = i
	}
	must(t, l.Declare(t.Context(), kinds))
	if has, err := l.Kinds(t.Context()); err != nil || !slices.Equal(has, kinds) {
		t.Errorf("declared again: kinds %v, %v, want %v", has, err, kinds)
	}
	if value, found, err := l.Checkpoint(t.Context(), "import"); value != "line 7" || !found || err != nil {
		t.Errorf("checkpoint %q, %t, %v", value, found, err)
	}
	for _, row := range o.query(t, `SELECT target_hash, target, owner FROM entries WHERE target_hash IS NOT NULL`) {
		named, err := l.Naming(t.Context(), unstored(number(row[0])), fmt.Sprint(row[1]), nil, 100)
		if err != nil || !slices.ContainsFunc(named, func(r Row) bool { return r.Owner == row[2] && r.Kind == "mute" }) {
			t.Errorf("rows that name %v: %v, %v, want one of %v", row[1], named, err, row[2])
		}
	}
}

// checkRows checks that each row is on the page of its user, and on no other.
func (o *releasedLedger) checkRows(t *testing.T, l *Ledger, pages uint32) {
	t.Helper()
	all := slices.Collect(maps.Values(o.owners))
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
			if dedicated, ok := o.owners[r.Hash]; ok {
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

// checkUse changes the rows of shared and dedicated pages, moves users, and changes the layout.
func (o *releasedLedger) checkUse(t *testing.T, l *Ledger) {
	t.Helper()
	owner := slices.Sorted(maps.Keys(o.owners))[0]
	shared := o.rows[slices.IndexFunc(o.rows, func(r Row) bool { return o.owners[r.Hash] == 0 })].Hash
	for _, hash := range []uint64{owner, shared} {
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
	dedicated, err := l.Move(t.Context(), shared, true)
	if err != nil || len(dedicated.Pages) != 2 {
		t.Fatalf("dedicate: %+v, %v", dedicated, err)
	}
	delete(o.owners, owner)
	o.owners[shared] = dedicated.Pages[1].Page
	o.checkRows(t, l, currentPages)
	must(t, l.BeginLayout(t.Context(), buildingPages)) // goes on
	must(t, l.SwitchLayout(t.Context(), buildingPages))
	must(t, l.LeaveLayout(t.Context(), currentPages))
	o.checkRows(t, l, buildingPages)
	if err := l.Declare(t.Context(), []Kind{{Name: "block", Reverse: "blocked-by", Target: User}, {Name: "hide", Target: User}}); err == nil {
		t.Error("Declare changed hide, which has rows")
	}
}

// check upgrades the ledger, and opens it again. schema is a query for all tables and indexes, with
// their columns. They must be those of a new ledger.
func (o *releasedLedger) check(t *testing.T, schema string, isNew [][]any) {
	t.Helper()
	o.checkActivities(t)
	if slices.EqualFunc(o.query(t, schema), isNew, slices.Equal) {
		t.Error("the ledger has the latest schema before the upgrade")
	}
	for range 2 {
		l := openURL(t, o.url, Options{Pages: currentPages})
		o.checkUpgraded(t, l)
		must(t, l.Close())
	}
	if got := o.query(t, schema); !slices.EqualFunc(got, isNew, slices.Equal) {
		t.Errorf("schema %v after the upgrade, a new ledger has %v", got, isNew)
	}
	o.checkUse(t, openURL(t, o.url, Options{}))
}

const (
	schemaSQLite = `SELECT m.name, c.name, c.type, c."notnull", c.dflt_value, c.pk, '' FROM sqlite_schema m, pragma_table_xinfo(m.name) c
			WHERE m.type = 'table'
		UNION ALL SELECT m.tbl_name, m.name, c.name, c.seqno, c.desc, c.coll, iif(m.sql LIKE '%WHERE%', substr(m.sql, instr(m.sql, 'WHERE')), '')
			FROM sqlite_schema m, pragma_index_xinfo(m.name) c WHERE m.type = 'index'
		UNION ALL SELECT name, type, ncol, wr, strict, '', '' FROM pragma_table_list
		ORDER BY 1, 2, 3, 4`
	schemaPostgres = `SELECT c.relname::text, a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attcollation::bigint,
				pg_get_expr(d.adbin, d.adrelid)
			FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
				LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
			WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
		UNION ALL SELECT tablename, indexname, replace(indexdef, current_schema() || '.', ''), false, 0, ''
			FROM pg_indexes WHERE schemaname = current_schema()
		UNION ALL SELECT c.relname, o.conname, pg_get_constraintdef(o.oid), false, 0, pg_get_expr(c.relpartbound, c.oid)
			FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid WHERE o.connamespace = current_schema()::regnamespace
		ORDER BY 1, 2, 3`
)

func TestUpgrade(t *testing.T) {
	file := temporary(t)
	must(t, openFile(t, file, Options{}).Close())
	releasedSQLite(t).check(t, schemaSQLite, queryFile(file)(t, schemaSQLite))
}

func TestPostgresUpgrade(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	t.Run("alone", func(t *testing.T) {
		url := server.Schema()
		must(t, openURL(t, url, Options{}).Close())
		_, query := querySchema(t, url)
		releasedPostgres(t, server).check(t, schemaPostgres, query(t, schemaPostgres))
	})
	t.Run("together", func(t *testing.T) { checkOpenedTogether(t, releasedPostgres(t, server)) })
	t.Run("fails", func(t *testing.T) {
		o := releasedPostgres(t, server)
		conn, err := pgx.Connect(t.Context(), o.url)
		must(t, err)
		defer conn.Close(t.Context())
		o.checkFails(t, "postgres", `SELECT version FROM ledger_version`, func(all []migration) error {
			return migratePostgres(t.Context(), conn, "", all)
		})
	})
}

func TestUpgradeFails(t *testing.T) {
	o := releasedSQLite(t)
	db, err := connect(strings.TrimPrefix(o.url, "sqlite:"), writerParameters, 1)
	must(t, err)
	o.checkFails(t, "sqlite", `SELECT user_version FROM pragma_user_version`, func(all []migration) error {
		err := migrate(t.Context(), db, all)
		must(t, db.Close())
		return err
	})
}

// checkOpenedTogether opens the ledger from several processes at once. One of them upgrades it.
func checkOpenedTogether(t *testing.T, o *releasedLedger) {
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
		o.checkUpgraded(t, l)
		must(t, l.Close())
	}
}

// checkFails checks that a migration that fails at its end has changed nothing, and that the next
// one succeeds. version is a query for the version.
func (o *releasedLedger) checkFails(t *testing.T, kind, version string, run func(all []migration) error) {
	t.Helper()
	all := migrationsFor(t, kind)
	before := o.query(t, version)
	all[1].script += "\nINSERT INTO no_such_table VALUES (1);"
	if err := run(all); err == nil || !strings.Contains(err.Error(), "no_such_table") || !strings.Contains(err.Error(), all[1].file) {
		t.Errorf("error %v, want one naming no_such_table and %s", err, all[1].file)
	}
	if after := o.query(t, version); number(after[0][0]) != number(before[0][0]) || number(after[0][0]) != int64(all[0].version) {
		t.Errorf("schema version %v, was %v, want %d", after, before, all[0].version)
	}
	again := &releasedLedger{url: o.url, query: o.query}
	again.read(t)
	if again.id != o.id || !slices.Equal(again.rows, o.rows) || !maps.Equal(again.pages, o.pages) || !maps.Equal(again.owners, o.owners) {
		t.Error("the ledger has changed")
	}
	o.checkUpgraded(t, openURL(t, o.url, Options{}))
}
