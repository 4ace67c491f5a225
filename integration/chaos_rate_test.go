package integration

import (
	"fmt"
	"math"
)

// exposureID identifies one absence of one candidate from a viewer's feed: the time from an undo to
// the next write.
type exposureID struct {
	viewer       int
	kind, target string
	undos        int
}

// exposure counts the looks at an undone key, and at its control in the same feeds.
type exposure struct{ looks, undone, control int }

// expose counts a look. The caller holds the model's lock.
func (m *chaosModel) expose(viewer int, l *look, undone, control bool) {
	id := exposureID{viewer, l.kind, l.target, l.undos}
	e := m.exposures[id]
	if e == nil {
		e = &exposure{}
		m.exposures[id] = e
	}
	e.looks++
	if undone {
		e.undone++
	}
	if control {
		e.control++
	}
}

// keptID identifies the time from one write of a key that keeps a candidate to the next.
type keptID struct {
	key     *chaosKey
	version uint64
}

// keptLooks counts the looks at a candidate that a kind keeps, and how many of them it was dropped
// in nevertheless.
type keptLooks struct{ looks, dropped int }

// exposeKept counts a look at a candidate that a kind keeps. It has no activity of the kinds that
// are not overruled, so these drop it only by a false positive. The caller holds the model's lock.
func (m *chaosModel) exposeKept(l *look, dropped bool) {
	id := keptID{l.keys[1], l.versions[1]}
	e := m.kept[id]
	e.looks++
	if dropped {
		e.dropped++
	}
	m.kept[id] = e
}

// rates sums up all exposures.
type rates struct {
	Keys            int // keys that were ever undone; each has a control
	UndoneMore      int // keys reported in more absences than their controls
	ControlMore     int
	Absences        int // exposures; each is of an undone key and its control
	UndoneAbsences  int
	ControlAbsences int
	Looks           int
	UndoneLooks     int
	ControlLooks    int
	KeptLooks       int // at candidates that a kind keeps
	KeptDropped     int // by a kind that is not overruled
	UnseenLooks     int // at candidates that nobody has seen
	UnseenDropped   int

	squares, keptSquares, unseenSquares float64 // sums of the squares of the looks of each exposure
}

func (m *chaosModel) rates() rates {
	m.mu.Lock()
	defer m.mu.Unlock()
	var r rates
	more := make(map[exposureID]int)
	for id, e := range m.exposures {
		id.undos = 0
		more[id] += min(e.undone, 1) - min(e.control, 1)
		r.Absences++
		r.Looks += e.looks
		r.UndoneLooks += e.undone
		r.ControlLooks += e.control
		r.UndoneAbsences += min(e.undone, 1)
		r.ControlAbsences += min(e.control, 1)
		r.squares += float64(e.looks) * float64(e.looks)
	}
	for _, e := range m.kept {
		r.KeptLooks += e.looks
		r.KeptDropped += e.dropped
		r.keptSquares += float64(e.looks) * float64(e.looks)
	}
	for _, e := range m.unseen {
		r.UnseenLooks += e.looks
		r.UnseenDropped += e.dropped
		r.unseenSquares += float64(e.looks) * float64(e.looks)
	}
	r.Keys = len(more)
	for _, n := range more {
		switch {
		case n > 0:
			r.UndoneMore++
		case n < 0:
			r.ControlMore++
		}
	}
	return r
}

// configuredRate is the share of candidates without activities that the service may drop. It is the
// default of --false-positive-rate.
const configuredRate = 0.001

// wrong returns why undone keys do not behave like keys that were never written, or "" if they do.
//
// A false positive repeats in each look while its page stays, and in each absence while the other
// keys of the page stay. So neither looks nor absences are independent, but keys are. An undone key
// and its control are looked up in the same feeds, on the same pages, and both are the same in all
// absences. If they behave alike, each of the two has the same chance to be reported in more
// absences than the other. That holds for any fill of the pages and any number of rebuilds. So the
// first test is a sign test, at one in a million.
//
// The second test finds faults that affect both, or candidates that a kind keeps. The share of
// reported looks must not exceed three times the configured rate. In the worst case all looks of an
// absence have the same result. The variance of their sum is then at most the rate times the sum of
// the squares. The test allows six standard deviations on top.
func (r rates) wrong() string {
	if p := signTest(r.UndoneMore, r.ControlMore); p < 1e-6 {
		return fmt.Sprintf("of %d keys %d were reported in more absences than their controls, %d in fewer: by chance once in %.2g",
			r.Keys, r.UndoneMore, r.ControlMore, 1/p)
	}
	if most := mostReported(r.Looks, r.squares); max(r.UndoneLooks, r.ControlLooks) > most {
		return fmt.Sprintf("of %d looks the undone key was reported in %d, its control in %d: at most %d may be",
			r.Looks, r.UndoneLooks, r.ControlLooks, most)
	}
	if most := mostReported(r.KeptLooks, r.keptSquares); r.KeptDropped > most {
		return fmt.Sprintf("of %d looks at candidates that a kind keeps, other kinds dropped %d: at most %d may be",
			r.KeptLooks, r.KeptDropped, most)
	}
	if most := mostReported(r.UnseenLooks, r.unseenSquares); r.UnseenDropped > most {
		return fmt.Sprintf("of %d looks at posts that nobody has seen, feeds dropped %d: at most %d may be",
			r.UnseenLooks, r.UnseenDropped, most)
	}
	return ""
}

// mostReported returns how many looks may have false positives. squares is the sum of the squares
// of the looks of each exposure.
func mostReported(looks int, squares float64) int {
	return int(3*configuredRate*float64(looks) + 6*math.Sqrt(configuredRate*squares) + 1)
}

// signTest returns the probability that a+b tosses of a coin give at least a heads.
func signTest(a, b int) float64 {
	n := a + b
	choose := func(k int) float64 { // log of the binomial coefficient
		x, _ := math.Lgamma(float64(n + 1))
		y, _ := math.Lgamma(float64(k + 1))
		z, _ := math.Lgamma(float64(n - k + 1))
		return x - y - z
	}
	p := 0.0
	for k := a; k <= n; k++ {
		p += math.Exp(choose(k) - float64(n)*math.Ln2)
	}
	return min(p, 1)
}

// checkRates records a violation if the observed rates are wrong.
func (l *chaosLoad) checkRates() {
	if wrong := l.model.rates().wrong(); wrong != "" {
		l.tally.violatedf("undone", "%s", wrong)
	}
}
