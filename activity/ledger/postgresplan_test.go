package ledger

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/internal/pgtest"
)

func openPostgresTest(t *testing.T, url string) *postgresDatabase {
	t.Helper()
	return openURL(t, url, Options{}).db.(*postgresDatabase)
}

// TestPostgresSessions checks the settings that make commits durable and end hanging sessions.
func TestPostgresSessions(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, "synchronous_commit=off")
	for _, c := range []struct {
		parameters string
		want       map[string]string
	}{
		{"", map[string]string{
			"synchronous_commit": "on", "statement_timeout": "5s", "lock_timeout": "3s",
			"idle_in_transaction_session_timeout": "1s", "client_encoding": "UTF8", "application_name": "feedfilter",
			"plan_cache_mode": "force_generic_plan",
		}},
		{"&synchronous_commit=remote_apply&lock_timeout=1min&client_encoding=LATIN1&application_name=x", map[string]string{
			"synchronous_commit": "remote_apply", "statement_timeout": "5s", "lock_timeout": "1min",
			"idle_in_transaction_session_timeout": "1s", "client_encoding": "UTF8", "application_name": "x",
		}},
	} {
		d := openPostgresTest(t, s.Schema()+c.parameters)
		for setting, want := range c.want {
			var got string
			if err := d.pool.QueryRow(t.Context(), "SHOW "+setting).Scan(&got); err != nil || got != want {
				t.Errorf("%q: %s is %s, %v, want %s", c.parameters, setting, got, err, want)
			}
		}
		if got := d.pool.Config().MaxConns; got < 8 {
			t.Errorf("%d connections at most", got)
		}
	}
	d := openPostgresTest(t, s.Schema()+"&pool_max_conns=3")
	if got := d.pool.Config().MaxConns; got != 3 {
		t.Errorf("%d connections at most, want the 3 asked for", got)
	}
}

// seek is a statement, with the indexes that it must seek by.
type seek struct {
	sql     string
	args    string
	indexes []string // an index of a partition by the name of the whole table's index
	sorts   bool     // sorts at most the rows that it returns
}

func seeks() []seek {
	const keys = `'{1,2}', '{a,b}', '{a,b}', '{a,b}'`
	all := postgresDialect()
	return []seek{
		{all.lockPages, `'{1,2}'`, []string{"pages_pkey"}, true},
		{all.lookupRows, keys, []string{"entries_pkey"}, false},
		{all.deleteRows, keys, []string{"entries_pkey"}, false},
		{all.raisePages, `'{1,2}', '{3,4}', '{0,4}'`, []string{"pages_pkey"}, false},
		// It sorts users with dedicated pages
		{sharedPageSQL, `1, 2, 3, 4`, []string{"entries_pkey", "layouts_pkey", "owners_pkey", "pages_pkey"}, true},
		{dedicatedPageSQL, `2147483648`, []string{"entries_pkey", "owners_page_key", "pages_pkey"}, false},
		{all.lockDedicated, `'{1,2}'`, []string{"owners_pkey", "pages_pkey"}, true},
		{greatestPageSQL, ``, []string{"pages_pkey"}, false},
		{deleteOwnerSQL, `1`, []string{"owners_pkey"}, false},
		{all.seedPages[0], `0, 16, 2, 0, 4095`, []string{"pages_pkey"}, true},
		{all.seedPages[1], `0, 16, 2, 0, 4095`, []string{"pages_pkey"}, true},
		{all.deletePages, `0, 4095`, []string{"pages_pkey"}, true},
		{all.places, `'{1,2}', '{3,4}', '{5,6}'`, []string{"owners_pkey", "pages_pkey"}, false},
		{rangesSQL, `1, 2`, []string{"owners_pkey"}, true},
		{ownerRangeSQL, `2147483648`, []string{"owners_page_key"}, false},
		{sharedStateSQL, `1, 4`, []string{"layouts_pkey", "pages_pkey"}, false},
		{dedicatedStateSQL, `2147483648`, []string{"owners_page_key", "pages_pkey"}, false},
		{all.endedRows, `1, 2`, []string{"entries_until"}, false},
		{listNewestRowsSQL, `1, 'a', 'b', 2, 3`, []string{"entries_newest"}, false},
		{listBeforeRowsSQL, `1, 'a', 'b', 2, 3, 4, 'c'`, []string{"entries_newest"}, true},
		{ownedRowsSQL, `1, 'a', 'b', 'c', 5`, []string{"entries_pkey"}, false},
		{allRowsSQL, `1, 'a', 'b', 'c', 5`, []string{"entries_pkey"}, false},
		{sharedPageSQL + atMostSQL, `1, 2, 3, 4`, []string{"entries_pkey", "layouts_pkey", "owners_pkey", "pages_pkey"}, true},
		{dedicatedPageSQL + atMostSQL, `2147483648`, []string{"entries_pkey", "owners_page_key", "pages_pkey"}, false},
		{namingRowsSQL, `1, 'a', 2, 'b', 'c', 5`, []string{"entries_naming"}, false},
		{namingEndSQL, `1, 'a', 2, 'b', 5`, []string{"entries_naming"}, false},
		{listNamingRowsSQL, `1, 'a', 2, 'b', 3, 'c', 'mute', 4, 5`, []string{"entries_naming"}, false},
		{allKindsSQL, ``, []string{"kinds_pkey"}, false},
		{deleteKindSQL, `'a'`, []string{"kinds_pkey"}, false},
		{all.tallyRows, `'{1,2}', '{1,2}', '{a,b}', '{a,b}', 2, 6`, []string{"entries_newest"}, false},
		{all.upsertRows, keys + `, '{1,2}', '{NULL,3}', '{}'`, nil, false},
		{getCheckpointSQL, `'a'`, []string{"checkpoints_pkey"}, false},
	}
}

