package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/feedfilter/feedfilter/internal/proxytest"
)

// fault is an event that disturbs the service. begin causes it, and returns a function that ends
// it, or nil if nothing has to be ended. The scheduler waits for a random time between the two
// durations in lasts, and then calls that function.
type fault struct {
	name  string
	on    []topology
	lasts [2]time.Duration
	begin func(w *world) (heal func() error, err error)
}

// faults returns all faults that are possible on the topology and whose names contain
// -chaos.faults.
func faults(on topology) []fault {
	all := slices.Concat(processFaults(), postgresFaults(), redisFaults(), clusterFaults())
	return slices.DeleteFunc(all, func(f fault) bool {
		return !slices.Contains(f.on, on) || !strings.Contains(f.name, *chaosFaults)
	})
}

// everywhere and fleets list the topologies on which a fault is possible.
func everywhere() []topology { return []topology{embedded, oneRedis, redisCluster} }
func fleets() []topology     { return []topology{oneRedis, redisCluster} }

func processFaults() []fault {
	return []fault{
		{"instance killed", everywhere(), [2]time.Duration{0, 2 * time.Second}, func(w *world) (func() error, error) {
			i := w.instances[w.victim]
			i.kill()
			return func() error { return i.start() }, nil
		}},
		{"instance stopped", everywhere(), [2]time.Duration{500 * time.Millisecond, 3 * time.Second}, func(w *world) (func() error, error) {
			i := w.instances[w.victim]
			return func() error {
				w.load.model.extendOpen()
				return i.resume()
			}, i.pause()
		}},
		{"number of pages raised", everywhere(), [2]time.Duration{0, time.Second}, reshape},
		{"kinds changed", everywhere(), [2]time.Duration{0, time.Second}, changeKinds},
	}
}

// reshape asks an instance to double the number of pages. The change continues during later faults.
// An instance that has not finished the change before finishes that one first.
func reshape(w *world) (func() error, error) {
	if w.pages == maxChaosPages {
		return nil, fmt.Errorf("%w: there are %d pages, which is enough", errNotNow, w.pages)
	}
	pages := 2 * w.pages
	g := w.instances[w.victim].target
	r := g.send(w.t.Context(), http.MethodPut, "/v1/pages", map[string]int{"pages": pages})
	if r.status == http.StatusAccepted || w.load.answered(w.t.Context(), g, callPages, r) { // in progress, or done
		w.pages = pages
	}
	return nil, nil //nolint:nilnil // the change needs no end
}

func postgresFaults() []fault {
	return []fault{
		{"postgres killed", fleets(), [2]time.Duration{0, 2 * time.Second}, func(w *world) (func() error, error) {
			w.postgres.Kill()
			return func() error { w.postgres.Restart(); return nil }, nil
		}},
		{"postgres stopped", fleets(), [2]time.Duration{time.Second, 3 * time.Second}, func(w *world) (func() error, error) {
			ended := w.flood()
			w.postgres.Pause()
			return func() error {
				w.load.model.extendOpen()
				w.postgres.Resume()
				ended()
				return nil
			}, nil
		}},
		{"postgres cut off from one", fleets(), partition(), onProxy((*world).ledgerProxy, (*proxytest.Proxy).Cut)},
		{"postgres stalled for one", fleets(), partition(), onProxy((*world).ledgerProxy, (*proxytest.Proxy).Stall)},
	}
}

// ledgerProxy returns the proxy between the victim and PostgreSQL.
func (w *world) ledgerProxy() *proxytest.Proxy { return w.ledgers[w.victim] }

// floodEach is the time between two writes of a flood: more than 100 a second.
const floodEach = 8 * time.Millisecond

// flood sends writes at a fixed pace, however long each takes. The function that it returns ends
// that, and waits for the answers.
func (w *world) flood() (end func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	var all sync.WaitGroup
	start := time.Now()
	all.Go(func() {
		for n := 0; wait(ctx, time.Until(start.Add(time.Duration(n)*floodEach))) == nil; n++ {
			g := w.load.targets[n%len(w.load.targets)]
			all.Go(func() {
				user := fmt.Sprintf("flood%d", n%100)
				r := g.send(context.WithoutCancel(ctx), http.MethodPut, fmt.Sprintf("/v1/users/%s/likes/p%d", user, n), nil)
				if !w.load.answered(ctx, g, callWrite, r) {
					w.load.excuses.noteOpen(r, user)
				}
				w.tally.count("flood", 1)
			})
		}
	})
	return func() {
		cancel()
		all.Wait()
	}
}

// scheduler causes one fault after another.
type scheduler struct {
	world *world
	deck  []fault          // faults not yet drawn from this shuffle
	every [2]time.Duration // from the start of one fault to the start of the next
	done  map[string]int
}

// run causes faults until end, and leaves the last seconds without one.
func (s *scheduler) run(end time.Time) {
	w := s.world
	s.done = make(map[string]int)
	for {
		next := time.Now().Add(s.between(s.every))
		if next.After(end.Add(-s.every[1])) {
			_ = wait(w.t.Context(), time.Until(end))
			return
		}
		if err := s.once(); err != nil {
			w.tally.violatedf("harness", "%v", err)
			return
		}
		w.takeSnapshot()
		if err := wait(w.t.Context(), time.Until(next)); err != nil {
			return
		}
	}
}

func (s *scheduler) between(d [2]time.Duration) time.Duration {
	return d[0] + time.Duration(s.world.rng.Float64()*float64(d[1]-d[0]))
}

// draw takes the next fault of a shuffled deck. A short run therefore has as many different faults
// as possible.
func (s *scheduler) draw() fault {
	if len(s.deck) == 0 {
		s.deck = faults(s.world.topology)
		s.world.rng.Shuffle(len(s.deck), func(i, j int) { s.deck[i], s.deck[j] = s.deck[j], s.deck[i] })
	}
	f := s.deck[0]
	s.deck = s.deck[1:]
	return f
}

// once causes one fault, ends it, and waits until the service answers everywhere.
func (s *scheduler) once() error {
	w, f := s.world, s.draw()
	w.victim = w.rng.IntN(len(w.instances))
	w.tally.begin(f.name, w.victim)
	defer w.tally.repaired()
	start := time.Now()
	heal, err := f.begin(w)
	w.tally.begun()
	if errors.Is(err, errNotNow) {
		w.tally.healed()
		w.t.Logf("%s %s: %v", start.Format(clock), f.name, err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("fault %s: %w", f.name, err)
	}
	if heal != nil {
		if err := wait(w.t.Context(), s.between(f.lasts)); err != nil {
			return err
		}
		if err := heal(); err != nil {
			return fmt.Errorf("heal %s: %w", f.name, err)
		}
	}
	w.tally.healed()
	healed := time.Now()
	r, err := w.repaired()
	w.tally.recovered(f.name, r)
	s.done[f.name]++
	w.t.Logf("%s %-34s at %d, %5d ms; after it feeds are answered everywhere in %d ms, nothing is degraded in %d ms, writes in %d ms",
		start.Format(clock), f.name, w.victim, healed.Sub(start).Milliseconds(), r.feeds.Milliseconds(), r.whole.Milliseconds(), r.writes.Milliseconds())
	if err != nil {
		w.tally.violatedf("repair", "%v after %s: %v", repairLimit, f.name, err)
	}
	return nil
}

// errNotNow marks faults that are not possible in the present state.
var errNotNow = errors.New("not possible now")
