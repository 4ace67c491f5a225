package redistest

import (
	"cmp"
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

// Cluster is a Redis Cluster that belongs to one test. Its nodes are Servers, and a test can kill,
// pause and restart each.
//
// Its methods may be called concurrently, from any goroutine. Those with a context wait until it
// ends, but at most a minute. They ask only nodes that run and are not paused.
type Cluster struct {
	t      testing.TB
	nodes  []*Server
	addrs  []string // announced addresses, in the order of nodes
	ids    []string // in the order of nodes
	client *redis.ClusterClient
}

// StartCluster runs a Redis Cluster with the given number of primaries, at least one, and of
// replicas of each primary. It ends with the test. StartCluster returns when all nodes agree which
// node serves which slots, and each replica has its primary's data. That takes about 2 s, because a
// node does not serve earlier.
//
// Nodes returns first the primaries, with equal shares of the slots in that order. The first
// replica of each follows, then the second, and so on.
//
// A node counts as failed after 1 s without an answer, or after what args set as
// "--cluster-node-timeout". A replica then replaces its primary, however much of the data it lacks,
// if more than half of the primaries agree. In a cluster of one or two primaries only Failover
// replaces one. If slots have no node, the other slots are still served. A node that loses its last
// slot stays a primary.
//
// As with Start, nothing is kept on disk unless args say so, except for what a node knows of its
// cluster. After Kill and Restart a node is a member as before, at the same address. A primary that
// is restarted before its failure is noticed is empty, and its replica is soon empty too.
//
// Without a redis-server on the PATH, or if a server does not start, it does what Start does.
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
func StartClusterVia(
	t testing.TB, primaries, replicasEach int, proxy func(addr string) string, args ...string,
) *Cluster {
	t.Helper()
	return startCluster(t, primaries, replicasEach, proxy, args)
}

func startCluster(
	t testing.TB, primaries, replicasEach int, proxy func(addr string) string, args []string,
) *Cluster {
	t.Helper()
	if primaries < 1 || replicasEach < 0 {
		t.Fatalf(
			"redistest: a cluster of %d primaries with %d replicas each: want at least one primary",
			primaries, replicasEach,
		)
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
	if err := c.slowly(ctx, func() error { return c.join(ctx, primaries) }); err != nil {
		t.Fatalf("redistest: forming a cluster of %s: %v", strings.Join(c.addrs, ", "), err)
	}
	c.client = c.newClient()
	return c
}

// clusterArgs returns the arguments of a node, with the given port for the cluster's bus. They are
// defaults, then the test's arguments, then what the cluster needs.
func clusterArgs(args []string, bus int) []string {
	return slices.Concat(
		[]string{
			"--cluster-node-timeout", "1000",
			"--cluster-require-full-coverage", "no",
			"--cluster-allow-replica-migration", "no",
			// A replica may be elected after any time without a link to its primary.
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

// replicationArgs returns arguments that make replicas follow quickly.
func replicationArgs() []string {
	return []string{
		"--repl-ping-replica-period", "1",
		"--repl-diskless-sync", yes,
		"--repl-diskless-sync-delay", "0",
		// Otherwise a replica stores the data that it receives in a file, and starts with that
		// file.
		"--repl-diskless-load", "swapdb",
	}
}

// announce makes the node announce the address that proxy returns, also after a restart. A nil
// proxy changes nothing. announce returns the address for clients.
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

// join forms one cluster of the nodes, and waits until all nodes agree.
func (c *Cluster) join(ctx context.Context, primaries int) error {
	for i, node := range c.nodes {
		id, err := node.client.ClusterMyID(ctx).Result()
		if err != nil {
			return fmt.Errorf("asking %s for its name: %w", node.Addr(), err)
		}
		c.ids = append(c.ids, id)
		// Different epochs avoid a conflict that the nodes would resolve slowly.
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
	if err := c.acquaint(ctx); err != nil {
		return err
	}
	for i, replica := range c.nodes[primaries:] {
		primary := i % primaries
		what := fmt.Sprintf("%s replicates %s", replica.Addr(), c.nodes[primary].Addr())
		err := servertest.Await(ctx, what, func(ctx context.Context) error {
			// The command fails until the replica has met the primary.
			return replica.client.ClusterReplicate(ctx, c.ids[primary]).Err()
		})
		if err != nil {
			return err
		}
	}
	return c.WaitOK(ctx)
}

// acquaint introduces the nodes, and waits until each knows all others.
func (c *Cluster) acquaint(ctx context.Context) error {
	if err := c.meet(ctx); err != nil {
		return err
	}
	return servertest.Await(ctx, "all nodes have met", func(ctx context.Context) error {
		for _, node := range c.nodes {
			records, err := c.records(ctx, node)
			if err != nil {
				return err
			}
			known := slices.DeleteFunc(records, func(r nodeRecord) bool { return !r.isMember() })
			if len(known) != len(c.nodes) {
				return fmt.Errorf("%s knows %d of %d nodes", node.Addr(), len(known), len(c.nodes))
			}
		}
		return nil
	})
}

// slowly calls form while no node gives up another. On a busy machine, nodes forget those that they
// do not meet within the node timeout. They connect again after half of it, and they replace a
// primary. With an even longer timeout, nodes would exchange news too seldom.
func (c *Cluster) slowly(ctx context.Context, form func() error) error {
	const timeout, failover = "cluster-node-timeout", "cluster-replica-no-failover"
	set := func(name string, value func(*Server) string) error {
		for _, node := range c.nodes {
			if err := node.client.ConfigSet(ctx, name, value(node)).Err(); err != nil {
				return fmt.Errorf("setting %s of %s: %w", name, node.Addr(), err)
			}
		}
		return nil
	}
	always := func(value string) func(*Server) string { return func(*Server) string { return value } }
	own := func(name, otherwise string) func(*Server) string {
		return func(s *Server) string { return cmp.Or(s.arg("--"+name), otherwise) }
	}
	if err := errors.Join(set(timeout, always("10000")), set(failover, always(yes))); err != nil {
		return err
	}
	if err := form(); err != nil {
		return err
	}
	return errors.Join(set(timeout, own(timeout, "")), set(failover, own(failover, "no")))
}

// meet introduces every node to every other. Gossip would take longer.
func (c *Cluster) meet(ctx context.Context) error {
	for i, node := range c.nodes {
		for j, other := range c.nodes[:i] {
			host, port, err := net.SplitHostPort(c.addrs[j])
			if err != nil {
				return err
			}
			bus := other.arg("--cluster-port")
			if err := node.client.Do(ctx, "CLUSTER", "MEET", host, port, bus).Err(); err != nil {
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
			addrs := strings.Join(c.addrs, ", ")
			c.t.Errorf("redistest: closing the client of the cluster at %s: %v", addrs, err)
		}
	})
	return client
}

// Addrs returns the host:port of each node as clients reach it, in the order of Nodes. The
// addresses never change.
func (c *Cluster) Addrs() []string {
	return slices.Clone(c.addrs)
}

// URL returns the addresses of all nodes as redis+cluster://host:port,host:port,... With TLS it
// begins with rediss+cluster://. A password stands before the hosts.
func (c *Cluster) URL() string {
	_, _, url := c.nodes[0].access("+cluster")
	return url + strings.Join(c.addrs, ",")
}

// Client returns the client of the cluster, the same one at each call. It is closed with the test.
// It honours context deadlines, and retries and follows redirections as go-redis does by default.
func (c *Cluster) Client() *redis.ClusterClient {
	return c.client
}

// Nodes returns all servers of the cluster. Their order never changes, even if their roles do. The
// Client of a node talks only to that node, past any proxy, and gets MOVED for slots that other
// nodes serve.
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
			return fmt.Errorf("asking for a failover: %w", err) // the next poll asks again
		}
		due = 0
		return errors.New("it has yet to be elected")
	})
}

// pollsPerFailover is the number of polls after which Failover asks again. An attempt without a
// majority ends after 5 s or twice the node timeout.
const pollsPerFailover = 300
