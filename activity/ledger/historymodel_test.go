package ledger

import (
	"fmt"
	"strings"
	"testing"
)

// This model of a server, its transaction ids and a process that polls explores every order of
// events up to a number of steps. After each poll, the process must know the latest committed
// change of every page.
//
// Two writers each begin a transaction, which gets an id that is not logged. A commit changes a
// page, and logs its id and all lower ones. A crash ends what runs. The server continues with any
// id above the logged ones that it had assigned, because other records may or may not have been
// logged. A failover also loses the latest commits, and begins a new timeline.

// world is a state of the model.
type world struct {
	durable
	lost     [2]durable // states before the latest commits
	next     int64      // the id to assign next
	ended    int64      // the greatest id of a transaction that has ended
	running  [2]int64   // the id of each writer's transaction; 0: none
	timeline int
	stamps   int // number of changes so far

	cursor Cursor
	known  [2]int // the stamp of each page's latest change that polls reported
}

// durable is what a crash does not change.
type durable struct {
	pages  [2]changedPage
	logged int64 // ids up to it are never assigned again
}

type changedPage struct {
	stamp   int
	changed int64
}

// rule is how a process continues from a poll.
type rule struct {
	cursor func(h history, s snapshot, seen int64) Cursor
	since  func(h history, c Cursor) (seen int64, running []int64, ok bool)
}

// poll is pollPages. It returns an error if the process then knows too little.
func (w world) poll(r rule) (world, error) {
	saw := snapshot{xmax: w.ended + 1}
	for _, id := range w.running {
		if id > 0 && id < saw.xmax {
			saw.running = append(saw.running, id)
		}
	}
	h := history(fmt.Sprint("server/", w.timeline))
	seen, running, ok := r.since(h, w.cursor)
	if seen >= saw.xmax {
		seen, running, ok = 0, nil, false
	}
	from := seen
	for i, p := range w.pages {
		unseen := p.changed > from
		for _, id := range running {
			unseen = unseen || p.changed == id
		}
		if ok && !unseen {
			continue
		}
		seen = max(seen, p.changed)
		w.known[i] = p.stamp
	}
	w.cursor = r.cursor(h, saw, seen)
	for i, p := range w.pages {
		if w.known[i] != p.stamp {
			return w, fmt.Errorf("page %d has change %d, the process knows change %d", i, p.stamp, w.known[i])
		}
	}
	return w, nil
}

// restarts returns the states after a crash, or a failover, to what d has.
func (w world) restarts(d durable) (after []world) {
	w.running = [2]int64{}
	for next := d.logged + 1; next <= max(w.next, d.logged+1); next++ {
		w.durable, w.next, w.ended = d, next, next-1
		after = append(after, w)
	}
	return after
}

// steps calls each for every state after one event.
func (w world) steps(r rule, each func(event string, after world, err error)) {
	polled, err := w.poll(r)
	each("poll", polled, err)
	begun := false
	for i, id := range w.running {
		after := w
		switch {
		case id == 0 && !begun: // idle writers are alike
			begun = true
			after.running[i] = w.next
			after.next++
			each(fmt.Sprintf("begin %d", w.next), after, nil)
		case id > 0:
			after.running[i], after.ended = 0, max(w.ended, id)
			each(fmt.Sprintf("abort %d", id), after, nil)
			for page := range w.pages {
				after := after
				after.lost = [2]durable{w.durable, w.lost[0]}
				after.stamps++
				after.pages[page] = changedPage{after.stamps, id}
				after.logged = max(w.logged, id)
				each(fmt.Sprintf("commit %d to page %d", id, page), after, nil)
			}
		}
	}
	for _, after := range w.restarts(w.durable) {
		each(fmt.Sprintf("crash, then %d is next", after.next), after, nil)
	}
	for _, d := range w.lost {
		for _, after := range w.restarts(d) {
			after.timeline++
			after.lost = [2]durable{d, d}
			each(fmt.Sprintf("failover, then %d is next", after.next), after, nil)
		}
	}
}

// explore visits every state within the number of steps. It returns the shortest way to a poll
// that misses a change, and the number of states.
func explore(r rule, steps int) (way []string, states int) {
	type arrival struct {
		from  world
		event string
	}
	start := world{next: 1}
	arrivals := map[world]arrival{start: {}}
	wayTo := func(w world) (way []string) {
		for ; w != start; w = arrivals[w].from {
			way = append([]string{arrivals[w].event}, way...)
		}
		return way
	}
	for frontier := []world{start}; steps > 0 && len(frontier) > 0 && way == nil; steps-- {
		var reached []world
		for _, w := range frontier {
			w.steps(r, func(event string, after world, err error) {
				if err != nil && way == nil {
					way = append(wayTo(w), event, err.Error())
				}
				if _, known := arrivals[after]; !known {
					arrivals[after] = arrival{w, event}
					reached = append(reached, after)
				}
			})
		}
		frontier = reached
	}
	return way, len(arrivals)
}

// TestHistoryModel explores the rule of cursors, and weaker ones, which must miss a change.
func TestHistoryModel(t *testing.T) {
	t.Parallel()
	const steps = 10
	right := rule{history.cursor, history.since}
	way, states := explore(right, steps)
	if way != nil {
		t.Errorf("a poll misses a change: %s", strings.Join(way, ", "))
	}
	t.Logf("%d states in %d steps", states, steps)
	weaker := map[string]rule{
		"all that the snapshot saw as ended": {func(h history, s snapshot, _ int64) Cursor { return h.cursor(s, s.xmax-1) }, right.since},
		"no running transactions":            {func(h history, s snapshot, seen int64) Cursor { return h.cursor(snapshot{xmax: s.xmax}, seen) }, right.since},
		"no timeline": {
			func(_ history, s snapshot, seen int64) Cursor { return history("any").cursor(s, seen) },
			func(_ history, c Cursor) (int64, []int64, bool) { return history("any").since(c) },
		},
	}
	for name, r := range weaker {
		way, _ := explore(r, steps)
		if way == nil {
			t.Errorf("%s: no poll misses a change in %d steps", name, steps)
		}
		t.Logf("%s: %s", name, strings.Join(way, ", "))
	}
}

// TestLongHistoryModel explores more steps.
func TestLongHistoryModel(t *testing.T) {
	if testing.Short() {
		t.Skip("TestHistoryModel explores fewer steps")
	}
	way, states := explore(rule{history.cursor, history.since}, 13)
	if way != nil {
		t.Errorf("a poll misses a change: %s", strings.Join(way, ", "))
	}
	t.Logf("%d states", states)
}
