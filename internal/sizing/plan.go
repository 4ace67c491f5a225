// Package sizing computes the resources of a deployment: memory and nodes of Redis, the ledger in
// PostgreSQL, and the service. docs/SIZING.md describes the model, and how tests compare it with
// servers.
package sizing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/pages"
)

const (
	// reserved is the share of a node's memory for buffers, replication and snapshots.
	reserved = 0.25
	// cpuTarget is the target load of a core: of a server, which has one for commands, and of the
	// service.
	cpuTarget = 0.5
	maxShards = 16384   // a cluster has that many slots
	fullPage  = 6 << 20 // keys that fit on a page at any rate

	// CPU time of Redis for a feed check in us, and by KiB read. BenchmarkRedisCPU measures it.
	readCPU, readCPUPerKiB = 6.5, 0.2

	// CPU time of the service in us, for a feed check and for each candidate besides, by Protobuf
	// and by JSON. Then the memory of a process with 64 and with 512 requests in flight, and for
	// each page. "make peers PEERS=-load" measures all.
	feedCPU, candidateCPU                      = 130, 0.27
	feedCPUJSON, candidateCPUJSON              = 143, 0.39
	processBytes, processFullBytes, knownBytes = 130 << 20, 280 << 20, 40
	// A row of the ledger in PostgreSQL: in the table, without its two ids, and in both indexes.
	// The indexes hold the ids indexIDs times, because their pages are not full.
	// BenchmarkLedgerBytes measures it.
	rowBytes, indexBytes, indexIDs = 58, 120, 3.13
)

// Input is the flags of the command "plan", each with its range.
type Input struct {
	Users             float64 `help:"${plan_users}"      json:"users"               placeholder:"N" range:"1 1e10" required:""`
	ActivitiesPerUser float64 `help:"${plan_activities}" json:"activities_per_user" placeholder:"N" range:"0 1e6"  required:""`
	FeedsPerSecond    float64 `help:"${plan_feeds}"      json:"feeds_per_second"    placeholder:"N" range:"0 1e9"  required:""`

	SeenPerUserPerDay float64 `default:"0"   help:"${plan_seen}"       json:"seen_per_user_per_day" placeholder:"N"     range:"0 1e5"`
	TwoWay            float64 `default:"0.2" help:"${plan_two_way}"    json:"two_way"               placeholder:"SHARE" range:"0 1"`
	Spread            float64 `default:"3"   help:"${plan_spread}"     json:"spread"                placeholder:"N"     range:"0 30"`
	Candidates        float64 `default:"500" help:"${plan_candidates}" json:"candidates"            placeholder:"N"     range:"1 10000"`
	Replicas          int     `default:"1"   help:"${plan_replicas}"   json:"replicas"              placeholder:"N"     range:"0 5"`
	Fill              float64 `default:"0.8" help:"${plan_fill}"       json:"fill"                  placeholder:"SHARE" range:"0.1 1"`

	FalsePositiveRate float64 `aliases:"rate" default:"0.001" help:"${plan_p}" json:"false_positive_rate" placeholder:"RATE" range:"1e-8 .5"`

	IDBytes  float64 `default:"12" help:"${plan_id_bytes}"  json:"id_bytes"  name:"id-bytes"  placeholder:"N"    range:"1 256"`
	NodeGiB  float64 `default:"13" help:"${plan_node_gib}"  json:"node_gib"  name:"node-gib"  placeholder:"GIB"  range:"0.1 1e5"`
	NodeGbit float64 `default:"0"  help:"${plan_node_gbit}" json:"node_gbit" name:"node-gbit" placeholder:"GBIT" range:"0 1e4"`
}

// Check returns all values that are out of range, by flag.
func (in *Input) Check(context.Context) error {
	var errs []error
	for field, value := range reflect.ValueOf(in).Elem().Fields() {
		var low, high float64
		if n, _ := fmt.Sscan(field.Tag.Get("range"), &low, &high); n < 2 {
			continue
		}
		n := value.Convert(reflect.TypeFor[float64]()).Float()
		if !(n >= low && n <= high) { // also refuses NaN
			flag := strings.ReplaceAll(field.Tag.Get("json"), "_", "-")
			errs = append(errs, fmt.Errorf("--%s: %g is not in %g to %g", flag, n, low, high))
		}
	}
	return errors.Join(errs...)
}

// keys returns the number of keys per user in pages: a two-way activity has one for both users.
func (in *Input) keys() float64 { return in.ActivitiesPerUser * (1 + in.TwoWay) }

