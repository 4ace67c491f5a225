package main

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

func makeLedger(t *testing.T, url string, pages uint32) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(t.Context(), url, ledger.Options{Pages: pages})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestDoctorSQLite(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	file := filepath.Join(directory, "ledger.db")
	url := "sqlite:" + file
	g := diagnose(t, nil, "--ledger", url)
	g.wantOnly(t)
	g.want(t, "redis", "skip", "in the process")
	g.want(t, "ledger", "warn", file, "first start")
	g.want(t, "ledger schema", "skip", "no ledger yet")
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a ledger was made: %v", err)
	}

	l := makeLedger(t, url, 64)
	g = diagnose(t, nil, "--ledger", url)
	g.wantOnly(t)
	g.want(t, "ledger", "ok", "SQLite 3.", file)
	if runtime.GOOS == "linux" {
		g.want(t, "ledger", "ok", "in use by process "+strconv.Itoa(os.Getpid()))
	}
	g.want(t, "ledger schema", "ok", "latest")
	g.want(t, "ledger pages", "ok", "64")
	g.want(t, "durability", "ok")
	diagnose(t, nil, "--ledger", url, "--pages=64").want(t, "ledger pages", "ok", "64")
	g = diagnose(t, nil, "--ledger", url, "--pages=128")
	g.wantOnly(t, "ledger pages")
	g.want(t, "ledger pages", "fail", "made with 64, 128", "--pages 64")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}

	for version, want := range map[string][]string{"1": {"warn", "brings it up to date"}, "99": {"fail", "Use the version"}} {
		db, err := sql.Open("sqlite", file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), "PRAGMA user_version = "+version); err != nil {
			t.Fatal(err)
		}
		db.Close()
		diagnose(t, nil, "--ledger", url).want(t, "ledger schema", want[0], "version "+version, want[1])
	}
	if err := os.WriteFile(file, []byte(strings.Repeat("no database", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	g = diagnose(t, nil, "--ledger", url)
	g.wantOnly(t, "ledger")
	g.want(t, "ledger", "fail", file, "See to the file")
	g.want(t, "ledger schema", "skip", "cannot be read")
	g = diagnose(t, nil, "--ledger", "none")
	g.wantOnly(t)
	g.want(t, "ledger", "skip", "none")
}

func TestDoctorPostgres(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, "fsync=on")
	url := s.Schema()
	diagnose(t, nil, "--ledger", url).want(t, "ledger", "warn", "none has been made yet")
	makeLedger(t, url, 64)
	r := redistest.Start(t)
	g := diagnose(t, nil, "--ledger", url, "--redis", r.URL())
	g.wantOnly(t)
	g.want(t, "ledger", "ok", "PostgreSQL 1", s.Addr())
	g.want(t, "ledger schema", "ok")
	g.want(t, "durability", "ok", "synchronous_commit on")
	g.want(t, "clocks", "ok", "Redis and PostgreSQL")

	// A clock that is off: with a ledger on PostgreSQL nothing depends on it.
	off := func(d *doctor) { d.now = func() time.Time { return time.Now().Add(-time.Hour) } }
	diagnose(t, off, "--ledger", url, "--redis", r.URL()).want(t, "clocks", "ok", "3600.0 s behind", "nothing depends")
	diagnose(t, off, "--ledger", url).want(t, "clocks", "ok", "3600.0 s behind PostgreSQL")
	diagnose(t, off, "--redis", r.URL()).want(t, "clocks", "warn", "behind Redis at "+r.Addr(), "NTP")

	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for _, c := range []struct{ set, check, status, says string }{
		{"ALTER SYSTEM SET full_page_writes = off", "durability", "warn", "full_page_writes is off"},
		{"ALTER SYSTEM RESET full_page_writes", "durability", "ok", "fsync on"},
		{"ALTER SYSTEM SET default_transaction_read_only = on", "ledger", "fail", "default_transaction_read_only"},
		{"ALTER SYSTEM RESET ALL", "ledger", "ok", ""},
	} {
		for _, statement := range []string{"SET default_transaction_read_only = off", c.set, "SELECT pg_reload_conf()"} {
			if _, err := conn.Exec(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		// The server takes a moment to read its settings.
		var g diagnosis
		for deadline := time.Now().Add(time.Minute); ; {
			if g = diagnose(t, nil, "--ledger", url); g.check(t, c.check).Status == c.status || time.Now().After(deadline) {
				break
			}
		}
		g.want(t, c.check, c.status, c.says)
	}
	s.Kill()
	g = diagnose(t, nil, "--redis", r.URL(), "--ledger", strings.Replace(url, "postgres@", "postgres:secret@", 1))
	g.wantOnly(t, "ledger")
	g.want(t, "ledger", "fail", s.Addr(), "See that the server runs")
	g.want(t, "page read", "ok")
	for _, c := range g.Checks {
		if strings.Contains(c.Found+c.Todo, "secret") {
			t.Errorf("the password shows: %+v", c)
		}
	}
}

// nodeOf is one that tells that of itself.
func nodeOf(addr string, lines ...string) *redisNode {
	text := strings.Join(lines, "\r\n")
	return &redisNode{addr: addr, info: infoFields(text), cluster: infoFields(text)}
}

// What servers tell, and what it comes to.
func TestDoctorJudges(t *testing.T) {
	t.Parallel()
	discard := slog.New(slog.DiscardHandler)
	plain := newDoctor(&dataFlags{Redis: "redis://h"}, discard)
	for _, c := range []struct {
		judge func(*redisNode) finding
		info  string
		want  string
	}{
		{judgeEngine, "redis_version:5.0.14", "fail Redis 5.0.14"},
		{judgeEngine, "redis_version:6.0.0", "ok Redis 6.0.0"},
		{judgeEngine, "redis_version:10.0.0", "ok Redis 10.0.0"},
		{judgeEngine, "redis_version:7.2.4|server_name:valkey|valkey_version:8.1.0", "ok Valkey 8.1.0"},
		{judgeEngine, "", "skip the server does not tell what it is"},
		{plain.judgeRole, "role:slave|master_host:h|master_port:1", "fail a replica of h:1"},
		{plain.judgeRole, "", "skip not told"},
		{judgeMemory, "used_memory:2147483648", "ok 2.0 GiB used"},
		{judgeMemory, "used_memory:1000|maxmemory:0", "ok 1000 B used, no limit set"},
		{judgeMemory, "used_memory:80|maxmemory:100", "ok 80 B of 100 B used, 80 %"},
		{judgeMemory, "used_memory:81|maxmemory:100", "warn 81 B of 100 B used, 81 %"},
		{judgeMemory, "", "skip not told"},
		{plain.judgeEviction, "", "skip not told"},
		{plain.judgeEviction, "evicted_keys:0", "ok policy not told"},
		{plain.judgeReplication, "", "skip not told"},
		{plain.judgeReplication, "role:slave|connected_slaves:0", "skip a replica's own replicas do not count"},
		{plain.judgeReplication, "role:master|connected_slaves:2|master_repl_offset:5|slave0:ip=h,port=1,state=online,offset=5,lag=0|slave1:ip=h,port=2,state=online,offset=1,lag=1", "ok 2 replicas in step"},
		{plain.judgeReplication, "role:master|connected_slaves:1|slave0:ip=h,port=1,state=wait_bgsave,offset=0,lag=0", `warn replica h:1 is in state "wait_bgsave"`},
		{plain.judgeReplication, "role:master|connected_slaves:1|master_repl_offset:3145728|slave0:ip=h,port=1,state=online,offset=0,lag=0", "warn 1 replicas, up to 3.0 MiB behind, last heard of 0 s ago"},
		{plain.judgeReplication, "role:master|connected_slaves:1|slave0:ip=h,port=1,state=online,lag=9", "warn 1 replicas, up to 0 B behind, last heard of 9 s ago"},
		{judgeCluster, "cluster_state:ok|cluster_slots_assigned:16384|cluster_known_nodes:6", "ok state ok, 16384 of 16384 slots assigned, 6 nodes"},
		{judgeCluster, "cluster_state:fail|cluster_slots_assigned:16384|cluster_known_nodes:6", "fail state fail, 16384 of 16384 slots assigned, 6 nodes"},
		{judgeCluster, "cluster_state:ok|cluster_slots_assigned:16384|cluster_known_nodes:6|cluster_slots_fail:9", "fail state ok, 16384 of 16384 slots assigned, 6 nodes, 9 slots on nodes that do not answer"},
		{judgeCluster, "cluster_state:ok|cluster_slots_assigned:16384|cluster_known_nodes:6|cluster_slots_pfail:9", "warn state ok, 16384 of 16384 slots assigned, 6 nodes, 9 slots on nodes that do not answer"},
		{judgeCluster, "", "skip not told"},
	} {
		f := c.judge(nodeOf("h:1", strings.Split(c.info, "|")...))
		if got := f.verdict.String() + " " + f.found; got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.info, got, c.want)
		}
	}
	mixed := &doctor{nodes: []*redisNode{nodeOf("h:1", "redis_version:7.0.1"), nodeOf("h:2", "redis_version:7.0.2")}}
	if f := mixed.judgeEngines(); f.verdict != verdictWarn || f.found != "different versions: h:1: Redis 7.0.1; h:2: Redis 7.0.2" {
		t.Errorf("%+v", f)
	}
}

func TestDoctorJudgesLedger(t *testing.T) {
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
		if f.found != says || (f.verdict == verdictOK) != (i == durable) {
			t.Errorf("%+v, want %s", f, says)
		}
	}
	if f := judgeInspection(ledger.Inspection{Standby: true, ReadOnly: true}); f.verdict != verdictFail || !strings.Contains(f.todo, "Name the primary") {
		t.Errorf("a standby: %+v", f)
	}
	const ms = time.Millisecond
	if f := judgeRoundTrips([]time.Duration{9 * ms, ms, ms}); f.verdict != verdictOK || f.found != "1.00 ms, 9.00 ms at most, of 3" {
		t.Errorf("%+v", f)
	}
	if f := judgeRoundTrips([]time.Duration{ms, 3 * ms, 3 * ms}); f.verdict != verdictWarn {
		t.Errorf("%+v", f)
	}
}

