package doctor

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

const (
	fullMemory  = 80 // percent of a server's memory in use, at most
	rolePrimary = "master"
	slots       = 16384
)

// serverless reports whether AWS alone controls the cache's settings.
func (d *Doctor) serverless() bool {
	return d.servers.Managed != nil && d.servers.Managed.Config.Serverless
}

// number returns a field that is a whole number, 0 or more. It returns false if the server does not
// report one.
func number(fields map[string]string, name string) (int64, bool) {
	n, err := strconv.ParseInt(fields[name], 10, 64)
	return n, err == nil && n >= 0
}

// worse returns the worst finding, with the texts of all.
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

// judgeMemory judges how full a server is, and its eviction policy: rebuilding evicted pages costs
// time.
func (d *Doctor) judgeMemory(n *server) finding {
	used, told := number(n.info, "used_memory")
	if !told {
		return skipf("not reported")
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
		return fail(found, "Set maxmemory-policy noeviction: the server would evict pages, and the service rebuild them, again and again.")
	case percent > fullMemory:
		return warn(found, "Give the server more memory, or spread the pages over more nodes: a full server refuses writes.")
	case evicted > 0 && d.config.Ledger == "":
		return warn(found, "Give the server more memory: without a ledger, evicted pages are lost.")
	case evicted > 0:
		return warn(found, "Give the server more memory: evicted pages are rebuilt, but evicted `seen` windows are lost.")
	case strings.HasPrefix(policy, "volatile") && !d.serverless():
		return warn(found, "Set maxmemory-policy noeviction: `seen` windows may be evicted early; blocks are not.")
	}
	return okf("%s", found)
}

// judgeNode judges a node's view of its cluster, its role, and its replicas.
func (d *Doctor) judgeNode(n *server) finding {
	found := []finding{judgeCluster(n), d.judgeRole(n)}
	if n.info["role"] == rolePrimary && !d.serverless() {
		found = append(found, d.judgeReplicas(n))
	}
	return worse(found...)
}

// judgeRole fails for a replica, which refuses writes and may have stale pages.
func (d *Doctor) judgeRole(n *server) finding {
	switch n.info["role"] {
	case "":
		return skipf("role not reported")
	case rolePrimary:
		return okf("primary")
	}
	found := "a replica of " + net.JoinHostPort(n.info["master_host"], n.info["master_port"])
	if d.servers.Single != nil && d.servers.Managed == nil {
		return fail(found, "Name the primary in --redis, or its sentinels or cluster.")
	}
	return fail(found, "Run doctor again: a failover seems to be in progress.")
}

// judgeReplicas judges whether replicas exist and keep up with the primary.
func (d *Doctor) judgeReplicas(n *server) finding {
	const late, silent = 1 << 20, 5 // bytes behind, and seconds
	count, told := number(n.info, "connected_slaves")
	switch {
	case !told:
		return skipf("replicas not reported")
	case count == 0 && d.config.Ledger == "":
		return warn("no replica", "Add one: without a ledger, the loss of this server loses all its pages.")
	case count == 0:
		return warn("no replica", "Add one: if this server is lost, its pages are rebuilt from the ledger, but `seen` windows are lost.")
	}
	written, _ := number(n.info, "master_repl_offset")
	for i := int64(0); ; i++ {
		line, ok := n.info[fmt.Sprintf("slave%d", i)] // ip=10.0.0.2,port=6379,state=online,offset=84,lag=0
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
				replica["ip"], replica["port"], replica["state"], memorySize(max(0, written-offset)), lag),
				"Check the network to it, and its load: after a failover, pages that it lacks are rebuilt, but `seen` windows are lost.")
		}
	}
}

// judgeCluster judges a node's view of its cluster. Its finding is empty for a server outside a
// cluster.
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
		found += fmt.Sprintf(", %d slots on unreachable nodes", min(failing, slots)+min(suspect, slots))
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

// memorySize formats a number of bytes for people.
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
