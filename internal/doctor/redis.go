package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
)

const (
	primaryRole = "master"
	slots       = 16384
)

// server is a server, and what it reports.
type server struct {
	addr    string
	client  *redis.Client
	info    map[string]string // fields of INFO and CLUSTER INFO; empty if refused
	primary string            // that a sentinel reports
	err     error             // it did not answer
}

// ask fills in what the server reports of itself.
func (s *server) ask(ctx context.Context) error {
	s.info = make(map[string]string)
	err := s.read(s.client.Info(ctx).Result())
	if err == nil && (s.mode() == "cluster" || s.mode() == "") {
		err = s.read(s.client.ClusterInfo(ctx).Result())
	}
	return err
}

// read reads lines of name:value. It ignores an error that merely refuses the command.
func (s *server) read(text string, err error) error {
	_, reply := errors.AsType[redis.Error](err)
	if err != nil && (!reply || regexp.MustCompile("^(NOAUTH|WRONGPASS|DENIED|LOADING)").MatchString(err.Error())) {
		return err
	}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			s.info[name] = value
		}
	}
	return nil
}

// mode returns how the server runs: as standalone, cluster or sentinel; "": not reported.
func (s *server) mode() string {
	if s.info["cluster_enabled"] == "1" {
		return "cluster"
	}
	return s.info["redis_mode"]
}

// number returns a field that is a whole number, 0 or more. It returns false if the server does not
// report one.
func number(fields map[string]string, name string) (int64, bool) {
	n, err := strconv.ParseInt(fields[name], 10, 64)
	if err != nil || n < 0 {
		return 0, false
	}
	return n, true
}

// checkServer asks all servers, and judges their engine and version.
func checkServer(ctx context.Context, d *doctor) finding {
	ask := func(s *server) error { return s.ask(ctx) }
	failed, first := each(d.nodes, ask)
	// The mode that AWS reports is right; --redis may be wrong about other servers.
	if mode := d.nodes[0].mode(); d.facts["cluster"] && (d.facts["managed"] || mode == "cluster" || mode == "") {
		d.findNodes(ctx)
		failed, first = each(d.nodes, ask)
	}
	if first != nil {
		return fail(some(failed), d.advice("server", first))
	}
	return judgeEngines(d.nodes)
}

// findNodes connects to the cluster, to find all primaries.
func (d *doctor) findNodes(ctx context.Context) {
	cluster := redis.NewClusterClient(d.clusterOptions)
	d.closers = append(d.closers, cluster.Close)
	var mu sync.Mutex
	var nodes []*server
	d.unknown = cluster.ForEachMaster(ctx, func(_ context.Context, primary *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, &server{addr: primary.Options().Addr, client: primary})
		return nil
	})
	if d.unknown == nil && len(nodes) > 0 {
		slices.SortFunc(nodes, func(a, b *server) int { return cmp.Compare(a.addr, b.addr) })
		d.nodes, d.cluster = nodes, cluster
	}
}

// judgeEngines judges the servers' engines, and whether all have the same version.
func judgeEngines(nodes []*server) finding {
	f := summarize(nodes, judgeEngine)
	byVersion := func(a, b *server) int { return cmp.Compare(judgeEngine(a).found, judgeEngine(b).found) }
	distinct := slices.SortedStableFunc(slices.Values(nodes), byVersion)
	distinct = slices.CompactFunc(distinct, func(a, b *server) bool { return byVersion(a, b) == 0 })
	if f.status != OK || len(distinct) == 1 {
		return f
	}
	return warn("different versions: "+summarize(distinct, judgeEngine).found, "Finish the upgrade of all nodes.")
}

// judgeEngine names the engine and version. Valkey also reports a redis_version, the last that it
// is compatible with.
func judgeEngine(s *server) finding {
	name, version := "Redis", s.info["redis_version"]
	if s.info["valkey_version"] != "" || s.info["server_name"] == "valkey" {
		name, version = "Valkey", cmp.Or(s.info["valkey_version"], version)
	}
	if version == "" {
		return skipf("the server does not report its version")
	}
	major, _, _ := strings.Cut(version, ".")
	number, err := strconv.Atoi(major)
	return judge(name+" "+version, rule{err == nil && number < 6, Fail, "", "Upgrade to Redis 6.0 or later, or Valkey."})
}

// checkTopology compares the servers' mode with the scheme of --redis, and judges each node.
func checkTopology(_ context.Context, d *doctor) finding {
	addr, mode, cluster := d.nodes[0].addr, d.nodes[0].mode(), d.facts["cluster"]
	use := func(topology, path string) string { return "Use --redis " + d.url(topology, d.login+addr+path) + "." }
	f := judge(addr,
		rule{d.facts["managed"], OK, "", ""}, // AWS reports its mode
		rule{mode == "sentinel", Fail, " is a sentinel", use("+sentinel", "/<primary>")},
		rule{!cluster && mode == "cluster", Fail, " is a node of a cluster", use("+cluster", "")},
		rule{cluster && mode == "standalone", Fail, " is not a node of a cluster", use("", "")})
	switch {
	case f.status == Fail:
		return f
	case d.unknown != nil:
		return d.fail("topology", d.unknown)
	}
	return summarize(d.nodes, d.judgeNode)
}

