package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/bench"
)

// call returns a call that checks one feed with a peer.
func (r *run) call(p contender, feeds []*bench.Feed) bench.Call {
	return bench.Call{
		Name: p.name, Every: p.every,
		Do: func(ctx context.Context, round int) error { return p.check(ctx, feeds[round%len(feeds)], nil) },
	}
}

// calls returns a PING, and a feed check by each peer.
func (r *run) calls(feeds []*bench.Feed) []bench.Call {
	calls := make([]bench.Call, 1, 1+len(r.peers))
	calls[0] = r.server.ping()
	for _, p := range r.peers {
		calls = append(calls, r.call(p, feeds))
	}
	return calls
}

// share returns the share of the duration that a peer gets. A slow peer gets less; more time would
// bring few more samples.
func (p contender) share() float64 {
	if p.every > 1 {
		return slowShare
	}
	return 1
}

// total returns how long a PING and all peers are measured together.
func (r *run) total() time.Duration {
	shares := 1.0
	for _, p := range r.peers {
		shares += p.share()
	}
	return time.Duration(shares * float64(r.duration))
}

// latency measures feed checks of all sizes. For each size, a PING and all peers take turns.
func (r *run) latency(ctx context.Context) error {
	for _, n := range r.sizes() {
		note(fmt.Sprintf("  %d candidates", n))
		feeds := r.people.Feeds(n)
		samples, err := bench.Interleave(ctx, r.total(), r.calls(feeds)...)
		if err != nil {
			return err
		}
		r.pings = append(r.pings, samples[0])
		ping := samples[0].Median()
		r.report.Pings = append(r.report.Pings, inMicros(ping))
		for i, p := range r.peers {
			median := samples[i+1].Median()
			r.result(p.name).Times[n] = figure{inMicros(median), float64(median) / float64(ping), inMicros(samples[i+1].Quantile(0.99))}
		}
	}
	return nil
}

// cpuSize is the number of candidates of the feeds whose CPU time is measured.
const cpuSize = 500

// cpu measures the CPU time of a feed check, in the Redis server and in this process.
func (r *run) cpu(ctx context.Context) error {
	pid, err := r.server.pid(ctx)
	if err != nil {
		return err
	}
	const blocks = 3 // the peers take turns
	meters := []meter{processCPU(pid), processCPU(os.Getpid())}
	calls := r.calls(r.people.Feeds(cpuSize))
	used, checks := make([][2]time.Duration, len(calls)), make([]int, len(calls))
	for n := range blocks * len(calls) {
		i := n % len(calls)
		before, err := readMeters(ctx, meters)
		if err != nil {
			return err
		}
		samples, err := bench.Interleave(ctx, r.duration/blocks, calls[i])
		if err != nil {
			return err
		}
		after, err := readMeters(ctx, meters)
		if err != nil {
			return err
		}
		checks[i] += len(samples[0]) + 1 // the first is no sample
		for m := range meters {
			used[i][m] += after[m] - before[m]
		}
	}
	of := func(i int) cpu {
		return cpu{inMicros(used[i][0]) / float64(checks[i]), inMicros(used[i][1]) / float64(checks[i])}
	}
	r.report.PingCPU = of(0)
	for i, p := range r.peers {
		each := of(i + 1)
		if !p.redis {
			each.Server = -1 // its server is not the Redis server
		}
		r.result(p.name).CPU = each
	}
	return nil
}

// throughput measures PINGs and feed checks by many goroutines at once. Each peer's time is split
// into turns.
func (r *run) throughput(ctx context.Context) error {
	const turns = 3
	for _, n := range feedSizes() {
		feeds := r.people.Feeds(n)
		for range turns {
			perSecond, err := parallel(ctx, r.duration/turns, goroutines, r.server.ping())
			if err != nil {
				return err
			}
			r.report.PingsPerSecond[n] += perSecond / turns
			for _, p := range r.peers {
				d := time.Duration(p.share() * float64(r.duration) / turns)
				if perSecond, err = parallel(ctx, d, goroutines, r.call(p, feeds)); err != nil {
					return err
				}
				r.result(p.name).PerSecond[n] += perSecond / turns
			}
		}
	}
	return nil
}

// removals makes viewers unhide posts, and measures the share that feeds still drop.
func (r *run) removals(ctx context.Context) error {
	feeds := hidden(r.people, removed)
	for _, p := range r.peers {
		from, ok := p.peer.(remover)
		if !ok {
			continue
		}
		all, still := 0, 0
		for _, f := range feeds {
			if err := from.unhide(ctx, f); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		for _, f := range feeds {
			dropped := make([]bool, len(f.Posts))
			if err := p.check(ctx, f, dropped); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			for _, d := range dropped {
				all++
				if d {
					still++
				}
			}
		}
		share := float64(still) / float64(max(1, all))
		r.result(p.name).Stuck = &share
	}
	return nil
}

// writes measures writes of one key and of a hundred keys.
func (r *run) writes(ctx context.Context) error {
	for _, keys := range []int{1, 100} {
		calls := []bench.Call{r.server.ping()}
		var names []string
		for _, p := range r.peers {
			if w, ok := p.peer.(writer); ok {
				calls = append(calls, w.write(keys))
				names = append(names, p.name)
			}
		}
		samples, err := bench.Interleave(ctx, r.duration*time.Duration(len(calls)), calls...)
		if err != nil {
			return err
		}
		r.pings = append(r.pings, samples[0])
		ping := samples[0].Median()
		for i, name := range names {
			median := samples[i+1].Median()
			f := figure{inMicros(median), float64(median) / float64(ping), inMicros(samples[i+1].Quantile(0.99))}
			if keys == 1 {
				r.result(name).Write = f
			} else {
				r.result(name).WriteMany = f
			}
		}
	}
	return nil
}

func inMicros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// hidden makes a feed of up to n hidden posts for each viewer. Each must be dropped.
func hidden(p *bench.Population, n int) []*bench.Feed {
	feeds := make([]*bench.Feed, 0, len(p.Viewers))
	for _, u := range p.Viewers {
		f := &bench.Feed{Viewer: bench.UserID(u)}
		for i := range int(p.Counts[u]) {
			if a := p.Activity(u, i); a.Kind == bench.Hide && len(f.Posts) < n {
				f.Posts = append(f.Posts, feed.Post{ID: a.Target, Author: "u" + strconv.Itoa(90_000_000+i)})
				f.Drop = append(f.Drop, true)
			}
		}
		feeds = append(feeds, f)
	}
	return feeds
}
