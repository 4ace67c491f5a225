package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/internal/servertest"
)

const (
	primaryName = "primary" // the sentinels' name for the primary
	sentinelArg = "--sentinel"

	// readyToWatch is in the log of redis-server when it runs as a sentinel.
	readyToWatch = "Sentinel ID is"
)

// Sentinel is a primary with its replicas, and sentinels that watch them and elect a new primary
// when it fails. It belongs to one test.
//
// Its methods may be called concurrently, from any goroutine. Those with a context wait until it
// ends, but at most a minute. They ask only sentinels and servers that run and are not paused.
type Sentinel struct {
	t         testing.TB
	servers   []*Server
	sentinels []*Server
}

// StartSentinel runs a primary, the given number of replicas of it, and sentinels, at least one.
// The sentinels know the primary as "primary". All end with the test. StartSentinel returns when
// WaitOK would return, about 2 s later.
//
// A server counts as failed after 1 s without an answer. When more than half of the sentinels
// agree, they elect a replica, and try another one after 5 s. args are arguments of the primary and
// the replicas, as for Start. Unlike other servers, they keep settings that the sentinels change
// over Restart, and so they stay replicas of the same primary.
//
// Without a redis-server on the PATH, or if a server does not start, it does what Start does.
func StartSentinel(t testing.TB, replicas, sentinels int, args ...string) *Sentinel {
	t.Helper()
	if replicas < 0 || sentinels < 1 {
		t.Fatalf(
			"redistest: %d replicas with %d sentinels: want at least one sentinel", replicas, sentinels,
		)
	}
	binary := findBinary(t)
	args = slices.Concat(replicationArgs(), args)
	s := &Sentinel{t: t, servers: []*Server{newConfiguredServer(t, binary, args)}}
	if err := startAll(s.servers); err != nil {
		t.Fatalf("redistest: starting a primary: %v", err)
	}
	primary := s.servers[0]
	for range replicas {
		own := slices.Concat(args, []string{"--replicaof", servertest.Host, strconv.Itoa(primary.Port)})
		s.servers = append(s.servers, newConfiguredServer(t, binary, own))
	}
	for range sentinels {
		watcher := newConfiguredServer(t, binary, watcherArgs(primary.Port, replicas, sentinels))
		watcher.mode, watcher.ready = []string{sentinelArg}, readyToWatch
		s.sentinels = append(s.sentinels, watcher)
	}
	if err := startAll(slices.Concat(s.servers[1:], s.sentinels)); err != nil {
		t.Fatalf("redistest: starting sentinels: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := s.hurry(ctx); err != nil {
		t.Fatalf("redistest: starting sentinels: %v", err)
	}
	if err := s.WaitOK(ctx); err != nil {
		t.Fatalf("redistest: starting sentinels: %v", err)
	}
	return s
}

// newConfiguredServer makes a server that keeps its settings in a file.
func newConfiguredServer(t testing.TB, binary string, args []string) *Server {
	t.Helper()
	s := newServer(t, binary, args)
	s.config = filepath.Join(s.dir, "redis.conf")
	return s
}

// watcherArgs returns the arguments of a sentinel.
func watcherArgs(primaryPort, replicas, sentinels int) []string {
	port, quorum := strconv.Itoa(primaryPort), strconv.Itoa(sentinels/2+1)
	return []string{
		sentinelArg, "monitor", primaryName, servertest.Host, port, quorum,
		sentinelArg, "down-after-milliseconds", primaryName, "1000",
		sentinelArg, "failover-timeout", primaryName, "5000",
		sentinelArg, "parallel-syncs", primaryName, strconv.Itoa(max(1, replicas)),
	}
}

// hurry makes the sentinels check and exchange messages more often than every 10 s and 2 s. It also
// keeps them from pausing for half a minute after the machine has stalled. A restart of a sentinel
// ends this.
func (s *Sentinel) hurry(ctx context.Context) error {
	for _, watcher := range s.sentinels {
		err := watcher.client.Do(ctx, "SENTINEL", "DEBUG",
			"INFO-PERIOD", 500, "PUBLISH-PERIOD", 200, "TILT-TRIGGER", 60_000).Err()
		if err != nil {
			return fmt.Errorf("setting the periods of the sentinel at %s: %w", watcher.Addr(), err)
		}
	}
	return nil
}

// URL returns the addresses of the sentinels and the name of the primary, as
// redis+sentinel://host:port,host:port,.../primary.
func (s *Sentinel) URL() string {
	addrs := make([]string, len(s.sentinels))
	for i, watcher := range s.sentinels {
		addrs[i] = watcher.Addr()
	}
	return "redis+sentinel://" + strings.Join(addrs, ",") + "/" + primaryName
}

// Servers returns the servers that hold the data, the first primary before its replicas. The order
// never changes.
func (s *Sentinel) Servers() []*Server {
	return slices.Clone(s.servers)
}

// Sentinels returns the servers that watch the others, in an order that never changes. The Client
// of each talks to the sentinel itself. After Restart a sentinel takes up to 10 s to notice
// changes.
func (s *Sentinel) Sentinels() []*Server {
	return slices.Clone(s.sentinels)
}

// Primary returns the primary that the sentinels name. If they differ, it returns the one that was
// elected last. That server may be down until the sentinels have noticed and elected another one.
func (s *Sentinel) Primary(ctx context.Context) (*Server, error) {
	var addr string
	latest := int64(-1)
	for _, watcher := range s.watching() {
		state, err := watcher.primaryState(ctx)
		if err != nil {
			return nil, err
		}
		epoch, err := strconv.ParseInt(state["config-epoch"], 10, 64)
		if err != nil {
			return nil, fmt.Errorf(
				"asking the sentinel at %s for the primary: its epoch: %w", watcher.Addr(), err,
			)
		}
		if epoch > latest {
			addr, latest = net.JoinHostPort(state["ip"], state["port"]), epoch
		}
	}
	i := slices.IndexFunc(s.servers, func(s *Server) bool { return s.Addr() == addr })
	if i < 0 {
		return nil, fmt.Errorf(
			"asking the sentinels for the primary: they name %q, which is no server of theirs", addr,
		)
	}
	return s.servers[i], nil
}

// watching returns the sentinels that run and are not paused.
func (s *Sentinel) watching() []*Server {
	return slices.DeleteFunc(s.Sentinels(), func(s *Server) bool { return !s.IsUp() })
}

// primaryState returns the state of the primary as a sentinel knows it.
func (s *Server) primaryState(ctx context.Context) (map[string]string, error) {
	cmd := redis.NewMapStringStringCmd(ctx, "SENTINEL", "MASTER", primaryName)
	_ = s.client.Process(ctx, cmd) // also in cmd.Err
	state, err := cmd.Result()
	if err != nil {
		return nil, fmt.Errorf("asking the sentinel at %s for the primary: %w", s.Addr(), err)
	}
	return state, nil
}

// Failover makes the sentinels elect a replica with SENTINEL FAILOVER. It returns when all running
// sentinels name the new primary. It returns an error if ctx ends first, as it does without a
// running replica. Writes that no replica has received are lost. Clients may still write to the old
// primary until it is a replica (see WaitOK).
func (s *Sentinel) Failover(ctx context.Context) error {
	old, err := s.Primary(ctx)
	if err != nil {
		return err
	}
	asked := false
	what := "another server than " + old.Addr() + " is the primary"
	return servertest.Await(ctx, what, func(ctx context.Context) error {
		watching := s.watching()
		if len(watching) == 0 {
			return errors.New("no sentinel is running")
		}
		if !asked {
			err := watching[0].client.Do(ctx, "SENTINEL", "FAILOVER", primaryName).Err()
			if err != nil {
				return fmt.Errorf("asking the sentinel at %s: %w", watching[0].Addr(), err)
			}
			asked = true
		}
		for _, watcher := range watching {
			state, err := watcher.primaryState(ctx)
			if err != nil {
				return err
			}
			if net.JoinHostPort(state["ip"], state["port"]) == old.Addr() {
				return fmt.Errorf("the sentinel at %s still names it", watcher.Addr())
			}
		}
		return nil
	})
}

// WaitOK returns when all is healthy. The running sentinels name the same primary, which runs. They
// know all servers and sentinels, and consider the running ones up. All running servers are that
// primary and its replicas, connected to it.
func (s *Sentinel) WaitOK(ctx context.Context) error {
	const what = "sentinels and servers are at rest"
	return servertest.Await(ctx, what, func(ctx context.Context) error {
		if len(s.watching()) == 0 {
			return errors.New("no sentinel is running")
		}
		primary, err := s.Primary(ctx)
		if err != nil {
			return err
		}
		if !primary.IsUp() {
			return fmt.Errorf("the primary, %s, is not running", primary.Addr())
		}
		for _, watcher := range s.watching() {
			if err := s.checkWatcher(ctx, watcher, primary); err != nil {
				return fmt.Errorf("the sentinel at %s: %w", watcher.Addr(), err)
			}
		}
		for _, server := range s.servers {
			if !server.IsUp() {
				continue
			}
			if err := server.checkRole(ctx, primary); err != nil {
				return fmt.Errorf("the server at %s: %w", server.Addr(), err)
			}
		}
		return nil
	})
}

// checkWatcher returns an error if a sentinel's view is wrong.
func (s *Sentinel) checkWatcher(ctx context.Context, watcher, primary *Server) error {
	state, err := watcher.primaryState(ctx)
	if err != nil {
		return err
	}
	for name, want := range map[string]string{
		"ip":                  servertest.Host,
		"port":                strconv.Itoa(primary.Port),
		"flags":               "master", // without s_down, o_down, disconnected, failover_in_progress
		"num-slaves":          strconv.Itoa(len(s.servers) - 1),
		"num-other-sentinels": strconv.Itoa(len(s.sentinels) - 1),
	} {
		if state[name] != want {
			return fmt.Errorf("it has %s %q for the primary, want %q", name, state[name], want)
		}
	}
	for _, of := range []struct {
		kind  string
		peers []*Server
	}{{"REPLICAS", s.servers}, {"SENTINELS", s.sentinels}} {
		if err := watcher.checkPeers(ctx, of.kind, of.peers); err != nil {
			return err
		}
	}
	return nil
}

// checkPeers returns an error if a sentinel considers one of the running peers down.
func (s *Server) checkPeers(ctx context.Context, kind string, peers []*Server) error {
	known := redis.NewMapStringStringSliceCmd(ctx, "SENTINEL", kind, primaryName)
	_ = s.client.Process(ctx, known) // also in known.Err
	states, err := known.Result()
	if err != nil {
		return err
	}
	for _, state := range states {
		addr := net.JoinHostPort(state["ip"], state["port"])
		up := slices.ContainsFunc(peers, func(s *Server) bool { return s.Addr() == addr && s.IsUp() })
		flags := state["flags"]
		if up && (strings.Contains(flags, "down") || strings.Contains(flags, "disconnected")) {
			return fmt.Errorf("it takes %s for down (%s)", addr, flags)
		}
	}
	return nil
}

// checkRole returns an error unless the server is the primary or a replica of it.
func (s *Server) checkRole(ctx context.Context, primary *Server) error {
	want := "role:master\r\n"
	if s != primary {
		want = fmt.Sprintf(
			"master_host:127.0.0.1\r\nmaster_port:%d\r\nmaster_link_status:up\r\n", primary.Port,
		)
	}
	replication, err := s.client.Info(ctx, "replication").Result()
	if err != nil {
		return err
	}
	if !strings.Contains(replication, want) {
		return fmt.Errorf("it is not what it should be, %q: %q", want, replication)
	}
	// The primary may learn later than a replica that the copy is complete. Check every replica.
	if s != primary {
		return nil
	}
	states := regexp.MustCompile(`state=(\w+)`).FindAllStringSubmatch(replication, -1)
	for _, state := range states {
		if state[1] != "online" {
			return fmt.Errorf("a replica is in state %s", state[1])
		}
	}
	return nil
}
