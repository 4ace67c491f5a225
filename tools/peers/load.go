package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedfilter/feedfilter/client"
	"github.com/feedfilter/feedfilter/internal/bench"
)

const (
	// loadShare is the duration of each row of the load as a multiple of -duration.
	loadShare = 5
	// backOff is the time that a connection of the closed loop waits after a refusal.
	backOff = 100 * time.Millisecond
	// openConnections is the maximum number of connections of the open loop.
	openConnections = 1024
	// kneeConnections selects a row of the closed loop. The rates of the open loop are shares of
	// its feeds per second.
	kneeConnections = 64
)

// loadReport holds how the service performs under load. Times are in microseconds.
type loadReport struct {
	IdleCPU float64         `json:"idle_cpu_us_per_second"`
	IdleRSS float64         `json:"idle_rss_bytes"`
	Closed  []loadResult    `json:"closed"`
	Open    []loadResult    `json:"open"`
	Sizes   []sizeCPUResult `json:"sizes"`
}

// loadResult is one row: a number of connections in the closed loop, or a rate that the open loop
// offers regardless of the answers.
type loadResult struct {
	Name        string  `json:"name"`
	Connections int     `json:"connections"`
	Offered     float64 `json:"offered,omitzero"` // feeds per second; 0: closed loop
	PerSecond   float64 `json:"per_second"`
	Refused     float64 `json:"refused_per_second"`  // answered 429 or 503
	Degraded    float64 `json:"degraded_per_second"` // answered without a check of all kinds
	Failed      float64 `json:"failed_per_second"`   // any other error
	Error       string  `json:"error,omitzero"`      // the first other error
	P50         float64 `json:"p50_us"`              // latency of answered feeds
	P99         float64 `json:"p99_us"`
	P999        float64 `json:"p999_us"`
	CPU         float64 `json:"service_cpu_us"` // per answered feed
	RSS         float64 `json:"service_rss_bytes"`
}

// sizeCPUResult is the CPU time of the service per feed.
type sizeCPUResult struct {
	Name       string  `json:"name"`
	Candidates int     `json:"candidates"`
	CPU        float64 `json:"service_cpu_us"`
}

// loadWay is the format of the requests.
type loadWay struct {
	name string
	json bool
}

func loadWays() []loadWay { return []loadWay{{"JSON", true}, {"Protobuf", false}} }

// loadConnections returns the numbers of connections of the closed loop's rows. By default the
// service accepts 512 requests at a time.
func loadConnections() []int { return []int{1, 4, 16, 64, 256, 1024} }

// overload measures the closed loop, and then the open loop at shares of the closed loop's rate.
func (w *wire) overload(ctx context.Context) error {
	l := &loadReport{}
	w.report.Wire.Load = l
	if err := w.idle(ctx, l); err != nil {
		return err
	}
	for _, way := range loadWays() {
		note("  " + way.name)
		if err := w.sizeCPU(ctx, way, l); err != nil {
			return err
		}
		most := 0.0
		for _, n := range loadConnections() {
			row, err := w.drive(ctx, way, n, 0)
			if err != nil {
				return err
			}
			if l.Closed = append(l.Closed, row); n == kneeConnections {
				most = row.PerSecond
			}
		}
		for _, share := range []float64{0.25, 0.5, 0.75, 0.9, 1.1, 1.5} {
			row, err := w.drive(ctx, way, openConnections, share*most)
			if err != nil {
				return err
			}
			l.Open = append(l.Open, row)
		}
	}
	return nil
}

