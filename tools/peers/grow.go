package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"gonum.org/v1/plot/plotter"

	"github.com/feedfilter/feedfilter/internal/bench"
	"github.com/feedfilter/feedfilter/internal/sizing"
)

const (
	// growthPages is the number of pages of new data unless a flag sets it.
	growthPages = 16384
	// sharedPages is the number of pages while the activities of one viewer grow.
	sharedPages = 16
	// readCalls is the number of feed checks over which the bytes read are averaged.
	readCalls = 64
	// slowFrom is the number of activities from which on a viewer is timed in one of slow rounds
	// only. Megabytes of data slow down the PING that follows.
	slowFrom = 300_000
)

// growthLimits are the upper bounds of the data.
type growthLimits struct {
	users, activities int // users in total, and activities of one viewer
	mean              int // activities per user; a block counts for both sides
	recorded          int // activities that are recorded for a point; more are simulated
}

// point is what a feed check costs at one value of a growing number.
type point struct {
	figures

	at, pages int
	read      float64 // bytes that a feed check reads
	memory    float64 // bytes that Redis uses for all pages; 0: not measured
	share     int     // if above 1, one in this many users and pages was made
}

// series holds the points of one growing number. In the chart, points with another number of pages
// than the first have their own line.
type series struct {
	what, data string
	points     []point
}

// add adds the table and the chart of a series.
func (r *report) addSeries(file string, s series) {
	head := []string{
		s.what, "median, us", "p99, us", "PING, us", "median x PING", "KB read", "Redis' memory, MB",
		"pages", "made",
	}
	var rows [][]string
	for _, p := range s.points {
		memory, made := "", "all"
		if p.memory > 0 {
			memory = number(p.memory / 1e6)
		}
		if p.share > 1 {
			made = fmt.Sprintf("one in %d: **simulated**", p.share)
		}
		f := &p.figures
		rows = append(rows, []string{
			number(float64(p.at)), number(f[p50]), number(f[p99]), number(f[ping]), number(f[xPing]),
			number(p.read / 1e3), memory, number(float64(p.pages)), made,
		})
	}
	r.add("Growth, "+s.data+".", head, rows)
	r.addChart(file, s.data, s.panels()...)
}

func (r *report) addChart(file, data string, panels ...panel) {
	if r.charts == nil {
		r.charts = make(map[string]*chart)
	}
	r.charts[file] = &chart{notes: []string{r.machine, data}, panels: panels}
}

// panels draws time, bytes and memory.
func (s *series) panels() []panel {
	of := func(name string, first bool, value func(p point) float64) line {
		l := line{name: name}
		for _, p := range s.points {
			at := plotter.XY{X: float64(p.at), Y: value(p)}
			if (p.pages == s.points[0].pages) != first || at.Y <= 0 {
				continue
			}
			if l.points = append(l.points, at); p.share > 1 {
				l.rings = append(l.rings, at)
			}
		}
		return l
	}
	median := func(p point) float64 { return p.figures[p50] }
	read := func(p point) float64 { return p.read / 1e3 }
	const plan = "pages as a plan says"
	all := []panel{
		{"Time of a feed check", s.what, "us", []line{
			of(fmt.Sprintf("median, %s pages", number(float64(s.points[0].pages))), true, median),
			of("99th percentile", true, func(p point) float64 { return p.figures[p99] }),
			of("PING", true, func(p point) float64 { return p.figures[ping] }),
			of("median, "+plan, false, median),
		}},
		{"Bytes read by a feed check", s.what, "KB", []line{
			of("feed check", true, read),
			of(plan, false, read),
		}},
	}
	memory := of("Redis", true, func(p point) float64 { return p.memory / 1e6 })
	if len(memory.points) > 0 {
		all = append(all, panel{"Redis' memory", s.what, "MB", []line{memory}})
	}
	return all
}

// byCandidates measures feeds of all sizes, by all ways.
func (r *run) byCandidates(ctx context.Context) error {
	sizes := []int{10, 20, 50, 100, 200, 500, 1000, 2000, 5000}
	ours := series{what: "candidates", data: "by candidates of a feed: " + r.report.data}
	head, rows, lines := []string{""}, r.named(), make([]line, len(r.ways))
	for _, n := range sizes {
		feeds := r.people.Feeds(n)
		all, err := r.latency(ctx, feeds)
		if err != nil {
			return err
		}
		head = append(head, number(float64(n)))
		for i, f := range all {
			cell := number(f[p50]) + " us"
			if i > 0 {
				cell = number(f[xPing]) + " / " + number(f[p99])
			}
			rows[i] = append(rows[i], cell)
			lines[i].name = r.ways[i].word
			lines[i].points = append(lines[i].points, plotter.XY{X: float64(n), Y: f[p50]})
			if r.ways[i].word != "ours" {
				continue
			}
			p := point{figures: f, at: n, pages: int(bench.NumberFor(r.people.Entries()))}
			if p.read, err = read(ctx, r.client, r.ways[i].call(feeds)); err != nil {
				return err
			}
			ours.points = append(ours.points, p)
		}
	}
	lines[0].name = "PING"
	r.report.add("Other ways: feed checks by candidates, median x PING; "+
		"and the 99th percentile in us behind a slash:", head, rows)
	median := panel{"Median time of a feed check", "candidates", "us", lines}
	r.report.addChart("growth-peers.svg", r.report.data, median)
	if len(ours.points) > 0 { // else left out
		r.report.addSeries("growth-candidates.svg", ours)
	}
	return nil
}

