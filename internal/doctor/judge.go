package doctor

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

const (
	fullMemory  = 80 // percent of its memory that a server should not exceed
	rolePrimary = "master"
	slots       = 16384
)

// serverless reports whether AWS alone has settings of the cache.
func (d *Doctor) serverless() bool {
	return d.servers.Managed != nil && d.servers.Managed.Config.Serverless
}

// number reads a field that is a whole number and not negative; false: the server does not tell it.
func number(fields map[string]string, name string) (int64, bool) {
	n, err := strconv.ParseInt(fields[name], 10, 64)
	return n, err == nil && n >= 0
}

// worse returns the worst of findings, with what the others found beside it.
func worse(all ...finding) finding {
	var worst finding
	var found []string
	for i, f := range all {
		if f.found != "" {
			found = append(found, f.found)
		}
		if i == 0 || f.status > worst.status && (f.status != Skip || worst.found == "") || worst.status == Skip && f.status != Skip {
			worst = f
		}
	}
	worst.found = strings.Join(found, "; ")
	return worst
}

// judgeMemory judges how full a server is, and what it does when it is full: pages that it evicts
// are rebuilt, at a cost.
func (d *Doctor) judgeMemory(n *server) finding {
	used, told := number(n.info, "used_memory")
	if !told {
		return skipf("not told")
	}
	policy := n.info["maxmemory_policy"]
	evicted, _ := number(n.info, "evicted_keys")
	found, percent := memorySize(used)+" used, no limit set", 0.0
	if limit, _ := number(n.info, "maxmemory"); limit > 0 {
		percent = float64(used) / float64(limit) * 100
		found = fmt.Sprintf("%s of %s used, %.0f %%", memorySize(used), memorySize(limit), percent)
	}
	if policy != "" {
		found += ", policy " + policy
	}
	if evicted > 0 {
		found += fmt.Sprintf(", %d keys evicted since the server started", evicted)
	}
	switch {
	case strings.HasPrefix(policy, "allkeys") && d.config.Ledger == "":
		return fail(found, "Set maxmemory-policy noeviction: without a ledger, evicted pages are lost.")
	case strings.HasPrefix(policy, "allkeys"):
		return fail(found, "Set maxmemory-policy noeviction: pages would be evicted and rebuilt, again and again.")
	case percent > fullMemory:
		return warn(found, "Give it more memory, or spread the pages over more nodes: a full server refuses writes.")
	case evicted > 0 && d.config.Ledger == "":
		return warn(found, "Give it more memory: without a ledger, evicted pages are lost.")
	case evicted > 0:
		return warn(found, "Give it more memory: evicted pages are rebuilt, and evicted `seen` is forgotten.")
	case strings.HasPrefix(policy, "volatile") && !d.serverless():
		return warn(found, "Set maxmemory-policy noeviction: `seen` may be evicted early; blocks are not.")
	}
	return okf("%s", found)
}

// judgeNode judges the place of a node: what it thinks of its cluster, its role, and its replicas.
func (d *Doctor) judgeNode(n *server) finding {
	found := []finding{judgeCluster(n), d.judgeRole(n)}
	if n.info["role"] == rolePrimary && !d.serverless() {
		found = append(found, d.judgeReplicas(n))
	}
	return worse(found...)
}

// judgeRole: a replica refuses writes, and its pages are old.
func (d *Doctor) judgeRole(n *server) finding {
	switch n.info["role"] {
	case "":
		return skipf("role not told")
	case rolePrimary:
		return okf("primary")
	}
	found := "a replica of " + net.JoinHostPort(n.info["master_host"], n.info["master_port"])
	if d.servers.Single != nil && d.servers.Managed == nil {
		return fail(found, "Name the primary in --redis, or the sentinels or the cluster that know it.")
	}
	return fail(found, "Try again: a failover seems to be under way.")
}

// judgeReplicas judges whether a replica could take the primary's place.
func (d *Doctor) judgeReplicas(n *server) finding {
	const late, silent = 1 << 20, 5 // bytes behind, and seconds
	count, told := number(n.info, "connected_slaves")
	switch {
	case !told:
		return skipf("replicas not told")
	case count == 0 && d.config.Ledger == "":
		return warn("no replica", "Add one: without a ledger, all that this server has is lost with it.")
	case count == 0:
		return warn("no replica", "Add one: when this server is lost, all its pages are rebuilt from the ledger, and `seen` is forgotten.")
	}
	written, _ := number(n.info, "master_repl_offset")
	for i := int64(0); ; i++ {
		line, ok := n.info[fmt.Sprintf("slave%d", i)] // ip=10.0.0.2,port=6379,state=online,offset=84,lag=0
		if !ok {
			return okf("replicas in step: %d", i)
		}
		replica := make(map[string]string)
		for field := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(field, "=")
			replica[name] = value
		}
		offset, counted := number(replica, "offset")
		lag, _ := number(replica, "lag")
		if replica["state"] != "online" || counted && written-offset > late || lag > silent {
			return warn(fmt.Sprintf("replica %s:%s is in state %q, %s behind, last heard of %d s ago",
				replica["ip"], replica["port"], replica["state"], memorySize(max(0, written-offset)), lag),
				"See to the network to it, and to its load: after a failover, what a replica lacks is rebuilt, or forgotten if it was only seen.")
		}
	}
}

// judgeCluster judges what a node thinks of its cluster; it says nothing of a server that is in
// none.
func judgeCluster(n *server) finding {
	state, told := n.cluster["cluster_state"]
	if !told || n.mode() == modeStandalone {
		return okf("")
	}
	found := "state " + state
	assigned, counted := number(n.cluster, "cluster_slots_assigned")
	if counted {
		found += fmt.Sprintf(", %d of %d slots assigned", assigned, slots)
	}
	if known, ok := number(n.cluster, "cluster_known_nodes"); ok {
		found += fmt.Sprintf(", %d nodes", known)
	}
	failing, _ := number(n.cluster, "cluster_slots_fail")
	suspect, _ := number(n.cluster, "cluster_slots_pfail")
	if failing > 0 || suspect > 0 {
		found += fmt.Sprintf(", %d slots on nodes that do not answer", min(failing, slots)+min(suspect, slots))
	}
	switch {
	case counted && assigned < slots:
		return fail(found, "Assign the slots that nobody serves: pages in them have no place (redis-cli --cluster fix).")
	case state != "ok", failing > 0:
		return fail(found, "Bring back the nodes that failed, or have their replicas take over.")
	case suspect > 0:
		return warn(found, "See to the nodes that do not answer the others.")
	}
	return okf("%s", found)
}

// memorySize is a number of bytes for people.
func memorySize(n int64) string {
	units := [...]string{"B", "KiB", "MiB", "GiB", "TiB"}
	size, unit := float64(n), 0
	for size >= 1024 && unit < len(units)-1 {
		size, unit = size/1024, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", size, units[unit])
}
