package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/internal/bench"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

const (
	goroutines = 16
	usualSize  = 500  // candidates of a feed where no other number is said
	verifySize = 1000 // candidates of the feeds on which each way decides before anything is timed
	rounds     = 5    // figures of many goroutines are the medians of these rounds
)

// run is one comparison.
type run struct {
	options

	host   *host
	dir    string
	client *redis.Client // of the server that most ways use
	people *bench.Population
	ways   []*way // the first is a PING, with which all others are compared
	pings  []bench.Samples
	report report

	url        string // of the service
	servicePID int
}

// keyRate returns the false positive rate of a key, given that of a candidate.
func keyRate(rate float64) float64 { return rate / bench.KeysPerCandidate }

// compare starts the servers, and makes the tables that the options ask for.
func compare(ctx context.Context, h *host, o options) (*report, error) {
	before := loadAverage()
	r := &run{options: o, host: h, dir: h.TempDir()}
	var err error
	if r.people, err = bench.NewPopulation(o.users, o.activities, o.seed); err != nil {
		return nil, err
	}
	r.client = redistest.Start(h, o.redisArgs...).Client()
	r.report.machine = machine() + "; " + version(ctx, r.client)
	r.report.data = fmt.Sprintf(
		"%s activities of %s users; false positives: %s of candidates, "+
			"a quarter of it for a key; %v a figure",
		number(float64(r.people.Entries())), number(float64(o.users)), percent(o.rate), o.duration,
	)
	if err := r.steps(ctx); err != nil {
		return nil, err
	}
	r.report.noise = noise(before, r.pings...)
	return &r.report, nil
}

func (r *run) steps(ctx context.Context) error {
	others := []opener{
		{"ours", r.openOurs},
		{"sets", r.openSets},
		{"bf", r.openModule},
		{"lua,flat", r.openBitmap},
		{"postgres", r.openPostgres},
	}
	served := []opener{{"service", r.openService}}
	switch {
	case r.load:
		return r.each(ctx, served, step{"load", r.overload})
	case r.wire:
		sets := []opener{{"sets", r.openSets}, {"ints", r.openNumbers}}
		return r.each(ctx, append(sets, served...), step{"rows", r.measureWire}, step{"seen", r.seen})
	case r.growth:
		return r.each(ctx, others,
			step{"candidates", r.byCandidates},
			step{"users", r.byUsers},
			step{"activities of the viewer", r.byActivities})
	default:
		return r.each(ctx, others,
			step{"feed checks", r.measureChecks},
			step{"writes", r.measureWrites})
	}
}

type step struct {
	name string
	do   func(context.Context) error
}

// opener fills servers, and adds the rows of these words.
type opener struct {
	words string
	open  func(context.Context) error
}