// weights returns the share of the keys in pages of each weight. One-way kinds count as if each had
// as many activities, and so do two-way kinds.
func (in *Input) weights(kinds *activity.Kinds) map[int]float64 {
	one, two := make(map[int]float64), make(map[int]float64)
	ones, twos := 0.0, 0.0
	for _, k := range kinds.All() {
		switch {
		case !k.InLedger():
		case k.Reverse != "":
			two[k.Weight()]++
			twos++
		default:
			one[k.Weight()]++
			ones++
		}
	}
	shares, keys := make(map[int]float64), 1+in.TwoWay
	for weight, n := range one {
		shares[weight] += n / ones * (1 - in.TwoWay) / keys
	}
	for weight, n := range two {
		shares[weight] += n / twos * 2 * in.TwoWay / keys
	}
	return shares
}

// Plan is the resources of a deployment: the figures of both JSON and text, by the same names.
type Plan struct {
	Input Input `json:"input"`
	Pages struct {
		Number uint32  `json:"number"`
		Keys   float64 `json:"keys_per_page"`
		Keys99 float64 `json:"keys_per_page_p99"`  // 99 % of pages have at most this many
		Stuck  float64 `json:"undo_rebuild_share"` // share of undone keys whose page is rebuilt
	} `json:"pages"`
	Redis struct {
		Memory    float64 `json:"memory_bytes"`
		Pages     float64 `json:"pages_bytes"`         // for the ledger's kinds
		Windows   float64 `json:"windows_bytes"`       // for seen posts
		Forgotten float64 `json:"windows_forgotten"`   // share of seen posts, see activity.Kind.Most
		PerKey    float64 `json:"bytes_per_key"`       // of the ledger's kinds
		Request   float64 `json:"feed_request_bytes"`  // of a feed check, to the server
		Reply     float64 `json:"feed_reply_bytes"`    // from the server
		Read99    float64 `json:"feed_read_p99_bytes"` // 99 % of feed checks read at most this much
		CPU       float64 `json:"feed_cpu_us"`
		ECPU      float64 `json:"feed_ecpu"` // ElastiCache Processing Units of a serverless cache
	} `json:"redis"`
	Nodes struct {
		Usable float64 `json:"usable_bytes"` // memory of a node that pages and windows may take
		Shards float64 `json:"shards"`
		Nodes  float64 `json:"nodes"`              // replicas included
		Limit  string  `json:"limit"`              // what sets the shards: memory, CPU or network
		Memory float64 `json:"shard_memory_bytes"` // of pages and windows
		CPU    float64 `json:"shard_cpu_share"`    // of one core
		Reads  float64 `json:"shard_feeds_per_second"`
		In     float64 `json:"shard_gbit_in"`
		Out    float64 `json:"shard_gbit_out"`
	} `json:"nodes"`
	Ledger  Ledger `json:"ledger"`
	Service struct {
		CPU        float64 `json:"feed_cpu_us"` // by Protobuf
		CPUJSON    float64 `json:"feed_cpu_json_us"`
		Cores      float64 `json:"cores"` // of all processes, with all feeds by Protobuf
		CoresJSON  float64 `json:"cores_json"`
		Memory     float64 `json:"process_bytes"`      // of a process, with about 64 requests in flight
		MemoryFull float64 `json:"process_full_bytes"` // with the maximum number of requests
	} `json:"service"`
	Notes []string `json:"notes"` // omissions
}

// Ledger is the disk space in PostgreSQL.
type Ledger struct {
	Rows    float64 `json:"rows"`
	Disk    float64 `json:"disk_bytes"` // of the table and its indexes
	Table   float64 `json:"table_bytes"`
	Indexes float64 `json:"index_bytes"`
}

// New returns the plan for in, whose values are in range, and the kinds of the service. number is
// that of pages, a power of two; 0: New chooses.
func New(in Input, number uint32, kinds *activity.Kinds) (*Plan, error) {
	rows, ids, rates := in.Users*in.keys(), 2*in.IDBytes, kinds.Rates(in.FalsePositiveRate)
	const extra = "Feed checks alone: writes, the scrub, replication, snapshots and TLS are extra."
	p := &Plan{Input: in, Notes: []string{extra}}
	p.Pages.Number = cmp.Or(number, NumberFor(rows))
	size := keySize{rates.Key, in.weights(kinds)}
	if err := errors.Join(p.pages(size), p.windows(kinds, rates)); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(kinds.All(), activity.Kind.InText) {
		const marks = "Marks are extra: 4 bytes for a user with phrases, 4 to 12 for a longer phrase."
		p.Notes = append(p.Notes, marks)
	}
	p.nodes()
	p.Ledger = Ledger{
		Rows:    rows,
		Table:   rows * (rowBytes + ids),
		Indexes: rows * (indexBytes + indexIDs*ids),
	}
	p.Ledger.Disk = p.Ledger.Table + p.Ledger.Indexes
	s, busy, known := &p.Service, in.FeedsPerSecond/1e6/cpuTarget, knownBytes*float64(p.Pages.Number)
	s.CPU, s.CPUJSON = feedCPU+candidateCPU*in.Candidates, feedCPUJSON+candidateCPUJSON*in.Candidates
	s.Cores, s.CoresJSON = busy*s.CPU, busy*s.CPUJSON
	s.Memory, s.MemoryFull = processBytes+known, processFullBytes+known
	return p, nil
}

