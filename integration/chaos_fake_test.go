package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

// TestChaosFindsFaults runs the load against a correct service in memory, and then against faulty
// ones. The load must find each fault, and none in the correct service.
func TestChaosFindsFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		bug  fakeBug
		want string // the broken promise; "": none
	}{
		{"right", fakeBug{}, ""},
		{"applies refused writes later", fakeBug{applyLater: 20}, ""},
		{"does not learn at once what another process acknowledged", fakeBug{learnLate: true}, "lost"},
		{"does not learn at once what another process undid", fakeBug{undoLate: true}, "undone"},
		{"refuses a feed without need", fakeBug{refuseFeed: true}, "refused"},
		{"refuses many feeds after moves", fakeBug{refuseMoved: 100}, "refused"},
		{"refuses a write without need", fakeBug{refuseWrite: 50}, "refused"},
		{"loses writes", fakeBug{loseWrite: 300}, "lost"},
		{"takes undos back", fakeBug{retakeUndo: 30}, "rest"},
		{"answers 500 once", fakeBug{answer500: true}, "status"},
		{"answers 503 without advice", fakeBug{bare503: true}, "status"},
		{"reports what was undone", fakeBug{reportUndone: 10}, "undone"},
		{"misses one side of a block", fakeBug{oneSided: 50}, "lost"},
		{"degrades blocks", fakeBug{degradeBlock: true}, "answer"},
		{"says changed", fakeBug{sayChanged: true}, "changed"},
		{"cuts a connection", fakeBug{cut: true}, "answer"},
		{"leaves posts out", fakeBug{leaveOut: true}, "answer"},
		{"leaves lists out", fakeBug{noLists: true}, "lost"},
		{"leaves fan-outs out", fakeBug{noFanout: true}, "lost"},
		{"keeps nothing", fakeBug{noKeep: true}, "vanished"},
		{"keeps everything", fakeBug{keepAll: true}, "lost"},
		{"drops what other kinds keep", fakeBug{falsePositives: true}, "undone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			fake := &fakeService{
				bug: c.bug, live: make(map[[3]string]bool), stale: make(map[[3]string]bool), recent: make(map[[3]string]recentWrite),
			}
			l := &chaosLoad{model: newChaosModel(24, 7), tally: newTally(), seed: 7, writers: loadWriters, pace: rate.NewLimiter(rate.Inf, 0), maxFeeds: 3000}
			if c.bug.applyLater+c.bug.refuseMoved > 0 { // only writes may be refused meanwhile
				l.tally.begin("postgres killed", 0)
			}
			for i := range 2 {
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fake.serve(i, w, r) }))
				t.Cleanup(server.Close)
				g := newTarget(i, server.URL, func() string { return "" })
				if c.bug.refuseMoved > 0 {
					g.log.add([]byte(movedAway))
				}
				l.targets = append(l.targets, g)
			}
			l.run(t.Context())
			l.checkAtRest(t.Context())
			l.checkRates()
			found, messages := l.tally.violations()
			t.Logf("%d feeds, %d acknowledged: found %v", l.tally.of("feeds"), l.tally.of("acknowledged"), found)
			if (c.want == "" && len(found) > 0) || (c.want != "" && found[c.want] == 0) {
				t.Errorf("found %v, want %q\n%s", found, c.want, strings.Join(messages, "\n"))
			}
			if l.tally.of("acknowledged") < 500 {
				t.Errorf("only %d writes were acknowledged", l.tally.of("acknowledged"))
			}
		})
	}
}

// fakeBug selects the faults of a fakeService. A number n makes one in n operations faulty.
type fakeBug struct {
	loseWrite, retakeUndo, reportUndone, oneSided, applyLater, refuseWrite, refuseMoved int
	answer500, bare503, degradeBlock, sayChanged, cut, leaveOut, noLists                bool
	noFanout, noKeep, keepAll, falsePositives                                           bool
	learnLate, undoLate, refuseFeed                                                     bool
}

