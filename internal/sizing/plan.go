package sizing

import (
	"fmt"
	"math"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/favfilter"
)

// Ranges of an [Input].
const (
	MaxUsers      = 1e10
	MaxActivities = 1e6 // of a user, on average
	MaxFeeds      = 1e9 // a second
	MaxCandidates = 10_000
	MaxSpread     = 30
	MaxReplicas   = 5
)

// Input is the input of a plan.
type Input struct {
	Users             float64 `json:"users"`                 // 1 to MaxUsers
	ActivitiesPerUser float64 `json:"activities_per_user"`   // in the ledger, on average: 0 to MaxActivities
	TwoWay            float64 `json:"two_way"`               // the share of two-way activities, such as blocks: 0 to 1
	SeenPerDay        float64 `json:"seen_per_user_per_day"` // of kind "seen": 0 to 1e5
	FalsePositiveRate float64 `json:"false_positive_rate"`   // of a candidate: 1e-8 to 0.5
	FeedsPerSecond    float64 `json:"feeds_per_second"`      // at peak: 0 to MaxFeeds

	Spread     float64 `json:"spread"`     // standard deviation of activities per user, divided by the mean: 0 to MaxSpread
	Pages      uint32  `json:"pages"`      // a power of two to favfilter.MaxPages; 0: New chooses
	Candidates int     `json:"candidates"` // of a feed: 1 to MaxCandidates
	IDBytes    int     `json:"id_bytes"`   // of users and posts: 1 to activity.MaxIDBytes

	Replicas int     `json:"replicas"`  // of each shard: 0 to MaxReplicas
	Fill     float64 `json:"fill"`      // share to use of the node memory that is not reserved: 0.1 to 1
	NodeGiB  float64 `json:"node_gib"`  // memory of a node: 0.1 to 1e5
	NodeGbit float64 `json:"node_gbit"` // bandwidth of a node in Gbit/s each way, at most 1e4; 0: no limit

	Filter string          `json:"filter"` // its name
	Kinds  *activity.Kinds `json:"-"`      // nil: the built-in ones
}

// InputError means that a value of an [Input] is out of range, or impossible with the others.
type InputError struct {
	Field   string // name in JSON
	Problem string
}

func (e *InputError) Error() string { return e.Field + ": " + e.Problem }

// Plan is the resources of a deployment. Sizes are in bytes.
type Plan struct {
	Input         Input   `json:"input"`
	KeysPerPage   float64 `json:"keys_per_page"`       // on average
	KeysPage99    float64 `json:"keys_per_page_p99"`   // 99 % of pages have at most this many
	PagesMemory   float64 `json:"pages_bytes"`         // of Redis, for the ledger's kinds
	WindowsMemory float64 `json:"windows_bytes"`       // of Redis, for seen posts
	Forgotten     float64 `json:"windows_forgotten"`   // share of seen posts that are forgotten early, see activity.Kind.Most
	FeedRead99    float64 `json:"feed_read_p99_bytes"` // 99 % of feed checks read at most this much

	Ways    []Way    `json:"ways"` // ways to store the activities in Redis; the first is feedfilter's
	Ledger  Ledger   `json:"ledger"`
	Service Service  `json:"service"`
	Notes   []string `json:"notes"` // assumptions and omissions
}

// Way is one way to store activities in Redis.
type Way struct {
	Name        string  `json:"name"`
	Undo        bool    `json:"undo"` // activities can be undone
	Memory      float64 `json:"memory_bytes"`
	PerActivity float64 `json:"bytes_per_activity,omitempty"` // of the ledger's kinds, without windows
	FeedRequest float64 `json:"feed_request_bytes"`           // to the server, for a feed check
	FeedReply   float64 `json:"feed_reply_bytes"`             // from the server
	FeedCPU     float64 `json:"feed_cpu_us"`                  // of the server
	FeedECPU    float64 `json:"feed_ecpu"`                    // ElastiCache Processing Units of a serverless cache
	Cluster     *Fleet  `json:"cluster,omitempty"`            // nil: it needs more than maxShards
	NoCluster   string  `json:"no_cluster,omitempty"`         // why

	// scatter is the root of the sum of squares of the sizes of all pages or users: by chance, some
	// shards get more than others.
	scatter float64
}

