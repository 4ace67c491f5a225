package doctor

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/internal/redistest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// serverOf returns a server that reports these lines.
func serverOf(addr string, lines ...string) *server {
	s := &server{addr: addr, info: make(map[string]string)}
	_ = s.read(strings.Join(lines, "\r\n"), nil)
	return s
}

// TestJudges checks the findings for what servers report.
func TestJudges(t *testing.T) {
	t.Parallel()
	plain := &doctor{Config: Config{Ledger: "sqlite:f"}}
	const memory = "used_memory:1048576|maxmemory_policy:noeviction"
	const cluster = "role:master|connected_slaves:1|cluster_enabled:1|cluster_known_nodes:6|"
	asCluster := &doctor{client: &redis.ClusterClient{}}
	version := func(s *server) finding { return okf("%s", s.version()) }
	for _, c := range []struct {
		judge func(*server) finding
		info  string
		want  string
	}{
		{version, "redis_version:6.0.0", "ok Redis 6.0.0"},
		{version, "redis_version:7.2.4|server_name:valkey|valkey_version:8.1.0", "ok Valkey 8.1.0"},
		{version, "redis_version:7.4.0|dragonfly_version:df-v1.40.1", "ok Dragonfly df-v1.40.1"},
		{version, "garnet_version:1.0.65|redis_version:7.4.3", "ok Garnet 1.0.65"},
		{version, "version:2.11.1|kvrocks_version:2.11.1|redis_version:7.0.0", "ok Kvrocks 2.11.1"},
		{version, "", "ok Redis of unknown version"},
		{plain.judgeMemory, memory, "ok 1.0 MiB used, no limit set, policy noeviction, 0 keys evicted since the server started"},
		{plain.judgeMemory, memory + "|maxmemory:0", "ok 1.0 MiB used, no limit set"},
		{plain.judgeMemory, memory + "|maxmemory:1310720", "ok 1.0 of 1.2 MiB used, 80 %"},
		{plain.judgeMemory, memory + "|maxmemory:1300000", "warn 1.0 of 1.2 MiB used, 81 %"},
		{plain.judgeMemory, memory + "|maxmemory:524288", "warn 1.0 of 0.5 MiB used, 200 %"},
		{plain.judgeMemory, "", "skip not reported"},
		{plain.judgeMemory, "used_memory:-5|maxmemory:100", "skip not reported"},
		{plain.judgeMemory, memory + "|maxmemory:-1", "ok 1.0 MiB used, no limit set"},
		{plain.judgeMemory, memory + "|evicted_keys:-1", "ok 1.0 MiB used, no limit set, policy noeviction, 0 keys"},
		{plain.judgeMemory, memory + "|evicted_keys:3", "warn 1.0 MiB used, no limit set, policy noeviction, 3 keys"},
		{plain.judgeMemory, "used_memory:1|maxmemory_policy:allkeys-lru", "fail 0.0 MiB used, no limit set, policy allkeys-lru"},
		{plain.judgeMemory, "used_memory:1|maxmemory_policy:volatile-lru", "warn 0.0 MiB used, no limit set, policy volatile-lru"},
		{plain.judgeTopology, "role:master|connected_slaves:2", "ok primary, replicas: 2"},
		{plain.judgeTopology, "role:master|connected_slaves:-1", "ok primary, replicas: 0"},
		{plain.judgeTopology, "role:master|connected_slaves:0", "warn primary, replicas: 0"},
		{plain.judgeTopology, "role:slave|master_host:h|master_port:1|connected_slaves:0", "fail a replica of h:1"},
		{plain.judgeTopology, "redis_mode:sentinel", "fail a sentinel"},
		{plain.judgeTopology, "server_mode:sentinel", "fail a sentinel"},
		{plain.judgeTopology, cluster, "fail a node of a cluster"},
		{plain.judgeTopology, "", "skip not reported"},
		{asCluster.judgeTopology, cluster + "cluster_state:ok|cluster_slots_assigned:-1", "ok primary, replicas: 1"},
		{asCluster.judgeTopology, cluster + "cluster_state:fail", "fail primary, replicas: 1"},
		{
			asCluster.judgeTopology, cluster + "cluster_state:ok|cluster_slots_assigned:16384|cluster_slots_fail:-7",
			"ok primary, replicas: 1, cluster ok, 16384 of 16384 slots assigned, 0 on unreachable nodes",
		},
		{
			asCluster.judgeTopology, cluster + "cluster_state:ok|cluster_slots_assigned:16383",
			"fail primary, replicas: 1, cluster ok, 16383 of 16384 slots assigned",
		},
		{
			asCluster.judgeTopology, cluster + "cluster_state:fail|cluster_slots_assigned:16384",
			"fail primary, replicas: 1, cluster fail, 16384 of 16384 slots assigned",
		},
		{
			asCluster.judgeTopology, cluster + "cluster_state:ok|cluster_slots_assigned:16384|cluster_slots_fail:9",
			"fail primary, replicas: 1, cluster ok, 16384 of 16384 slots assigned, 9 on unreachable nodes",
		},
		{
			asCluster.judgeTopology, cluster + "cluster_state:ok|cluster_slots_assigned:16384|cluster_slots_pfail:9",
			"warn primary, replicas: 1, cluster ok, 16384 of 16384 slots assigned, 9 on unreachable nodes",
		},
	} {
		f := c.judge(serverOf("h:1", strings.Split(c.info, "|")...))
		if got := f.status.String() + " " + f.found; !strings.HasPrefix(got, c.want) {
			t.Errorf("%s:\ngot  %s\nwant %s", c.info, got, c.want)
		}
		if (f.status == Warn || f.status == Fail) != (f.todo != "") {
			t.Errorf("%s: what to do: %q", c.info, f.todo)
		}
	}
}

