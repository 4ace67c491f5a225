package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/internal/bench"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

const (
	goroutines = 16
	ourWord    = "ours"
	// slow makes a peer that is a hundred times slower than others take part in one of 8 rounds.
	slow = 8
	// slowShare is the share of a figure's time that a slow peer gets.
	slowShare = 0.25
	// removed is the number of posts of each viewer that are unhidden and looked up again.
	removed = 20
)

// run is one comparison.
type run struct {
	options

	host   *host
	dir    string
	client *redis.Client
	server redisServer
	people *bench.Population
	peers  []contender

	report report
	pings  []bench.Samples
}

// keyRate returns the false positive rate of a key.
func (r *run) keyRate() float64 { return r.rate / bench.KeysPerCandidate }

// all returns the number of entries, with what was seen.
func (r *run) all() int {
	n := r.people.Entries()
	for range r.people.Seen() {
		n++
	}
	return n
}

// measure starts the servers and compares the peers.
func measure(ctx context.Context, h *host, o options) (*report, error) {
	load, _ := loadAverage()
	r := &run{options: o, host: h, dir: h.TempDir()}
	var err error
	if r.people, err = bench.NewPopulation(o.users, o.activities, o.seed); err != nil {
		return nil, err
	}
	if o.server != "" {
		if err := h.use(o.server); err != nil {
			return nil, err
		}
	}
	r.client = redistest.Start(h, o.serverArgs...).Client() //nolint:contextcheck // the host has it
	r.server = redisServer{client: r.client}
	r.report.Machine, r.report.Server, r.report.Sizes = machine(), r.server.version(ctx), r.sizes()
	r.report.Data = fmt.Sprintf("%s activities of %s users; false positives: %s %% of candidates, a quarter of it for a key; %v a figure",
		significant(float64(r.people.Entries())), significant(float64(o.users)), significant(100*o.rate), o.duration)
	r.report.PingsPerSecond = make(map[int]float64)
	for _, step := range r.steps() {
		note(step.name)
		if err := step.do(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	r.report.Noise = noise(load, r.pings...)
	return &r.report, nil
}

type step struct {
	name string
	do   func(context.Context) error
}

func (r *run) steps() []step {
	if r.wire || r.options.load {
		return newWire(r).steps()
	}
	steps := []step{
		{"loading", r.load}, {"checking that all answer rightly", r.verify}, {"time", r.latency},
		{"CPU", r.cpu}, {"throughput", r.throughput}, {"removals", r.removals}, {"writes", r.writes},
	}
	if r.growth {
		return append([]step{{"growth", r.grow}}, steps[:3]...)
	}
	return steps
}

// feedSizes returns the usual sizes of feeds.
func feedSizes() []int { return []int{50, 200, 500, 1000} }

// moreSizes returns the sizes of feeds for charts.
func moreSizes() []int { return []int{10, 20, 50, 100, 200, 500, 1000, 2000, 5000} }

// sizes returns the sizes of the feeds whose time is measured.
func (r *run) sizes() []int {
	if r.growth {
		return moreSizes()
	}
	return feedSizes()
}

func note(step string) { fmt.Fprintf(os.Stderr, "%s  %s\n", time.Now().Format(time.TimeOnly), step) }

// candidate is a peer that may be absent.
type candidate struct {
	contender

	word string // -skip leaves the peer out by this word
	// open returns the peer. If open returns errAbsent, the comparison leaves the peer out.
	open func(context.Context) (peer, error)
}

// candidates returns the peers in the order of the table.
func (r *run) candidates() []candidate {
	shape := newBloomShape(r.all(), r.keyRate())
	whole := make([]byte, shape.bits/8+1)
	flat := &bitmap{client: r.client, shape: shape}
	if r.skip["lua"] { // the peer "lua" does not store the string
		flat.hashed = whole
	}
	inRedis := func(name, word string, every int, open func(context.Context) (peer, error)) candidate {
		return candidate{contender{name: name + " (" + word + ")", every: every, redis: true}, word, open}
	}
	return []candidate{
		inRedis("feedfilter", ourWord, 0, func(ctx context.Context) (peer, error) { return openOurs(ctx, r) }),
		inRedis("exact sets, SMISMEMBER x 4", "sets", 0, func(context.Context) (peer, error) { return sets{r.client}, nil }),
		inRedis("RedisBloom, BF.MEXISTS x 4", "bf", 0, func(ctx context.Context) (peer, error) { return openModule(ctx, r, "BF") }),
		inRedis("RedisBloom, CF.MEXISTS x 4", "cf", 0, func(ctx context.Context) (peer, error) {
			m, err := openModule(ctx, r, "CF")
			return cuckoo{m}, err
		}),
		inRedis("Bloom filter by Lua over BITFIELD", "lua", slow, func(context.Context) (peer, error) {
			return &bitmap{client: r.client, shape: shape, script: redis.NewScript(bloomScript), hashed: whole}, nil
		}),
		inRedis("counting filter by Lua over a hash", "counting", slow, func(context.Context) (peer, error) {
			return &counting{client: r.client, shape: shape, script: redis.NewScript(countScript)}, nil
		}),
		inRedis("one flat bitmap, BITFIELD GETs", "flat", slow, func(context.Context) (peer, error) { return flat, nil }),
		{contender{name: "PostgreSQL, anti-join (postgres)"}, "postgres", func(ctx context.Context) (peer, error) {
			return openPostgres(ctx, r)
		}},
	}
}

// load fills the peers one after another, and records the memory of each.
func (r *run) load(ctx context.Context) error {
	for _, c := range r.candidates() {
		if r.skip[c.word] {
			continue
		}
		note("  " + c.name)
		if err := r.join(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// join opens a peer and loads it. The first reading of memory is before open, because some peers
// allocate all their memory there.
func (r *run) join(ctx context.Context, c candidate) error {
	result := &result{Name: c.name, Word: c.word, Times: make(map[int]figure), PerSecond: make(map[int]float64)}
	r.report.Peers = append(r.report.Peers, result)
	before, err := r.server.memory(ctx)
	if err != nil {
		return err
	}
	p, err := c.open(ctx)
	if errors.Is(err, errAbsent) {
		result.Absent = err.Error()
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", c.name, err)
	}
	if err := r.fill(ctx, p, result, before); err != nil {
		return fmt.Errorf("load %s: %w", c.name, err)
	}
	c.peer = p
	r.peers = append(r.peers, c.contender)
	return nil
}

// fill loads a peer, and records the memory that it uses beyond before.
func (r *run) fill(ctx context.Context, p peer, result *result, before int64) error {
	begun := time.Now()
	if err := p.load(ctx, r.people); err != nil {
		return err
	}
	result.Load = time.Since(begun).Seconds()
	after, err := r.server.memory(ctx)
	if err != nil {
		return err
	}
	if err := p.loadSeen(ctx, r.people); err != nil {
		return err
	}
	entries := r.people.Entries()
	switch p := p.(type) {
	case *bitmap:
		if p.hashed == nil {
			return nil // another peer has stored the string
		}
		entries = r.all()
	case *counting, *module, cuckoo: // load stores, or open reserves, seen posts as well
		entries = r.all()
	case *postgres:
		before, entries = 0, r.all()
		if after, err = p.bytes(ctx); err != nil {
			return err
		}
	}
	result.Bytes = float64(after-before) / float64(entries)
	return nil
}

// result returns the result of a peer.
func (r *run) result(name string) *result {
	i := slices.IndexFunc(r.report.Peers, func(p *result) bool { return p.Name == name })
	return r.report.Peers[i]
}

// verify lets every peer decide on feeds. It returns an error if a peer keeps a candidate that must
// be dropped. It records the share of clean candidates that the peer drops.
func (r *run) verify(ctx context.Context) error {
	const size = 1000
	feeds := r.people.Feeds(size)
	dropped := make([]bool, size)
	for _, p := range r.peers {
		clean, wrong := 0, 0
		for _, f := range feeds {
			if err := p.check(ctx, f, dropped); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			missed, falsely := f.Wrong(dropped)
			if missed > 0 {
				return fmt.Errorf("%s: %d candidates were kept that viewer %s must not see", p.name, missed, f.Viewer)
			}
			clean, wrong = clean+cleanOf(f), wrong+falsely
		}
		r.result(p.name).Wrong = float64(wrong) / float64(clean)
	}
	return nil
}
