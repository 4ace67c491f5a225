package doctor

import (
	"fmt"
	"net"
	"strings"
)

const (
	// fullMemory is the share of its memory, in percent, that a server should not exceed.
	fullMemory = 80
	// lateReplica and slowReplica are how far behind a replica may be, in bytes, and how long silent, in seconds.
	lateReplica = 1 << 20
	slowReplica = 5
)

// rolePrimary is what a primary says it is.
const rolePrimary = "master"

// serverless tells whether the servers are a cache that AWS alone has settings of.
func (d *Doctor) serverless() bool {
	return d.servers.Managed != nil && d.servers.Managed.Config.Serverless
}

// judgeRole: what is written to a replica is refused, and what is read there is old.
func (d *Doctor) judgeRole(n *server) finding {
	switch n.info["role"] {
	case "":
		return skipf("not told")
	case rolePrimary:
		return okf("primary")
	}
	found := "a replica"
	if host := n.info["master_host"]; host != "" {
		found = "a replica of " + net.JoinHostPort(host, n.info["master_port"])
	}
	switch {
	case d.servers.Managed != nil, d.servers.Cluster != nil, d.servers.Failover != nil:
		return fail(found, "Try again: a failover seems to be under way.")
	default:
		return fail(found, "Name the primary in --redis, or the sentinels or the cluster that know it.")
	}
}

// judgeMemory judges how full a server is.
func judgeMemory(n *server) finding {
	fields := &numbers{all: n.info}
	used, told := fields.get("used_memory")
	limit, limited := fields.get("maxmemory")
	switch {
	case !told && len(fields.odd) == 0:
		return skipf("not told")
	case !told:
		return skipf("how much is used is not told%s", fields.oddly())
	case !limited && len(fields.odd) > 0:
		return skipf("%s used%s", memorySize(used), fields.oddly())
	case !limited:
		return okf("%s used", memorySize(used))
	case limit == 0:
		return okf("%s used, no limit set", memorySize(used))
	}
	percent := float64(used) / float64(limit) * 100
	found := fmt.Sprintf("%s of %s used, %.0f %%", memorySize(used), memorySize(limit), percent)
	if percent > fullMemory {
		return warn(found, "Give it more memory, or spread the pages over more nodes: writes of pages are refused when it is full.")
	}
	return okf("%s", found)
}

// judgeEviction judges what a full server does: pages that it evicts are made anew from the ledger, at a cost.
func (d *Doctor) judgeEviction(n *server) finding {
	policy := n.info["maxmemory_policy"]
	fields := &numbers{all: n.info}
	evicted, counted := fields.get("evicted_keys")
	if policy == "" && !counted && len(fields.odd) == 0 {
		return skipf("not told")
	}
	found := "policy " + policy
	if policy == "" {
		found = "policy not told"
	}
	if evicted > 0 {
		found += fmt.Sprintf(", %d keys evicted since the server started", evicted)
	}
	found += fields.oddly()
	switch {
	case strings.HasPrefix(policy, "allkeys") && d.config.Ledger == "":
		return fail(found, "Set maxmemory-policy noeviction: without a ledger, what is in pages that are evicted is lost.")
	case strings.HasPrefix(policy, "allkeys"):
		return fail(found, "Set maxmemory-policy noeviction: pages would be evicted and rebuilt, again and again.")
	case evicted > 0 && d.config.Ledger == "":
		return warn(found, "Give it more memory: without a ledger, what was in pages that were evicted is lost.")
	case evicted > 0:
		return warn(found, "Give it more memory: what was evicted had to be made anew, or is forgotten if it was only seen.")
	case strings.HasPrefix(policy, "volatile") && !d.serverless():
		return warn(found, "Set maxmemory-policy noeviction: `seen` may be evicted early; blocks are not.")
	}
	return okf("%s", found)
}

// judgeReplication judges whether somebody could take a primary's place.
func (d *Doctor) judgeReplication(n *server) finding {
	fields := &numbers{all: n.info}
	count, told := fields.get("connected_slaves")
	switch {
	case !told, d.serverless():
		return skipf("not told%s", fields.oddly())
	case n.info["role"] != rolePrimary:
		return skipf("a replica's own replicas do not count")
	case count == 0 && d.config.Ledger == "":
		return warn("no replica", "Add one: without a ledger, all that this server has is lost with it.")
	case count == 0:
		return warn("no replica", "Add one: when this server is lost, all its pages are made anew from the ledger, and `seen` is forgotten.")
	}
	written, _ := fields.get("master_repl_offset")
	var behind, silent int64
	for i := range count {
		replica, ok := replicaOf(n.info, i)
		if !ok {
			return skipf("%d replicas, of which %d are told of%s", count, i, fields.oddly())
		}
		if state := replica["state"]; state != "online" {
			return warn(fmt.Sprintf("replica %s:%s is in state %q", replica["ip"], replica["port"], state),
				"Wait until it has the data, or see why it does not get it.")
		}
		own := &numbers{all: replica}
		if offset, ok := own.get("offset"); ok {
			behind = max(behind, written-offset)
		}
		lag, _ := own.get("lag")
		silent = max(silent, lag)
		fields.odd = append(fields.odd, own.odd...)
	}
	if len(fields.odd) > 0 {
		return skipf("%d replicas%s", count, fields.oddly())
	}
	if behind > lateReplica || silent > slowReplica {
		return warn(fmt.Sprintf("%d replicas, up to %s behind, last heard of %d s ago", count, memorySize(behind), silent),
			"See to the network between them and to their load: what a replica lacks is made anew after a failover, "+
				"or forgotten if it was only seen.")
	}
	if count == 1 {
		return okf("1 replica in step")
	}
	return okf("%d replicas in step", count)
}

// replicaOf is what a primary tells of its replica number i: ip=10.0.0.2,port=6379,state=online,offset=84,lag=0.
func replicaOf(info map[string]string, i int64) (map[string]string, bool) {
	line, ok := info[fmt.Sprintf("slave%d", i)]
	replica := make(map[string]string)
	for field := range strings.SplitSeq(line, ",") {
		name, value, _ := strings.Cut(field, "=")
		replica[name] = value
	}
	return replica, ok
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