// The clock matters where times are this machine's, and where AWS looks at it.
func TestDoctorJudgesClocks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		redis, ledger string
		ahead, within time.Duration
		want          string
	}{
		{"redis://h", "sqlite:f", 900 * time.Millisecond, 0, "ok within a second of Redis"},
		{"redis://h", "sqlite:f", 1200 * time.Millisecond, 300 * time.Millisecond, "ok within a second of Redis"},
		{"redis://h", "sqlite:f", -1200 * time.Millisecond, 0, "warn this machine is 1.2 s behind Redis at h:6379"},
		{"redis://h", "none", time.Minute, 0, "warn this machine is 60.0 s ahead of Redis at h:6379"},
		{"redis://h", "postgres://h/d", time.Hour, 0, "ok this machine is 3600.0 s ahead of Redis at h:6379; times are the ledger's, so nothing depends on it"},
		{"elasticache://g?user=u", "postgres://h/d", 4 * time.Minute, 0, "ok this machine is 240.0 s ahead of Redis at h:6379; times are the ledger's, so nothing depends on it"},
		{"elasticache://g?user=u", "postgres://h/d", -6 * time.Minute, 0, "fail this machine is 360.0 s behind Redis at h:6379"},
		{"elasticache://g", "postgres://h/d", -6 * time.Minute, 0, "ok this machine is 360.0 s behind Redis at h:6379; times are the ledger's, so nothing depends on it"},
	} {
		d := newDoctor(&dataFlags{Redis: c.redis, Ledger: c.ledger}, slog.New(slog.DiscardHandler))
		f := d.judgeClocks([]apart{{"Redis at i:6379", 0, 0}, {"Redis at h:6379", c.ahead, c.within}})
		if got := f.verdict.String() + " " + f.found; got != c.want {
			t.Errorf("%s, %s: got  %s\nwant %s", c.redis, c.ledger, got, c.want)
		}
	}
}