// judgeNode judges a node's view of its cluster, its role, and its replicas. A replica refuses
// writes and may have stale pages.
func (d *doctor) judgeNode(s *server) finding {
	switch s.info["role"] {
	case "":
		return worst(judgeCluster(s), skipf("role not reported"))
	case primaryRole:
		return worst(judgeCluster(s), okf("primary"), d.judgeReplicas(s))
	}
	return worst(judgeCluster(s), fail("a replica of "+net.JoinHostPort(s.info["master_host"], s.info["master_port"]),
		"Name the primary in --redis, or its sentinels or cluster. If it does, a failover is in progress: run doctor again."))
}

// lost says what a loss of pages means, which depends on whether there is a ledger.
func (d *doctor) lost(rebuilt, lost string) string {
	if d.facts["ledger"] {
		return rebuilt + ", but `seen` windows are lost."
	}
	return "without a ledger, " + lost + "."
}

// judgeReplicas judges whether replicas exist and keep up with the primary.
func (d *doctor) judgeReplicas(s *server) finding {
	const late, silent = 1 << 20, 5 // bytes behind, and seconds
	count, told := number(s.info, "connected_slaves")
	switch {
	case d.facts["serverless"]: // AWS alone controls them
		return finding{}
	case !told:
		return skipf("replicas not reported")
	case count == 0:
		return warn("no replica", "Add one: "+
			d.lost("if this server is lost, its pages are rebuilt from the ledger", "the loss of this server loses all its pages"))
	}
	written, _ := number(s.info, "master_repl_offset")
	for i := int64(0); ; i++ {
		line, ok := s.info[fmt.Sprintf("slave%d", i)] // ip=10.0.0.2,port=6379,state=online,offset=84,lag=0
		if !ok {
			return okf("replicas up to date: %d", i)
		}
		replica := make(map[string]string)
		for field := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(field, "=")
			replica[name] = value
		}
		offset, counted := number(replica, "offset")
		lag, _ := number(replica, "lag")
		if replica["state"] != "online" || counted && written-offset > late || lag > silent {
			return warn(fmt.Sprintf("replica %s:%s is in state %q, %s behind, last contact %d s ago",
				replica["ip"], replica["port"], replica["state"], size(max(0, written-offset)), lag),
				"Check the network to it, and its load: "+d.lost("after a failover, pages that it lacks are rebuilt", "they are lost"))
		}
	}
}

// judgeCluster judges a node's view of its cluster. Its finding is empty for a server outside a
// cluster.
func judgeCluster(s *server) finding {
	state, told := s.info["cluster_state"]
	if !told {
		return finding{}
	}
	found := "state " + state
	assigned, counted := number(s.info, "cluster_slots_assigned")
	if counted {
		found += fmt.Sprintf(", %d of %d slots assigned", assigned, slots)
	}
	if known, ok := number(s.info, "cluster_known_nodes"); ok {
		found += fmt.Sprintf(", %d nodes", known)
	}
	failing, _ := number(s.info, "cluster_slots_fail")
	suspect, _ := number(s.info, "cluster_slots_pfail")
	if failing > 0 || suspect > 0 {
		found += fmt.Sprintf(", %d slots on unreachable nodes", failing+suspect)
	}
	return judge(found,
		rule{counted && assigned < slots, Fail, "", "Assign the unserved slots (redis-cli --cluster fix): pages in them cannot be stored."},
		rule{state != "ok" || failing > 0, Fail, "", "Restart the failed nodes, or fail over to their replicas."},
		rule{suspect > 0, Warn, "", "Check the nodes that do not answer the others."})
}

func checkMemory(_ context.Context, d *doctor) finding { return summarize(d.nodes, d.judgeMemory) }

// judgeMemory judges how full a server is, and its eviction policy: rebuilding evicted pages costs
// time.
func (d *doctor) judgeMemory(s *server) finding {
	const full = 80 // percent, at most
	used, told := number(s.info, "used_memory")
	if !told {
		return skipf("not reported")
	}
	policy := s.info["maxmemory_policy"]
	evicted, _ := number(s.info, "evicted_keys")
	found, percent := size(used)+" used, no limit set", 0.0
	if limit, _ := number(s.info, "maxmemory"); limit > 0 {
		percent = float64(used) / float64(limit) * 100
		found = fmt.Sprintf("%s of %s used, %.0f %%", size(used), size(limit), percent)
	}
	if policy != "" {
		found += ", policy " + policy
	}
	if evicted > 0 {
		found += fmt.Sprintf(", %d keys evicted since the server started", evicted)
	}
	allKeys := strings.HasPrefix(policy, "allkeys")
	return judge(found,
		rule{allKeys && !d.facts["ledger"], Fail, "", "Set maxmemory-policy noeviction: without a ledger, evicted pages are lost."},
		rule{
			allKeys, Fail, "",
			"Set maxmemory-policy noeviction: the server would evict pages, and the service rebuild them, again and again.",
		},
		rule{percent > full, Warn, "", "Give the server more memory, or spread the pages over more nodes: a full server refuses writes."},
		rule{evicted > 0, Warn, "", "Give the server more memory: " + d.lost("evicted pages are rebuilt", "evicted pages are lost")},
		rule{
			strings.HasPrefix(policy, "volatile") && !d.facts["serverless"], Warn, "",
			"Set maxmemory-policy noeviction: `seen` windows may be evicted early; blocks are not.",
		})
}

