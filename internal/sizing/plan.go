package sizing

import (
	"fmt"
	"strings"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/favfilter"
)

// seen is the kind with a window that is known to be large.
const seen = "seen"

// Ranges of an [Input].
const (
	MaxUsers      = 1e10
	MaxActivities = 1e6 // of a user, on average
	MaxFeeds      = 1e9 // a second
	MaxCandidates = 10_000
	MaxSpread     = 30
	MaxReplicas   = 5
)

// Input is what is to be sized.
type Input struct {
	Users             float64 `json:"users"`                 // 1 to MaxUsers
	ActivitiesPerUser float64 `json:"activities_per_user"`   // kept by the ledger, on average: 0 to MaxActivities
	TwoWay            float64 `json:"two_way"`               // the share of them that is two-way, as blocks are: 0 to 1
	SeenPerDay        float64 `json:"seen_per_user_per_day"` // of kind "seen": 0 to 1e5
	FalsePositiveRate float64 `json:"false_positive_rate"`   // of a candidate: 1e-8 to 0.5
	FeedsPerSecond    float64 `json:"feeds_per_second"`      // at the busiest: 0 to MaxFeeds

	Spread     float64 `json:"spread"`     // standard deviation of what a user has, over the mean: 0 to MaxSpread
	Pages      uint32  `json:"pages"`      // a power of two to favfilter.MaxPages; 0: chosen, and set by New
	Candidates int     `json:"candidates"` // of a feed: 1 to MaxCandidates
	IDBytes    int     `json:"id_bytes"`   // of users and posts: 1 to activity.MaxIDBytes

	Replicas int     `json:"replicas"`        // of each shard: 0 to MaxReplicas
	Fill     float64 `json:"fill"`            // of the memory that is not reserved, the share to use: 0.1 to 1
	Node     string  `json:"nodes,omitempty"` // the type of node; "": the cheapest that does

	Filter string          `json:"filter"` // its name
	Kinds  *activity.Kinds `json:"-"`      // nil: the built-in ones
}

// InputError is about a value of an [Input] that is out of range, or cannot be.
type InputError struct {
	Field   string // its name in JSON
	Problem string
}

func (e *InputError) Error() string { return e.Field + ": " + e.Problem }

// Plan is what a deployment takes, in each way of keeping what users do.
type Plan struct {
	Input         Input    `json:"input"`
	KeysPerPage   float64  `json:"keys_per_page"`       // on average
	KeysPage99    float64  `json:"keys_per_page_p99"`   // of 99 % of pages, at most
	PagesMemory   float64  `json:"pages_bytes"`         // of Redis' memory, for what the ledger keeps
	WindowsMemory float64  `json:"windows_bytes"`       // of Redis' memory, for what was seen
	FeedRead99    float64  `json:"feed_read_p99_bytes"` // by 99 % of feed checks, at most
	Ways          []Way    `json:"ways"`                // the filter's first
	Prices        Origin   `json:"prices"`
	Notes         []string `json:"notes"` // what was assumed, and what was not checked
}

// Origin says which prices were used.
type Origin struct {
	Date   string `json:"date"`
	Region string `json:"region"`
	Source string `json:"source"`
}

// Way is one way of keeping what users do.
type Way struct {
	Name        string  `json:"name"`
	Undo        bool    `json:"undo"` // what was done can be undone
	Memory      float64 `json:"memory_bytes"`
	PerActivity float64 `json:"bytes_per_activity,omitempty"` // of the ledger's kinds; windows not counted
	FeedRequest float64 `json:"feed_request_bytes"`           // to the server, for a feed check
	FeedReply   float64 `json:"feed_reply_bytes"`             // from the server
	FeedCPU     float64 `json:"feed_cpu_us"`                  // of the server
	Cluster     *Fleet  `json:"cluster,omitempty"`            // nil: none of the nodes does
	NoCluster   string  `json:"no_cluster,omitempty"`         // why: what there would be too many of, and what makes them so many
	Serverless  Cache   `json:"serverless"`

	// scatter is the root of the sum of the squares of what each page, or user, takes: by chance a shard gets more
	// than its part of the memory.
	scatter float64
}