// each adds all rows, checks that each answers rightly, and takes the steps.
func (r *run) each(ctx context.Context, openers []opener, steps ...step) error {
	ping := func(ctx context.Context, _ *bench.Feed, _ []bool) error {
		return r.client.Ping(ctx).Err()
	}
	r.ways = []*way{{name: "PING", redis: r.client, checks: each(ping)}}
	wanted := func(word string) bool { return !r.skip[word] }
	for _, o := range openers {
		if !slices.ContainsFunc(strings.Split(o.words, ","), wanted) {
			continue
		}
		note("loading " + o.words)
		if err := o.open(ctx); err != nil {
			return fmt.Errorf("load %s: %w", o.words, err)
		}
	}
	note("checking that all answer rightly")
	feeds := r.people.Feeds(verifySize)
	for _, w := range r.ways[1:] {
		if err := w.verify(ctx, feeds); err != nil {
			return err
		}
	}
	for _, s := range steps {
		note(s.name)
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// add adds a row, unless it is left out.
func (r *run) add(w *way) {
	if w.name += " (" + w.word + ")"; !r.skip[w.word] {
		r.ways = append(r.ways, w)
	}
}

func note(step string) {
	fmt.Fprintf(os.Stderr, "%s  %s\n", time.Now().Format(time.TimeOnly), step)
}

// measureChecks measures feed checks of all sizes, as multiples of a PING.
func (r *run) measureChecks(ctx context.Context) error {
	sizes := []int{50, 200, usualSize, 1000}
	head := []string{
		"", "50, x PING", "200, x PING", "500, x PING", "1,000, x PING",
		"feeds/s of 500", "CPU of Redis, us",
	}
	rows := r.named()
	var many, one []figures
	for _, n := range sizes {
		feeds := r.people.Feeds(n)
		latencies, err := r.latency(ctx, feeds)
		if err != nil {
			return err
		}
		for i, f := range latencies {
			cell := number(f[xPing])
			if i == 0 {
				cell = number(f[p50]) + " us"
			}
			rows[i] = append(rows[i], cell)
		}
		if n != usualSize {
			continue
		}
		if many, err = r.rates(ctx, feeds, goroutines); err != nil {
			return err
		}
		if one, err = r.rates(ctx, feeds, 1); err != nil {
			return err
		}
	}
	for i, w := range r.ways {
		redis := "-"
		if w.redis != nil {
			redis = number(one[i][redisCPU])
		}
		rows[i] = append(rows[i], number(many[i][perSecond]), redis)
	}
	r.report.add("Feed checks by candidates: medians of one goroutine, taking turns. "+
		"Feeds a second are those of 16 goroutines, CPU that of one.", head, rows)
	return nil
}

// named returns a row for each way, with its name.
func (r *run) named() [][]string {
	rows := make([][]string, len(r.ways))
	for i, w := range r.ways {
		rows[i] = []string{w.name}
	}
	return rows
}

// measureWrites measures writes of one key and of a hundred keys.
func (r *run) measureWrites(ctx context.Context) error {
	var rows [][]string
	for _, keys := range []int{1, 100} {
		calls := []bench.Call{bench.Ping(r.client)}
		for _, w := range r.ways {
			if w.write != nil {
				calls = append(calls, w.write(keys))
			}
		}
		times, err := r.interleave(ctx, r.duration*time.Duration(len(calls)), calls)
		if err != nil {
			return err
		}
		n := 0
		for _, w := range r.ways {
			switch {
			case w.write == nil:
				continue
			case keys == 1:
				rows = append(rows, []string{w.name})
			}
			rows[n] = append(rows[n], number(times[n+1][xPing]))
			n++
			if keys == 1 {
				continue
			}
			bytes := "as above"
			if w.bytes > 0 {
				bytes = number(w.bytes)
			}
			rows[n-1] = append(rows[n-1], bytes, percent(w.wrong))
		}
	}
	head := []string{"", "one write, x PING", "100 keys, x PING", "B an activity", "dropped wrongly"}
	r.report.add("Writes, and memory:", head, rows)
	return nil
}

// measureWire measures feed checks as an app gets them. In each round, all rows take turns.
func (r *run) measureWire(ctx context.Context) error {
	feeds := r.people.Feeds(usualSize)
	all := make([][]figures, len(r.ways))
	for round := range rounds {
		note(fmt.Sprintf("  round %d of %d", round+1, rounds))
		latencies, err := r.latency(ctx, feeds)
		if err != nil {
			return err
		}
		for i, w := range r.ways {
			f, err := r.timed(ctx, w, feeds, goroutines, r.duration)
			if err != nil {
				return err
			}
			f[p50], f[p99] = latencies[i][p50], latencies[i][p99]
			all[i] = append(all[i], f)
		}
	}
	rows, sets := r.named(), slices.IndexFunc(r.ways, func(w *way) bool { return w.word == "sets" })
	for i, w := range r.ways {
		f := medians(all[i])
		speed, cost, bytes, wrong := "", "", "", ""
		if w.word != "" { // a PING checks nothing
			bytes, wrong = number(w.bytes), percent(w.wrong)
		}
		if w.word != "" && sets >= 0 {
			exact := medians(all[sets])
			speed, cost = number(f[perSecond]/exact[perSecond]), number(f[wholeCPU]/exact[wholeCPU])
		}
		rows[i] = append(
			rows[i], number(f[perSecond]), speed, number(f[wholeCPU]), cost, number(f[clientCPU]),
			number(f[serviceCPU]), number(f[redisCPU]), number(f[p50]), number(f[p99]), bytes, wrong,
		)
	}
	head := []string{
		"", "feeds/s", "x sets", "CPU, us", "x sets", "of the client", "service", "Redis",
		"p50, us", "p99, us", "B an activity", "dropped wrongly",
	}
	r.report.add(fmt.Sprintf(
		"Feeds of %d candidates. Feeds a second and CPU: %d goroutines; latency: one. "+
			"Medians of %d rounds.", usualSize, goroutines, rounds,
	), head, rows)
	return nil
}
