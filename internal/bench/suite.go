package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

// goroutines is how many check feeds at a time where throughput is measured.
const goroutines = 16

// Sizes returns the sizes of the feeds that have goals.
func Sizes() []int { return []int{50, 200, 500, 1000} }

// Config is what [Run] measures, and where.
type Config struct {
	// Open returns the store of a filter of that name, which is empty.
	Open func(filter string) (favfilter.Store, error)
	// Filter is the name that those of all filters that are used begin with: see [Filters].
	Filter string
	// Server is what the stores are on; nil: they are in this process.
	Server *Server

	Dir            string // for ledgers; what is there stays
	Users, Entries int    // see NewPopulation
	Seed           uint64
	// FalsePositiveRate is that of a candidate; 0: the default.
	FalsePositiveRate float64

	Sizes    []int         // candidates of a feed, 1 to 5,000, ascending
	Duration time.Duration // about how long a row is measured
	Progress func(step string)
}

// Filters are the names of the filters that [Run] uses, given Config.Filter, which is the first.
func Filters(name string) []string { return []string{name, name + "-w", name + "-r"} }

// suite is a run in the making.
type suite struct {
	Config

	report  Report
	people  *Population
	subject *Subject
	feeds   map[int][]*Feed
	pings   []Samples
}

// Run measures. It leaves its filters in the stores.
func Run(ctx context.Context, c Config) (r *Report, err error) {
	s := &suite{Config: c, feeds: make(map[int][]*Feed)}
	load, _ := Load()
	if s.people, err = NewPopulation(c.Users, c.Entries, c.Seed); err != nil {
		return nil, err
	}
	for _, n := range c.Sizes {
		s.feeds[n] = s.people.Feeds(n)
	}
	store, err := c.Open(c.Filter)
	if err != nil {
		return nil, err
	}
	pages := NumberFor(s.people.Entries())
	s.subject, err = OpenSubject(ctx, SubjectConfig{
		Store: store, File: filepath.Join(c.Dir, "feed.db"), Pages: pages, FalsePositiveRate: c.FalsePositiveRate,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.subject.Close()) }()
	s.report.Machine, s.report.Server = Machine(), "this process"
	if c.Server != nil {
		s.report.Server = c.Server.Version(ctx)
	}
	s.report.Data = fmt.Sprintf("%s activities of %s users, pages: %d, ledger in SQLite; %v a row",
		Significant(float64(s.people.Entries())), Significant(float64(c.Users)), pages, c.Duration)
	for _, step := range s.steps(store) {
		c.Progress(step.name)
		if err := step.do(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	s.report.Noise = Noise(load, s.pings...)
	return &s.report, nil
}

type step struct {
	name string
	do   func(context.Context) error
}

// steps are in the order of the table, but for what comes of filling the pages, which has to be
// first.
func (s *suite) steps(store favfilter.Store) []step {
	var filled []Row
	return []step{
		{"fill the pages", func(ctx context.Context) (err error) { filled, err = s.fill(ctx, store); return err }},
		{"time of feed checks", s.latency},
		{"feed checks of pages that are held", s.held},
		{"CPU of feed checks", s.cpu},
		{"throughput", s.throughput},
		{"writes", s.writes},
		{"in process", s.process},
		{"import into pages", func(ctx context.Context) error { s.add(filled...); return s.build(ctx) }},
		{"rebuild", s.rebuild},
	}
}

func (s *suite) add(rows ...Row) { s.report.Rows = append(s.report.Rows, rows...) }

// check is the Call of a check of feeds of n candidates.
func (s *suite) check(n int) Call { return checkCall(s.subject, s.feeds[n], n) }

func checkCall(subject *Subject, feeds []*Feed, n int) Call {
	return Call{
		Name: fmt.Sprintf("feed check of %d candidates", n),
		Do:   func(ctx context.Context, round int) error { return subject.Check(ctx, feeds[round%len(feeds)], nil) },
	}
}

// pingFirst are calls behind a PING, if there is a server.
func (s *suite) pingFirst(calls ...Call) []Call {
	if s.Server == nil {
		return calls
	}
	return append([]Call{s.Server.Ping()}, calls...)
}

// interleave measures calls, d for each, and PINGs that take turns with them, if there is a server:
// their median is 0 if not.
func (s *suite) interleave(ctx context.Context, d time.Duration, calls ...Call) (ping time.Duration, samples []Samples, err error) {
	all := s.pingFirst(calls...)
	samples, err = Interleave(ctx, d*time.Duration(len(all)), all...)
	if err != nil || s.Server == nil {
		return 0, samples, err
	}
	s.pings = append(s.pings, samples[0])
	return samples[0].Median(), samples[1:], nil
}

// timed is the row of what took median.
func timed(name string, median, ping time.Duration) Row {
	r := Row{Name: name, Value: inMicros(median), Unit: "us"}
	if ping > 0 {
		r.XPing = float64(median) / float64(ping)
	}
	return r
}

func inMicros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
