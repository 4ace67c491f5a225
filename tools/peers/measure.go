package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedfilter/feedfilter/internal/bench"
)

// These are the indexes of [figures].
const (
	perSecond = iota
	wholeCPU  // of the next three together
	clientCPU
	serviceCPU
	redisCPU
	p50
	p99
	ping  // median of the PINGs that took turns with the call
	xPing // p50 divided by ping
	numFigures
)

// figures holds what a call costs: calls per second, CPU time and latency in microseconds. A figure
// that was not measured is 0.
type figures [numFigures]float64

// medians returns the median of each figure.
func medians(rounds []figures) (m figures) {
	for i := range m {
		all := make([]float64, len(rounds))
		for n, round := range rounds {
			all[n] = round[i]
		}
		slices.Sort(all)
		m[i] = all[len(all)/2]
	}
	return m
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// interleave times calls in turn. The first one is a PING.
func (r *run) interleave(
	ctx context.Context, d time.Duration, calls []bench.Call,
) ([]figures, error) {
	samples, err := bench.Interleave(ctx, d, calls...)
	if err != nil {
		return nil, err
	}
	r.pings = append(r.pings, samples[0])
	all := make([]figures, len(calls))
	for i, s := range samples {
		f := &all[i]
		f[p50] = micros(s.Median())
		f[p99] = micros(s.Quantile(0.99))
		f[ping] = micros(samples[0].Median())
		f[xPing] = f[p50] / f[ping]
	}
	return all, nil
}

// latency times feed checks by all ways in turn, by one goroutine.
func (r *run) latency(ctx context.Context, feeds []*bench.Feed) ([]figures, error) {
	calls, shares := make([]bench.Call, len(r.ways)), 0.0
	for i, w := range r.ways {
		calls[i] = w.call(feeds)
		shares += w.share()
	}
	return r.interleave(ctx, time.Duration(shares*float64(r.duration)/2), calls)
}

// rates returns the medians of the rates of all ways, which take turns.
func (r *run) rates(ctx context.Context, feeds []*bench.Feed, goroutines int) ([]figures, error) {
	const turns = 3
	all := make([][]figures, len(r.ways))
	for range turns {
		for i, w := range r.ways {
			d := time.Duration(w.share() * float64(r.duration) / turns)
			f, err := r.timed(ctx, w, feeds, goroutines, d)
			if err != nil {
				return nil, err
			}
			all[i] = append(all[i], f)
		}
	}
	m := make([]figures, len(r.ways))
	for i := range all {
		m[i] = medians(all[i])
	}
	return m, nil
}

// timed lets goroutines check feeds for d. It measures how many they check, and the CPU time of all
// processes.
func (*run) timed(
	ctx context.Context, w *way, feeds []*bench.Feed, goroutines int, d time.Duration,
) (f figures, err error) {
	pids := []int{clientCPU: os.Getpid(), serviceCPU: w.service, redisCPU: 0}
	if w.redis != nil {
		if pids[redisCPU], err = processOf(ctx, w.redis); err != nil {
			return f, err
		}
	}
	var used [redisCPU + 1]time.Duration
	read := func(sign time.Duration) {
		for i, pid := range pids {
			if pid == 0 || err != nil {
				continue
			}
			var now time.Duration
			now, err = processCPU(pid)
			used[i] += sign * now
		}
	}
	call := w.call(feeds)
	read(-1)
	begun := time.Now()
	n, failed := parallel(ctx, d, goroutines, call)
	took := time.Since(begun)
	read(1)
	if failed != nil || err != nil {
		return f, cmp.Or(failed, err)
	}
	f[perSecond] = float64(n) / took.Seconds()
	for i, u := range used {
		f[i] += micros(u) / float64(n)
		f[wholeCPU] += micros(u) / float64(n)
	}
	return f, nil
}

// parallel calls c from a number of goroutines for d, and returns how many calls were made. Each
// call gets a different round number.
func parallel(ctx context.Context, d time.Duration, goroutines int, c bench.Call) (int64, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var calls atomic.Int64
	var wg sync.WaitGroup
	begun := time.Now()
	for range goroutines {
		wg.Go(func() {
			for time.Since(begun) < d && ctx.Err() == nil {
				if err := c.Do(ctx, int(calls.Add(1)-1)); err != nil {
					stop(fmt.Errorf("measure %s: %w", c.Name, err))
				}
			}
		})
	}
	wg.Wait()
	return calls.Load(), context.Cause(ctx)
}