// fakeService implements the part of the API that the load uses, in memory.
type fakeService struct {
	bug fakeBug

	mu      sync.Mutex
	live    map[[3]string]bool // user, kind, target
	stale   map[[3]string]bool // undone keys that feeds still report
	recent  map[[3]string]recentWrite
	retaken [3]string
	writes  int
	feeds   int
	once    bool
	by      int      // the instance that handles the present request
	later   []func() // refused writes that have not taken effect
}

// recentWrite is the last change of a key: by which instance, and after how many writes.
type recentWrite struct{ by, writes int }

// learnWrites is after how many writes an instance learns of a change by another, with learnLate or
// undoLate. That takes a small part of the staleness bound.
const learnWrites = 20

// has returns whether the instance that handles the request finds the key live.
func (s *fakeService) has(user, kind, target string) bool {
	key := [3]string{user, kind, target}
	live := s.live[key]
	if last, ok := s.recent[key]; ok && last.by != s.by && s.writes < last.writes+learnWrites && (live && s.bug.learnLate || !live && s.bug.undoLate) {
		return !live
	}
	return live || s.stale[key]
}

// serve handles a request to one of the instances.
func (s *fakeService) serve(instance int, w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by = instance
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var answer any
	switch {
	case r.URL.Path == "/v1/feed/filter":
		if s.misbehave(w) {
			return
		}
		answer = s.feed(r)
	case len(parts) == 5 && s.refuses(r, w, [3]string{parts[2], strings.TrimSuffix(parts[3], "s"), parts[4]}):
		return
	case r.URL.Path == "/v1/fanout/filter":
		answer = s.fanout(r)
	case r.URL.Path == "/v1/activities":
		answer = s.batch(r)
	case len(parts) == 5:
		changed := s.write([3]string{parts[2], strings.TrimSuffix(parts[3], "s"), parts[4]}, r.Method == http.MethodPut)
		answer = map[string]bool{"changed": changed}
	case r.Method == http.MethodGet:
		answer = s.list(parts[2], strings.TrimSuffix(parts[3], "s"))
	default: // seen
		answer = map[string]int{"recorded": 1}
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		panic(err)
	}
}

// misbehave gives a faulty answer to one feed, and reports whether it has.
func (s *fakeService) misbehave(w http.ResponseWriter) bool {
	s.feeds++
	if n := s.bug.refuseMoved; n > 0 && s.feeds%n == 0 {
		refuse(w)
		return true
	}
	if s.once || s.writes < 100 {
		return false
	}
	s.once = true
	switch {
	case s.bug.answer500:
		http.Error(w, "oops", http.StatusInternalServerError)
	case s.bug.bare503:
		http.Error(w, "busy", http.StatusServiceUnavailable)
	case s.bug.refuseFeed:
		refuse(w)
	case s.bug.cut:
		panic(http.ErrAbortHandler)
	default:
		return false
	}
	return true
}

func refuse(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, "busy", http.StatusServiceUnavailable)
}

// refuses answers 503 to some writes, and reports whether it has. With applyLater they take effect
// later.
func (s *fakeService) refuses(r *http.Request, w http.ResponseWriter, key [3]string) bool {
	s.writes++
	bug := func(oneIn int) bool { return oneIn > 0 && s.writes%oneIn == 0 }
	switch {
	case bug(s.bug.refuseWrite):
	case bug(s.bug.applyLater):
		s.later = append(s.later, func() { s.write(key, r.Method == http.MethodPut) })
	default:
		return false
	}
	refuse(w)
	return true
}

