package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/client"
	"github.com/feedfilter/feedfilter/internal/bench"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

const (
	wireSize   = 500 // candidates per feed
	wireRounds = 5   // figures are the medians of these rounds
	// latencyShare is the time for measuring the latency of all rows, as a multiple of the time for
	// a row's throughput.
	latencyShare = 3
	// maxIntset is the set-max-intset-entries of the Redis server for sets of numbers.
	maxIntset = "8192"
)

// wireRow is one way for an application to check a feed.
type wireRow struct {
	name, word string
	check      check
	redis, pid meter // CPU of the Redis server and of the service; nil: no such process
	result     *wireResult
}

// wire compares exact sets, which the application asks directly, with the service, which it asks
// over HTTP.
type wire struct {
	*run

	feeds   []*bench.Feed
	service *service
	tuned   *redis.Client // client of the server for sets of numbers
	rows    []*wireRow
}

func newWire(r *run) *wire {
	r.report.Wire = &wireReport{}
	return &wire{run: r}
}

func (w *wire) steps() []step {
	steps := []step{{"service", w.open}, {"checking that all answer rightly", w.verify}}
	if w.options.load {
		return append(steps, step{"load", w.overload})
	}
	return append(steps, step{"rows", w.measure}, step{"seen", w.seen})
}

// open starts the servers, fills them and adds the rows.
func (w *wire) open(ctx context.Context) (err error) {
	w.feeds = w.people.Feeds(wireSize)
	if w.service, err = startService(ctx, w.run); err != nil {
		return err
	}
	if !w.options.load {
		if err := w.openSets(ctx); err != nil {
			return err
		}
	}
	return w.openService(ctx)
}

// add adds a row for a check that the Redis server answers. pid is the service between them, 0 if
// there is none.
func (w *wire) add(ctx context.Context, name, word string, of *redis.Client, pid int, c check) error {
	redisPID, err := redisServer{client: of}.pid(ctx)
	if err != nil {
		return err
	}
	row := &wireRow{name: name + " (" + word + ")", word: word, check: c, redis: processCPU(redisPID)}
	if pid != 0 {
		row.pid = processCPU(pid)
	}
	row.result = &wireResult{Name: row.name, Word: word}
	w.rows, w.report.Wire.Rows = append(w.rows, row), append(w.report.Wire.Rows, row.result)
	return nil
}

// openSets fills the exact sets: ids as text in a default server, and ids as numbers in a server
// that is tuned for them.
func (w *wire) openSets(ctx context.Context) error {
	w.tuned = redistest.Start(w.host, "--set-max-intset-entries", maxIntset).Client() //nolint:contextcheck // the host has it
	for _, s := range []struct {
		sets       wireSets
		name, word string // the row with one set of seen posts
		windowName string // the row with a window of seen posts
	}{
		{wireSets{client: w.client, id: asIs}, "exact sets, SMISMEMBER x 4", setsWord, "exact sets, seen in 7 parts, x 10"},
		{wireSets{client: w.tuned, id: asNumber}, "sets of numbers, tuned, x 4", "ints", "sets of numbers, tuned, seen in 7 parts, x 10"},
	} {
		note("  " + s.name)
		server := redisServer{client: s.sets.client}
		before, err := server.memory(ctx)
		if err != nil {
			return err
		}
		if err := s.sets.load(ctx, w.people); err != nil {
			return err
		}
		after, err := server.memory(ctx)
		if err != nil {
			return err
		}
		window := s.sets
		window.window = true
		if err := errors.Join(s.sets.loadSeen(ctx, w.people), window.loadSeen(ctx, w.people)); err != nil {
			return err
		}
		if err := w.add(ctx, s.name, s.word, s.sets.client, 0, s.sets.check(w.feeds)); err != nil {
			return err
		}
		if err := w.add(ctx, s.windowName, s.word+"-window", s.sets.client, 0, window.check(w.feeds)); err != nil {
			return err
		}
		for _, row := range w.rows[len(w.rows)-2:] {
			row.result.Bytes = float64(after-before) / float64(w.people.Entries())
		}
	}
	return w.openBloom(ctx)
}

// openBloom adds the row of RedisBloom, or a row that says that it is absent.
func (w *wire) openBloom(ctx context.Context) error {
	const name, word = "RedisBloom, BF.MEXISTS x 4", "bf"
	before, err := w.server.memory(ctx)
	if err != nil {
		return err
	}
	m, err := openModule(ctx, w.run, "BF")
	if errors.Is(err, errAbsent) {
		w.report.Wire.Rows = append(w.report.Wire.Rows, &wireResult{Name: name + " (" + word + ")", Word: word, Absent: err.Error()})
		return nil
	}
	if err != nil {
		return err
	}
	after, err := w.server.memory(ctx) // it allocates all its memory when it is opened
	if err != nil {
		return err
	}
	if err := errors.Join(m.load(ctx, w.people), m.loadSeen(ctx, w.people)); err != nil {
		return err
	}
	if err := w.add(ctx, name, word, w.client, 0, ofPeer(m, w.feeds)); err != nil {
		return err
	}
	w.rows[len(w.rows)-1].result.Bytes = float64(after-before) / float64(w.all())
	return nil
}