// The worst finding wins, and names its nodes.
func TestNamesNodes(t *testing.T) {
	t.Parallel()
	d := &doctor{Config: Config{Connect: func(context.Context) (redis.UniversalClient, func() error, error) { return nil, nil, nil }}}
	for _, c := range []struct{ percents, want string }{
		{"", "skip see the failed checks above"},
		{"9", "ok 9"},
		{"9 9 9", "ok 9 (all 3 nodes)"},
		{"8 9", "ok h0: 8; h1: 9 (2 of 2 nodes)"},
		{"9 91 9", "warn h1: 91 (1 of 3 nodes)"},
		{"91 92 93 94 9", "warn h0: 91; h1: 92; h2: 93; and others (4 of 5 nodes)"},
	} {
		d.servers = nil
		percent := make(map[*server]string)
		for i, p := range strings.Fields(c.percents) {
			s := serverOf("h" + string(rune('0'+i)))
			d.servers, percent[s] = append(d.servers, s), p
		}
		f := d.each(func(s *server) finding {
			if p := percent[s]; len(p) > 1 {
				return warn(p, "Do.")
			}
			return okf("%s", percent[s])
		})
		if got := f.status.String() + " " + f.found; got != c.want {
			t.Errorf("%s: %s, want %s", c.percents, got, c.want)
		}
	}
}

// A serverless cache gets no advice about settings, which AWS alone controls.
func TestJudgesServerless(t *testing.T) {
	t.Parallel()
	d := &doctor{Config: Config{Serverless: true}}
	if f := d.judgeMemory(serverOf("h:1", "used_memory:1", "maxmemory_policy:volatile-lru")); f.status != OK {
		t.Errorf("%+v", f)
	}
	if f := d.judgeTopology(serverOf("h:1", "role:master", "connected_slaves:0")); f.status != OK {
		t.Errorf("%+v", f)
	}
}

