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
	// slow is how many times rarer peers are timed that take a hundred times as long as others.
	slow = 8
	// slowShare is the part of a figure's time that they get.
	slowShare = 0.25
	// removed is how many posts of each viewer are removed, to be looked for again.
	removed = 20
)

// run is a comparison in the making.
type run struct {
	options

	host   *host
	dir    string
	client *redis.Client
	server bench.Server
	people *bench.Population
	peers  []contender

	report report
	pings  []bench.Samples
}

// keyRate is the false-positive rate of a key.
func (r *run) keyRate() float64 { return r.rate / bench.KeysPerCandidate }

// all is how many entries there are, what was seen included.
func (r *run) all() int {
	n := r.people.Entries()
	for range r.people.Seen() {
		n++
	}
	return n
}

// measure starts the servers and compares.
func measure(ctx context.Context, h *host, o options) (*report, error) {
	load, _ := bench.Load()
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
	r.server = bench.Server{Client: r.client}
	r.report.Machine, r.report.Server, r.report.Sizes = bench.Machine(), r.server.Version(ctx), r.sizes()
	r.report.Data = fmt.Sprintf("%s activities of %s users; false positives: %s %% of candidates, a quarter of it for a key; %v a figure",
		bench.Significant(float64(r.people.Entries())), bench.Significant(float64(o.users)), bench.Significant(100*o.rate), o.duration)
	r.report.PingsPerSecond = make(map[int]float64)
	for _, step := range r.steps() {
		note(step.name)
		if err := step.do(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	r.report.Noise = bench.Noise(load, r.pings...)
	if !r.growth && r.report.Wire == nil {
		r.goals()
	}
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
		{"CPU", r.cpu}, {"throughput", r.throughput}, {"removals", r.removals}, {"writes", r.writes}, {"in process", r.process},
	}
	if r.growth {
		return append([]step{{"growth", r.grow}}, steps[:3]...)
	}
	return steps
}

// moreSizes are the sizes of feeds that charts are drawn from.
func moreSizes() []int { return []int{10, 20, 50, 100, 200, 500, 1000, 2000, 5000} }

// sizes are those of the feeds whose time is measured.
func (r *run) sizes() []int {
	if r.growth {
		return moreSizes()
	}
	return bench.Sizes()
}

func note(step string) { fmt.Fprintf(os.Stderr, "%s  %s\n", time.Now().Format(time.TimeOnly), step) }

// candidate is a peer that there may be.
type candidate struct {
	contender

	word string // that leaves it out
	// open returns the peer. It is left out if that fails with errAbsent.
	open func(context.Context) (peer, error)
}

// candidates are the peers, in the order of the table.
func (r *run) candidates() []candidate {
	shape := newBloomShape(r.all(), r.keyRate())
	whole := make([]byte, shape.bits/8+1)
	flat := &bitmap{client: r.client, shape: shape}
	if r.skip["lua"] { // else that has stored it
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

// load fills the peers one after another, and notes what memory each takes.
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

// join opens a peer and loads it. Memory is measured from before it is opened: some peers take all
// they need by then.
func (r *run) join(ctx context.Context, c candidate) error {
	result := &result{Name: c.name, Word: c.word, Times: make(map[int]figure), PerSecond: make(map[int]float64)}
	r.report.Peers = append(r.report.Peers, result)
	before, err := r.server.Memory(ctx)
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

// fill loads a peer, and notes what it takes beyond the memory of before.
func (r *run) fill(ctx context.Context, p peer, result *result, before int64) error {
	begun := time.Now()
	if err := p.load(ctx, r.people); err != nil {
		return err
	}
	result.Load = time.Since(begun).Seconds()
	after, err := r.server.Memory(ctx)
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
			return nil // another has stored it
		}
		entries = r.all()
	case *counting, *module, cuckoo: // they take what seen posts need at once
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

// result returns that of the peer.
func (r *run) result(name string) *result {
	i := slices.IndexFunc(r.report.Peers, func(p *result) bool { return p.Name == name })
	return r.report.Peers[i]
}

// verify has every peer decide on feeds: none may keep what must be dropped. How many clean
// candidates it drops is noted.
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
			clean, wrong = clean+f.Clean(), wrong+falsely
		}
		r.result(p.name).Wrong = float64(wrong) / float64(clean)
	}
	return nil
}
