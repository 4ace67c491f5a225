package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/bench"
	"github.com/feedfilter/feedfilter/internal/redistest"
	"github.com/feedfilter/feedfilter/internal/sizing"
)

const (
	// growthFeed is the number of candidates of a feed while users or activities grow.
	growthFeed = 500
	// growthPages is the number of pages of new data unless a flag sets it.
	growthPages = 16384
	// sharedPages is the number of pages while the activities of one viewer grow.
	sharedPages = 16
	// readCalls is the number of feed checks over which the bytes read are averaged.
	readCalls = 64
)

// These are the names of the filters that growth uses.
const candidatesFilter, usersFilter, viewerFilter = "growth", "growth-u", "growth-v"

// growthLimits are the upper bounds of the data.
type growthLimits struct {
	users, activities int // users in total, and activities of one viewer
	mean              int // activities per user; a block counts for both sides
	memory            int // MB of Redis memory for the pages of a point; a point that needs more is simulated
}

// growthReport holds how the cost of a feed check grows.
type growthReport struct {
	Candidates series `json:"candidates"`
	Users      series `json:"users"`
	Activities series `json:"activities"` // activities of the viewer
}

// series holds the cost by one growing number.
type series struct {
	Data string `json:"data"` // describes the measured data
	// Simulated describes the points whose pages are not all stored, "" if there are none.
	Simulated string `json:"simulated,omitzero"`
	Points    []cost `json:"points"`
}

// cost is a point of a [series].
type cost struct {
	At    int     `json:"at"`
	Pages uint32  `json:"pages"`
	Check float64 `json:"check_us"` // median time
	P99   float64 `json:"check_p99_us"`
	Ping  float64 `json:"ping_us"` // median time of the PINGs that took turns with it
	XPing float64 `json:"x_ping"`  // ratio of the medians
	Read  float64 `json:"bytes_read"`
	// Memory is the memory in bytes that Redis uses for all pages, or, while the activities of a
	// viewer grow, for the viewer's page. It is 0 if not all pages are stored.
	Memory    float64 `json:"memory_bytes,omitzero"`
	Computed  float64 `json:"memory_computed_bytes,omitzero"` // Memory by calculation
	Simulated bool    `json:"simulated,omitzero"`             // most pages are not stored
	How       string  `json:"how,omitzero"`                   // how the viewer's page is checked
}

// growth measures how the cost of feed checks grows with the candidates, the users and the viewer's
// activities. It uses its own Redis server.
type growth struct {
	*run

	client  *redis.Client
	server  redisServer
	report  growthReport
	ledgers int // number of ledgers made so far
}

// grow measures the cost of our feed checks, and stops the server that it used.
func (r *run) grow(ctx context.Context) error {
	redisServer := redistest.Start(r.host, r.serverArgs...) //nolint:contextcheck // the host has it
	defer redisServer.Kill()
	g := &growth{run: r, client: redisServer.Client()}
	g.server.client = g.client
	for _, s := range []step{
		{"candidates", g.candidates}, {"users", g.users}, {"activities of the viewer", g.activities},
	} {
		note("  " + s.name)
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("growth with %s: %w", s.name, err)
		}
	}
	r.report.Growth = &g.report
	return nil
}

// store opens an empty filter on a server that has all scripts loaded.
func (g *growth) store(ctx context.Context, filter string) (*redisstore.Store, error) {
	store, err := redisstore.New(g.client, filter)
	if err != nil {
		return nil, err
	}
	if err := warm(ctx, g.server, store); err != nil {
		return nil, err
	}
	return store, bench.Remove(ctx, g.client, filter)
}

// subject makes a subject without activities.
func (g *growth) subject(ctx context.Context, store favfilter.Store, pages uint32) (*bench.Subject, error) {
	g.ledgers++
	file := filepath.Join(g.dir, fmt.Sprintf("growth-%d.db", g.ledgers))
	return bench.OpenSubject(ctx, bench.SubjectConfig{Store: store, File: file, Pages: pages})
}

