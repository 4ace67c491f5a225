package sizing

import (
	"cmp"
	"fmt"
	"math"
	"time"
)

const (
	// reserved is the share of a node's memory that is left to the server: buffers, replication, snapshots.
	reserved = 0.25
	// cpuTarget is how busy a server is to be, which has one thread for commands; of nodes that have their
	// CPU for moments only, burstTarget.
	cpuTarget, burstTarget = 0.5, 0.1
	hoursPerMonth          = 730
	maxShards              = 16384 // a slot each
)

// shardsFor is how many shards share so much, if none may have more than most, 0 being any amount.
func shardsFor(total, most, scatter float64) int {
	if total <= 0 || most <= 0 {
		return 1
	}
	n := max(1, int(min(maxShards, math.Ceil(total/most))))
	for n <= maxShards && ofShard(total, n, scatter) > most {
		n++
	}
	return n
}

// ofShard is what the fullest of n shards has of a total: the mean, and three standard deviations of what chance
// gives it.
func ofShard(total float64, n int, scatter float64) float64 {
	return (total + 3*scatter*math.Sqrt(float64(n-1))) / float64(n)
}

// fleet is the cheapest cluster that does; if none does it is nil, and problem says why.
func (in *Input) fleet(w *Way, prices Prices) (best *Fleet, problem string) {
	small := "" // the problem of nodes that are only for what is small
	for _, node := range prices.Nodes {
		if in.Node != "" && in.Node != node.Type {
			continue
		}
		f, why := in.fleetOf(node, w)
		switch {
		case f == nil && node.Burstable:
			small = why
		case f == nil:
			problem = why
		case best == nil || f.USDMonth < best.USDMonth || f.USDMonth == best.USDMonth && f.Nodes < best.Nodes:
			best = f
		}
	}
	if best != nil {
		return best, ""
	}
	return nil, cmp.Or(problem, small)
}

// fleetOf is the cluster of such nodes; if there cannot be one it is nil, and problem says why. Nodes that have their CPU for
// moments only are for what is small, unless they are asked for.
func (in *Input) fleetOf(node Node, w *Way) (f *Fleet, problem string) {
	target := cpuTarget
	if node.Burstable {
		target = burstTarget
	}
	free := node.GiB * (1 << 30) * (1 - reserved)
	cpu := in.FeedsPerSecond * w.FeedCPU / 1e6
	out := in.FeedsPerSecond * w.FeedReply * 8 / 1e9
	into := in.FeedsPerSecond * w.FeedRequest * 8 / 1e9
	f = &Fleet{Node: node.Type, Shards: shardsFor(w.Memory, free*in.Fill, w.scatter), Limit: "memory"}
	if n := shardsFor(cpu, target, 0); n > f.Shards {
		f.Shards, f.Limit = n, "CPU"
	}
	if n := shardsFor(max(out, into), node.Gbit, 0); n > f.Shards {
		f.Shards, f.Limit = n, "network"
	}
	switch {
	case f.Shards > maxShards:
		return nil, fmt.Sprintf("over %d shards (%s)", maxShards, f.Limit)
	case node.Burstable && f.Shards > 1 && in.Node == "":
		return nil, fmt.Sprintf("over 1 burstable node (%s)", f.Limit)
	}
	f.Nodes = f.Shards * (1 + in.Replicas)
	f.Memory = ofShard(w.Memory, f.Shards, w.scatter) / free
	shards := float64(f.Shards)
	f.CPU, f.Gbit, f.GbitIn = cpu/shards, out/shards, into/shards
	f.USDMonth = float64(f.Nodes) * node.USDPerHour * hoursPerMonth
	return f, ""
}

// cache is what a cache without nodes costs: for what is stored, and for each KB that is moved.
func (in *Input) cache(w *Way, price Serverless) Cache {
	c := Cache{GB: max(w.Memory/1e9, price.LeastGB), FeedECPU: max(1, (w.FeedRequest+w.FeedReply)/1000)}
	feeds := in.FeedsPerSecond * hoursPerMonth * time.Hour.Seconds()
	c.USDMonth = c.GB*hoursPerMonth*price.USDPerGBHour + feeds*c.FeedECPU/1e6*price.USDPerMillionECPU
	return c
}