// Fleet is a cluster of nodes.
type Fleet struct {
	Shards int     `json:"shards"`
	Nodes  int     `json:"nodes"`                  // replicas included
	Limit  string  `json:"limit"`                  // the reason for the number of shards: memory, CPU or network
	Memory float64 `json:"shard_memory_share"`     // of the fullest shard, as share of a node's memory without the reserve
	CPU    float64 `json:"shard_cpu_share"`        // of a shard, as share of one core
	Reads  float64 `json:"shard_reads_per_second"` // feed checks
	Gbit   float64 `json:"shard_gbit_out"`         // Gbit/s from a shard
	GbitIn float64 `json:"shard_gbit_in"`
}

// Ledger is the disk space in PostgreSQL, based on measured sizes of rows.
type Ledger struct {
	Rows    float64 `json:"rows"`
	Bytes   float64 `json:"bytes"` // of the table and its indexes
	Table   float64 `json:"table_bytes"`
	Indexes float64 `json:"index_bytes"`
}

// Service is the resources of feedfilter's processes: estimates from figures of one machine, see
// docs/BENCHMARKS.md.
type Service struct {
	FeedCPU     float64 `json:"feed_cpu_us"`        // of a feed check by Protobuf
	FeedCPUJSON float64 `json:"feed_cpu_json_us"`   // and by JSON
	Cores       float64 `json:"cores"`              // of all processes, with all feeds by Protobuf
	CoresJSON   float64 `json:"cores_json"`         // and by JSON
	Memory      float64 `json:"process_bytes"`      // of a process, with about 64 requests in flight
	MemoryFull  float64 `json:"process_full_bytes"` // with the maximum number of requests
	Known       float64 `json:"known_bytes"`        // the part of both that depends on the number of pages
}