// NumberFor returns the default number of pages for a number of keys: a power of two.
func NumberFor(keys float64) uint32 {
	return pages.NumberFor(uint64(math.Ceil(min(keys, 1<<62))))
}

// pages plans the pages: their memory, and what a feed check reads.
func (p *Plan) pages(size keySize) error {
	in, r, number, name := &p.Input, &p.Redis, float64(p.Pages.Number), pageName(p.Pages.Number-1)
	keys := placed(in.Users/number, in.keys(), in.Spread)
	p.Pages.Keys, p.Pages.Keys99 = keys.mean(), keys.most99()
	if p.Pages.Keys99 > fullPage {
		return fmt.Errorf(
			"--pages: %g pages: a page may get %.0f keys, at most %d fit: choose more pages",
			number, p.Pages.Keys99, fullPage,
		)
	}
	memory := func(n float64) float64 {
		m, _, _ := pageBytes(name, int(min(n, fullPage)), size)
		return m
	}
	read := func(n float64) float64 {
		_, r, _ := pageBytes(name, int(min(n, fullPage)), size)
		return r
	}
	stuck := func(n float64) float64 { s, _ := stuckShare(int(min(n, fullPage)), size); return s }
	p.Pages.Stuck = keys.weighted().over(stuck)
	r.Pages = number * keys.over(memory)
	r.PerKey = r.Pages / max(1, in.Users*in.keys())
	r.Request = float64(array(2) + bulk(len("mget")) + bulk(len(name+":bits")))
	r.Reply = float64(array(1)) + keys.weighted().over(read)
	r.Read99 = read(keys.weighted().most99())
	return nil
}

// nodes plans the cluster.
func (p *Plan) nodes() {
	in, r, n := &p.Input, &p.Redis, &p.Nodes
	r.Memory = r.Pages + r.Windows
	r.CPU, r.ECPU = readCPU+readCPUPerKiB*r.Reply/1024, max(1, (r.Request+r.Reply)/1000)
	n.Usable = in.NodeGiB * (1 << 30) * (1 - reserved) * in.Fill
	cpu, gbit := in.FeedsPerSecond*r.CPU/1e6, in.FeedsPerSecond*8/1e9
	n.Shards, n.Limit = 1, "memory"
	need := func(limit string, shards float64) {
		if shards > n.Shards {
			n.Shards, n.Limit = math.Ceil(shards), limit
		}
	}
	need("memory", r.Memory/n.Usable)
	need("CPU", cpu/cpuTarget)
	if in.NodeGbit > 0 {
		need("network", gbit*max(r.Request, r.Reply)/in.NodeGbit)
	}
	if n.Shards > maxShards {
		note := fmt.Sprintf("No cluster is large enough: it has at most %d shards.", maxShards)
		p.Notes = append(p.Notes, note)
	}
	n.Nodes, n.Memory = n.Shards*float64(1+in.Replicas), r.Memory/n.Shards
	n.CPU, n.Reads = cpu/n.Shards, in.FeedsPerSecond/n.Shards
	n.In, n.Out = gbit*r.Request/n.Shards, gbit*r.Reply/n.Shards
}

// WriteText writes the plan for people, in ASCII. Figures have their names in JSON.
func (p *Plan) WriteText(w io.Writer) error {
	var b strings.Builder
	for part, figures := range reflect.ValueOf(p).Elem().Fields() {
		fmt.Fprintln(&b, part.Tag.Get("json"))
		if figures.Kind() != reflect.Struct {
			fmt.Fprintf(&b, "  - %s\n", strings.Join(p.Notes, "\n  - "))
			continue
		}
		for figure, value := range figures.Fields() {
			name, bytes := strings.CutSuffix(figure.Tag.Get("json"), "_bytes")
			text := fmt.Sprint(value)
			if bytes {
				text = size(value.Float())
			} else if value.CanFloat() {
				text = number(value.Float())
			}
			fmt.Fprintf(&b, "  %-24s%v\n", strings.ReplaceAll(name, "_", " "), text)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// number formats a number with three digits, or as a whole number with commas.
func number(n float64) string {
	if n < 100 {
		return fmt.Sprintf("%.3g", n)
	}
	whole := strconv.FormatFloat(math.Round(n), 'f', 0, 64)
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return whole
}

// size formats a number of bytes with a unit.
func size(n float64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%.0f B", n)
	}
	i := 0
	for n /= 1024; n >= 1023.95 && i < len(units)-1; i++ {
		n /= 1024
	}
	return fmt.Sprintf("%.1f %ciB", n, units[i])
}
