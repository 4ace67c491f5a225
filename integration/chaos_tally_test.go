package integration

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// tally counts operations and violations of a run. It is safe for concurrent use.
type tally struct {
	start time.Time

	mu       sync.Mutex
	counts   map[string]int
	found    map[string]int // number of violations by promise
	messages []string       // describe the first violations
	fault    string         // the present fault; "": none
	phase    string         // the present phase of the test
	latest   time.Duration  // the longest delay of a write within the bound
	times    map[string]*latencies
	repairs  map[string]repair // the longest repair by fault
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

// violatedf records how the service broke a promise.
func (y *tally) violatedf(promise, format string, args ...any) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.found[promise]++
	if y.found[promise] <= maxMessages {
		y.messages = append(y.messages, fmt.Sprintf("%8.3f s, %s: %s: %s",
			time.Since(y.start).Seconds(), cmp.Or(y.fault, "no fault"), promise, fmt.Sprintf(format, args...)))
	}
}

// again counts a violation that has already been described.
func (y *tally) again(promise string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.found[promise]++
}

// violations returns how often each promise was broken, and descriptions of the first violations.
func (y *tally) violations() (found map[string]int, messages []string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.found, slices.Clone(y.messages)
}

// setFault records the present fault, "" for none.
func (y *tally) setFault(name string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.fault = name
}

// setPhase records the present phase of the test.
func (y *tally) setPhase(name string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.phase = name
}

// late records that another instance noticed a write with a delay within the bound.
func (y *tally) late(d time.Duration) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.counts["late"]++
	y.latest = max(y.latest, d)
}

// repaired records how long the service took to recover from a fault.
func (y *tally) repaired(fault string, r repair) {
	y.mu.Lock()
	defer y.mu.Unlock()
	longest := y.repairs[fault]
	y.repairs[fault] = repair{max(longest.feeds, r.feeds), max(longest.whole, r.whole), max(longest.writes, r.writes)}
}

// took records the time of an answer: overall, in the present phase, and under a fault if there is
// one.
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

// quantile returns the upper bound of the times of the share q of the answers.
func (y *tally) quantile(what string, q float64) time.Duration {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.times[what] == nil {
		return 0
	}
	return y.times[what].quantile(q)
}

// latencies counts durations in buckets whose width is 5 %. A run of hours takes no more memory
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