// TestPostgresPlans checks that every statement seeks to its rows, and that none reads more rows
// to sort or filter them. The planner knows nothing of the tables, as at first, or that they are
// small. Plans are made with and without the values.
func TestPostgresPlans(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, "autovacuum=off")
	d := openPostgresTest(t, s.Schema())
	conn, err := d.pool.Acquire(t.Context())
	must(t, err)
	defer conn.Release()
	execute := func(statement string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	for _, known := range []string{`SET statement_timeout = 0`, `INSERT INTO pages SELECT n, 1, 1 FROM generate_series(1, 20) n`, `VACUUM ANALYZE`,
		`INSERT INTO owners SELECT n, 2147483648 + n, 1 FROM generate_series(1, 1000) n`, `VACUUM ANALYZE`} {
		execute(known)
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			execute("SET plan_cache_mode = " + mode)
			for _, c := range seeks() {
				execute("PREPARE statement AS " + c.sql)
				arguments := ""
				if c.args != "" {
					arguments = " (" + c.args + ")"
				}
				plan := explain(t, conn.Conn(), "EXECUTE statement"+arguments)
				execute("DEALLOCATE statement")
				reads := strings.ReplaceAll(plan, "Seq Scan on layouts", "all of two rows")
				if found := indexes(plan); !slices.Equal(found, c.indexes) || strings.Contains(reads, "Seq Scan") {
					t.Errorf("%s\nseeks by %q, want %q:\n%s", c.sql, found, c.indexes, plan)
				}
				if sorts := strings.Contains(plan, "  Sort\n"); sorts && !c.sorts {
					t.Errorf("%s\nsorts:\n%s", c.sql, plan)
				}
			}
		}
	}
}

