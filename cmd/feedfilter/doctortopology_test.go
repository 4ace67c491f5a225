package main

import (
	"os"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/internal/awstest"
	"github.com/feedfilter/feedfilter/internal/doctor"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// doctor distinguishes a cluster from a single server, and checks each node.
func TestDoctorCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	nodes := c.Nodes()
	g := diagnose(t, "--redis", c.URL())
	g.wantOnly(t)
	g.want(t, "redis", "ok", "Redis", "all 3 nodes")
	g.want(t, "topology", "warn", "primary, replicas: 0, cluster ok, 16384 of 16384 slots assigned", "(all 3 nodes)")
	g.want(t, "commands", "ok", "all 3 nodes")
	g.want(t, "pages", "ok", "16 pages")

	one := nodes[0]
	g = diagnose(t, "--redis", one.URL())
	g.wantOnly(t, "topology")
	g.want(t, "topology", "fail", "a node of a cluster", "redis+cluster://")
	g.want(t, "commands", "skip")
	g = diagnose(t, "--redis", "redis+cluster://"+redistest.Start(t).Addr())
	g.wantOnly(t, "redis")
	g.want(t, "redis", "fail", "not a node of a cluster")

	do(t, one, "CONFIG SET maxmemory-policy allkeys-lru")
	do(t, nodes[1], "ACL SETUSER default -evalsha")
	g = diagnose(t, "--redis", c.URL())
	g.wantOnly(t, "memory", "commands")
	g.want(t, "memory", "fail", one.Addr()+": ", "policy allkeys-lru", "(1 of 3 nodes)")
	g.want(t, "commands", "fail", nodes[1].Addr()+": NOPERM", "(1 of 3 nodes)")
	do(t, one, "CONFIG SET maxmemory-policy noeviction")
	do(t, nodes[1], "ACL SETUSER default +evalsha")

	for _, n := range nodes {
		do(t, n, "ACL SETUSER svc on >pass "+doctor.AccessRule("feed"))
	}
	g = diagnose(t, "--redis", strings.Replace(c.URL(), "://", "://svc:pass@", 1))
	g.wantOnly(t)
	g.want(t, "topology", "warn", "cluster ok", "replicas: 0")
	do(t, nodes[2], "ACL SETUSER svc off")
	g = diagnose(t, "--redis", strings.Replace(c.URL(), "://", "://svc:pass@", 1))
	g.want(t, "redis", "fail", nodes[2].Addr()+": WRONGPASS")

	do(t, one, "CLUSTER DELSLOTS 0")
	g = diagnose(t, "--redis", c.URL())
	g.want(t, "topology", "fail", one.Addr()+": ", "16383 of 16384", "Assign the unserved slots")
	do(t, one, "CLUSTER ADDSLOTS 0")

	nodes[2].Kill()
	g = diagnose(t, "--redis", c.URL())
	g.want(t, "redis", "fail", nodes[2].Addr(), "Start the server")
	g.want(t, "topology", "warn", "primary", "cluster ok")
}

// --redis must not name a replica, and the primary should have one.
func TestDoctorReplica(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, 1, 1)
	primary, replica := s.Servers()[0], s.Servers()[1]
	g := diagnose(t, "--redis", s.URL())
	g.wantOnly(t)
	g.want(t, "redis", "ok", "answered in")
	g.want(t, "topology", "ok", "primary, replicas: 1")
	g.want(t, "commands", "ok")

	g = diagnose(t, "--redis", replica.URL())
	g.wantOnly(t, "topology")
	g.want(t, "topology", "fail", "a replica of "+primary.Addr(), "Name the primary")

	sentinel := s.Sentinels()[0]
	g = diagnose(t, "--redis", "redis+sentinel://"+sentinel.Addr()+"/other")
	g.wantOnly(t, "redis")
	g.want(t, "redis", "fail", "the name of the primary")
	g = diagnose(t, "--redis", "redis+sentinel://"+primary.Addr()+"/primary")
	g.wantOnly(t, "redis")
	g.want(t, "redis", "fail", "Name the sentinels")
	g = diagnose(t, "--redis", "redis://"+sentinel.Addr())
	g.want(t, "topology", "fail", "a sentinel", "redis+sentinel://<host>:<port>/<primary>")

	primary.Kill()
	g = diagnose(t, "--redis", s.URL())
	g.wantOnly(t, "redis")
	g.want(t, "redis", "fail", primary.Addr(), "Start the server")
}

