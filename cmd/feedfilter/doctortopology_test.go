package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/awstest"
	"github.com/feedfilter/feedfilter/internal/doctor"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// doctor distinguishes a cluster from a single server, and checks each node.
func TestDoctorCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	nodes := c.Nodes()
	g := diagnose(t, nil, "--redis", c.URL())
	g.wantOnly(t)
	g.want(t, "network", "ok", "3 addresses")
	g.want(t, "server", "ok", "Redis", "all 3 nodes")
	g.want(t, "topology", "warn", "state ok, 16384 of 16384 slots assigned, 3 nodes; primary; no replica (all 3 nodes)")
	g.want(t, "commands", "ok", "all 3 nodes")
	g.want(t, "commands", "ok", "16 pages")

	one := nodes[0]
	g = diagnose(t, nil, "--redis", one.URL())
	g.wantOnly(t, "topology")
	g.want(t, "topology", "fail", "is a node of a cluster", "redis+cluster://"+one.Addr())
	g.want(t, "commands", "skip", "a node of a cluster")
	g = diagnose(t, nil, "--redis", "redis+cluster://"+redistest.Start(t).Addr())
	g.wantOnly(t, "topology")
	g.want(t, "topology", "fail", "is not a node of a cluster", "--redis redis://127.0.0.1:")

	do(t, one, "CONFIG SET maxmemory-policy allkeys-lru")
	do(t, nodes[1], "ACL SETUSER default -evalsha")
	g = diagnose(t, nil, "--redis", c.URL())
	g.wantOnly(t, "memory", "commands")
	g.want(t, "memory", "fail", one.Addr()+": ", "policy allkeys-lru (1 of 3 nodes)")
	g.want(t, "commands", "fail", nodes[1].Addr()+": NOPERM", "(1 of 3 nodes)")
	do(t, one, "CONFIG SET maxmemory-policy noeviction")
	do(t, nodes[1], "ACL SETUSER default +evalsha")

	for _, n := range nodes {
		do(t, n, "ACL SETUSER svc on >pass "+doctor.AccessRule("feed"))
	}
	g = diagnose(t, nil, "--redis", strings.Replace(c.URL(), "://", "://svc:pass@", 1))
	g.wantOnly(t)
	g.want(t, "topology", "warn", "state ok", "no replica")
	do(t, nodes[2], "ACL SETUSER svc off")
	g = diagnose(t, nil, "--redis", strings.Replace(c.URL(), "://", "://svc:pass@", 1))
	g.want(t, "server", "fail", nodes[2].Addr()+": WRONGPASS")

	do(t, one, "CLUSTER DELSLOTS 0")
	g = diagnose(t, nil, "--redis", c.URL())
	g.want(t, "topology", "fail", one.Addr()+": ", "16383 of 16384", "Assign the unserved slots")
	do(t, one, "CLUSTER ADDSLOTS 0")

	nodes[2].Kill()
	g = diagnose(t, nil, "--redis", c.URL())
	g.want(t, "network", "warn", "2 of 3", nodes[2].Addr())
	g.want(t, "server", "fail", nodes[2].Addr(), "Restart the node")
	g.want(t, "topology", "warn", one.Addr()+": state ok", "primary")
}

// --redis must not name a replica, and the primary should have one.
func TestDoctorReplica(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, 1, 1)
	primary, replica := s.Servers()[0], s.Servers()[1]
	g := diagnose(t, nil, "--redis", s.URL())
	g.wantOnly(t)
	g.want(t, "sentinel", "ok", "1 of 1 sentinels report primary at "+primary.Addr())
	g.want(t, "topology", "ok", "replicas up to date: 1")
	g.want(t, "sign-in", "ok", primary.Addr())
	g.want(t, "commands", "ok")

	g = diagnose(t, nil, "--redis", replica.URL())
	g.wantOnly(t, "topology", "commands")
	g.want(t, "topology", "fail", "a replica of "+primary.Addr(), "Name the primary")

	sentinel := s.Sentinels()[0]
	g = diagnose(t, nil, "--redis", "redis+sentinel://"+sentinel.Addr()+"/other")
	g.wantOnly(t, "sentinel")
	g.want(t, "sentinel", "fail", "knows no primary", "other")
	g = diagnose(t, nil, "--redis", "redis+sentinel://"+primary.Addr()+"/primary")
	g.wantOnly(t, "sentinel")
	g.want(t, "sentinel", "fail", "Name the sentinels")
	g = diagnose(t, nil, "--redis", "redis://"+sentinel.Addr())
	g.want(t, "topology", "fail", "is a sentinel", "redis+sentinel://"+sentinel.Addr()+"/<primary>")

	primary.Kill()
	g = diagnose(t, nil, "--redis", s.URL())
	g.wantOnly(t, "sentinel")
	g.want(t, "sentinel", "fail", "the primary: ", primary.Addr())
}

