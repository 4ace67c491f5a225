package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/sizing"
)

const (
	// growthFeed is how many candidates a feed has where something else grows.
	growthFeed = 500
	// growthPages is the number of pages of new data, unless it is said.
	growthPages = 16384
	// sharedPages is how many pages there are where the activities of one viewer grow.
	sharedPages = 16
	// readCalls is how many feed checks the bytes that are read are counted over.
	readCalls = 64
)

// GrowthConfig is what [Grow] measures, and where.
type GrowthConfig struct {
	// Open returns the store of a filter of that name, which is empty.
	Open   func(filter string) (favfilter.Store, error)
	Filter string // the name that those of all filters begin with: see [GrowthFilters]
	Server *Server

	Dir    string // for ledgers; what is there stays
	Seed   uint64
	Mean   int     // activities a user, each side of a block counted
	Memory float64 // bytes of Redis' memory that the pages of one point may take; where they would take more, it is simulated

	Candidates []int // of feeds, ascending: 1 to 10,000
	Users      []int // in all, ascending: 10 to 10 million
	Activities []int // of the viewer, ascending: 1 to 10 million

	Duration time.Duration // about how long a point is measured
	Progress func(step string)
}

// GrowthFilters are the names of the filters that [Grow] uses, given GrowthConfig.Filter, which is the first.
func GrowthFilters(name string) []string { return []string{name, name + "-u", name + "-v"} }

// Growth is how the cost of a feed check grows.
type Growth struct {
	Machine string   `json:"machine"`
	Server  string   `json:"server"`
	Noise   []string `json:"noise"` // why the figures do not count; empty: they do

	Candidates Series `json:"candidates"`
	Users      Series `json:"users"`
	Activities Series `json:"activities"` // of the viewer
}

// Series is what grows with one thing.
type Series struct {
	Data string `json:"data"` // what it was measured on
	// Simulated says what the points that are not held whole are; "": there are none.
	Simulated string `json:"simulated,omitzero"`
	Points    []Cost `json:"points"`
}

// Cost is a point of a [Series].
type Cost struct {
	At    int     `json:"at"`
	Pages uint32  `json:"pages"`
	Check float64 `json:"check_us"` // median
	P99   float64 `json:"check_p99_us"`
	Ping  float64 `json:"ping_us"` // median, of those that took turns with it
	XPing float64 `json:"x_ping"`  // of the medians
	Read  float64 `json:"bytes_read"`
	// Memory is Redis', in bytes: of all pages, or, where the activities of a viewer grow, of the viewer's page. It is 0 where
	// the pages are not all there.
	Memory    float64 `json:"memory_bytes,omitzero"`
	Computed  float64 `json:"memory_computed_bytes,omitzero"` // the same by calculation
	Simulated bool    `json:"simulated,omitzero"`             // most pages are not there
	How       string  `json:"how,omitzero"`                   // the viewer's page is looked at
}

// growth is a run of Grow in the making.
type growth struct {
	GrowthConfig

	report  Growth
	pings   []Samples
	ledgers int // so many were made
}

// Grow measures how the cost of feed checks grows with their candidates, with the users there are, and with the activities of the
// viewer. It leaves some of its filters in the stores.
func Grow(ctx context.Context, c GrowthConfig) (*Growth, error) {
	load, _ := Load()
	g := &growth{GrowthConfig: c}
	g.report.Machine, g.report.Server = Machine(), c.Server.Version(ctx)
	for _, s := range []step{
		{"candidates", g.candidates}, {"users", g.users}, {"activities of the viewer", g.activities},
	} {
		c.Progress(s.name)
		if err := s.do(ctx); err != nil {
			return nil, fmt.Errorf("growth with %s: %w", s.name, err)
		}
	}
	g.report.Noise = Noise(load, g.pings...)
	return &g.report, nil
}

// store opens the i-th filter, of which the server has learnt all scripts, and nothing is there.
//
//nolint:ireturn // GrowthConfig.Open returns it
func (g *growth) store(ctx context.Context, i int) (favfilter.Store, error) {
	name := GrowthFilters(g.Filter)[i]
	store, err := g.Open(name)
	if err != nil {
		return nil, err
	}
	if err := warm(ctx, *g.Server, store); err != nil {
		return nil, err
	}
	return store, g.Server.Remove(ctx, name)
}

// subject makes one with no activities.
func (g *growth) subject(ctx context.Context, store favfilter.Store, pages uint32) (*Subject, error) {
	g.ledgers++
	file := filepath.Join(g.Dir, fmt.Sprintf("growth-%d.db", g.ledgers))
	return OpenSubject(ctx, SubjectConfig{Store: store, File: file, Pages: pages})
}

// measure times checks, in turn with each other and with a PING, and counts what they read.
func (g *growth) measure(ctx context.Context, checks []Call) ([]Cost, error) {
	calls := append([]Call{g.Server.Ping()}, checks...)
	samples, err := Interleave(ctx, g.Duration*time.Duration(len(calls)), calls...)
	if err != nil {
		return nil, err
	}
	g.pings = append(g.pings, samples[0])
	ping := inMicros(samples[0].Median())
	costs := make([]Cost, len(checks))
	for i, check := range checks {
		costs[i] = Cost{Check: inMicros(samples[i+1].Median()), P99: inMicros(samples[i+1].Quantile(0.99)), Ping: ping}
		costs[i].XPing = costs[i].Check / ping
		if costs[i].Read, err = g.read(ctx, check); err != nil {
			return nil, err
		}
	}
	return costs, nil
}