func (s *fakeService) write(key [3]string, add bool) bool {
	s.writes++
	if s.bug.applyLater > 0 && s.writes%s.bug.applyLater == s.bug.applyLater/2 && len(s.later) > 3 {
		apply := s.later[0]
		s.later = s.later[1:]
		apply()
	}
	if s.writes%100 == 50 && s.retaken != [3]string{} { // an old add takes effect
		s.live[s.retaken] = true
		s.retaken = [3]string{}
	}
	bug := func(oneIn int) bool { return oneIn > 0 && s.writes%oneIn == 0 }
	was := s.live[key]
	if was != add {
		s.recent[key] = recentWrite{s.by, s.writes}
	}
	switch {
	case add && !was && bug(s.bug.loseWrite):
		return true
	case add:
		s.live[key] = true
		delete(s.stale, key)
	default:
		delete(s.live, key)
		if was && bug(s.bug.retakeUndo) {
			s.retaken = key
		}
		if was && bug(s.bug.reportUndone) {
			s.stale[key] = true
		}
	}
	return was != add || s.bug.sayChanged && s.writes%300 == 0
}

func (s *fakeService) batch(r *http.Request) any {
	var request struct {
		Activities []batchLine `json:"activities"`
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		panic(err)
	}
	results := make([]map[string]bool, len(request.Activities))
	for i, a := range request.Activities {
		results[i] = map[string]bool{"changed": s.write([3]string{a.User, a.Kind, a.Target}, a.Op == "add")}
	}
	return map[string]any{"results": results}
}

func (s *fakeService) list(user, kind string) any {
	items := []map[string]string{}
	for key := range s.live {
		if key[0] == user && key[1] == kind {
			items = append(items, map[string]string{"target": key[2]})
		}
	}
	return map[string]any{"items": items}
}

// keeps reports whether a viewer gets posts by an author from domains that are muted.
func (s *fakeService) keeps(viewer, author string) bool {
	return !s.bug.noKeep && (s.has(viewer, "follow", author) || s.bug.keepAll)
}

// fanout answers a fan-out.
func (s *fakeService) fanout(r *http.Request) any {
	var q fanoutRequest
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		panic(err)
	}
	dropped := []map[string]string{}
	for _, viewer := range q.Viewers {
		muted := len(q.Facets["domain"]) > 0 && s.has(viewer, "domain-mute", q.Facets["domain"][0]) && !s.keeps(viewer, q.Author)
		kind := ""
		switch {
		case s.has(viewer, "block", q.Author) || s.has(q.Author, "block", viewer) || s.bug.falsePositives && q.Author[0] == 'f':
			kind = "block"
		case muted:
			kind = "domain-mute"
		}
		if kind != "" && !s.bug.noFanout {
			dropped = append(dropped, map[string]string{"viewer": viewer, "kind": kind})
		}
	}
	return map[string]any{"dropped": dropped, "degraded": []any{}}
}

// feed answers a feed check.
func (s *fakeService) feed(r *http.Request) any {
	var q feedRequest
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		panic(err)
	}
	kept, dropped, degraded := []map[string]any{}, []map[string]string{}, []map[string]string{}
	for i, p := range q.Posts {
		// With oneSided, some feeds miss a block by the author, as after a torn write.
		reverse := s.has(p.Author, "block", q.Viewer)
		if s.bug.oneSided > 0 && (len(p.Author)+s.writes)%s.bug.oneSided == 0 {
			reverse = false
		}
		if s.bug.leaveOut && s.writes > 100 && i == 0 {
			continue
		}
		kind := s.hides(q, p)
		if reverse || s.has(q.Viewer, "block", p.Author) || s.bug.falsePositives && p.Author[0] == 'f' {
			kind = "block"
		}
		if kind != "" {
			dropped = append(dropped, map[string]string{"id": p.ID, "kind": kind})
			continue
		}
		kept = append(kept, map[string]any{"id": p.ID, "like": s.has(q.Viewer, "like", p.ID)})
	}
	if s.bug.degradeBlock && s.writes > 100 {
		degraded = append(degraded, map[string]string{"kind": "block", "reason": fmt.Sprint("no ", s.writes)})
	}
	return map[string]any{"posts": kept, "dropped": dropped, "degraded": degraded}
}