// startTLS starts a TLS proxy for a server without TLS, with a certificate that the pool trusts.
func startTLS(t *testing.T, backend string) (addr string, roots *x509.CertPool, expires time.Time) {
	t.Helper()
	web := httptest.NewTLSServer(nil) // it has a certificate for loopback addresses
	defer web.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", backend) //nolint:noctx // loopback
			if err != nil {
				_ = conn.Close()
				continue
			}
			for _, pair := range [][2]net.Conn{{conn, server}, {server, conn}} {
				running.Go(func() {
					_, _ = io.Copy(pair[0], pair[1])
					_ = pair[0].Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait() // by now all clients have disconnected
	})
	roots = x509.NewCertPool()
	roots.AddCert(web.Certificate())
	return listener.Addr().String(), roots, web.Certificate().NotAfter
}

func TestDoctorTLS(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	addr, roots, expires := startTLS(t, server.Addr())
	trust := func(c *doctor.Config) { c.Redis.Single.TLSConfig.RootCAs = roots }
	g := diagnose(t, trust, "--redis", "rediss://"+addr)
	g.wantOnly(t)
	g.want(t, "tls", "ok", "TLS 1.3, certificate of example.com", "days left")
	g = diagnose(t, func(c *doctor.Config) {
		trust(c)
		c.Now = func() time.Time { return expires.Add(-5*24*time.Hour - time.Minute) }
	}, "--redis", "rediss://"+addr)
	g.want(t, "tls", "warn", "5 days left", "Renew")
	g = diagnose(t, nil, "--redis", "rediss://"+addr)
	g.wantOnly(t, "tls")
	g.want(t, "tls", "fail", "unknown authority", "SSL_CERT_FILE")
	g.want(t, "sign-in", "skip")
	g = diagnose(t, func(c *doctor.Config) {
		trust(c)
		c.Redis.Single.TLSConfig.ServerName = "other.test"
	}, "--redis", "rediss://"+addr)
	g.want(t, "tls", "fail", "other.test", "a host name in --redis that the certificate contains")
	g = diagnose(t, nil, "--redis", "redis://"+addr)
	g.wantOnly(t, "sign-in")
	g.want(t, "sign-in", "fail", "requires TLS (rediss://")
	g = diagnose(t, nil, "--redis", "rediss://"+server.Addr()+"?dial_timeout=200ms")
	g.wantOnly(t, "tls")
	g.want(t, "tls", "fail", "TLS handshake", "use redis:// instead of rediss://")
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
	run := func(url string) diagnosis {
		t.Helper()
		r := runCommand(t, env, "feedfilter", "doctor", "--output=json", "--data-dir", t.TempDir(), "--redis", url)
		var err error
		if r.code != 0 {
			err = os.ErrInvalid
		}
		return readDiagnosis(t, []byte(r.stdout), err)
	}
	g := run("elasticache://group?user=feed")
	g.wantOnly(t)
	g.want(t, "aws", "ok", "replication group group: one primary, TLS, at "+front.Addr())
	g.want(t, "tls", "ok", "certificate of")
	g.want(t, "sign-in", "ok", "user feed (IAM)")
	g = run("elasticache://group?user=other")
	g.wantOnly(t, "sign-in")
	g.want(t, "sign-in", "fail", "WRONGPASS", "elasticache:Connect on the ARNs", "user other", "clock")
	g = run("elasticache://group")
	g.wantOnly(t, "sign-in")
	g.want(t, "sign-in", "fail", "NOAUTH", "user=<user> for IAM")
	g = run("elasticache://plain")
	g.wantOnly(t)
	g.want(t, "aws", "ok", "no TLS")
	for url, says := range map[string]string{
		"elasticache://none?user=feed":  "Correct the name or ?region=",
		"elasticache://plain?user=feed": "Enable encryption in transit",
		"elasticache://going":           "Wait until the cache is available",
	} {
		g := run(url)
		g.wantOnly(t, "aws")
		g.want(t, "aws", "fail", says)
		g.want(t, "network", "skip")
	}
	a.Fail(1000, "AccessDenied", 403)
	g = run("elasticache://group?user=feed")
	g.want(t, "aws", "fail", "elasticache:Describe", "Grant this process's identity")
}

// While AWS does not answer, doctor uses the stored description of the cache, like a service.
func TestLongDoctorElastiCacheRemembered(t *testing.T) {
	t.Parallel()
	a := awstest.Start(t)
	server := redistest.Start(t)
	a.PutGroup("group", awstest.Group{Addr: server.Addr()})
	a.Fail(1000, "InternalFailure", 500)
	dir := t.TempDir()
	file := filepath.Join(dir, "elasticache.json")
	text := fmt.Sprintf(`{"cache":"replication group group","region":%q,"cluster":false,"tls":false,"token":false,"addr":%q,"reader":""}`,
		awstest.Region, server.Addr())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(dir, url string) diagnosis {
		t.Helper()
		env := append(a.Env(), "TMPDIR="+filepath.Join(t.TempDir(), "empty"))
		if err := os.Mkdir(strings.TrimPrefix(env[len(env)-1], "TMPDIR="), 0o700); err != nil {
			t.Fatal(err)
		}
		r := runCommand(t, env, "feedfilter", "doctor", "--output=json", "--data-dir", dir, "--redis", url)
		var err error
		if r.code != 0 {
			err = os.ErrInvalid
		}
		if left, err := os.ReadDir(strings.TrimPrefix(env[len(env)-1], "TMPDIR=")); err != nil || len(left) != 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
		return readDiagnosis(t, []byte(r.stdout), err)
	}
	g := run(dir, "elasticache://group")
	g.wantOnly(t)
	g.want(t, "aws", "warn", "DescribeReplicationGroups", "the last answer of AWS", file, "one primary, no TLS, at "+server.Addr(), "Without that file, no service starts")
	g.want(t, "sign-in", "ok", server.Addr())
	if now, err := os.ReadFile(file); err != nil || string(now) != text {
		t.Errorf("the file is %s, %v", now, err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
	// A stored description of another cache is not used, and a stored description does not hide a
	// mistake in --redis.
	for url, says := range map[string]string{"elasticache://other": "DescribeReplicationGroups", "elasticache://group?user=Feed": "lower case"} {
		g := run(dir, url)
		g.wantOnly(t, "aws")
		g.want(t, "aws", "fail", says)
	}
	run(dir, "elasticache://other").want(t, "aws", "fail", "Give this machine AWS credentials")
	a.Fail(0, "", 0)
	run(dir, "elasticache://group").want(t, "aws", "ok")
	if now, err := os.ReadFile(file); err != nil || string(now) != text {
		t.Errorf("the file is %s, %v", now, err)
	}
}

// With reader=true, the service does not start if the cache has no endpoint for reads.
func TestDoctorElastiCacheReader(t *testing.T) {
	t.Parallel()
	a := awstest.Start(t)
	a.PutGroup("none", awstest.Group{Addr: redistest.Start(t).Addr()})
	r := runCommand(t, a.Env(), "feedfilter", "doctor", "--output=json", "--data-dir", t.TempDir(), "--redis", "elasticache://none?reader=true")
	g := readDiagnosis(t, []byte(r.stdout), os.ErrInvalid)
	g.wantOnly(t, "aws")
	g.want(t, "aws", "fail", "no endpoint for reads from replicas", "Remove reader=true")
}