// openService adds the rows of the service.
func (w *wire) openService(ctx context.Context) error {
	add := func(name, word string, c check, err error) error {
		if err != nil {
			return err
		}
		if err := w.add(ctx, name, word, w.service.redis, w.service.pid, c); err != nil {
			return err
		}
		w.rows[len(w.rows)-1].result.Bytes = w.service.bytes
		return nil
	}
	by := func(url, answer string, json bool) (check, error) {
		return byClient(url, answer, w.feeds, client.Options{JSON: json})
	}
	json, err := by(w.service.url, "", true)
	first := add("service, JSON", "json", json, err)
	json, err = by(w.service.url, client.AnswerDropped, true)
	second := add("service, JSON, only what is dropped", "json-dropped", json, err)
	message, err := by(w.service.url, "", false)
	third := add("service, Protobuf, as package client does", protobufWord, message, err)
	fourth := add("service, gRPC over HTTP/2, generated client", "grpc", byGRPC(w.service.url, w.feeds), nil)
	message, err = by(w.service.socket, "", false)
	fifth := add("service, Protobuf over a Unix socket", "socket", message, err)
	return errors.Join(first, second, third, fourth, fifth)
}

// verify lets every row decide on all feeds. It returns an error if a row keeps a candidate that
// must be dropped, or if exact sets drop another one.
func (w *wire) verify(ctx context.Context) error {
	dropped := make([]bool, wireSize)
	for _, row := range w.rows {
		clean, wrong := 0, 0
		for i, f := range w.feeds {
			if err := row.check(ctx, i, dropped); err != nil {
				return fmt.Errorf("%s: %w", row.name, err)
			}
			missed, falsely := f.Wrong(dropped)
			if missed > 0 || falsely > 0 && row.pid == nil && row.word != "bf" {
				return fmt.Errorf("%s: feed of viewer %s: %d candidates are kept and %d dropped wrongly",
					row.name, f.Viewer, missed, falsely)
			}
			clean, wrong = clean+cleanOf(f), wrong+falsely
		}
		row.result.Wrong = float64(wrong) / float64(clean)
	}
	return nil
}

// call returns the call that is timed for a row.
func (w *wire) call(row *wireRow) bench.Call {
	return bench.Call{
		Name: row.name, Do: func(ctx context.Context, n int) error { return row.check(ctx, n%len(w.feeds), nil) },
	}
}

// measure takes the medians of wireRounds rounds. In each round all rows take turns.
func (w *wire) measure(ctx context.Context) error {
	ping, err := w.ping(ctx)
	if err != nil {
		return err
	}
	rows := append([]*wireRow{ping}, w.rows...)
	rounds := make([][]wireFigures, len(rows))
	for round := range wireRounds {
		note(fmt.Sprintf("  round %d of %d", round+1, wireRounds))
		calls := make([]bench.Call, len(rows))
		for i, row := range rows {
			calls[i] = w.call(row)
			figures, err := w.throughput(ctx, row, w.call(row))
			if err != nil {
				return err
			}
			rounds[i] = append(rounds[i], figures)
		}
		samples, err := bench.Interleave(ctx, latencyShare*w.duration, calls...)
		if err != nil {
			return err
		}
		w.pings = append(w.pings, samples[0])
		for i := range rows {
			rounds[i][round].P50, rounds[i][round].P99 = inMicros(samples[i].Median()), inMicros(samples[i].Quantile(0.99))
		}
	}
	for i, row := range rows {
		row.result.wireFigures = medians(rounds[i])
	}
	return nil
}

// ping returns the row of a PING of the service's Redis server. It begins the table.
func (w *wire) ping(ctx context.Context) (*wireRow, error) {
	pid, err := redisServer{client: w.service.redis}.pid(ctx)
	if err != nil {
		return nil, err
	}
	do := redisServer{client: w.service.redis}.ping().Do
	row := &wireRow{
		name: pingRow, check: func(ctx context.Context, i int, _ []bool) error { return do(ctx, i) },
		redis: processCPU(pid), result: &wireResult{Name: pingRow},
	}
	w.report.Wire.Rows = slices.Insert(w.report.Wire.Rows, 0, row.result)
	return row, nil
}

// throughput makes 16 goroutines check feeds, and measures the CPU time of all processes.
func (w *wire) throughput(ctx context.Context, row *wireRow, call bench.Call) (wireFigures, error) {
	meters := []meter{processCPU(os.Getpid()), row.pid, row.redis}
	before, err := readMeters(ctx, meters)
	if err != nil {
		return wireFigures{}, err
	}
	begun := time.Now()
	perSecond, err := parallel(ctx, w.duration, goroutines, call)
	if err != nil {
		return wireFigures{}, err
	}
	feeds := perSecond * time.Since(begun).Seconds()
	after, err := readMeters(ctx, meters)
	if err != nil {
		return wireFigures{}, err
	}
	var used [3]float64
	for i := range meters {
		used[i] = inMicros(after[i]-before[i]) / feeds
	}
	return wireFigures{
		PerSecond: perSecond, Client: used[0], Service: used[1], Redis: used[2], Whole: used[0] + used[1] + used[2],
	}, nil
}
