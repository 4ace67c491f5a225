// Package elasticachetest holds tests to what Amazon ElastiCache takes: a proxy in front
// of Redis servers that refuses what a cache there refuses, and fails the test that sent
// it.
//
// The proxy reads its input command by command. MONITOR on the server shows the commands of
// scripts. Each key that a script touches must be one of its KEYS, and each of its commands
// one that the cache has.
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

// Cache is one cache: what holds for the servers that are reached by way of it. It belongs
// to one test, which fails at its end with everything that was forbidden, unless Violations
// has taken it. Its methods may be called concurrently.
type Cache struct {
	t      testing.TB
	kind   Kind
	rules  rules
	secure *tls.Config // nil: without TLS

	mu         sync.Mutex
	ports      []string // of the servers behind: their replicas name themselves by them
	violations []string
	times      map[string]int // of each violation
}

// maxViolations is how many different ones are told.
const maxViolations = 50

// New makes a cache of the given kind that presents itself with secure and takes no
// connection without TLS. With nil it takes no other, which no serverless cache does.
func New(t testing.TB, kind Kind, secure *tls.Config) *Cache {
	t.Helper()
	if kind == Serverless && secure == nil {
		t.Fatal("elasticachetest: a serverless cache without TLS")
	}
	c := &Cache{t: t, kind: kind, rules: newRules(kind), secure: secure, times: make(map[string]int)}
	t.Cleanup(func() {
		if forbidden := c.Violations(); len(forbidden) > 0 {
			t.Errorf("elasticachetest: a %v cache refuses what was sent:\n%s", kind, strings.Join(forbidden, "\n"))
		}
	})
	return c
}

// Via puts the cache in front of the server at target, a host:port, and returns the
// address for its clients. The server has to be up now, and to take connections without TLS
// and password; it may be killed and restarted from then on. Via belongs on the test's
// goroutine. Given to redistest.StartClusterVia it makes a cluster of such caches: the
// replicas of a server behind the cache may follow it through this proxy, nobody else may.
//
// Scripts that run between a restart of the server and the next MONITOR, some 20 ms, are
// not looked at.
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
	p := &proxy{cache: c, target: target, listener: listener, conns: make(map[net.Conn]struct{})}
	p.running.Go(p.accept)
	c.t.Cleanup(func() {
		p.close()
		w.close()
	})
	return addr
}

// Violations takes what was forbidden so far, each with how often it was, and forgets it.
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

// isReplica reports whether a server that listens to the port is one of those behind.
func (c *Cache) isReplica(port string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.ports, port)
}
