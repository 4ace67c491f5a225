package integration

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"
)

// tally counts operations and violations of a run. It is safe for concurrent use.
type tally struct {
	start time.Time

	mu        sync.Mutex
	counts    map[string]int
	found     map[string]int    // number of violations by promise
	described map[string]int    // the same by fault and promise, as far as violatedf counted them
	messages  []string          // describe the first violations
	faults    []occurrence      // so far; the last may be present
	fault     string            // the present fault, until it is repaired; "": none
	latest    time.Duration     // the longest delay of a write within the bound
	repairs   map[string]repair // the longest repair by fault
}

func newTally() *tally {
	return &tally{
		start: time.Now(), counts: make(map[string]int), found: make(map[string]int), described: make(map[string]int),
		repairs: make(map[string]repair),
	}
}

// count adds n to a count.
func (y *tally) count(what string, n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.counts[what] += n
}

// refused counts an answer 503, by request and present fault.
func (y *tally) refused(what string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.counts[what+" 503, "+cmp.Or(y.fault, "no fault")]++
}

// of returns a count.
func (y *tally) of(what string) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.counts[what]
}

// maxMessages is how many violations of each promise are described under each fault.
const maxMessages = 8

// violatedf records how the service broke a promise.
func (y *tally) violatedf(promise, format string, args ...any) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.found[promise]++
	what := cmp.Or(y.fault, "no fault") + ": " + promise
	y.described[what]++
	if y.described[what] <= maxMessages {
		y.messages = append(y.messages, fmt.Sprintf("%8.3f s, %s: %s", time.Since(y.start).Seconds(), what, fmt.Sprintf(format, args...)))
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

// begin records that a fault begins, at that instance if it disturbs only one.
func (y *tally) begin(fault string, victim int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.fault = fault
	y.faults = append(y.faults, occurrence{effect: effects()[fault], victim: victim, from: time.Now()})
}

// healed records that the last fault has ended, and repaired that the service has recovered.
func (y *tally) healed() {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.faults[len(y.faults)-1].until = time.Now()
}

func (y *tally) repaired() {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.fault = ""
}

// during reports whether a fault that matches was present at some time between from and until, or
// had ended less than after before.
func (y *tally) during(from, until time.Time, matches func(o *occurrence) (after time.Duration, ok bool)) bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	for i := range y.faults {
		o := &y.faults[i]
		after, ok := matches(o)
		if ok && until.After(o.from) && (o.until.IsZero() || from.Before(o.until.Add(after))) {
			return true
		}
	}
	return false
}

// mayRefuse reports whether the instance may answer such a request with 503.
func (y *tally) mayRefuse(what string, instance int, from, until time.Time) bool {
	return y.during(from, until, func(o *occurrence) (time.Duration, bool) {
		return o.after, slices.Contains(o.refused, what) && (!o.alone || o.victim == instance)
	})
}

// mayLose reports whether Redis may have lost a write between its answer and the answer to a feed.
func (y *tally) mayLose(acknowledged, answered time.Time) bool {
	return y.during(acknowledged, answered, func(o *occurrence) (time.Duration, bool) { return boundSlack, o.loses })
}

// late records that another instance noticed a write with a delay within the bound.
func (y *tally) late(d time.Duration) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.counts["late"]++
	y.latest = max(y.latest, d)
}

// recovered records how long the service took to recover from a fault.
func (y *tally) recovered(fault string, r repair) {
	y.mu.Lock()
	defer y.mu.Unlock()
	longest := y.repairs[fault]
	y.repairs[fault] = repair{max(longest.feeds, r.feeds), max(longest.whole, r.whole), max(longest.writes, r.writes)}
}