// Without a ledger, advice does not promise that pages are rebuilt.
func TestJudgesWithoutLedger(t *testing.T) {
	t.Parallel()
	for url, says := range map[string]string{"": "there is no ledger", "sqlite:f": "rebuilt"} {
		d := &doctor{Config: Config{Ledger: url}}
		for _, f := range []finding{
			d.judgeTopology(serverOf("h:1", "role:master", "connected_slaves:0")),
			d.judgeMemory(serverOf("h:1", "used_memory:1", "maxmemory_policy:allkeys-lru")),
			d.judgeMemory(serverOf("h:1", "used_memory:1", "evicted_keys:3")),
		} {
			if !strings.Contains(f.todo, says) {
				t.Errorf("%q: %+v, want %s", url, f, says)
			}
		}
	}
}

// Without TLS, the finding depends on the server's address.
func TestPlain(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"127.0.0.1":   "ok none, on a private network",
		"::1":         "ok none, on a private network",
		"10.1.2.3":    "ok none, on a private network",
		"192.0.2.1":   "warn none, and 192.0.2.1 is a public address",
		"2001:db8::1": "warn none, and 2001:db8::1 is a public address",
	} {
		if f := judgePlain(&net.TCPAddr{IP: net.ParseIP(addr)}); f.status.String()+" "+f.found != want {
			t.Errorf("%s: %v %s, want %s", addr, f.status, f.found, want)
		}
	}
	if f := judgePlain(&net.UnixAddr{Name: "/run/redis.sock"}); f.status != OK {
		t.Errorf("%+v", f)
	}
}

// AccessRule grants what the Terraform module grants its user, except what the service does not
// need.
func TestRuleIsTheModules(t *testing.T) {
	text, err := os.ReadFile("../../infra/terraform/access.tf")
	must(t, err)
	_, text, _ = bytes.Cut(text, []byte("access_string = join("))
	text, _, _ = bytes.Cut(text, []byte("\n  ))"))
	commands := func(text string) []string {
		all := regexp.MustCompile(`\+[a-z|]+`).FindAllString(text, -1)
		slices.Sort(all)
		return slices.DeleteFunc(all, func(c string) bool { return c == "+client|setinfo" }) // Redis 7.0 does not know it
	}
	if got, want := commands(AccessRule("feed")), commands(string(text)); !slices.Equal(got, want) || len(want) < 20 {
		t.Errorf("doctor asks for %q, the module gives %q", got, want)
	}
}

// Each error has its advice. Advice about certificates never is to do without TLS.
func TestAdvice(t *testing.T) {
	t.Parallel()
	d := &doctor{}
	for _, c := range []struct{ err, says string }{
		{"LOADING Redis is loading the dataset in memory", "Wait until the server has loaded"},
		{"BUSY Redis is busy running a script", "SCRIPT KILL"},
		{"MASTERDOWN Link with MASTER is down", "Name the primary"},
		{"MISCONF Redis is configured to save RDB snapshots", "Free the server's disk"},
		{"ERR Error running script: @user_script:6: -MISCONF Errors writing to the AOF file", "Free the server's disk"},
		{"NOREPLICAS Not enough good replicas to write", "min-replicas-to-write"},
		{"ERR DB index is out of range", "database number"},
		{"ERR SELECT is not allowed in cluster mode", "database number"},
		{`redis: invalid reply: "HTTP/1.1 400 Bad Request"`, "does not speak the Redis protocol"},
		{"remote error: tls: certificate required", "tls-auth-clients"},
		{"x509: certificate relies on legacy Common Name field, use SANs instead", "a host name in --redis that the certificate contains"},
		{"x509: certificate is not valid for any names, but wanted to match h", "a host name in --redis that the certificate contains"},
		{"tls: failed to verify certificate: x509: certificate signed by unknown authority", "trust the issuer"},
		{"tls: failed to verify certificate: x509: certificate has expired or is not yet valid", "Renew the certificate"},
		{"dial tcp 10.0.0.1:6379: connect: connection timed out", "A firewall"},
		{"dial tcp: lookup redis: no such host", "Correct the host"},
		{"CLUSTERDOWN The cluster is down", "--cluster fix"},
		{"DENIED Redis is running in protected mode", "protected mode"},
		{"ERR max number of clients reached", "maxclients"},
		{"ERR AUTH <password> called without any password configured for the default user", "Remove the password"},
		{"redis: all sentinels specified in configuration are unreachable: NOAUTH Authentication required.", "sentinels' own user"},
		{"something else", "Fix what the server reports"},
	} {
		if f := d.fail(errors.New(c.err)); f.status != Fail || !strings.Contains(f.todo, c.says) {
			t.Errorf("%s: %+v", c.err, f)
		}
	}
}

