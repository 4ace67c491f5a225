package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/feedfilter/feedfilter/internal/servertest"
)

const slotCount = 16384

// Cluster is a Redis Cluster that belongs to one test. Its nodes are Servers:
// to kill, pause and restart one by one.
//
// Its methods may be called concurrently, from any goroutine. Those that take a
// context wait as long as it lasts, and a minute at most. They ask the nodes that
// run, and never one that is down or paused.
type Cluster struct {
	t      testing.TB
	nodes  []*Server
	addrs  []string // the announced ones, in the order of nodes
	ids    []string // in the order of nodes
	client *redis.ClusterClient
}

// StartCluster runs a Redis Cluster with the given number of primaries, at least
// one, and of replicas of each. It ends with the test. It returns when all nodes
// agree on who serves which slots, and each replica has its primary's data; that
// takes some 2 s, for a node does not serve earlier.
//
// Nodes() are the primaries, with equal shares of the slots in their order, then
// the first replica of each, then the second, and so on.
//
// A node counts as failed after 1 s without an answer, or after what args set as
// "--cluster-node-timeout". A replica then replaces its primary, however much of the data it lacks,
// if more than half of the primaries agree. In a cluster of one or two primaries only Failover
// replaces one. Slots without a node do not keep the others from being served. A node that loses
// its last slot stays a primary.
//
// As with Start, nothing is kept on disk unless args say so, except for what a node knows of its
// cluster. After Kill and Restart a node is a member as before, at the same address. A primary that
// is restarted before its failure is noticed is empty, and its replica is soon empty too.
//
// Without a redis-server on the PATH, and when a server does not start, it does
// what Start does.
func StartCluster(t testing.TB, primaries, replicasEach int, args ...string) *Cluster {
	t.Helper()
	return startCluster(t, primaries, replicasEach, nil, args)
}

// StartClusterVia is StartCluster behind proxies. It calls proxy once for each node, on the test's
// goroutine, with the node's own host:port. proxy returns the host:port at which clients reach the
// node, where the host is an IP address. Addrs, URL and Client have these addresses, and the
// cluster tells them to its clients.
//
// Replicas, too, receive their data through their primary's proxy, because they know no other
// address. The nodes talk to each other without proxies, for failure detection and elections. The
// same holds for the slots that MoveSlots moves, and for Client and Addr of a node.
func StartClusterVia(t testing.TB, primaries, replicasEach int, proxy func(addr string) string, args ...string) *Cluster {
	t.Helper()
	return startCluster(t, primaries, replicasEach, proxy, args)
}

func startCluster(t testing.TB, primaries, replicasEach int, proxy func(addr string) string, args []string) *Cluster {
	t.Helper()
	if primaries < 1 || replicasEach < 0 {
		t.Fatalf("redistest: a cluster of %d primaries with %d replicas each: want at least one primary", primaries, replicasEach)
	}
	binary := findBinary(t)
	c := &Cluster{t: t}
	for range primaries * (1 + replicasEach) {
		c.nodes = append(c.nodes, newServer(t, binary, clusterArgs(args, servertest.ReservePort(t))))
	}
	if err := startAll(c.nodes); err != nil {
		t.Fatalf("redistest: starting a cluster: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for _, node := range c.nodes {
		addr, err := node.announce(ctx, proxy)
		if err != nil {
			t.Fatalf("redistest: starting a cluster: %v", err)
		}
		c.addrs = append(c.addrs, addr)
	}
	if err := c.join(ctx, primaries); err != nil {
		t.Fatalf("redistest: forming a cluster of %s: %v", strings.Join(c.addrs, ", "), err)
	}
	c.client = c.newClient()
	return c
}

// clusterArgs are the arguments of a node with the given port for its cluster's
// bus: defaults, the test's, and what the cluster needs.
func clusterArgs(args []string, bus int) []string {
	return slices.Concat(
		[]string{
			"--cluster-node-timeout", "1000",
			"--cluster-require-full-coverage", "no",
			"--cluster-allow-replica-migration", "no",
			// A replica is elected however long it had no link to its primary.
			"--cluster-replica-validity-factor", "0",
		},
		replicationArgs(),
		args,
		[]string{
			"--cluster-enabled", yes,
			"--cluster-config-file", "nodes.conf",
			"--cluster-port", strconv.Itoa(bus),
			"--cluster-announce-ip", servertest.Host,
		},
	)
}

// replicationArgs make replicas follow soon.
func replicationArgs() []string {
	return []string{
		"--repl-ping-replica-period", "1",
		"--repl-diskless-sync", yes,
		"--repl-diskless-sync-delay", "0",
		// Or a replica keeps a file of what it was sent, and starts with that.
		"--repl-diskless-load", "swapdb",
	}
}

// announce makes the server a node that is reached by way of proxy, unless that
// is nil, from its next starts on too. It returns the address for clients.
func (s *Server) announce(ctx context.Context, proxy func(addr string) string) (string, error) {
	if proxy == nil {
		return s.Addr(), nil
	}
	addr := proxy(s.Addr())
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("the proxy's address for %s: %w", s.Addr(), err)
	}
	portSetting := "cluster-announce-port"
	if s.isSecure() {
		portSetting = "cluster-announce-tls-port"
	}
	for _, setting := range [][2]string{{"cluster-announce-ip", host}, {portSetting, port}} {
		if err := s.client.ConfigSet(ctx, setting[0], setting[1]).Err(); err != nil {
			return "", fmt.Errorf("having %s announce %s: %w", s.Addr(), addr, err)
		}
		s.args = append(s.args, "--"+setting[0], setting[1])
	}
	return addr, nil
}

