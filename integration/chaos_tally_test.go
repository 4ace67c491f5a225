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
	start  time.Time
	grants map[string][]grant // by fault

	mu        sync.Mutex
	counts    map[string]int
	found     map[string]int           // number of violations by promise
	described map[string]int           // the same by fault and promise, as far as violatedf counted them
	messages  []string                 // describe the first violations
	faults    []occurrence             // so far; the last may be present
	fault     string                   // the present fault, until it is repaired; "": none
	latest    time.Duration            // the longest delay of a write within the bound
	afterEnd  time.Duration            // the longest time after the end of a fault that a grant was used
	repairs   map[string]repair        // the longest repair by fault
	slowest   map[string]time.Duration // the longest feed by present fault
}

func newTally(grants map[string][]grant) *tally {
	return &tally{
		start: time.Now(), grants: grants, counts: make(map[string]int), found: make(map[string]int), described: make(map[string]int),
		repairs: make(map[string]repair), slowest: make(map[string]time.Duration),
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

// took records how long a feed took.
func (y *tally) took(d time.Duration) {
	y.mu.Lock()
	defer y.mu.Unlock()
	fault := cmp.Or(y.fault, "no fault")
	y.slowest[fault] = max(y.slowest[fault], d)
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
