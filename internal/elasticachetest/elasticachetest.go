// Package elasticachetest checks that tests send only what Amazon ElastiCache accepts. A proxy in
// front of Redis servers refuses what such a cache refuses, and fails the test that sent it.
//
// The proxy reads its input command by command. MONITOR on the server shows the commands of
// scripts. Each key that a script touches must be one of its KEYS, and the cache must support each
// of its commands.
package elasticachetest

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/feedfilter/feedfilter/internal/servertest"
)

// Cache is one cache with its servers. It belongs to one test. At its end, the test fails with all
// forbidden commands that Violations has not returned. The methods may be called concurrently.
type Cache struct {
	t      testing.TB
	kind   Kind
	rules  rules
	secure *tls.Config // nil: without TLS

	mu         sync.Mutex
	ports      []string // ports of the servers; replicas announce theirs
	violations []string
	times      map[string]int // number of times of each violation
}

// maxViolations is the maximum number of different violations that are reported.
const maxViolations = 50

// New makes a cache of the given kind. With secure the cache accepts only TLS, and presents that
// certificate. With nil it accepts only connections without TLS; a serverless cache requires TLS.
func New(t testing.TB, kind Kind, secure *tls.Config) *Cache {
	t.Helper()
	if kind == Serverless && secure == nil {
		t.Fatal("elasticachetest: a serverless cache without TLS")
	}
	c := &Cache{t: t, kind: kind, rules: newRules(kind), secure: secure, times: make(map[string]int)}
	t.Cleanup(func() {
		if forbidden := c.Violations(); len(forbidden) > 0 {
			t.Errorf(
				"elasticachetest: a %v cache refuses what was sent:\n%s",
				kind, strings.Join(forbidden, "\n"),
			)
		}
	})
	return c
}

// Via puts the cache in front of the server at target, a host:port, and returns the address for
// clients. The server must be up, and accept connections without TLS and password. It may be killed
// and restarted later. Only the test's goroutine may call Via. As the proxy of
// redistest.StartClusterVia, it makes a cluster of such caches. Only replicas of the cache's own
// servers may follow a server through the proxy.
//
// After a restart of the server, it takes about 20 ms until the next MONITOR. Scripts in that time
// are not checked.
func (c *Cache) Via(target string) string {
	c.t.Helper()
	_, port, err := net.SplitHostPort(target)
	if err != nil {
		c.t.Fatalf("elasticachetest: the address of a server: %v", err)
	}
	c.mu.Lock()
	c.ports = append(c.ports, port)
	c.mu.Unlock()
	w, err := watch(c, target)
	if err != nil {
		c.t.Fatalf("elasticachetest: watching %s: %v", target, err)
	}
	addr := servertest.Addr(servertest.ReservePort(c.t))
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp", addr)
	if err != nil {
		c.t.Fatalf("elasticachetest: listening for %s: %v", target, err)
	}
	p := &proxy{cache: c, target: target}
	conns := servertest.Serve(listener, p.serve)
	c.t.Cleanup(func() {
		conns.Close()
		conns.Wait()
		w.close()
	})
	return addr
}

// Violations returns the violations so far, each with its number of times, and forgets them.
func (c *Cache) Violations() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.violations
	for i, v := range all {
		all[i] = fmt.Sprintf("%s (%d times)", v, c.times[v])
	}
	c.violations = nil
	clear(c.times)
	return all
}

func (c *Cache) violatedf(format string, args ...any) {
	v := fmt.Sprintf(format, args...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.times[v] == 0 {
		if len(c.violations) == maxViolations {
			return
		}
		c.violations = append(c.violations, v)
	}
	c.times[v]++
}

// isReplica reports whether a server of the cache listens on the port.
func (c *Cache) isReplica(port string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.ports, port)
}
