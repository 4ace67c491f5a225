package integration

import (
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"
)

// sample is the use of resources of an instance at one moment.
type sample struct {
	life       int
	age        time.Duration // since the process started
	rss        int64         // bytes
	goroutines int
	heap       int64 // bytes
	stats      map[string]float64
}

// sampler takes samples of instances each second. It is safe for concurrent use.
type sampler struct {
	instances []*instance
	rest      []sample // samples before the load, by instance

	mu      sync.Mutex
	samples [][]sample // during the load, by instance
	last    map[source]map[string]float64
}

func newSampler(ctx context.Context, instances []*instance) (*sampler, error) {
	s := &sampler{instances: instances, samples: make([][]sample, len(instances)), last: make(map[source]map[string]float64)}
	for _, i := range instances {
		at, err := i.sample(ctx)
		if err != nil {
			return nil, fmt.Errorf("instance %d: %w", i.index, err)
		}
		s.rest = append(s.rest, at)
	}
	return s, nil
}

// run samples until ctx ends.
func (s *sampler) run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.take(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// take adds a sample of each instance that answers.
func (s *sampler) take(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for n, i := range s.instances {
		if at, err := i.sample(ctx); err == nil {
			s.mu.Lock()
			s.samples[n] = append(s.samples[n], at)
			s.last[source{n, at.life}] = at.stats
			s.mu.Unlock()
		}
	}
}

var rssLine = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

// sample asks the instance for its statistics and the kernel for its memory.
func (i *instance) sample(ctx context.Context) (sample, error) {
	i.lifeMu.Lock()
	pid, started := i.pid, i.started
	i.lifeMu.Unlock()
	at := sample{life: i.is().life, age: time.Since(started)}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return at, err
	}
	if m := rssLine.FindSubmatch(status); m != nil {
		kib, _ := strconv.ParseInt(string(m[1]), 10, 64)
		at.rss = kib << 10
	}
	var stats map[string]any
	if err := i.send(ctx, "GET", "/v1/stats", nil).ok(&stats); err != nil {
		return at, err
	}
	at.stats = make(map[string]float64)
	flatten("", stats, at.stats)
	at.goroutines, at.heap = int(at.stats["goroutines"]), int64(at.stats["heap_bytes"])
	return at, nil
}

// flatten adds the numbers of a JSON object to a map, under dotted paths of their names.
func flatten(path string, value any, into map[string]float64) {
	switch v := value.(type) {
	case float64:
		into[path] = v
	case map[string]any:
		for name, inner := range v {
			if path != "" {
				name = path + "." + name
			}
			flatten(name, inner, into)
		}
	}
}

const (
	// moreGoroutines is how many more goroutines an instance at rest may have than before its first
	// load. They serve idle connections.
	moreGoroutines = 50
	// moreMemory is how many bytes the memory may exceed 1.5 times its earlier size.
	moreMemory = 64 << 20
	// judgedLife is the shortest life of a process whose growth check judges.
	judgedLife = 15 * time.Second
)

// check reports unbounded growth of instances at rest after the load.
//
// A process fills its pools and caches first, so check compares its memory at the end with its
// memory from a quarter to a half of its life. It takes the median of those samples, because the
// garbage collector makes single samples vary by a factor of two.
func (s *sampler) check(ctx context.Context) (wrong []string) {
	for n, i := range s.instances {
		i.client.CloseIdleConnections()
		at, err := i.restSample(ctx, s.rest[n].goroutines+moreGoroutines)
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("instance %d at rest: %v", n, err))
			continue
		}
		if most := s.rest[n].goroutines + moreGoroutines; at.goroutines > most {
			wrong = append(wrong, fmt.Sprintf("instance %d has %d goroutines at rest, at most %d", n, at.goroutines, most))
		}
		s.mu.Lock()
		if before, grown := grown(s.samples[n], at); grown {
			wrong = append(wrong, fmt.Sprintf("instance %d has %d MiB after %v, had %d MiB at a third of that",
				n, at.rss>>20, at.age.Round(time.Second), before>>20))
		}
		s.mu.Unlock()
	}
	return wrong
}

// restSample waits up to 15 seconds until the instance has at most that many goroutines.
func (i *instance) restSample(ctx context.Context, goroutines int) (sample, error) {
	deadline := time.Now().Add(15 * time.Second)
	for {
		at, err := i.sample(ctx)
		if err == nil && at.goroutines <= goroutines || time.Now().After(deadline) {
			return at, err
		}
		if err := wait(ctx, 100*time.Millisecond); err != nil {
			return at, err
		}
	}
}

// grown compares the memory at the end of a life with the median of the samples from a quarter to a
// half of that life.
func grown(samples []sample, end sample) (before int64, grown bool) {
	var rss []int64
	for _, at := range samples {
		if at.life == end.life && at.age > end.age/4 && at.age < end.age/2 {
			rss = append(rss, at.rss)
		}
	}
	if len(rss) == 0 || end.age < judgedLife {
		return 0, false
	}
	slices.Sort(rss)
	before = rss[len(rss)/2]
	return before, end.rss > before*3/2+moreMemory
}

// totals sums the numbers of /v1/stats over all lives of all instances, with the last value of each
// life.
func (s *sampler) totals() map[string]float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	sums := make(map[string]float64)
	for stats := range maps.Values(s.last) {
		for name, v := range stats {
			sums[name] += v
		}
	}
	return sums
}
