package doctor

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// server is one that holds pages, and what it tells of itself.
type server struct {
	addr    string
	client  *redis.Client
	info    map[string]string // INFO; empty if it is refused
	cluster map[string]string // CLUSTER INFO
	err     error             // it did not answer
}

// ask fills in what the node tells.
func (n *server) ask(ctx context.Context) {
	info, err := n.client.Info(ctx).Result()
	if n.err = failureOf(err); n.err != nil {
		return
	}
	n.info = infoFields(info)
	if n.mode() == modeCluster || n.mode() == "" {
		info, err := n.client.ClusterInfo(ctx).Result()
		n.err = failureOf(err)
		n.cluster = infoFields(info)
	}
}

// failureOf returns err, or nil if err is a refusal that a sound server may send.
func failureOf(err error) error {
	if !isRedisReply(err) {
		return err
	}
	for _, prefix := range []string{"NOAUTH", "WRONGPASS", "DENIED", "LOADING"} {
		if redis.HasErrorPrefix(err, prefix) {
			return err
		}
	}
	return nil
}

// infoFields reads lines of name:value.
func infoFields(text string) map[string]string {
	all := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[name] = value
		}
	}
	return all
}

const (
	modeCluster    = "cluster"
	modeStandalone = "standalone"
	modeSentinel   = "sentinel"
)

// mode is how the server runs; "": it does not tell.
func (n *server) mode() string {
	if n.info["cluster_enabled"] == "1" {
		return modeCluster
	}
	return n.info["redis_mode"]
}

// checkServer asks the servers about themselves, and says what they are.
func (d *Doctor) checkServer(ctx context.Context) finding {
	if d.seed == nil {
		return skipf("not signed in")
	}
	d.nodes[0].ask(ctx)
	// What AWS says of a cache is right; of another server the flags may be wrong.
	if d.servers.Cluster != nil && (d.servers.Managed != nil || d.nodes[0].mode() == modeCluster || d.nodes[0].mode() == "") {
		d.findNodes(ctx)
	}
	var failed []string
	for _, n := range d.nodes {
		if n.err != nil {
			failed = append(failed, errorOf(n.addr, n.err))
		}
	}
	if len(failed) > 0 {
		todo := "See whether the server hangs or is too slow."
		if d.servers.Cluster != nil {
			todo = "Bring the node back; or, if the cluster tells an address of it that this machine cannot reach, " +
				"correct that (cluster-announce-ip)."
		}
		return fail(andMore(failed[:min(len(failed), someNodes)], len(failed)-someNodes), todo)
	}
	return d.judgeEngines()
}

// findNodes makes the client of the cluster, and asks all primaries.
func (d *Doctor) findNodes(ctx context.Context) {
	o := *d.servers.Cluster
	client := redis.NewClusterClient(&o)
	d.closers = append(d.closers, client.Close)
	d.pages = client
	var mu sync.Mutex
	var nodes []*server
	d.clusterErr = client.ForEachMaster(ctx, func(ctx context.Context, primary *redis.Client) error {
		n := &server{addr: primary.Options().Addr, client: primary}
		n.ask(ctx)
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, n)
		return nil
	})
	if d.clusterErr == nil && len(nodes) > 0 {
		slices.SortFunc(nodes, func(a, b *server) int { return cmp.Compare(a.addr, b.addr) })
		d.nodes = nodes
	}
}

// judgeEngines judges what the servers are, and whether they are all the same.
func (d *Doctor) judgeEngines() finding {
	f := summarize(d.nodes, judgeEngine)
	if f.status != OK {
		return f
	}
	first := judgeEngine(d.nodes[0])
	for _, n := range d.nodes {
		if judgeEngine(n) != first {
			return warn("different versions: "+f.found, "Finish the upgrade of all nodes.")
		}
	}
	return f
}

// judgeEngine names the server. Valkey tells a version of Redis too, of the last that it is
// compatible with.
func judgeEngine(n *server) finding {
	name, version := "Redis", n.info["redis_version"]
	if n.info["valkey_version"] != "" || n.info["server_name"] == "valkey" {
		name, version = "Valkey", cmp.Or(n.info["valkey_version"], version)
	}
	if version == "" {
		return skipf("the server does not tell what it is")
	}
	major, _, _ := strings.Cut(version, ".")
	if number, err := strconv.Atoi(major); err == nil && number < 6 {
		return fail(name+" "+version, "Upgrade: Redis 6.0 or later is needed, or Valkey.")
	}
	return okf("%s %s", name, version)
}

// checkTopology compares what the servers are with what --redis takes them for, and judges each
// one's place.
func (d *Doctor) checkTopology(context.Context) finding {
	if d.seed == nil {
		return skipf("not signed in")
	}
	addr, mode := d.nodes[0].addr, d.nodes[0].mode()
	switch {
	case d.servers.Managed != nil: // its mode is what AWS says
	case mode == modeSentinel:
		return fail(addr+" is a sentinel", "Use --redis "+d.urlOf("redis+sentinel", d.userInfo(), addr+"/<primary>")+".")
	case d.servers.Cluster == nil && mode == modeCluster:
		return fail(addr+" is a node of a cluster", "Use --redis "+d.urlOf("redis+cluster", d.userInfo(), addr)+".")
	case d.servers.Cluster != nil && mode == modeStandalone:
		return fail(addr+" is no node of a cluster", "Use --redis "+d.urlOf("redis", d.userInfo(), addr)+".")
	}
	if d.clusterErr != nil {
		return fail(words(d.clusterErr), "See to the nodes that --redis names: none tells who serves what.")
	}
	return summarize(d.nodes, d.judgeNode)
}
