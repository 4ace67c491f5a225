package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

// goroutines is the number of concurrent feed checks in measurements of throughput.
const goroutines = 16

// Sizes returns the numbers of candidates that have goals.
func Sizes() []int { return []int{50, 200, 500, 1000} }

// Config configures [Run].
type Config struct {
	// Open returns an empty store for the filter with that name.
	Open func(filter string) (favfilter.Store, error)
	// Filter is the prefix of the names of all filters of the run: see [Filters].
	Filter string
	// Server is the server of the stores; nil: they are in this process.
	Server *Server

	Dir            string // directory of the ledgers; existing files stay
	Users, Entries int    // see NewPopulation
	Seed           uint64
	// FalsePositiveRate is that of a candidate; 0: the default.
	FalsePositiveRate float64

	Sizes    []int         // candidates of a feed, 1 to 5,000, ascending
	Duration time.Duration // about how long a row is measured
	Progress func(step string)
}

// Filters returns the names of the filters that [Run] uses. The first is name, which is
// Config.Filter.
func Filters(name string) []string { return []string{name, name + "-w", name + "-r"} }

// suite is a run in progress.
type suite struct {
	Config

	report  Report
	people  *Population
	subject *Subject
	feeds   map[int][]*Feed
	pings   []Samples
}

// Run measures, and leaves its filters in the stores.
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

// steps returns the steps in the order of the table, except that filling the pages comes first.
func (s *suite) steps(store favfilter.Store) []step {
	var filled []Row
	return []step{
		{"fill the pages", func(ctx context.Context) (err error) { filled, err = s.fill(ctx, store); return err }},
		{"time of feed checks", s.latency},
		{"CPU of feed checks", s.cpu},
		{"throughput", s.throughput},
		{"writes", s.writes},
		{"in process", s.process},
		{"import into pages", func(ctx context.Context) error { s.add(filled...); return s.build(ctx) }},
		{"rebuild", s.rebuild},
	}
}

func (s *suite) add(rows ...Row) { s.report.Rows = append(s.report.Rows, rows...) }

// check returns a Call that checks feeds of n candidates.
func (s *suite) check(n int) Call { return checkCall(s.subject, s.feeds[n], n) }

func checkCall(subject *Subject, feeds []*Feed, n int) Call {
	return Call{
		Name: fmt.Sprintf("feed check of %d candidates", n),
		Do:   func(ctx context.Context, round int) error { return subject.Check(ctx, feeds[round%len(feeds)], nil) },
	}
}

// pingFirst puts a PING before calls, if there is a server.
func (s *suite) pingFirst(calls ...Call) []Call {
	if s.Server == nil {
		return calls
	}
	return append([]Call{s.Server.Ping()}, calls...)
}

// interleave measures calls, d for each, in turn with PINGs if there is a server. The median of
// PING is 0 without one.
func (s *suite) interleave(ctx context.Context, d time.Duration, calls ...Call) (ping time.Duration, samples []Samples, err error) {
	all := s.pingFirst(calls...)
	samples, err = Interleave(ctx, d*time.Duration(len(all)), all...)
	if err != nil || s.Server == nil {
		return 0, samples, err
	}
	s.pings = append(s.pings, samples[0])
	return samples[0].Median(), samples[1:], nil
}

// timed returns the row of a median duration.
func timed(name string, median, ping time.Duration) Row {
	r := Row{Name: name, Value: inMicros(median), Unit: "us"}
	if ping > 0 {
		r.XPing = float64(median) / float64(ping)
	}
	return r
}

func inMicros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