// read is how many bytes a call reads from the servers, on average.
func (g *growth) read(ctx context.Context, c Call) (float64, error) {
	var sent [3]int64 // twice with nothing in between but the question itself
	for i := range sent {
		if i == 2 {
			for round := range readCalls {
				if _, err := c.time(ctx, round); err != nil {
					return 0, err
				}
			}
		}
		var err error
		if sent[i], err = g.Server.Sent(ctx); err != nil {
			return 0, err
		}
	}
	return float64((sent[2]-sent[1])-(sent[1]-sent[0])) / readCalls, nil
}

// verify has the subject decide on the feeds: nothing may be kept that has to be dropped.
func verify(ctx context.Context, subject *Subject, feeds []*Feed) error {
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
	people, err := NewPopulation(users, users*g.Mean, g.Seed)
	if err != nil {
		return err
	}
	store, err := g.store(ctx, 0)
	if err != nil {
		return err
	}
	pages := PagesFor(people.Entries())
	subject, err := g.subject(ctx, store, pages)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, subject.Close()) }()
	before, err := g.Server.Memory(ctx)
	if err != nil {
		return err
	}
	if _, _, err := subject.Record(ctx, people.Activities()); err != nil {
		return err
	}
	after, err := g.Server.Memory(ctx)
	if err != nil {
		return err
	}
	if err := subject.RecordSeen(ctx, people); err != nil {
		return err
	}
	checks := make([]Call, len(g.Candidates))
	for i, n := range g.Candidates {
		feeds := people.Feeds(n)
		if err := verify(ctx, subject, feeds[:minFeeds]); err != nil {
			return err
		}
		checks[i] = checkCall(subject, feeds, n)
	}
	costs, err := g.measure(ctx, checks)
	for i := range costs {
		costs[i].At, costs[i].Pages, costs[i].Memory = g.Candidates[i], pages, float64(after-before)
	}
	g.report.Candidates = Series{Points: costs, Data: fmt.Sprintf("%s activities of %s users, ledger in SQLite; %v a point",
		Significant(float64(people.Entries())), Significant(users), g.Duration)}
	return err
}

// users measures feeds of 500 candidates with more and more users, on the number of pages that there are by default and, where that is
// another, on the one that a plan would say.
func (g *growth) users(ctx context.Context) error {
	s := &g.report.Users
	s.Data = fmt.Sprintf("feeds of %d, %d activities a user; %v a point. The ledger has what concerns the viewers alone: "+
		"a feed check does not read it", growthFeed, g.Mean, g.Duration)
	planned := make([]Cost, 0, len(g.Users))
	for _, n := range g.Users {
		people, err := NewPopulation(n, n*g.Mean, g.Seed)
		if err != nil {
			return err
		}
		cost, err := g.among(ctx, people, growthPages)
		if err != nil {
			return fmt.Errorf("%d users: %w", n, err)
		}
		s.Points = append(s.Points, cost)
		if pages := sizing.PagesFor(float64(people.Entries())); pages != growthPages {
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
				Significant(g.Memory/1e6), viewerCount)
		}
	}
	return nil
}

// among measures feeds of some of the people, on so many pages.
func (g *growth) among(ctx context.Context, people *Population, pages uint32) (cost Cost, err error) {
	const filter = 1
	store, err := g.store(ctx, filter)
	if err != nil {
		return cost, err
	}
	subject, err := g.subject(ctx, store, pages)
	if err != nil {
		return cost, err
	}
	defer func() {
		err = errors.Join(err, subject.Close(), g.Server.Remove(context.WithoutCancel(ctx), GrowthFilters(g.Filter)[filter]))
	}()
	before, err := g.Server.Memory(ctx)
	if err != nil {
		return cost, err
	}
	crowd := newCrowd(people, subject.ledger.Identity())
	computed, err := crowd.memory(GrowthFilters(g.Filter)[filter])
	if err != nil {
		return cost, err
	}
	if _, _, err := subject.Record(ctx, people.OfViewers()); err != nil {
		return cost, err
	}
	var wanted map[uint32]bool // nil: all
	if computed > g.Memory {
		wanted = crowd.viewersPages()
	}
	if err := crowd.put(ctx, store, wanted); err != nil {
		return cost, err
	}
	after, err := g.Server.Memory(ctx)
	if err != nil {
		return cost, err
	}
	if err := subject.RecordSeen(ctx, people); err != nil {
		return cost, err
	}
	feeds := people.Feeds(growthFeed)
	if err := verify(ctx, subject, feeds); err != nil {
		return cost, err
	}
	costs, err := g.measure(ctx, []Call{checkCall(subject, feeds, growthFeed)})
	if err != nil {
		return cost, err
	}
	costs[0].At, costs[0].Pages, costs[0].Computed, costs[0].Simulated = people.Users(), pages, computed, wanted != nil
	if wanted == nil {
		costs[0].Memory = float64(after - before)
	}
	return costs[0], nil
}
