package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/elasticache"
	"github.com/feedfilter/feedfilter/internal/redisurl"
)

// serverOf returns a server that reports these lines.
func serverOf(addr string, lines ...string) *server {
	s := &server{addr: addr, info: make(map[string]string)}
	_ = s.read(strings.Join(lines, "\r\n"), nil)
	return s
}

// TestJudges checks the findings for what servers report.
func TestJudges(t *testing.T) {
	t.Parallel()
	plain := newDoctor(Config{Redis: &redisurl.Servers{Single: &redis.Options{}}, Ledger: "sqlite:f"})
	for _, c := range []struct {
		judge func(*server) finding
		info  string
		want  string
	}{
		{judgeEngine, "redis_version:5.0.14", "fail Redis 5.0.14"},
		{judgeEngine, "redis_version:6.0.0", "ok Redis 6.0.0"},
		{judgeEngine, "redis_version:10.0.0", "ok Redis 10.0.0"},
		{judgeEngine, "redis_version:7.2.4|server_name:valkey|valkey_version:8.1.0", "ok Valkey 8.1.0"},
		{judgeEngine, "", "skip the server does not report its version"},
		{plain.judgeMemory, "used_memory:2147483648", "ok 2.0 GiB used, no limit set"},
		{plain.judgeMemory, "used_memory:1000|maxmemory:0", "ok 1000 B used, no limit set"},
		{plain.judgeMemory, "used_memory:80|maxmemory:100", "ok 80 B of 100 B used, 80 %"},
		{plain.judgeMemory, "used_memory:81|maxmemory:100", "warn 81 B of 100 B used, 81 %"},
		{plain.judgeMemory, "used_memory:500|maxmemory:100", "warn 500 B of 100 B used, 500 %"},
		{plain.judgeMemory, "", "skip not reported"},
		{plain.judgeMemory, "used_memory:-5|maxmemory:100", "skip not reported"},
		{plain.judgeMemory, "used_memory:80|maxmemory:-1", "ok 80 B used, no limit set"},
		{plain.judgeMemory, "used_memory:1|maxmemory_policy:noeviction|evicted_keys:-1", "ok 1 B used, no limit set, policy noeviction"},
		{plain.judgeMemory, "used_memory:1|maxmemory_policy:allkeys-lru|evicted_keys:x", "fail 1 B used, no limit set, policy allkeys-lru"},
		{plain.judgeMemory, "used_memory:1|maxmemory_policy:noeviction|evicted_keys:3", "warn 1 B used, no limit set, policy noeviction, 3 keys evicted since the server started"},
		{plain.judgeReplicas, "role:master|connected_slaves:-1", "skip replicas not reported"},
		{plain.judgeReplicas, "role:master|connected_slaves:9223372036854775807|slave0:ip=h,port=1,state=online,offset=0,lag=0", "ok replicas up to date: 1"},
		{plain.judgeReplicas, "", "skip replicas not reported"},
		{plain.judgeReplicas, "role:master|connected_slaves:2|master_repl_offset:5|slave0:ip=h,port=1,state=online,offset=5,lag=0|slave1:ip=h,port=2,state=online,offset=1,lag=1", "ok replicas up to date: 2"},
		{plain.judgeReplicas, "role:master|connected_slaves:1|slave0:ip=h,port=1,state=wait_bgsave,offset=0,lag=0", `warn replica h:1 is in state "wait_bgsave", 0 B behind, last contact 0 s ago`},
		{plain.judgeReplicas, "role:master|connected_slaves:1|master_repl_offset:3145728|slave0:ip=h,port=1,state=online,offset=0,lag=0", `warn replica h:1 is in state "online", 3.0 MiB behind, last contact 0 s ago`},
		{plain.judgeReplicas, "role:master|connected_slaves:1|slave0:ip=h,port=1,state=online,lag=9", `warn replica h:1 is in state "online", 0 B behind, last contact 9 s ago`},
		{judgeCluster, "cluster_state:ok|cluster_slots_assigned:-1|cluster_known_nodes:6", "ok state ok, 6 nodes"},
		{judgeCluster, "cluster_state:fail", "fail state fail"},
		{judgeCluster, "cluster_state:ok|cluster_slots_fail:-7", "ok state ok"},
		{judgeCluster, "cluster_state:ok|cluster_slots_assigned:16384|cluster_known_nodes:6", "ok state ok, 16384 of 16384 slots assigned, 6 nodes"},
		{judgeCluster, "cluster_state:fail|cluster_slots_assigned:16384|cluster_known_nodes:6", "fail state fail, 16384 of 16384 slots assigned, 6 nodes"},
		{judgeCluster, "cluster_state:ok|cluster_slots_assigned:16384|cluster_known_nodes:6|cluster_slots_fail:9", "fail state ok, 16384 of 16384 slots assigned, 6 nodes, 9 slots on unreachable nodes"},
		{judgeCluster, "cluster_state:ok|cluster_slots_assigned:16384|cluster_known_nodes:6|cluster_slots_pfail:9", "warn state ok, 16384 of 16384 slots assigned, 6 nodes, 9 slots on unreachable nodes"},
		{judgeCluster, "", "ok "},
		{plain.judgeNode, "role:master|connected_slaves:0|cluster_state:ok", "warn state ok; primary; no replica"},
		{plain.judgeNode, "role:slave|master_host:h|master_port:1|connected_slaves:0", "fail a replica of h:1"},
		{plain.judgeNode, "", "skip role not reported"},
	} {
		f := c.judge(serverOf("h:1", strings.Split(c.info, "|")...))
		if got := f.status.String() + " " + f.found; got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.info, got, c.want)
		}
	}
}