// size formats a number of bytes for people.
func size(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	size, unit := float64(n)/1024, 0
	for ; size >= 1024 && unit < 3; unit++ {
		size /= 1024
	}
	return fmt.Sprintf("%.1f %ciB", size, "KMGT"[unit])
}

// tryScript calls every command that the scripts of the page store call, on an unused key, so that
// nothing changes.
const tryScript = `if redis.call('STRLEN', KEYS[1]) ~= 0 then return redis.error_reply('ERR the key is in use') end
redis.call('GETRANGE', KEYS[1], 0, 63)
redis.call('GET', KEYS[1])
redis.call('BITCOUNT', KEYS[1], 8, -1)
redis.call('BITFIELD', KEYS[1], 'GET', 'u1', '0')
redis.call('SETRANGE', KEYS[1], 0, '')
redis.call('SET', KEYS[1], '', 'XX', 'KEEPTTL')
redis.call('PERSIST', KEYS[1])
redis.call('DEL', KEYS[1])
return 1`

// checkCommands sends what the service sends: scripts to each server, and reads of pages.
func checkCommands(ctx context.Context, d *doctor) finding {
	keys := d.keys(ctx)
	scripts := summarize(d.nodes, func(s *server) finding {
		key, ok := keys[s.addr]
		if !ok {
			return skipf("it serves no slots")
		}
		script := redis.NewScript(tryScript)
		err := script.Eval(ctx, s.client, []string{key}).Err()
		if err == nil {
			err = script.EvalSha(ctx, s.client, []string{key}).Err()
		}
		switch {
		case err == nil:
			return okf("EVAL, EVALSHA and the commands in scripts work")
		case redis.HasErrorPrefix(err, "MOVED"):
			return skipf("a node of a cluster: see topology")
		}
		return d.fail("commands", err)
	})
	if d.cluster == nil && (d.facts["cluster"] || d.nodes[0].mode() == "cluster") {
		return scripts // no page can be read: see topology
	}
	return worst(scripts, d.readPages(ctx))
}

// keys returns, for each node, a key that it serves and that no page uses.
func (d *doctor) keys(ctx context.Context) map[string]string {
	key := func(i int) string { return fmt.Sprintf("fav:{%s/doctor%d}:bits", d.Filter, i) }
	if d.cluster == nil {
		return map[string]string{d.nodes[0].addr: key(0)}
	}
	found := make(map[string]string)
	// 64 keys per node: the chance that a node serves none of them is negligible.
	for i := 0; i < 64*len(d.nodes) && len(found) < len(d.nodes); i++ {
		if node, err := d.cluster.MasterForKey(ctx, key(i)); err == nil { // or no node serves the slot
			found[node.Options().Addr] = key(i)
		}
	}
	return found
}

// readPages reads some pages, as feed checks do.
func (d *doctor) readPages(ctx context.Context) finding {
	const most, usual = 16, 16384
	var client redis.UniversalClient = d.nodes[0].client
	if d.cluster != nil {
		client = d.cluster
	}
	store, err := redisstore.New(client, d.Filter)
	if err != nil {
		return finding{} // the check "configuration" reports it
	}
	pages := cmp.Or(d.Pages, usual)
	if d.ledger != nil {
		pages = cmp.Or(d.ledger.Identity.Pages, pages)
	}
	ids := make([]favfilter.PageID, min(pages, most))
	for i := range ids {
		ids[i].Number = uint32(i) * (pages / uint32(len(ids)))
	}
	loaded, err := store.Load(ctx, ids)
	if err != nil {
		return d.fail("commands", err)
	}
	there, damaged := 0, 0
	for _, l := range loaded {
		if l.Page != nil {
			there++
		}
		if l.Damage != nil {
			damaged++
		}
	}
	return judge(fmt.Sprintf("%d pages read, %d exist", len(ids), there), rule{
		damaged > 0, Warn, fmt.Sprintf(", %d are damaged", damaged),
		"A running service rebuilds them. Make sure that nothing else writes keys that begin with fav:{" + d.Filter + "/.",
	})
}
