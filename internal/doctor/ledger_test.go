package doctor

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/elasticache"
	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/redisurl"
)

func TestJudgesLedger(t *testing.T) {
	t.Parallel()
	durable := ledger.Inspection{Engine: "PostgreSQL", Fsync: true, FullPageWrites: true, SynchronousCommit: "local"}
	for says, alter := range map[string]func(*ledger.Inspection){
		"fsync on, synchronous_commit local": func(*ledger.Inspection) {},
		"fsync is off":                       func(i *ledger.Inspection) { i.Fsync = false },
		"full_page_writes is off":            func(i *ledger.Inspection) { i.FullPageWrites = false },
		"synchronous_commit is off":          func(i *ledger.Inspection) { i.SynchronousCommit = "off" },
	} {
		i := durable
		alter(&i)
		f := judgeDurability(i)
		if f.found != says || (f.status == OK) != (i == durable) {
			t.Errorf("%+v, want %s", f, says)
		}
	}
	if f := judgeInspection(ledger.Inspection{Standby: true, ReadOnly: true}); f.status != Fail || !strings.Contains(f.todo, "Name the primary") {
		t.Errorf("a standby: %+v", f)
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
		{ledger.Layouts{Current: 64}, 16, "ok 64 pages, created with 16"},
		{grown, 16, "ok 64 pages, created with 16"},
		{grown, 32, "fail 64 pages, created with 16, but --pages is 32"},
		{growing, 256, "ok 256 pages, created with 16"},
		{growing, 64, "ok 256 pages, created with 16"},
		{growing, 128, "fail 256 pages, created with 16, but --pages is 128"},
		{ledger.Layouts{}, 32, "ok 16 pages"},
	} {
		f := judgePages(ledger.Inspection{Identity: ledger.Identity{Pages: 16}, Layouts: c.layouts}, c.asked)
		if got := f.status.String() + " " + f.found; got != c.want {
			t.Errorf("%+v, %d asked for: %s, want %s", c.layouts, c.asked, got, c.want)
		}
	}
}

// A wrong clock matters without PostgreSQL, and for AWS signatures.
func TestJudgesClocks(t *testing.T) {
	t.Parallel()
	plain := &redisurl.Servers{Single: &redis.Options{}}
	withIAM := &redisurl.Servers{Managed: &redisurl.Managed{Config: elasticache.Config{Name: "g", User: "u"}}}
	without := &redisurl.Servers{Managed: &redisurl.Managed{Config: elasticache.Config{Name: "g"}}}
	for _, c := range []struct {
		redis         *redisurl.Servers
		ledger        string
		ahead, within time.Duration
		want          string
	}{
		{plain, "sqlite:f", 900 * time.Millisecond, 0, "ok within a second of every server"},
		{plain, "sqlite:f", 1200 * time.Millisecond, 300 * time.Millisecond, "ok within a second of every server"},
		{plain, "sqlite:f", -1200 * time.Millisecond, 0, "warn this machine is 1.2 s behind Redis at h:6379"},
		{plain, "", time.Minute, 0, "warn this machine is 60.0 s ahead of Redis at h:6379"},
		{plain, "postgres://h/d", time.Hour, 0, "ok this machine is 3600.0 s ahead of Redis at h:6379; harmless, because the ledger's clock counts"},
		{withIAM, "postgres://h/d", 4 * time.Minute, 0, "ok this machine is 240.0 s ahead of Redis at h:6379; harmless, because the ledger's clock counts"},
		{withIAM, "postgres://h/d", -6 * time.Minute, 0, "fail this machine is 360.0 s behind Redis at h:6379"},
		{without, "postgres://h/d", -6 * time.Minute, 0, "ok this machine is 360.0 s behind Redis at h:6379; harmless, because the ledger's clock counts"},
	} {
		d := newDoctor(Config{Redis: c.redis, Ledger: c.ledger})
		f := d.judgeClocks([]apart{{"Redis at i:6379", 0, 0}, {"Redis at h:6379", c.ahead, c.within}})
		if got := f.status.String() + " " + f.found; got != c.want {
			t.Errorf("%+v: got  %s\nwant %s", c, got, c.want)
		}
	}
}

// The check reports a PostgreSQL user who may not create or change the ledger.
func TestPostgresRights(t *testing.T) {
	server := pgtest.Start(t)
	conn, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
		if got := judgeInspection(i).status; (got == Fail) != c.denied {
			t.Errorf("%s: %v", name, got)
		}
	}
}