// New returns the plan for in, or an [*InputError].
func New(in Input) (*Plan, error) {
	if in.Kinds == nil {
		in.Kinds = activity.BuiltinKinds()
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	if in.Pages == 0 {
		in.Pages = NumberFor(in.entries())
	}
	p := &Plan{Input: in}
	filter, err := p.filter()
	if err != nil {
		return nil, err
	}
	p.Ways = []Way{filter, in.exactSets(), in.valkeySets(), in.bloom()}
	for i := range p.Ways {
		w := &p.Ways[i]
		if w.PerActivity /= in.Users * in.ActivitiesPerUser; in.ActivitiesPerUser == 0 {
			w.PerActivity = 0
		}
		w.FeedECPU = max(1, (w.FeedRequest+w.FeedReply)/1000)
		in.fleet(w)
	}
	p.Ledger = in.ledger()
	p.Service = in.service()
	p.Notes = p.notes()
	return p, nil
}

// check checks the ranges.
func (in *Input) check() error {
	for _, r := range []struct {
		name             string
		value, low, high float64
	}{
		{"users", in.Users, 1, MaxUsers},
		{"activities_per_user", in.ActivitiesPerUser, 0, MaxActivities},
		{"two_way", in.TwoWay, 0, 1},
		{"seen_per_user_per_day", in.SeenPerDay, 0, 1e5},
		{"false_positive_rate", in.FalsePositiveRate, 1e-8, 0.5},
		{"feeds_per_second", in.FeedsPerSecond, 0, MaxFeeds},
		{"spread", in.Spread, 0, MaxSpread},
		{"candidates", float64(in.Candidates), 1, MaxCandidates},
		{"id_bytes", float64(in.IDBytes), 1, activity.MaxIDBytes},
		{"replicas", float64(in.Replicas), 0, MaxReplicas},
		{"fill", in.Fill, 0.1, 1},
		{"node_gib", in.NodeGiB, 0.1, 1e5},
		{"node_gbit", in.NodeGbit, 0, 1e4},
	} {
		if !(r.value >= r.low && r.value <= r.high) { // also refuses NaN
			return &InputError{r.name, fmt.Sprintf("%g is not in %g to %g", r.value, r.low, r.high)}
		}
	}
	if _, ok := in.Kinds.Named(activity.Seen); !ok && in.SeenPerDay > 0 {
		return &InputError{"seen_per_user_per_day", "there is no kind " + activity.Seen}
	}
	if n := in.Pages; n > favfilter.MaxPages || n&(n-1) != 0 {
		return &InputError{"pages", fmt.Sprintf("%d is not a power of two from 1 to %d", n, favfilter.MaxPages)}
	}
	return nil
}

// keysAUser returns the keys per user in pages: a two-way activity has a key for both users.
func (in *Input) keysAUser() float64 { return in.ActivitiesPerUser * (1 + in.TwoWay) }

func (in *Input) entries() float64 { return in.Users * in.keysAUser() }

// lookups returns how many keys of the ledger's kinds a feed check tests per candidate.
func (in *Input) lookups() (keys int) {
	for _, k := range in.Kinds.All() {
		switch {
		case k.Effect != activity.Drop || !k.InLedger():
		case k.Reverse != "":
			keys += 2
		default:
			keys++
		}
	}
	return keys
}

// ledger returns the ledger's part of the plan.
func (in *Input) ledger() Ledger {
	rows, ids := in.entries(), float64(2*in.IDBytes)
	l := Ledger{Rows: rows, Table: rows * (rowBytes + ids), Indexes: rows * (indexBytes + indexIDs*ids)}
	l.Bytes = l.Table + l.Indexes
	return l
}

// service returns the service's part of the plan.
func (in *Input) service() Service {
	s := Service{
		FeedCPU:     feedCPU + candidateCPU*float64(in.Candidates),
		FeedCPUJSON: feedCPUJSON + candidateCPUJSON*float64(in.Candidates),
		Known:       float64(in.Pages) * knownBytes,
	}
	s.Cores, s.CoresJSON = in.FeedsPerSecond*s.FeedCPU/1e6/cpuTarget, in.FeedsPerSecond*s.FeedCPUJSON/1e6/cpuTarget
	s.Memory, s.MemoryFull = processBytes+s.Known, processFullBytes+s.Known
	return s
}

// rates returns the shares of the false-positive rate, divided as in the service.
func (in *Input) rates() activity.Rates { return in.Kinds.Rates(in.FalsePositiveRate) }

// fleet sets the nodes of w.
func (in *Input) fleet(w *Way) {
	free := in.NodeGiB * (1 << 30) * (1 - reserved)
	cpu := in.FeedsPerSecond * w.FeedCPU / 1e6
	out := in.FeedsPerSecond * w.FeedReply * 8 / 1e9
	into := in.FeedsPerSecond * w.FeedRequest * 8 / 1e9
	f := &Fleet{Shards: shardsFor(w.Memory, free*in.Fill, w.scatter), Limit: "memory"}
	if n := shardsFor(cpu, cpuTarget, 0); n > f.Shards {
		f.Shards, f.Limit = n, "CPU"
	}
	if n := shardsFor(max(out, into), in.NodeGbit, 0); n > f.Shards {
		f.Shards, f.Limit = n, "network"
	}
	if f.Shards > maxShards {
		w.NoCluster = fmt.Sprintf("over %d shards (%s)", maxShards, f.Limit)
		return
	}
	shards := float64(f.Shards)
	f.Nodes, f.Memory = f.Shards*(1+in.Replicas), ofShard(w.Memory, f.Shards, w.scatter)/free
	f.CPU, f.Reads, f.Gbit, f.GbitIn = cpu/shards, in.FeedsPerSecond/shards, out/shards, into/shards
	w.Cluster = f
}

// shardsFor returns the number of shards for a total of which no shard may have more than most; a
// most of 0 is no limit.
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

// ofShard returns the part of a total that the fullest of n shards has: the mean and three standard
// deviations.
func ofShard(total float64, n int, scatter float64) float64 {
	return (total + 3*scatter*math.Sqrt(float64(n-1))) / float64(n)
}