// measure times checks in turn with each other and with a PING. It also counts the bytes that they
// read.
func (g *growth) measure(ctx context.Context, checks []bench.Call) ([]cost, error) {
	calls := append([]bench.Call{g.server.ping()}, checks...)
	samples, err := bench.Interleave(ctx, g.duration*time.Duration(len(calls)), calls...)
	if err != nil {
		return nil, err
	}
	g.run.pings = append(g.run.pings, samples[0])
	ping := inMicros(samples[0].Median())
	costs := make([]cost, len(checks))
	for i, check := range checks {
		costs[i] = cost{Check: inMicros(samples[i+1].Median()), P99: inMicros(samples[i+1].Quantile(0.99)), Ping: ping}
		costs[i].XPing = costs[i].Check / ping
		if costs[i].Read, err = g.read(ctx, check); err != nil {
			return nil, err
		}
	}
	return costs, nil
}

// read returns the average number of bytes that a call reads from the servers.
func (g *growth) read(ctx context.Context, c bench.Call) (float64, error) {
	var sent [3]int64 // the first two readings measure the cost of a reading
	for i := range sent {
		if i == 2 {
			for round := range readCalls {
				if err := c.Do(ctx, round); err != nil {
					return 0, err
				}
			}
		}
		var err error
		if sent[i], err = g.server.sent(ctx); err != nil {
			return 0, err
		}
	}
	return float64((sent[2]-sent[1])-(sent[1]-sent[0])) / readCalls, nil
}

// verify checks the subject's decisions on the feeds. It returns an error if the subject keeps a
// candidate that must be dropped.
func verify(ctx context.Context, subject *bench.Subject, feeds []*bench.Feed) error {
	for _, f := range feeds {
		dropped := make([]bool, len(f.Posts))
		if err := subject.Check(ctx, f, dropped); err != nil {
			return err
		}
		if missed, _ := f.Wrong(dropped); missed > 0 {
			return fmt.Errorf("%d candidates of %d were kept that viewer %s must not see", missed, len(f.Posts), f.Viewer)
		}
	}
	return nil
}

// candidates measures feeds of all sizes.
func (g *growth) candidates(ctx context.Context) (err error) {
	const users = 4000
	people, err := bench.NewPopulation(users, users*g.limits.mean, g.seed)
	if err != nil {
		return err
	}
	store, err := g.store(ctx, candidatesFilter)
	if err != nil {
		return err
	}
	pages := bench.NumberFor(people.Entries())
	subject, err := g.subject(ctx, store, pages)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, subject.Close()) }()
	before, err := g.server.memory(ctx)
	if err != nil {
		return err
	}
	if err := subject.Record(ctx, people.Activities()); err != nil {
		return err
	}
	after, err := g.server.memory(ctx)
	if err != nil {
		return err
	}
	if err := subject.Record(ctx, people.Seen()); err != nil {
		return err
	}
	sizes := moreSizes()
	checks := make([]bench.Call, len(sizes))
	for i, n := range sizes {
		feeds := people.Feeds(n)
		if err := verify(ctx, subject, feeds[:bench.MinFeeds]); err != nil {
			return err
		}
		checks[i] = growthCall(subject, feeds, n)
	}
	costs, err := g.measure(ctx, checks)
	for i := range costs {
		costs[i].At, costs[i].Pages, costs[i].Memory = sizes[i], pages, float64(after-before)
	}
	g.report.Candidates = series{Points: costs, Data: fmt.Sprintf("%s activities of %s users, ledger in SQLite; %v a point",
		significant(float64(people.Entries())), significant(users), g.duration)}
	return err
}

// users measures feeds of 500 candidates with a growing number of users. It uses the default number
// of pages and, if a plan recommends another number, that number too.
func (g *growth) users(ctx context.Context) error {
	s := &g.report.Users
	all := upTo(g.limits.users, []int{1e3, 1e4, 1e5, 1e6, 1e7})
	s.Data = fmt.Sprintf("feeds of %d, %d activities a user; %v a point. The ledger has what concerns the viewers alone: "+
		"a feed check does not read it", growthFeed, g.limits.mean, g.duration)
	planned := make([]cost, 0, len(all))
	for _, n := range all {
		people, err := bench.NewPopulation(n, n*g.limits.mean, g.seed)
		if err != nil {
			return err
		}
		cost, err := g.among(ctx, people, growthPages)
		if err != nil {
			return fmt.Errorf("%d users: %w", n, err)
		}
		s.Points = append(s.Points, cost)
		if pages := sizing.NumberFor(float64(people.Entries())); pages != growthPages {
			if cost, err = g.among(ctx, people, pages); err != nil {
				return fmt.Errorf("%d users on %d pages: %w", n, pages, err)
			}
			planned = append(planned, cost)
		}
	}
	s.Points = append(s.Points, planned...)
	for _, p := range s.Points {
		if p.Simulated {
			s.Simulated = fmt.Sprintf("all pages would take more than %s MB. Only those that the %d viewers are on were made, "+
				"each with all the keys that it would have, and are read as ever; the memory of all is by calculation",
				significant(float64(g.limits.memory)), bench.ViewerCount)
		}
	}
	return nil
}