func TestDoctorTLS(t *testing.T) {
	t.Parallel()
	authority, err := redistest.NewAuthority(t.TempDir())
	must(t, err)
	server := redistest.Start(t, authority.Args()...)
	run := func(url string) diagnosis {
		t.Helper()
		return doctorOf(t, []string{"SSL_CERT_FILE=" + authority.CAFile()}, t.TempDir(), url)
	}
	g := run(server.URL())
	g.wantOnly(t)
	g.want(t, "tls", "warn", "certificate expires in 0 days", "Renew")
	g = run(strings.Replace(server.URL(), "127.0.0.1", "localhost", 1))
	g.wantOnly(t, "redis")
	g.want(t, "redis", "fail", "a host name in --redis that the certificate contains")
	g = diagnose(t, "--redis", server.URL())
	g.wantOnly(t, "redis")
	g.want(t, "redis", "fail", "unknown authority", "SSL_CERT_FILE")
	g.want(t, "tls", "skip")
	g = diagnose(t, "--redis", "redis://"+server.Addr())
	g.wantOnly(t, "redis")
	g.want(t, "redis", "fail", "requires TLS (rediss://")
	g = diagnose(t, "--redis", "rediss://"+redistest.Start(t).Addr()+"?dial_timeout=200ms")
	g.wantOnly(t, "redis")
	g.want(t, "redis", "fail", "TLS handshake", "use redis:// instead of rediss://")
}

// doctorOf runs doctor in a process of its own.
func doctorOf(t *testing.T, env []string, dir, url string) diagnosis {
	t.Helper()
	r := runCommand(t, env, "feedfilter", "doctor", "--output=json", "--data-dir", dir, "--redis", url)
	var err error
	if r.code != 0 {
		err = os.ErrInvalid
	}
	return readDiagnosis(t, []byte(r.stdout), err)
}

// doctor finds an ElastiCache cache by its name, and signs in with IAM.
func TestDoctorElastiCache(t *testing.T) {
	t.Parallel()
	a := awstest.Start(t)
	server := redistest.Start(t)
	do(t, server, "ACL SETUSER feed on >pass ~* +@all")
	front := awstest.StartFront(t, "group", false, server.Addr(), "feed", "pass")
	a.PutGroup("group", awstest.Group{TLS: true, Addr: front.Addr()})
	a.PutGroup("plain", awstest.Group{Addr: server.Addr()})
	a.PutGroup("going", awstest.Group{Status: "deleting", Addr: server.Addr()})
	env := append(a.Env(), "SSL_CERT_FILE="+front.CAFile(t))
	dir := t.TempDir()
	run := func(url string) diagnosis {
		t.Helper()
		return doctorOf(t, env, dir, url)
	}
	g := run("elasticache://group?user=feed")
	g.wantOnly(t)
	g.want(t, "redis", "ok", " answered in ", "with a password")
	g.want(t, "tls", "ok", "certificate valid for ")
	g = run("elasticache://group?user=other")
	g.wantOnly(t, "redis")
	g.want(t, "redis", "fail", "WRONGPASS", "elasticache:Connect on the cache", "clock")
	g = run("elasticache://group")
	g.wantOnly(t, "redis")
	g.want(t, "redis", "fail", "NOAUTH", "user=<user> for IAM")
	g = run("elasticache://plain")
	g.wantOnly(t)
	g.want(t, "tls", "ok", "private network")
	for url, says := range map[string]string{
		"elasticache://none?user=feed":        "there is no such cache",
		"elasticache://plain?user=feed":       "needs encryption in transit",
		"elasticache://going":                 "the cache is not available",
		"elasticache://plain?reader=true":     "no endpoint for reads from replicas",
		"elasticache://group?user=Feed":       "lower case",
		"elasticache://group?secret=missing1": "missing1",
	} {
		g := run(url)
		g.wantOnly(t, "redis")
		g.want(t, "redis", "fail", says)
		g.want(t, "memory", "skip")
	}
	a.Fail(1000, "AccessDenied", 403)
	g = run("elasticache://group?user=feed")
	g.want(t, "redis", "fail", "elasticache:Describe", "docs/ELASTICACHE.md")
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("doctor wrote %v, %v", files, err)
	}
}
