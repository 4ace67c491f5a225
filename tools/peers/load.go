package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
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

// overload measures the closed loop, and then the open loop at shares of the closed loop's rate. By
// default the service accepts 512 requests at a time.
func (r *run) overload(ctx context.Context) error {
	head := []string{
		"", "connections", "feeds/s", "refused/s", "degraded/s", "failed/s", "p50, ms", "p99, ms",
		"memory of the service, MiB",
	}
	offered := append([]string{"", "offered/s"}, head[2:]...)
	var closed, open, sizes [][]string
	for _, word := range []string{"json", "protobuf"} {
		note("  " + word)
		for _, n := range []int{50, 200, usualSize, 1000} {
			row, err := r.sizeCPU(ctx, word, n)
			if err != nil {
				return err
			}
			sizes = append(sizes, row)
		}
		most := 0.0
		for _, n := range []int{1, 4, 16, 64, 256, 1024} {
			row, rate, err := r.drive(ctx, word, n, 0)
			if err != nil {
				return err
			}
			if closed = append(closed, row); n == kneeConnections {
				most = rate
			}
		}
		for _, share := range []float64{0.25, 0.5, 0.75, 0.9, 1.1, 1.5} {
			row, _, err := r.drive(ctx, word, openConnections, share*most)
			if err != nil {
				return err
			}
			open = append(open, row)
		}
	}
	r.report.add(fmt.Sprintf(
		"Closed loop: each connection asks again once it is answered, or %v after a refusal. "+
			"Feeds of %d candidates.", backOff, usualSize,
	), head, closed)
	r.report.add(fmt.Sprintf(
		"Open loop: feeds are asked for at a fixed rate, by up to %d connections. "+
			"Latency counts from when a feed was due.", openConnections,
	), offered, open)
	r.report.add(fmt.Sprintf(
		"CPU of the service for a feed, %d goroutines, medians of %d rounds:", goroutines, rounds,
	), []string{"", "candidates", "us"}, sizes)
	return nil
}

// sizeCPU measures the CPU time of the service for a feed of n candidates.
func (r *run) sizeCPU(ctx context.Context, word string, n int) ([]string, error) {
	var all []figures
	for range rounds {
		for _, w := range r.ways {
			if w.word != word {
				continue
			}
			f, err := r.timed(ctx, w, r.people.Feeds(n), goroutines, r.duration)
			if err != nil {
				return nil, err
			}
			all = append(all, f)
		}
	}
	return []string{word, number(float64(n)), number(medians(all)[serviceCPU])}, nil
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

// drive measures a row with that many connections, and returns its feeds per second too. Without a
// rate, each connection sends a feed as soon as the last one is answered. With a rate, the
// connections send the feeds that are due.
func (r *run) drive(
	ctx context.Context, word string, connections int, rate float64,
) ([]string, float64, error) {
	feeds := r.people.Feeds(usualSize)
	c := byClient(r.url, "", client.Options{
		JSON: word == "json", MaxAttempts: 1,
		HTTPClient: &http.Client{Transport: &http.Transport{
			MaxIdleConns:        connections,
			MaxIdleConnsPerHost: connections,
			MaxConnsPerHost:     connections,
			IdleConnTimeout:     time.Second,
		}},
	})(feeds)
	if err := recovered(ctx, c); err != nil {
		return nil, 0, err
	}
	d := &driver{check: c, feeds: len(feeds), rate: rate, begun: time.Now()}
	d.until = d.begun.Add(loadShare * r.duration)
	if err := d.run(ctx, connections); err != nil {
		return nil, 0, err
	}
	lasted := time.Since(d.begun).Seconds()
	memory, err := resident(r.servicePID)
	if err != nil {
		return nil, 0, err
	}
	if d.first != nil {
		note(fmt.Sprintf("  a failure over %d connections: %v", connections, d.first))
	}
	load := float64(connections)
	if rate > 0 {
		load = rate
	}
	answered := float64(len(d.took)) / lasted
	row := []string{word, number(load), number(answered)}
	for _, n := range []*atomic.Int64{&d.refused, &d.degraded, &d.failures} {
		row = append(row, number(float64(n.Load())/lasted))
	}
	median, tail := micros(d.took.Median())/1000, micros(d.took.Quantile(0.99))/1000
	row = append(row, number(median), number(tail), number(memory/(1<<20)))
	return row, answered, nil
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
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// isRefusal reports whether the service refused the request because it is overloaded.
func isRefusal(err error) bool {
	refused, ok := errors.AsType[*client.Error](err)
	return ok && (refused.Status == http.StatusTooManyRequests ||
		refused.Status == http.StatusServiceUnavailable)
}
