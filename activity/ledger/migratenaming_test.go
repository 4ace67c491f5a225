package ledger

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// beforeNaming fills a ledger of 2 pages as it was before rows could name users, and before
// kinds were declared.
const beforeNaming = `
	INSERT INTO meta VALUES ('incarnation', '5'), ('seed', '6'), ('pages', '2');
	INSERT INTO pages (page, sequence, changed) VALUES (0, 7, 1), (1, 3, 2);
	INSERT INTO entries (hash, owner, kind, target, since, until) VALUES
		(-9223372036854775807, 'u', 'block', 't', 42, NULL), (-9223372036854775807, 'u', 'hide', 'p', 43, 50),
		(0, 't', 'blocked-by', 'u', 42, NULL), (0, 't', 'odd', 'u', 44, NULL)`

// checkNamed uses all new features on a ledger of beforeNaming.
func checkNamed(t *testing.T, l *Ledger) {
	t.Helper()
	if id := l.Identity(); id.Incarnation == 5 || id.Incarnation == 0 || id.Seed != 6 || id.Pages != 2 {
		t.Errorf("identity %+v", id)
	}
	us := func(n int64) time.Time { return time.UnixMicro(n).UTC() }
	block := Row{Hash: 1, Owner: "u", Kind: "block", Target: "t", Since: us(42)}
	hide := Row{Hash: 1, Owner: "u", Kind: "hide", Target: "p", Since: us(43), Until: us(50)}
	check := func(rows []Row, err error, want ...Row) {
		t.Helper()
		if err != nil || !slices.Equal(rows, want) {
			t.Errorf("rows %v, %v, want %v", rows, err, want)
		}
	}
	rows, s, err := l.Snapshot(t.Context(), 0)
	check(rows, err, block, hide)
	if s.Sequence != 7 {
		t.Errorf("page 0 at %d, want 7", s.Sequence)
	}
	rows, err = l.Owned(t.Context(), 1, "u", nil, 9)
	check(rows, err, block, hide)
	rows, err = l.Lookup(t.Context(), LookupQuery{Hash: 1, Owner: "u", Now: us(50), Items: []Item{{"hide", "p"}, {"block", "t"}}})
	check(rows, err, block)
	count := CountQuery{Hash: 1 << 63, Owner: "t", Kinds: []string{"blocked-by"}, Now: us(50), Most: 9}
	if n, err := l.Counts(t.Context(), count); n["blocked-by"] != 1 || err != nil {
		t.Errorf("rows %v, %v, want 1", n, err)
	}

	mute := Row{Hash: 1, Owner: "u", Kind: "mute", Target: "t", Since: us(60), Names: true, TargetHash: 1 << 63}
	if _, err := l.Record(t.Context(), us(60), []Change{{Rows: []Row{mute}, Limit: 1}}); err != nil {
		t.Error(err)
	}
	mute.Names, mute.TargetHash = false, 0
	rows, err = l.Naming(t.Context(), 1<<63, "t", nil, 9)
	check(rows, err, mute)

	// The built-in kinds are declared. Other kinds are unknown.
	built := []Kind{{"block", "blocked-by", User, ""}, {"hide", "", Post, ""}, {"like", "", Post, ""}}
	if kinds, err := l.Kinds(t.Context()); err != nil || !slices.Equal(kinds, built) {
		t.Errorf("kinds %v, %v, want %v", kinds, err, built)
	}
	if err := l.Declare(t.Context(), []Kind{built[1], {"block", "", User, ""}}); err == nil {
		t.Error("Declare changed block, which has a row")
	}
	if err := l.Declare(t.Context(), []Kind{built[0], built[1], {"mute", "", User, ""}}); err != nil {
		t.Error(err)
	}
}

func TestMigrateNaming(t *testing.T) {
	checkNamed(t, openFile(t, sqliteOf(t, 2, beforeNaming), Options{}))
}

func TestPostgresMigrateNaming(t *testing.T) {
	url, _ := postgresOf(t, pgtest.Start(t), 1, beforeNaming)
	checkNamed(t, openURL(t, url, Options{}))
}

// sqliteOf creates a file as it was after the given number of migrations.
func sqliteOf(t *testing.T, versions int, script string) (file string) {
	t.Helper()
	file = temporary(t)
	db, err := connect(file, writerParameters, 1)
	must(t, err)
	must(t, migrate(t.Context(), db, only(t, migrationsOf("sqlite"), versions)))
	_, err = db.ExecContext(t.Context(), script)
	must(t, err)
	must(t, db.Close())
	return file
}

// postgresOf creates a ledger as it was after the given number of migrations. It returns the URL,
// and a connection to the database.
func postgresOf(t *testing.T, server *pgtest.Server, versions int, script string) (url string, conn *pgx.Conn) {
	t.Helper()
	url = server.Schema()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	must(t, createSchema(t.Context(), conn, conn.Config().RuntimeParams["search_path"]))
	must(t, migratePostgres(t.Context(), conn, only(t, migrationsOf("postgres"), versions)))
	_, err = conn.PgConn().Exec(t.Context(), script).ReadAll()
	must(t, err)
	return url, conn
}