// among measures feeds of some people on that many pages.
func (g *growth) among(ctx context.Context, people *bench.Population, pages uint32) (at cost, err error) {
	store, err := g.store(ctx, usersFilter)
	if err != nil {
		return at, err
	}
	subject, err := g.subject(ctx, store, pages)
	if err != nil {
		return at, err
	}
	defer func() {
		err = errors.Join(err, subject.Close(), bench.Remove(context.WithoutCancel(ctx), g.client, usersFilter))
	}()
	before, err := g.server.memory(ctx)
	if err != nil {
		return at, err
	}
	crowd := newCrowd(people, subject.Identity())
	computed, err := crowd.memory(usersFilter)
	if err != nil {
		return at, err
	}
	if err := subject.Record(ctx, ofViewers(people)); err != nil {
		return at, err
	}
	var wanted map[uint32]bool // nil: all
	if computed > float64(g.limits.memory)*1e6 {
		wanted = crowd.viewersPages()
	}
	if err := crowd.put(ctx, store, wanted); err != nil {
		return at, err
	}
	after, err := g.server.memory(ctx)
	if err != nil {
		return at, err
	}
	if err := subject.Record(ctx, people.Seen()); err != nil {
		return at, err
	}
	feeds := people.Feeds(growthFeed)
	if err := verify(ctx, subject, feeds); err != nil {
		return at, err
	}
	costs, err := g.measure(ctx, []bench.Call{growthCall(subject, feeds, growthFeed)})
	if err != nil {
		return at, err
	}
	costs[0].At, costs[0].Pages, costs[0].Computed, costs[0].Simulated = people.Users(), pages, computed, wanted != nil
	if wanted == nil {
		costs[0].Memory = float64(after - before)
	}
	return costs[0], nil
}

// growthCall returns a call that checks one feed of n candidates.
func growthCall(subject *bench.Subject, feeds []*bench.Feed, n int) bench.Call {
	return bench.Call{
		Name: fmt.Sprintf("feed check of %d candidates", n),
		Do:   func(ctx context.Context, round int) error { return subject.Check(ctx, feeds[round%len(feeds)], nil) },
	}
}

// join adds users with those numbers of activities, and makes them the only viewers. It changes
// which users others block.
func join(p *bench.Population, counts ...int) {
	p.Viewers = nil
	for _, n := range counts {
		p.Viewers = append(p.Viewers, len(p.Counts))
		p.Counts = append(p.Counts, int32(n))
	}
}

// ofViewers returns the activities of viewers, and the blocks of viewers by others.
func ofViewers(p *bench.Population) iter.Seq[activity.Activity] {
	return func(yield func(activity.Activity) bool) {
		asks := make(map[int]bool, len(p.Viewers))
		for _, u := range p.Viewers {
			asks[u] = true
			for n := range int(p.Counts[u]) {
				if !yield(p.Activity(u, n)) {
					return
				}
			}
		}
		for u := range p.Counts {
			for b := range p.Blocks(u) {
				v := p.Blocked(u, b)
				if a := (activity.Activity{User: bench.UserID(u), Kind: bench.Block, Target: bench.UserID(v)}); asks[v] && !asks[u] && !yield(a) {
					return
				}
			}
		}
	}
}

// upTo returns the numbers below most, followed by most.
func upTo(most int, ascending []int) []int {
	points := make([]int, 0, len(ascending)+1)
	for _, n := range ascending {
		if n < most {
			points = append(points, n)
		}
	}
	return append(points, most)
}
