package doctor

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/follow"
	"github.com/feedfilter/feedfilter/internal/pgtest"
)

func TestJudgesLedger(t *testing.T) {
	t.Parallel()
	sound := ledger.Inspection{
		Engine: "PostgreSQL", Version: "15.4", Name: "h/d", Schema: 9, Oldest: 9, Known: 9, Fsync: true, FullPageWrites: true, SynchronousCommit: "local",
	}
	for says, alter := range map[string]func(*ledger.Inspection){
		"ok PostgreSQL 15.4, h/d; schema version 9": func(*ledger.Inspection) {},
		"warn ; fsync is off":                       func(i *ledger.Inspection) { i.Fsync = false },
		"warn ; full_page_writes is off":            func(i *ledger.Inspection) { i.FullPageWrites = false },
		"warn ; synchronous_commit is off":          func(i *ledger.Inspection) { i.SynchronousCommit = "off" },
		"warn , latest is 10":                       func(i *ledger.Inspection) { i.Known = 10 },
		"fail , this program supports at most 8":    func(i *ledger.Inspection) { i.Known = 8 },
		"fail , this program supports at least 10":  func(i *ledger.Inspection) { i.Oldest, i.Known = 10, 11 },
		"fail , a standby":                          func(i *ledger.Inspection) { i.Standby, i.ReadOnly = true, true },
		"fail , read only":                          func(i *ledger.Inspection) { i.ReadOnly, i.Fsync = true, false },
		"fail , but the user may not change":        func(i *ledger.Inspection) { i.Denied = true },
	} {
		i := sound
		alter(&i)
		f := (&doctor{}).judgeLedger(i)
		status, found, _ := strings.Cut(says, " ")
		if f.status.String() != status || !strings.Contains(f.found, found) || (f.todo == "") != (f.status == OK) {
			t.Errorf("%+v, want %s", f, says)
		}
	}
}

// --pages must be the number of one of the ledger's layouts. A ledger of an older schema does not
// report its layouts.
func TestJudgesPages(t *testing.T) {
	t.Parallel()
	grown := ledger.Layouts{Current: 64, Leaving: 16}
	growing := ledger.Layouts{Current: 64, Building: 256}
	for _, c := range []struct {
		layouts ledger.Layouts
		asked   uint32
		want    string
	}{
		{ledger.Layouts{Current: 16}, 0, "ok 16 pages"},
		{ledger.Layouts{Current: 16}, 16, "ok 16 pages"},
		{ledger.Layouts{Current: 16}, 32, "fail 16 pages, but --pages is 32"},
		{ledger.Layouts{Current: 64}, 16, "ok 64 pages"},
		{grown, 16, "ok 64 pages"},
		{grown, 32, "fail 64 pages, but --pages is 32"},
		{growing, 256, "ok 256 pages"},
		{growing, 64, "ok 256 pages"},
		{growing, 128, "fail 256 pages, but --pages is 128"},
		{ledger.Layouts{}, 32, "ok 16 pages"},
	} {
		d := &doctor{Config: Config{Pages: c.asked}}
		f := d.judgeLedger(ledger.Inspection{Identity: ledger.Identity{Pages: 16}, Layouts: c.layouts})
		_, pages, _ := strings.Cut(f.found, "schema version 0; ")
		if got := f.status.String() + " " + pages; got != c.want {
			t.Errorf("%+v, %d asked for: %s, want %s", c.layouts, c.asked, got, c.want)
		}
	}
}

// A source without a follower is a warning. One that the service could not follow fails.
func TestJudgesSources(t *testing.T) {
	t.Parallel()
	now := time.Now()
	held := ledger.Source{Name: "app", Holder: "one", Until: now.Add(time.Second)}
	idle := ledger.Source{Name: "b", Holder: "two", Until: now}
	sound := follow.Report{Server: "15.4", Slot: "ready"}
	lacking := follow.Report{Problems: []follow.Problem{{What: "there is no publication"}}}
	for _, c := range []struct {
		sources []ledger.Source
		report  *follow.Report
		err     error
		want    string
	}{
		{nil, nil, nil, "ok "},
		{[]ledger.Source{held}, nil, nil, "ok app is followed by one"},
		{[]ledger.Source{held, idle}, nil, nil, "warn app is followed by one; b is followed by nobody"},
		{[]ledger.Source{idle}, &sound, nil, "warn b is followed by nobody; PostgreSQL 15.4 at --source, replication slot ready"},
		{nil, &sound, nil, "ok PostgreSQL 15.4 at --source, replication slot ready"},
		{[]ledger.Source{held}, &lacking, nil, "fail there is no publication"},
		{nil, &follow.Report{}, fs.ErrPermission, "fail permission denied"},
	} {
		d := &doctor{ledger: &ledger.Inspection{Sources: c.sources, Clock: now}}
		if c.report != nil {
			d.Source = func(context.Context) (follow.Report, error) { return *c.report, c.err }
		}
		f := d.sources(t.Context())
		if got := f.status.String() + " " + f.found; got != c.want || (f.todo == "") != (f.status == OK) {
			t.Errorf("%s -> %q, want %s", got, f.todo, c.want)
		}
	}
}

// The check reports a PostgreSQL user who may not create or change the ledger.
func TestLedgerRights(t *testing.T) {
	server := pgtest.Start(t)
	conn, err := pgx.Connect(t.Context(), server.URL())
	must(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	do := func(statement string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	do(`CREATE ROLE reader LOGIN`)
	do(`REVOKE CREATE ON DATABASE postgres FROM PUBLIC`)
	url := server.Schema()
	_, rest, _ := strings.Cut(url, "@")
	asReader := "postgres://reader@" + rest
	if _, err := ledger.Inspect(t.Context(), url); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a user with CREATE: %v", err)
	}
	if _, err := ledger.Inspect(t.Context(), asReader); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "reader may not create") {
		t.Errorf("a user without CREATE: %v", err)
	}
	l, err := ledger.Open(t.Context(), url, ledger.Options{Pages: 16})
	must(t, err)
	defer func() { _ = l.Close() }()
	_, schema, _ := strings.Cut(url, "search_path=")
	schema, _, _ = strings.Cut(schema, "&")
	do(`GRANT USAGE ON SCHEMA ` + schema + ` TO reader`)
	do(`GRANT SELECT ON ALL TABLES IN SCHEMA ` + schema + ` TO reader`)
	for name, c := range map[string]struct {
		url    string
		denied bool
	}{"owner": {url, false}, "reader": {asReader, true}} {
		i, err := ledger.Inspect(t.Context(), c.url)
		if err != nil || i.Denied != c.denied {
			t.Errorf("%s: denied %v, %v", name, i.Denied, err)
		}
		if got := (&doctor{}).judgeLedger(i).status; (got == Fail) != c.denied {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestOneLine: a missing database is the reason, not that the server has no TLS, which pgx tries
// first. Without another reason, the missing TLS is one.
func TestOneLine(t *testing.T) {
	t.Parallel()
	at := "postgres://postgres@" + pgtest.Start(t).Addr()
	for url, want := range map[string]string{
		at + "/nosuch":                   `database "nosuch" does not exist`,
		at + "/postgres?sslmode=require": "server refused TLS connection",
	} {
		_, err := ledger.Open(t.Context(), url, ledger.Options{Pages: 16})
		if err == nil {
			t.Fatalf("%s opens", url)
		}
		got := OneLine(err)
		if tls := strings.Contains(got, "refused TLS"); !strings.Contains(got, want) || strings.Contains(got, "\n") || tls != strings.Contains(want, "TLS") {
			t.Errorf("%s: %s", url, got)
		}
	}
}
