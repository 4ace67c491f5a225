package integration

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeFollower is a correct service that follows a source in memory. A test injects a fault by
// wrapping one of its functions.
type fakeFollower struct {
	mu      sync.Mutex      // guards the next three
	reached int             // the position that it has applied
	rows    map[string]bool // what it has applied
	commits []time.Time     // of the source, up to each position
	delay   time.Duration   // of the network; clients that try for minutes send fewer requests over a slow one

	apply  func(row string, add bool)
	ready  func(after int) bool // whether a feed may be answered
	since  func(time.Time) int  // the position up to which the source had committed then
	answer http.Handler
}

func newFakeFollower() *fakeFollower {
	f := &fakeFollower{rows: make(map[string]bool), delay: time.Millisecond}
	f.apply = func(row string, add bool) { f.rows[row] = add }
	f.ready = func(after int) bool { return f.reached >= after }
	f.since = func(at time.Time) (position int) {
		for position < len(f.commits) && !f.commits[position].After(at) {
			position++
		}
		return position
	}
	f.answer = http.HandlerFunc(f.feed)
	return f
}

// feed answers a feed once its position is reached, or what was committed within its time.
func (f *fakeFollower) feed(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/feed/filter" { // an explanation, for people
		http.NotFound(w, r)
		return
	}
	q := decoded[struct {
		feedRequest
		After  string `json:"after"`
		Within string `json:"within"`
	}](r.Body)
	after, err := strconv.Atoi(cmp.Or(q.After, "0"))
	within, failed := time.ParseDuration(cmp.Or(q.Within, "0"))
	if err != nil || failed != nil || (q.After == "") == (q.Within == "") {
		panic(fmt.Sprint(q.After, q.Within, err, failed))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if q.Within != "" {
		after = f.since(time.Now().Add(-within))
	}
	if !f.ready(after) {
		refuse(w)
		return
	}
	dropped := []any{}
	for _, p := range q.Posts {
		for _, target := range []string{p.Author, p.ID} {
			if f.rows[q.Viewer+" "+target] {
				dropped = append(dropped, map[string]string{"id": p.ID, "kind": "block"})
				break
			}
		}
	}
	encode(w, map[string]any{"posts": []any{}, "dropped": dropped, "degraded": []any{}})
}

// RoundTrip is the network between a client and the service.
func (f *fakeFollower) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(f.delay)
	answer := httptest.NewRecorder()
	f.answer.ServeHTTP(answer, r)
	return answer.Result(), nil
}

// TestFollowChaosFindsFaults judges feeds with after, of a service that follows a source in memory
// with a delay, and of ones with one fault each.
func TestFollowChaosFindsFaults(t *testing.T) {
	every := func(f *fakeFollower, n int, when func(add bool) bool) {
		apply, due := f.apply, nth(n)
		f.apply = func(row string, add bool) {
			if !when(add) || !due() {
				apply(row, add)
			}
		}
	}
	answers := func(do func(w http.ResponseWriter, right *httptest.ResponseRecorder)) func(*fakeFollower) {
		return func(f *fakeFollower) {
			next, due := f.answer, nth(100)
			f.answer = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				right := httptest.NewRecorder()
				next.ServeHTTP(right, r)
				if right.Code == http.StatusOK && due() {
					do(w, right)
					return
				}
				w.WriteHeader(right.Code)
				_, _ = w.Write(right.Body.Bytes())
			})
		}
	}
	for _, c := range []struct {
		name, want, also string
		inject           func(f *fakeFollower)
	}{
		{"nothing", "", "", func(*fakeFollower) {}},
		{"misses after", "shown", "dropped", func(f *fakeFollower) { f.ready = func(int) bool { return true } }},
		{"misses the last step of after", "shown", "dropped", func(f *fakeFollower) { f.ready = func(after int) bool { return f.reached >= after-1 } }},
		{"misses within", "shown", "dropped", func(f *fakeFollower) { f.since = func(time.Time) int { return 0 } }},
		{"misses the last step of within", "shown", "dropped", func(f *fakeFollower) {
			since := f.since
			f.since = func(at time.Time) int { return since(at) - 1 }
		}},
		{"loses events that record", "shown", "", func(f *fakeFollower) { every(f, 10, func(add bool) bool { return add }) }},
		{"loses events that undo", "ghosts", "", func(f *fakeFollower) { every(f, 10, func(add bool) bool { return !add }) }},
		{"never gets there", "late", "", func(f *fakeFollower) {
			f.ready, f.delay = func(after int) bool { return after < 40 && f.reached >= after }, 100*time.Millisecond
		}},
		{"answers 500", "answered", "", answers(func(w http.ResponseWriter, _ *httptest.ResponseRecorder) {
			w.WriteHeader(http.StatusInternalServerError)
		})},
		{"is degraded for good", "late", "", func(f *fakeFollower) {
			f.delay = 100 * time.Millisecond
			f.answer = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				encode(w, map[string]any{"posts": []any{}, "dropped": []any{}, "degraded": []any{map[string]string{"kind": "block"}}})
			})
		}},
		{"shows one post too many", "shown", "", answers(func(w http.ResponseWriter, right *httptest.ResponseRecorder) {
			answer := decoded[map[string]any](right.Body)
			if dropped, _ := answer["dropped"].([]any); len(dropped) > 0 {
				answer["dropped"] = dropped[1:]
			}
			encode(w, answer)
		})},
		{"drops one post too many", "dropped", "", answers(func(w http.ResponseWriter, _ *httptest.ResponseRecorder) {
			answer := map[string]any{"posts": []any{}, "degraded": []any{}}
			all := []any{}
			for n := range followTargets {
				all = append(all, map[string]string{"id": fmt.Sprint(firstAuthor + n)}, map[string]string{"id": followPost(n)})
			}
			answer["dropped"] = all
			encode(w, answer)
		})},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFakeFollower()
				c.inject(f)
				y := followed(t, f)
				y.checkGhosts()
				found, messages := y.violations()
				wrong := c.want != "" && found[c.want] == 0
				for promise := range maps.Keys(found) {
					wrong = wrong || promise != c.want && !slices.Contains(strings.Fields(c.also), promise)
				}
				if wrong || y.of("feeds") == 0 && c.want != "late" {
					t.Errorf("found %v in %d feeds, want %q\n%s", found, y.of("feeds"), c.want, strings.Join(messages[:min(len(messages), 8)], "\n"))
				}
			})
		})
	}
}