// TestPostgresPlansOnce checks that a connection makes no new plans for the values of a call.
func TestPostgresPlansOnce(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	l := openURL(t, s.Schema()+"&pool_max_conns=1", Options{Pages: 16})
	const calls = 10
	for i := range calls {
		row := Row{Hash: uint64(i) << 60, Owner: "u", Kind: "hide", Target: fmt.Sprint(i)}
		_, err := l.Record(t.Context(), time.UnixMicro(0), []Change{{Rows: []Row{row}}, {Rows: []Row{row}, Remove: true}})
		must(t, err)
		_, err = l.Lookup(t.Context(), LookupQuery{Hash: row.Hash, Owner: "u", Items: []Item{{"hide", "0"}, {"hide", "1"}}})
		must(t, err)
	}
	var generic, custom int
	err := l.db.(*postgresDatabase).pool.QueryRow(t.Context(), `SELECT sum(generic_plans), sum(custom_plans) FROM pg_prepared_statements
		WHERE statement LIKE '%entries%'`).Scan(&generic, &custom)
	if err != nil || generic < 2*calls || custom > 0 {
		t.Errorf("%d plans without and %d with the values of a call, %v, want no plan with them", generic, custom, err)
	}
}

// TestPostgresPollPlans checks that a poll reads changed pages by the index of changes, and that
// the first poll reads all pages without an index. There are many pages, whether the planner
// knows it or not.
func TestPostgresPollPlans(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, "autovacuum=off")
	d := openPostgresTest(t, s.Schema())
	conn, err := d.polls.Acquire(t.Context())
	must(t, err)
	defer conn.Release()
	for _, statement := range []string{
		`SET statement_timeout = 0`, `INSERT INTO pages SELECT n, 1, n + 3 FROM generate_series(0, 199999) n`, `VACUUM ANALYZE pages`,
		`INSERT INTO owners SELECT n, 2147483648 + n, n + 3 FROM generate_series(0, 9999) n`, `VACUUM ANALYZE owners`,
	} {
		_, err := conn.Exec(t.Context(), statement)
		must(t, err)
		for _, c := range []struct{ sql, from, running, index string }{
			{changedPagesSQL, "200001", ", '{}'", "pages_changed"},
			{changedPagesSQL, "200001", ", '{199990,199995}'", "pages_changed"},
			{changedOwnersSQL, "10001", ", '{}'", "owners_changed"},
			{changedOwnersSQL, "10001", ", '{9990,9995}'", "owners_changed"},
		} {
			_, err := conn.Exec(t.Context(), "PREPARE poll AS "+c.sql)
			must(t, err)
			plan := explain(t, conn.Conn(), fmt.Sprintf("EXECUTE poll (%s%s)", c.from, c.running))
			_, err = conn.Exec(t.Context(), "DEALLOCATE poll")
			must(t, err)
			if found := indexes(plan); !slices.Equal(found, []string{c.index}) || strings.Contains(plan, "Seq Scan") {
				t.Errorf("%s\nreads by %q, want %q:\n%s", c.sql, found, c.index, plan)
			}
		}
		for _, sql := range []string{everyPageSQL, everyOwnerSQL} {
			if plan := explain(t, conn.Conn(), sql); len(indexes(plan)) > 0 {
				t.Errorf("%s\nreads by an index:\n%s", sql, plan)
			}
		}
	}
}

func explain(t *testing.T, conn *pgx.Conn, sql string) string {
	t.Helper()
	rows, err := conn.Query(t.Context(), "EXPLAIN (COSTS OFF) "+sql, pgx.QueryExecModeSimpleProtocol)
	must(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w", sql, err))
	}
	return strings.Join(lines, "\n")
}

// indexes returns the indexes of a plan, each once. It replaces names of partitions' indexes by
// that of the whole table's.
func indexes(plan string) []string {
	names := regexp.MustCompile(`Scan(?: Backward)? using (\w+)|Bitmap Index Scan on (\w+)`).FindAllStringSubmatch(plan, -1)
	partition := regexp.MustCompile(`^entries_\d\d_(hash_owner_kind_since_target_until_idx|until_.*|target_hash_.*|pkey)\d*$`)
	var found []string
	for _, name := range names {
		index := name[1] + name[2]
		if m := partition.FindStringSubmatch(index); m != nil {
			index = map[byte]string{'h': "entries_newest", 'u': "entries_until", 't': "entries_naming", 'p': "entries_pkey"}[m[1][0]]
		}
		found = append(found, index)
	}
	slices.Sort(found)
	return slices.Compact(found)
}