// Nodes with different versions are an upgrade that is not finished. The finding shows each
// version, however many nodes have the first one.
func TestVersionsDiffer(t *testing.T) {
	t.Parallel()
	d := newDoctor(Config{Redis: &redisurl.Servers{Cluster: &redis.ClusterOptions{}}})
	for version, want := range map[string]string{
		"7.0.1": "ok Redis 7.0.1 (all 5 nodes)",
		"7.0.2": "warn different versions: 127.0.0.1:1: Redis 7.0.1; 127.0.0.1:5: Redis 7.0.2",
	} {
		d.nodes = nil
		for i, of := range []string{"7.0.1", "7.0.1", "7.0.1", "7.0.1", version} {
			d.nodes = append(d.nodes, infoServer(t, fmt.Sprintf("127.0.0.1:%d", i+1), "redis_version:"+of))
		}
		f := checkServer(t.Context(), d)
		if got := f.status.String() + " " + f.found; got != want || (f.status == Warn) != strings.Contains(f.todo, "upgrade") {
			t.Errorf("%s -> %s, want %s", got, f.todo, want)
		}
	}
}

// infoServer returns a server that answers INFO with a text.
func infoServer(t *testing.T, addr, text string) *server {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr})
	client.AddHook(answer("redis_mode:standalone\r\n" + text))
	t.Cleanup(func() { _ = client.Close() })
	return &server{addr: addr, client: client}
}

// answer is a hook that answers every command.
type answer string

func (answer) DialHook(next redis.DialHook) redis.DialHook { return next }

func (answer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (a answer) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, command redis.Cmder) error {
		command.(*redis.StringCmd).SetVal(string(a))
		return nil
	}
}

// URLs to try have the transport and the user of --redis, never the password.
func TestURLsToTry(t *testing.T) {
	t.Parallel()
	noAuth := func(d *doctor) string { return d.advice("sign-in", errors.New("NOAUTH Authentication required")) }
	topology := func(info string) func(*doctor) string {
		return func(d *doctor) string {
			d.nodes = []*server{serverOf("h:1", info)}
			return checkTopology(t.Context(), d).todo
		}
	}
	sentinel := func(d *doctor) string { return d.advice("sentinel", errors.New("NOAUTH Authentication required")) }
	for _, c := range []struct {
		url  string
		todo func(*doctor) string
		want string
	}{
		{"redis://h:1", topology("redis_mode:cluster"), "Use --redis redis+cluster://h:1."},
		{"rediss://h:1", topology("redis_mode:cluster"), "Use --redis rediss+cluster://h:1."},
		{"rediss://app:secret@h:1", topology("redis_mode:cluster"), "Use --redis rediss+cluster://app:<password>@h:1."},
		{"redis://:secret@h:1", topology("redis_mode:sentinel"), "Use --redis redis+sentinel://:<password>@h:1/<primary>."},
		{"rediss://a%40b:secret@h:1", topology("redis_mode:sentinel"), "Use --redis rediss+sentinel://a%40b:<password>@h:1/<primary>."},
		{"rediss+cluster://app:secret@h:1", topology("redis_mode:standalone"), "Use --redis rediss://app:<password>@h:1."},
		{"redis+cluster://h:1", topology("redis_mode:standalone"), "Use --redis redis://h:1."},
		{"redis://h:1", noAuth, "Give a password: redis://<user>:<password>@<host>:<port>."},
		{"rediss://app@h:1", noAuth, "Give a password: rediss://app:<password>@<host>:<port>."},
		{"rediss+cluster://h:1", noAuth, "Give a password: rediss+cluster://<user>:<password>@<host>:<port>."},
		{
			"rediss+sentinel://h:1/p?username=app&password=secret", sentinel,
			"Give the sentinels' own user and password before the hosts: rediss+sentinel://<user>:<password>@<host>:<port>/<primary>.",
		},
	} {
		servers, err := redisurl.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.todo(newDoctor(Config{Redis: servers})); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.url, got, c.want)
		}
	}
}

// A serverless cache gets no advice about settings, which AWS alone controls.
func TestJudgesServerless(t *testing.T) {
	t.Parallel()
	d := newDoctor(Config{Redis: &redisurl.Servers{Managed: &redisurl.Managed{Config: elasticache.Config{Name: "c", Serverless: true}}}})
	if f := d.judgeMemory(serverOf("h:1", "used_memory:1", "maxmemory_policy:volatile-lru")); f.status != OK {
		t.Errorf("%+v", f)
	}
	if f := d.judgeNode(serverOf("h:1", "role:master", "connected_slaves:0")); f.status != OK {
		t.Errorf("%+v", f)
	}
}

// Without a ledger, advice does not promise that pages are rebuilt.
func TestJudgesWithoutLedger(t *testing.T) {
	t.Parallel()
	server := serverOf("h:1", "role:master", "connected_slaves:0", "used_memory:1", "maxmemory_policy:allkeys-lru")
	evicted := serverOf("h:1", "used_memory:1", "maxmemory_policy:noeviction", "evicted_keys:3")
	for url, says := range map[string]string{"": "without a ledger", "sqlite:f": "rebuilt"} {
		d := newDoctor(Config{Redis: &redisurl.Servers{Single: &redis.Options{}}, Ledger: url})
		for _, f := range []finding{d.judgeReplicas(server), d.judgeMemory(evicted)} {
			if f.status != Warn || !strings.Contains(f.todo, says) {
				t.Errorf("%q: %+v, want %s", url, f, says)
			}
		}
		if f := d.judgeMemory(server); f.status != Fail || strings.Contains(f.todo, "without a ledger") != (url == "") {
			t.Errorf("%q: %+v", url, f)
		}
	}
}