// followed changes rows of a source in memory, whose events reach the service a little later, and
// judges the feeds of their user after each commit.
func followed(t *testing.T, f *fakeFollower) *tally {
	t.Helper()
	const viewer = "100"
	rng := rand.New(rand.NewPCG(3, 3))
	g := newTarget(0, "http://fake")
	g.client = &http.Client{Transport: f}
	w := &followWorld{t: t, rng: rng, tally: newTally(nil), services: []*instance{{target: g}}}
	r := &followWriter{followWorld: w, rng: rng}
	rows := make(map[string]bool)
	for position := 1; position <= 100; position++ {
		target := []string{fmt.Sprint(firstAuthor + rng.IntN(followTargets)), followPost(rng.IntN(followTargets))}[rng.IntN(2)]
		add := !rows[target]
		rows[target] = add
		f.mu.Lock()
		f.commits = append(f.commits, time.Now())
		f.mu.Unlock()
		time.AfterFunc(15*time.Millisecond, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.apply(viewer+" "+target, add)
			f.reached = position
		})
		var want []string
		for target, there := range rows {
			if there {
				want = append(want, target)
			}
		}
		ask := fresh{after: fmt.Sprint(position)}
		if position%4 == 0 {
			ask.since = time.Now()
		}
		r.judge(t.Context(), viewer, ask, want)
		if found, _ := w.tally.violations(); found["late"] > 0 {
			break
		}
	}
	time.Sleep(time.Second) // the last events
	return w.tally
}

// TestFollowChaosComparesRows spoils one row of a ledger that equals its source.
func TestFollowChaosComparesRows(t *testing.T) {
	now := time.Now()
	later := now.Add(time.Hour)
	block, hide := [3]string{"block", "1", "2"}, [3]string{"hide", "1", "p"}
	want := map[[3]string]given{block: {since: &now, rows: 2, sure: true}, hide: {since: &now, until: &later, rows: 1, sure: true}}
	rows := func() []ledgerRow {
		return []ledgerRow{
			{block, given{since: &now, rows: 2}}, {[3]string{"blocked-by", "2", "1"}, given{since: &now, rows: 1}},
			{hide, given{since: &now, until: &later, rows: 1}},
		}
	}
	for _, c := range []struct {
		want  string
		spoil func(rows []ledgerRow) []ledgerRow
	}{
		{"", func(rows []ledgerRow) []ledgerRow { return rows }},
		{"missing", func(rows []ledgerRow) []ledgerRow { return rows[:2] }},
		{"missing", func(rows []ledgerRow) []ledgerRow { return rows[1:] }},
		{"missing", func(rows []ledgerRow) []ledgerRow { return slices.Delete(rows, 1, 2) }},
		{"stray", func(rows []ledgerRow) []ledgerRow {
			return append(rows, ledgerRow{[3]string{"hide", "1", "q"}, rows[0].given})
		}},
		{"stray", func(rows []ledgerRow) []ledgerRow {
			return append(rows, ledgerRow{[3]string{"blocked-by", "3", "1"}, rows[0].given})
		}},
		{"ends", func(rows []ledgerRow) []ledgerRow { rows[2].until = nil; return rows }},
		{"ends", func(rows []ledgerRow) []ledgerRow { rows[1].until = &later; return rows }},
		{"begins", func(rows []ledgerRow) []ledgerRow { rows[0].since = &later; return rows }},
		{"rows", func(rows []ledgerRow) []ledgerRow { rows[0].rows = 1; return rows }},
	} {
		y := newTally(nil)
		y.compareMapping(want, c.spoil(rows()))
		found, messages := y.violations()
		if len(found) != min(len(c.want), 1) || found[c.want] != len(found) {
			t.Errorf("found %v, want %q\n%s", found, c.want, strings.Join(messages, "\n"))
		}
	}
}
