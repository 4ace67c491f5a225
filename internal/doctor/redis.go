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

// server is a server of pages, and what it reports of itself.
type server struct {
	addr   string
	client *redis.Client
	info   map[string]string // fields of INFO and CLUSTER INFO; empty if refused
	err    error             // it did not answer
}

// ask fills in what the server reports.
func (s *server) ask(ctx context.Context) {
	for _, command := range []func(context.Context) *redis.StringCmd{
		func(ctx context.Context) *redis.StringCmd { return s.client.Info(ctx) }, s.client.ClusterInfo,
	} {
		text, err := command(ctx).Result()
		_, reply := errors.AsType[redis.Error](err)
		if err != nil && (!reply || regexp.MustCompile("^(NOAUTH|WRONGPASS|DENIED|LOADING)").MatchString(err.Error())) {
			s.err = err // any other reply merely refuses the command
			return
		}
		s.read(text)
		if s.mode() != "cluster" && s.mode() != "" {
			return
		}
	}
}

// read reads lines of name:value.
func (s *server) read(text string) {
	if s.info == nil {
		s.info = make(map[string]string)
	}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			s.info[name] = value
		}
	}
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
	seed := d.nodes[0]
	seed.ask(ctx)
	// The mode that AWS reports is right; --redis may be wrong about other servers.
	if d.facts["cluster"] && (d.facts["managed"] || seed.mode() == "cluster" || seed.mode() == "") {
		d.findNodes(ctx)
	}
	var first error
	var failed []string
	for _, n := range d.nodes {
		if n.err != nil {
			first, failed = cmp.Or(first, n.err), append(failed, n.addr+": "+words(n.err))
		}
	}
	if first != nil {
		return fail(some(failed), d.advice("server", first))
	}
	return judgeEngines(d.nodes)
}

// findNodes connects to the cluster, and asks all primaries.
func (d *doctor) findNodes(ctx context.Context) {
	d.cluster = redis.NewClusterClient(d.clusterOptions)
	d.pages, d.closers = d.cluster, append(d.closers, d.cluster.Close)
	var mu sync.Mutex
	var nodes []*server
	d.unknown = d.cluster.ForEachMaster(ctx, func(ctx context.Context, primary *redis.Client) error {
		n := &server{addr: primary.Options().Addr, client: primary}
		n.ask(ctx)
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, n)
		return nil
	})
	if d.unknown == nil && len(nodes) > 0 {
		slices.SortFunc(nodes, func(a, b *server) int { return cmp.Compare(a.addr, b.addr) })
		d.nodes = nodes
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
	if number, err := strconv.Atoi(major); err == nil && number < 6 {
		return fail(name+" "+version, "Upgrade to Redis 6.0 or later, or Valkey.")
	}
	return okf("%s %s", name, version)
}

// checkTopology compares the servers' mode with the scheme of --redis, and judges each node.
func checkTopology(_ context.Context, d *doctor) finding {
	addr, mode := d.nodes[0].addr, d.nodes[0].mode()
	switch {
	case d.facts["managed"]: // AWS reports its mode
	case mode == "sentinel":
		return fail(addr+" is a sentinel", "Use --redis "+d.url("+sentinel", d.login+addr+"/<primary>")+".")
	case !d.facts["cluster"] && mode == "cluster":
		return fail(addr+" is a node of a cluster", "Use --redis "+d.url("+cluster", d.login+addr)+".")
	case d.facts["cluster"] && mode == "standalone":
		return fail(addr+" is not a node of a cluster", "Use --redis "+d.url("", d.login+addr)+".")
	}
	if d.unknown != nil {
		return d.fail("topology", d.unknown)
	}
	return summarize(d.nodes, d.judgeNode)
}

// judgeNode judges a node's view of its cluster, its role, and its replicas.
func (d *doctor) judgeNode(s *server) finding {
	found := []finding{judgeCluster(s)}
	switch s.info["role"] {
	case "":
		found = append(found, skipf("role not reported"))
	case primaryRole:
		if found = append(found, okf("primary")); !d.facts["serverless"] {
			found = append(found, d.judgeReplicas(s))
		}
	default: // it refuses writes and may have stale pages
		found = append(found, fail("a replica of "+net.JoinHostPort(s.info["master_host"], s.info["master_port"]),
			"Name the primary in --redis, or its sentinels or cluster. If it does, a failover is in progress: run doctor again."))
	}
	return worse(found...)
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
		return okf("")
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
	switch {
	case counted && assigned < slots:
		return fail(found, "Assign the unserved slots (redis-cli --cluster fix): pages in them cannot be stored.")
	case state != "ok", failing > 0:
		return fail(found, "Restart the failed nodes, or fail over to their replicas.")
	case suspect > 0:
		return warn(found, "Check the nodes that do not answer the others.")
	}
	return okf("%s", found)
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
	switch {
	case strings.HasPrefix(policy, "allkeys") && !d.facts["ledger"]:
		return fail(found, "Set maxmemory-policy noeviction: without a ledger, evicted pages are lost.")
	case strings.HasPrefix(policy, "allkeys"):
		return fail(found, "Set maxmemory-policy noeviction: the server would evict pages, and the service rebuild them, again and again.")
	case percent > full:
		return warn(found, "Give the server more memory, or spread the pages over more nodes: a full server refuses writes.")
	case evicted > 0:
		return warn(found, "Give the server more memory: "+d.lost("evicted pages are rebuilt", "evicted pages are lost"))
	case strings.HasPrefix(policy, "volatile") && !d.facts["serverless"]:
		return warn(found, "Set maxmemory-policy noeviction: `seen` windows may be evicted early; blocks are not.")
	}
	return okf("%s", found)
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
			return skipf("a node of a cluster, but --redis does not name a cluster")
		}
		return d.fail("commands", err)
	})
	if d.facts["cluster"] && (d.cluster == nil || d.unknown != nil) || !d.facts["cluster"] && d.nodes[0].mode() == "cluster" {
		return scripts // no page can be read: see topology
	}
	return worse(scripts, d.readPages(ctx))
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
	store, err := redisstore.New(d.pages, d.Filter)
	if err != nil {
		return okf("") // the check "configuration" reports it
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
	found := fmt.Sprintf("%d pages read, %d exist", len(ids), there)
	if damaged > 0 {
		return warn(fmt.Sprintf("%s, %d are damaged", found, damaged),
			"A running service rebuilds them. Make sure that nothing else writes keys that begin with fav:{"+d.Filter+"/.")
	}
	return okf("%s", found)
}