// read returns the average number of bytes that a call reads from the Redis server.
func read(ctx context.Context, client *redis.Client, c bench.Call) (float64, error) {
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
		if sent[i], err = infoOf(ctx, client, "stats", "total_net_output_bytes"); err != nil {
			return 0, err
		}
	}
	return float64((sent[2]-sent[1])-(sent[1]-sent[0])) / readCalls, nil
}

// byUsers measures feeds with a growing number of users, on the default number of pages and, if a
// plan recommends another number, on that number too.
func (r *run) byUsers(ctx context.Context) error {
	s := series{
		what: "users",
		data: fmt.Sprintf(
			"by users: feeds of %d, %d activities a user; %v a point. "+
				"Simulated: of both users and pages, a share was made, "+
				"so each page has as many keys; memory is multiplied",
			usualSize, r.limits.mean, r.duration,
		),
	}
	var planned []point
	for _, n := range upTo(r.limits.users, 1e3, 1e4, 1e5, 1e6, 1e7) {
		p, err := r.among(ctx, n, growthPages)
		if err != nil {
			return fmt.Errorf("%d users: %w", n, err)
		}
		s.points = append(s.points, p)
		if pages := sizing.NumberFor(float64(n) * float64(r.limits.mean)); pages != growthPages {
			if p, err = r.among(ctx, n, pages); err != nil {
				return fmt.Errorf("%d users on %d pages: %w", n, pages, err)
			}
			planned = append(planned, p)
		}
	}
	s.points = append(s.points, planned...)
	r.report.addSeries("growth-users.svg", s)
	return nil
}

// among measures feeds of some users on that many pages. If they have too many activities, it makes
// a share of the users on a share of the pages.
func (r *run) among(ctx context.Context, users int, pages uint32) (p point, err error) {
	share := 1
	for users/share*r.limits.mean > r.limits.recorded && int(pages) > share {
		share *= 2
	}
	note(fmt.Sprintf("  %d users on %d pages, one in %d", users, pages, share))
	people, err := bench.NewPopulation(users/share, users/share*r.limits.mean, r.seed)
	if err != nil {
		return p, err
	}
	filter := fmt.Sprintf("users-%d-%d", users, pages)
	subject, bytes, err := r.subject(ctx, r.client, filter, people, pages/uint32(share))
	if err != nil {
		return p, err
	}
	defer func() {
		removed := bench.Remove(context.WithoutCancel(ctx), r.client, filter)
		err = errors.Join(err, subject.Close(), removed)
	}()
	points, err := r.points(ctx, subject, 1, people.Feeds(usualSize))
	if err != nil {
		return p, err
	}
	p = points[0]
	p.at, p.pages, p.share, p.memory = users, int(pages), share, bytes*float64(share)
	return p, nil
}

// points checks the subject's decisions on several lists of feeds, and measures a point for each.
// Those from the first slow one on are timed in fewer rounds.
func (r *run) points(
	ctx context.Context, subject *bench.Subject, firstSlow int, lists ...[]*bench.Feed,
) ([]point, error) {
	calls := []bench.Call{bench.Ping(r.client)}
	for i, feeds := range lists {
		w := &way{name: "feed check", checks: each(subject.Check)}
		if i >= firstSlow {
			w.every = slow
		}
		if err := w.verify(ctx, feeds); err != nil {
			return nil, err
		}
		calls = append(calls, w.call(feeds))
	}
	all, err := r.interleave(ctx, r.duration*time.Duration(len(calls)), calls)
	if err != nil {
		return nil, err
	}
	points := make([]point, len(lists))
	for i := range points {
		points[i].figures = all[i+1]
		if points[i].read, err = read(ctx, r.client, calls[i+1]); err != nil {
			return nil, err
		}
	}
	return points, nil
}

// byActivities measures feeds of viewers with a growing number of activities. All activities are
// recorded on 16 pages, which other users share.
func (r *run) byActivities(ctx context.Context) (err error) {
	const others = 1280
	people, err := bench.NewPopulation(others, others*r.limits.mean, r.seed)
	if err != nil {
		return err
	}
	numbers := upTo(r.limits.activities, 1, 10, 100, 1000, 2000, 3000, 1e4, 1e5, 3e5, 1e6, 3e6, 1e7)
	viewers := make([][]int, len(numbers)) // with that many activities
	for i, n := range numbers {
		for range max(1, min(8, 20_000/n)) {
			viewers[i] = append(viewers[i], len(people.Counts))
			people.Counts = append(people.Counts, int32(n))
		}
	}
	people.Viewers = slices.Concat(viewers...)
	subject, _, err := r.subject(ctx, r.client, "activities", people, sharedPages)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, subject.Close()) }()
	lists := make([][]*bench.Feed, len(numbers))
	for i := range numbers {
		people.Viewers = viewers[i]
		lists[i] = people.Feeds(usualSize)
	}
	isSlow := func(n int) bool { return n >= slowFrom }
	firstSlow := slices.IndexFunc(append(numbers, slowFrom), isSlow)
	points, err := r.points(ctx, subject, firstSlow, lists...)
	if err != nil {
		return err
	}
	for i := range points {
		points[i].at, points[i].pages = numbers[i], sharedPages
	}
	r.report.addSeries("growth-activities.svg", series{
		what:   "activities of the viewer",
		points: points,
		data: fmt.Sprintf(
			"by activities of the viewer: feeds of %d, "+
				"on %d pages with %s activities of others; %v a point",
			usualSize, sharedPages, number(float64(others*r.limits.mean)), r.duration,
		),
	})
	return nil
}

// upTo returns the numbers below most, followed by most.
func upTo(most int, ascending ...int) []int {
	points := slices.DeleteFunc(ascending, func(n int) bool { return n >= most })
	return append(points, most)
}