// Fleet is a cluster of nodes.
type Fleet struct {
	Node     string  `json:"node"`
	Shards   int     `json:"shards"`
	Nodes    int     `json:"nodes"`              // replicas included
	Limit    string  `json:"limit"`              // what made it so many shards: memory, CPU or network
	Memory   float64 `json:"shard_memory_share"` // of the fullest shard's node, what is reserved not counted
	CPU      float64 `json:"shard_cpu_share"`    // of one core, of a shard
	Gbit     float64 `json:"shard_gbit_out"`     // Gbit/s from a shard
	GbitIn   float64 `json:"shard_gbit_in"`
	USDMonth float64 `json:"usd_per_month"`
}

// Cache is a cache without nodes.
type Cache struct {
	GB       float64 `json:"gb"` // 10^9 bytes
	FeedECPU float64 `json:"feed_ecpu"`
	USDMonth float64 `json:"usd_per_month"`
}

// New returns the plan for in, at those prices, or an [*InputError].
func New(in Input, prices Prices) (*Plan, error) {
	if in.Kinds == nil {
		in.Kinds = activity.BuiltinKinds()
	}
	if err := in.check(prices); err != nil {
		return nil, err
	}
	if in.Pages == 0 {
		in.Pages = PagesFor(in.entries())
	}
	p := &Plan{Input: in, Prices: Origin{prices.Date, prices.Region, prices.Source}}
	filter, err := p.filter()
	if err != nil {
		return nil, err
	}
	p.Ways = []Way{filter, in.exactSets(), in.valkeySets(), in.bloom()}
	for i := range p.Ways {
		w := &p.Ways[i]
		w.Cluster, w.NoCluster = in.fleet(w, prices)
		w.Serverless = in.cache(w, prices.Serverless)
	}
	p.Notes = p.notes(prices)
	return p, nil
}

// check checks the ranges.
func (in *Input) check(prices Prices) error {
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
	} {
		if !(r.value >= r.low && r.value <= r.high) { // also refuses NaN
			return &InputError{r.name, fmt.Sprintf("%g is not in %g to %g", r.value, r.low, r.high)}
		}
	}
	if _, ok := in.Kinds.Named(seen); !ok && in.SeenPerDay > 0 {
		return &InputError{"seen_per_user_per_day", "there is no kind " + seen}
	}
	if n := in.Pages; n > favfilter.MaxPages || n&(n-1) != 0 {
		return &InputError{"pages", fmt.Sprintf("%d is not a power of two from 1 to %d", n, favfilter.MaxPages)}
	}
	if _, ok := prices.node(in.Node); !ok && in.Node != "" {
		return &InputError{"nodes", fmt.Sprintf("the prices have no %q, but %s", in.Node, strings.Join(prices.types(), ", "))}
	}
	return nil
}

// keysAUser is how many keys a user has in the page: two-way activities are kept with both users.
func (in *Input) keysAUser() float64 { return in.ActivitiesPerUser * (1 + in.TwoWay) }

func (in *Input) entries() float64 { return in.Users * in.keysAUser() }

// lookups is how many keys a feed check tests for a candidate: those of the ledger's kinds, and of others.
func (in *Input) lookups() (ledger, windows int) {
	for _, k := range in.Kinds.All() {
		switch {
		case k.Effect != activity.Drop:
		case !k.InLedger():
			windows++
		case k.Reverse != "":
			ledger += 2
		default:
			ledger++
		}
	}
	return ledger, windows
}

// keyRate is the share of the rate that each key has.
func (in *Input) keyRate() float64 {
	ledger, windows := in.lookups()
	return in.FalsePositiveRate / float64(max(1, ledger+windows))
}