// join makes one cluster of the nodes and waits until it is at rest.
func (c *Cluster) join(ctx context.Context, primaries int) error {
	for i, node := range c.nodes {
		id, err := node.client.ClusterMyID(ctx).Result()
		if err != nil {
			return fmt.Errorf("asking %s for its name: %w", node.Addr(), err)
		}
		c.ids = append(c.ids, id)
		// Each its own from the start: equal ones are sorted out only in time.
		if err := node.client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return fmt.Errorf("setting the epoch of %s: %w", node.Addr(), err)
		}
	}
	for i, node := range c.nodes[:primaries] {
		first, next := slotCount*i/primaries, slotCount*(i+1)/primaries
		if err := node.client.ClusterAddSlotsRange(ctx, first, next-1).Err(); err != nil {
			return fmt.Errorf("giving slots %d to %d to %s: %w", first, next-1, node.Addr(), err)
		}
	}
	if err := c.meet(ctx); err != nil {
		return err
	}
	for i, replica := range c.nodes[primaries:] {
		primary := i % primaries
		what := fmt.Sprintf("%s replicates %s", replica.Addr(), c.nodes[primary].Addr())
		err := servertest.Await(ctx, what, func(ctx context.Context) error {
			return replica.client.ClusterReplicate(ctx, c.ids[primary]).Err() // fails until it has met the primary
		})
		if err != nil {
			return err
		}
	}
	return c.WaitOK(ctx)
}

// meet introduces each node to each other: hearsay would take longer.
func (c *Cluster) meet(ctx context.Context) error {
	for i, node := range c.nodes {
		for j, other := range c.nodes[:i] {
			host, port, err := net.SplitHostPort(c.addrs[j])
			if err != nil {
				return err
			}
			if err := node.client.Do(ctx, "CLUSTER", "MEET", host, port, other.arg("--cluster-port")).Err(); err != nil {
				return fmt.Errorf("having %s meet %s: %w", node.Addr(), other.Addr(), err)
			}
		}
	}
	return nil
}

func (c *Cluster) newClient() *redis.ClusterClient {
	secure, password, _ := c.nodes[0].access("")
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:                    c.Addrs(),
		TLSConfig:                secure,
		Password:                 password,
		ContextTimeoutEnabled:    true,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	c.t.Cleanup(func() {
		if err := client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			c.t.Errorf("redistest: closing the client of the cluster at %s: %v", strings.Join(c.addrs, ", "), err)
		}
	})
	return client
}

// Addrs are the host:port of all nodes as clients reach them, in the order of
// Nodes. They never change.
func (c *Cluster) Addrs() []string {
	return slices.Clone(c.addrs)
}

// URL is the addresses of all nodes as redis+cluster://host:port,host:port,... With TLS it
// begins with rediss+cluster://, with a password that stands before the hosts.
func (c *Cluster) URL() string {
	_, _, url := c.nodes[0].access("+cluster")
	return url + strings.Join(c.addrs, ",")
}

// Client is a client of the cluster, the same one at each call, closed with the
// test. It honours context deadlines, and retries and follows redirections as
// go-redis does by default.
func (c *Cluster) Client() *redis.ClusterClient {
	return c.client
}

// Nodes are all servers of the cluster, in an order that never changes, whatever
// their part in it. The Client of each talks to it alone, past any proxy, and
// gets MOVED for slots that others serve.
func (c *Cluster) Nodes() []*Server {
	return slices.Clone(c.nodes)
}

// Failover makes the replica the primary of its slots with CLUSTER FAILOVER, and returns when the
// replica reports that it is. WaitOK then waits until all others report it. Failover leaves a
// replica alone that is already a primary.
//
// With mode "" the primary, which must be up, stops its writes until the replica has them all, so
// none is lost. With "FORCE" the replica takes over with the data it has, if the other primaries
// agree. With "TAKEOVER" it does not ask them.
func (c *Cluster) Failover(ctx context.Context, replica *Server, mode string) error {
	command := []any{"CLUSTER", "FAILOVER"}
	if mode != "" {
		command = append(command, mode)
	}
	due := pollsPerFailover
	return servertest.Await(ctx, replica.Addr()+" is a primary", func(ctx context.Context) error {
		own, err := c.ownRecord(ctx, replica)
		switch {
		case err != nil:
			return err
		case own.isPrimary():
			return nil
		case due < pollsPerFailover:
			due++
			return errors.New("it is a replica")
		}
		if err := replica.client.Do(ctx, command...).Err(); err != nil {
			return fmt.Errorf("asking for a failover: %w", err) // at once again
		}
		due = 0
		return errors.New("it has yet to be elected")
	})
}

// pollsPerFailover is how often Failover looks before it asks again: an attempt
// that finds no majority ends after 5 s, or twice the node timeout.
const pollsPerFailover = 300