// torn runs scripts as a server does whose scripts are not atomic: all connections read the counter
// before one writes it.
type torn struct {
	plain *redis.Client
	first sync.WaitGroup // of each connection, has read the counter
}

func (*torn) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*torn) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (h *torn) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, scripts []redis.Cmder) error {
		if scripts[0].Name() != "eval" {
			return next(ctx, scripts)
		}
		for i, script := range scripts {
			key, _ := script.Args()[3].(string)
			n, err := h.plain.Get(ctx, key).Int64()
			if err != nil && !errors.Is(err, redis.Nil) {
				return err
			}
			if i == 0 {
				h.first.Done()
				h.first.Wait()
			}
			if err := h.plain.Set(ctx, key, n+1, 0).Err(); err != nil {
				return err
			}
			script.(*redis.Cmd).SetVal(n + 1)
		}
		return nil
	}
}

// A server whose scripts are not atomic is found, and the key of the trial is removed.
func TestAtomic(t *testing.T) {
	t.Parallel()
	redisServer := redistest.Start(t)
	plain := redisServer.Client()
	sound := &server{addr: "h:1", client: plain}
	for range 3 {
		must(t, sound.atomic(t.Context(), "fav:{feed/doctor0}:bits"))
	}
	client := redis.NewClient(&redis.Options{Addr: redisServer.Addr()})
	defer client.Close()
	hook := &torn{plain: plain}
	hook.first.Add(8)
	client.AddHook(hook)
	err := (&server{addr: "h:1", client: client}).atomic(t.Context(), "fav:{feed/doctor0}:bits")
	if err == nil || !strings.Contains(err.Error(), "scripts are not atomic: ") {
		t.Errorf("error %v", err)
	}
	if f := (&doctor{}).fail(err); f.status != Fail || !strings.Contains(f.todo, "one at a time") {
		t.Errorf("%+v", f)
	}
	if keys, err := plain.DBSize(t.Context()).Result(); err != nil || keys != 0 {
		t.Errorf("%d keys were left, %v", keys, err)
	}
	must(t, redis.NewScript(tryAtomic).Eval(t.Context(), plain, []string{"k"}).Err())
	if ttl, err := plain.TTL(t.Context(), "k").Result(); err != nil || ttl <= 0 || ttl > time.Minute {
		t.Errorf("the key lasts %v, %v", ttl, err)
	}
}

// Versions names each version of a cluster's servers once, and none if a server does not say.
func TestVersions(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	for _, client := range []redis.UniversalClient{redistest.Start(t).Client(), cluster.Client()} {
		versions, err := Versions(t.Context(), client)
		if err != nil || !regexp.MustCompile(`^(Redis|Valkey) [0-9.]+$`).MatchString(versions) {
			t.Errorf("%q, %v", versions, err)
		}
	}
	must(t, cluster.Nodes()[1].Client().Do(t.Context(), "ACL", "SETUSER", "default", "-info").Err())
	if versions, err := Versions(t.Context(), cluster.Client()); versions != "" || err != nil {
		t.Errorf("%q, %v", versions, err)
	}
}