// idle measures the CPU time and memory of the service without requests.
func (w *wire) idle(ctx context.Context, l *loadReport) error {
	meter := processCPU(w.service.pid)
	before, err := meter(ctx)
	if err != nil {
		return err
	}
	d := loadShare * w.duration
	select {
	case <-time.After(d):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	after, err := meter(ctx)
	if err != nil {
		return err
	}
	l.IdleCPU = inMicros(after-before) / d.Seconds()
	l.IdleRSS, err = residentBytes(w.service.pid)
	return err
}

// sizeCPU measures the CPU time of the service by the number of candidates. 16 goroutines send the
// feeds.
func (w *wire) sizeCPU(ctx context.Context, way loadWay, l *loadReport) error {
	for _, n := range feedSizes() {
		feeds := w.people.Feeds(n)
		c, err := byClient(w.service.url, "", feeds, client.Options{JSON: way.json})
		if err != nil {
			return err
		}
		call := bench.Call{Name: way.name, Do: func(ctx context.Context, i int) error { return c(ctx, i%len(feeds), nil) }}
		var all []wireFigures
		for range wireRounds {
			figures, err := w.throughput(ctx, &wireRow{pid: processCPU(w.service.pid)}, call)
			if err != nil {
				return err
			}
			all = append(all, figures)
		}
		l.Sizes = append(l.Sizes, sizeCPUResult{way.name, n, medians(all).Service})
	}
	return nil
}

// driver measures one row of the load.
type driver struct {
	check check
	feeds int
	rate  float64 // feeds per second of the open loop; 0: closed loop
	begun time.Time
	until time.Time

	next, refused, degraded, failures atomic.Int64

	mu    sync.Mutex
	took  bench.Samples
	first error // the first failure
}

// drive measures a row with that many connections. Without a rate, each connection sends a feed as
// soon as the last one is answered. With a rate, the connections send the feeds that are due.
func (w *wire) drive(ctx context.Context, way loadWay, connections int, rate float64) (loadResult, error) {
	c, err := byClient(w.service.url, "", w.feeds, client.Options{
		JSON: way.json, MaxAttempts: 1,
		HTTPClient: &http.Client{Transport: &http.Transport{
			MaxIdleConns: connections, MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections, IdleConnTimeout: time.Second,
		}},
	})
	if err != nil {
		return loadResult{}, err
	}
	if err := recovered(ctx, c); err != nil {
		return loadResult{}, err
	}
	d := &driver{check: c, feeds: len(w.feeds), rate: rate, begun: time.Now()}
	d.until = d.begun.Add(loadShare * w.duration)
	meter := processCPU(w.service.pid)
	before, err := meter(ctx)
	if err != nil {
		return loadResult{}, err
	}
	if err := d.run(ctx, connections); err != nil {
		return loadResult{}, err
	}
	lasted := time.Since(d.begun).Seconds()
	after, err := meter(ctx)
	if err != nil {
		return loadResult{}, err
	}
	memory, err := residentBytes(w.service.pid)
	first := ""
	if d.first != nil {
		first = d.first.Error()
	}
	return loadResult{
		Name: way.name, Connections: connections, Offered: rate,
		PerSecond: float64(len(d.took)) / lasted, Refused: float64(d.refused.Load()) / lasted, Degraded: float64(d.degraded.Load()) / lasted,
		Failed: float64(d.failures.Load()) / lasted, Error: first,
		P50: inMicros(d.took.Median()), P99: inMicros(d.took.Quantile(0.99)), P999: inMicros(d.took.Quantile(0.999)),
		CPU: inMicros(after-before) / float64(max(1, len(d.took))), RSS: memory,
	}, err
}

// recovered waits until the service answers completely, so that no row suffers from the one before.
func recovered(ctx context.Context, c check) error {
	const inARow, most = 100, time.Minute
	begun := time.Now()
	for good := 0; good < inARow; good++ {
		err := c(ctx, 0, nil)
		switch {
		case err == nil:
			continue
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case time.Since(begun) > most:
			return fmt.Errorf("the service does not recover in %v: %w", most, err)
		}
		good = -1
		if err := wait(ctx, backOff); err != nil {
			return err
		}
	}
	return nil
}

// run makes the connections send feeds until the end time, and waits for the last answers.
func (d *driver) run(ctx context.Context, connections int) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	for range connections {
		wg.Go(func() {
			if err := d.connection(ctx); err != nil {
				stop(err)
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if len(d.took) == 0 {
		return fmt.Errorf("no feed of %d was answered: %w", d.next.Load(), d.first)
	}
	return nil
}

// connection sends one feed after another.
func (d *driver) connection(ctx context.Context) error {
	var took bench.Samples
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.took = append(d.took, took...)
	}()
	for {
		n := d.next.Add(1) - 1
		due := d.due(n)
		if !due.Before(d.until) {
			return nil
		}
		if err := wait(ctx, time.Until(due)); err != nil {
			return err
		}
		err := d.check(ctx, int(n)%d.feeds, nil)
		if err == nil {
			took = append(took, time.Since(due))
			continue
		}
		if err := d.failed(ctx, err); err != nil {
			return err
		}
	}
}

// failed counts a feed that was refused, degraded or failed. It returns an error only if ctx has
// ended.
func (d *driver) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	_, isDegraded := errors.AsType[*degradedError](err)
	switch {
	case isDegraded:
		d.degraded.Add(1)
		return nil
	case isRefusal(err):
		d.refused.Add(1)
	default:
		d.failures.Add(1)
		d.mu.Lock()
		d.first = cmp.Or(d.first, err)
		d.mu.Unlock()
	}
	if d.rate > 0 {
		return nil
	}
	return wait(ctx, backOff)
}

// due returns the time at which to send the n-th feed.
func (d *driver) due(n int64) time.Time {
	if d.rate == 0 {
		return time.Now()
	}
	return d.begun.Add(time.Duration(float64(n) / d.rate * float64(time.Second)))
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// isRefusal reports whether the service refused the request because it is overloaded.
func isRefusal(err error) bool {
	refused, ok := errors.AsType[*client.Error](err)
	return ok && (refused.Status == http.StatusTooManyRequests || refused.Status == http.StatusServiceUnavailable)
}

// residentBytes returns the resident memory of a process on this machine.
func residentBytes(pid int) (float64, error) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, err
	}
	return parseResident(status)
}

func parseResident(status []byte) (float64, error) {
	for line := range bytes.Lines(status) {
		rest, ok := bytes.CutPrefix(line, []byte("VmRSS:"))
		if !ok {
			continue
		}
		fields := bytes.Fields(rest)
		if len(fields) != 2 || string(fields[1]) != "kB" {
			break
		}
		kB, err := strconv.ParseFloat(string(fields[0]), 64)
		return kB * 1024, err
	}
	return 0, fmt.Errorf("/proc has no VmRSS: %q", status)
}

// knee returns the number of connections of the first row that no later row exceeds by more than a
// tenth in feeds per second. It returns 0 if there is none.
func knee(rows []loadResult) int {
	for i := range rows[:max(0, len(rows)-1)] {
		if !slices.ContainsFunc(rows[i+1:], func(r loadResult) bool { return r.PerSecond > 1.1*rows[i].PerSecond }) {
			return rows[i].Connections
		}
	}
	return 0
}
