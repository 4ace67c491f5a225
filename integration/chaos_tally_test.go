package integration

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// tally counts what a run does and finds. It is safe for concurrent use.
type tally struct {
	start time.Time

	mu       sync.Mutex
	counts   map[string]int
	found    map[string]int // violations by what was violated
	messages []string       // of the first violations
	fault    string         // the one that is on
	phase    string         // of the test
	latest   time.Duration  // the greatest lateness
	times    map[string]*latencies
	repairs  map[string]repair // the longest by fault
}

func newTally() *tally {
	return &tally{
		start: time.Now(), counts: make(map[string]int), found: make(map[string]int),
		times: make(map[string]*latencies), repairs: make(map[string]repair),
	}
}

// count adds n to a count.
func (y *tally) count(what string, n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.counts[what] += n
}

// of returns a count.
func (y *tally) of(what string) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.counts[what]
}

// maxMessages is how many violations of each promise are described.
const maxMessages = 12

// violatedf notes that the service broke its promise, and how.
func (y *tally) violatedf(promise, format string, args ...any) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.found[promise]++
	if y.found[promise] <= maxMessages {
		y.messages = append(y.messages, fmt.Sprintf("%8.3f s, %s: %s: %s",
			time.Since(y.start).Seconds(), cmp.Or(y.fault, "no fault"), promise, fmt.Sprintf(format, args...)))
	}
}

// again notes a violation that has been described.
func (y *tally) again(promise string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.found[promise]++
}

// violations returns how often each promise was broken, and what was said of the first times.
func (y *tally) violations() (found map[string]int, messages []string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.found, slices.Clone(y.messages)
}

// setFault notes which fault is on from now, "" for none.
func (y *tally) setFault(name string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.fault = name
}

// setPhase notes which phase of the test begins.
func (y *tally) setPhase(name string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.phase = name
}

// late notes a lateness within the bound.
func (y *tally) late(d time.Duration) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.counts["late"]++
	y.latest = max(y.latest, d)
}

// repaired notes how long it took after a fault until all was in order.
func (y *tally) repaired(fault string, r repair) {
	y.mu.Lock()
	defer y.mu.Unlock()
	longest := y.repairs[fault]
	y.repairs[fault] = repair{max(longest.feeds, r.feeds), max(longest.whole, r.whole), max(longest.writes, r.writes)}
}

// took notes how long an answer took: overall, in its phase, and under a fault if one is on.
func (y *tally) took(what string, d time.Duration) {
	y.mu.Lock()
	defer y.mu.Unlock()
	names := []string{what}
	if y.fault != "" {
		names = append(names, what+" under fault")
	}
	if y.phase != "" {
		names = append(names, what+" "+y.phase)
	}
	for _, name := range names {
		if y.times[name] == nil {
			y.times[name] = &latencies{}
		}
		y.times[name].add(d)
	}
}

// quantile returns how long the share q of the answers took at most.
func (y *tally) quantile(what string, q float64) time.Duration {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.times[what] == nil {
		return 0
	}
	return y.times[what].quantile(q)
}

// latencies counts durations in buckets of 5 %, so that a run of hours takes no more room
// than a short one.
type latencies struct {
	buckets [400]int
	n       int
}

const bucketWidth = 0.05

func (l *latencies) add(d time.Duration) {
	i := int(math.Log(float64(max(d, time.Microsecond))/float64(time.Microsecond)) / bucketWidth)
	l.buckets[min(i, len(l.buckets)-1)]++
	l.n++
}

func (l *latencies) quantile(q float64) time.Duration {
	seen := 0
	for i, n := range &l.buckets {
		if seen += n; float64(seen) >= q*float64(l.n) {
			return time.Duration(math.Exp(float64(i+1)*bucketWidth) * float64(time.Microsecond))
		}
	}
	return 0
}