// hides returns the kind, other than block, for which a feed drops a post; "": none.
func (s *fakeService) hides(q feedRequest, p post) string {
	for _, id := range append(p.Related, p.ID) {
		for _, owner := range append(q.Lists, q.Viewer) {
			if s.bug.noLists && owner != q.Viewer {
				continue
			}
			if s.has(owner, "hide", id) {
				return "hide"
			}
		}
	}
	for _, domain := range p.Facets["domain"] {
		if s.has(q.Viewer, "domain-mute", domain) && !s.keeps(q.Viewer, p.Author) {
			return "domain-mute"
		}
	}
	for _, a := range p.Actors {
		if actor, ok := a.(map[string]any); ok && s.has(q.Viewer, "repost-mute", fmt.Sprint(actor["id"])) {
			return "repost-mute"
		}
	}
	return ""
}

// TestGrown checks grown with memory that grows and memory that does not.
func TestGrown(t *testing.T) {
	for _, c := range []struct {
		name string
		mib  func(second int) int64
		want bool
	}{
		{"level", func(int) int64 { return 100 }, false},
		{"a leak", func(s int) int64 { return 100 + 5*int64(s) }, true},
		{"warming up", func(s int) int64 { return min(400, 100+50*int64(s)) }, false},
		{"a spike at a third", func(s int) int64 {
			if s == 20 {
				return 1
			}
			return 200
		}, false},
	} {
		var samples []sample
		for s := range 60 {
			samples = append(samples, sample{life: 2, age: time.Duration(s) * time.Second, rss: c.mib(s) << 20}, sample{life: 1, age: time.Minute / 3, rss: 1})
		}
		if _, got := grown(samples, sample{life: 2, age: time.Minute, rss: c.mib(60) << 20}); got != c.want {
			t.Errorf("%s: grown %v, want %v", c.name, got, c.want)
		}
	}
}

// TestSignTest checks signTest against probabilities that are easy to compute.
func TestSignTest(t *testing.T) {
	for _, c := range []struct {
		a, b int
		want float64
	}{
		{0, 0, 1}, {0, 5, 1}, {1, 0, 0.5}, {1, 1, 0.75}, {10, 0, 1.0 / 1024}, {5, 5, 0.623046875},
	} {
		if got := signTest(c.a, c.b); got < c.want-1e-9 || got > c.want+1e-9 {
			t.Errorf("signTest(%d, %d) = %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// TestAllowances checks when and where a fault explains 503, and a feed that lacks a write.
func TestAllowances(t *testing.T) {
	y := newTally()
	from := time.Now().Add(-time.Hour)
	until := from.Add(10 * time.Second)
	y.faults = []occurrence{{
		effect: effect{refused: []string{"writes"}, after: 2 * time.Second, alone: true, loses: true},
		victim: 1, from: from, until: until,
	}}
	at := func(seconds int) time.Time { return from.Add(time.Duration(seconds) * time.Second) }
	for _, c := range []struct {
		what        string
		instance    int
		sent, done  int
		refuse, lag bool
	}{
		{"writes", 1, -2, -1, false, false},
		{"writes", 1, -2, 1, true, true},
		{"writes", 1, 5, 6, true, true},
		{"writes", 0, 5, 6, false, true},
		{"feeds", 1, 5, 6, false, true},
		{"writes", 1, 11, 12, true, false},
		{"writes", 1, 13, 14, false, false},
	} {
		if got := y.mayRefuse(c.what, c.instance, at(c.sent), at(c.done)); got != c.refuse {
			t.Errorf("%+v: may refuse %v", c, got)
		}
		if got := y.mayLose(at(c.sent), at(c.done)); got != c.lag {
			t.Errorf("%+v: may lose %v", c, got)
		}
	}
}
