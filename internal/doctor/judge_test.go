package doctor

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/elasticache"
)

// serverOf is one that tells that of itself.
func serverOf(addr string, lines ...string) *server {
	text := strings.Join(lines, "\r\n")
	return &server{addr: addr, info: infoFields(text), cluster: infoFields(text)}
}

// What servers tell, and what it comes to.
func TestJudges(t *testing.T) {
	t.Parallel()
	plain := New(Config{Redis: &Servers{Single: &redis.Options{}}, Ledger: "sqlite:f"})
	for _, c := range []struct {
		judge func(*server) finding
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
		{judgeMemory, "used_memory:500|maxmemory:100", "warn 500 B of 100 B used, 500 %"},
		{judgeMemory, "used_memory:-5|maxmemory:100", `skip how much is used is not told; not understood: used_memory is "-5"`},
		{judgeMemory, "used_memory:80|maxmemory:-1", `skip 80 B used; not understood: maxmemory is "-1"`},
		{judgeMemory, "used_memory:1e9", `skip how much is used is not told; not understood: used_memory is "1e9"`},
		{plain.judgeEviction, "maxmemory_policy:noeviction|evicted_keys:-1", `ok policy noeviction; not understood: evicted_keys is "-1"`},
		{plain.judgeEviction, "maxmemory_policy:allkeys-lru|evicted_keys:x", `fail policy allkeys-lru; not understood: evicted_keys is "x"`},
		{plain.judgeReplication, "role:master|connected_slaves:-1", `skip not told; not understood: connected_slaves is "-1"`},
		{plain.judgeReplication, "role:master|connected_slaves:9223372036854775807|slave0:ip=h,port=1,state=online,offset=0,lag=0", "skip 9223372036854775807 replicas, of which 1 are told of"},
		{plain.judgeReplication, "role:master|connected_slaves:1|master_repl_offset:9|slave0:ip=h,port=1,state=online,offset=-1,lag=z", `skip 1 replicas; not understood: offset is "-1"; lag is "z"`},
		{judgeCluster, "cluster_state:ok|cluster_slots_assigned:-1|cluster_known_nodes:6", `ok state ok, 6 nodes; not understood: cluster_slots_assigned is "-1"`},
		{judgeCluster, "cluster_state:fail", "fail state fail"},
		{judgeCluster, "cluster_state:ok|cluster_slots_fail:-7", `ok state ok; not understood: cluster_slots_fail is "-7"`},
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
		f := c.judge(serverOf("h:1", strings.Split(c.info, "|")...))
		if got := f.status.String() + " " + f.found; got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.info, got, c.want)
		}
	}
	mixed := &Doctor{examined: examined{nodes: []*server{serverOf("h:1", "redis_version:7.0.1"), serverOf("h:2", "redis_version:7.0.2")}}}
	if f := mixed.judgeEngines(); f.status != Warn || f.found != "different versions: h:1: Redis 7.0.1; h:2: Redis 7.0.2" {
		t.Errorf("%+v", f)
	}
}

// Of a serverless cache AWS alone has settings.
func TestJudgesServerless(t *testing.T) {
	t.Parallel()
	d := New(Config{Redis: &Servers{Managed: &Managed{Config: elasticache.Config{Name: "c", Serverless: true}}}})
	if f := d.judgeEviction(serverOf("h:1", "maxmemory_policy:volatile-lru")); f.status != OK {
		t.Errorf("%+v", f)
	}
	if f := d.judgeReplication(serverOf("h:1", "role:master", "connected_slaves:0")); f.status != Skip {
		t.Errorf("%+v", f)
	}
}

// Without a ledger nothing is made anew.
func TestJudgesWithoutLedger(t *testing.T) {
	t.Parallel()
	server := serverOf("h:1", "role:master", "connected_slaves:0", "maxmemory_policy:allkeys-lru")
	evicted := serverOf("h:1", "maxmemory_policy:noeviction", "evicted_keys:3")
	for url, says := range map[string]string{"": "without a ledger", "sqlite:f": "anew"} {
		d := New(Config{Redis: &Servers{Single: &redis.Options{}}, Ledger: url})
		for _, f := range []finding{d.judgeReplication(server), d.judgeEviction(evicted)} {
			if f.status != Warn || !strings.Contains(f.todo, says) {
				t.Errorf("%q: %+v, want %s", url, f, says)
			}
		}
		if f := d.judgeEviction(server); f.status != Fail || strings.Contains(f.todo, "without a ledger") != (url == "") {
			t.Errorf("%q: %+v", url, f)
		}
	}
}
