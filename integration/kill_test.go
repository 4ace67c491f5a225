package integration

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

// TestKilledDuringWrites kills the service a few times, TestLongKilledDuringWrites often.
func TestKilledDuringWrites(t *testing.T) {
	t.Parallel()
	killDuringWrites(t, 7)
}

func TestLongKilledDuringWrites(t *testing.T) {
	if testing.Short() {
		t.Skip("TestKilledDuringWrites kills it a few times")
	}
	t.Parallel()
	killDuringWrites(t, 40)
}

// killDuringWrites kills the service with SIGKILL so many times during writes. The number of
// acknowledged writes, chosen at random, sets the moment of each kill. After each start on the same
// data, every acknowledged activity must be reported, and no undone one.
func killDuringWrites(t *testing.T, kills int) {
	t.Helper()
	s := serve(t, "--data-dir", t.TempDir(), "--pages", "8")
	s.logOnFailure()
	const writers = 6
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 12))
	models := make([]*writerModel, writers)
	for w := range models {
		models[w] = &writerModel{user: fmt.Sprint("user", w), rng: rand.New(rand.NewPCG(seed+1, uint64(w))), fates: map[activity]fate{}}
	}
	acked := 0
	for range kills {
		var count atomic.Int64
		limit := 1 + rng.Int64N(120)
		var once sync.Once
		var wg sync.WaitGroup
		for _, m := range models {
			wg.Go(func() {
				for m.write(t, s) {
					if count.Add(1) >= limit {
						once.Do(s.kill)
					}
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			return
		}
		acked += int(count.Load())
		s.start()
		for _, m := range models {
			m.verify(t, s)
		}
	}
	found, absent := 0, 0
	for _, m := range models {
		found += m.found
		absent += m.absent
	}
	t.Logf("%d kills, %d acknowledged writes; %d of %d undone keys reported by chance", kills, acked, found, absent)
	if float64(found) > float64(absent)/1000+4 {
		t.Errorf("%d of %d undone keys still reported", found, absent)
	}
}

type activity struct{ plural, target string }

// fate is the known state of an activity. live is undefined if the activity is undecided.
type fate struct{ live, undecided bool }

// writerModel is one client, which writes for one user.
type writerModel struct {
	user          string
	rng           *rand.Rand
	fates         map[activity]fate
	found, absent int
	reported      map[string]bool // by post: undone, but reported by the last look
}

// write does one random write, and records its outcome. It returns false once the service does not
// answer.
func (m *writerModel) write(t *testing.T, s *service) bool {
	t.Helper()
	a := activity{[]string{"blocks", "hides", "likes"}[m.rng.IntN(3)], fmt.Sprint(m.user, "/", m.rng.IntN(50))}
	was := m.fates[a]
	undo := m.rng.IntN(2) == 0
	changed, err := s.put(m.user, a.plural, a.target, undo)
	var status statusError
	switch {
	case errors.As(err, &status):
		t.Errorf("%s %+v: %v", m.user, a, err)
		return false
	case err != nil:
		m.fates[a] = fate{live: !undo, undecided: was.undecided || was.live == undo}
		return false
	}
	if !was.undecided && changed != (was.live == undo) {
		t.Errorf("%s %+v: changed %v, was live %v, undo %v", m.user, a, changed, was.live, undo)
	}
	m.fates[a] = fate{live: !undo}
	return true
}

// verify compares lists and feeds with the model. The lists decide the state of undecided
// activities.
func (m *writerModel) verify(t *testing.T, s *service) {
	t.Helper()
	listed := map[activity]bool{}
	for _, plural := range []string{"blocks", "hides", "likes"} {
		var answer struct{ Items []struct{ Target string } }
		must(t, s.call(http.MethodGet, "/v1/users/"+m.user+"/"+plural+"?limit=1000", nil, &answer))
		for _, item := range answer.Items {
			listed[activity{plural, item.Target}] = true
		}
	}
	for a, f := range m.fates {
		if !f.undecided && f.live != listed[a] {
			t.Errorf("%s %+v: listed %v, want %v", m.user, a, listed[a], f.live)
		}
		m.fates[a] = fate{live: listed[a]}
	}
	for a := range listed {
		if _, known := m.fates[a]; !known {
			t.Errorf("%s %+v is listed but was never written", m.user, a)
		}
	}
	m.verifyFeed(t, s)
}

func (m *writerModel) verifyFeed(t *testing.T, s *service) {
	t.Helper()
	q := feedRequest{Viewer: m.user, Posts: []post{}} // a user may have likes alone
	var want []bool
	for a, f := range m.fates {
		switch a.plural {
		case "blocks":
			q.Posts = append(q.Posts, post{ID: "by " + a.target, Author: a.target})
		case "hides":
			// Each post has its own author. With one author for all, a single false positive would
			// drop all posts.
			q.Posts = append(q.Posts, post{ID: a.target, Author: "of " + a.target})
		default:
			continue
		}
		want = append(want, f.live)
	}
	answer, err := s.feed(q)
	must(t, err)
	next := 0
	reported := map[string]bool{}
	for i, p := range q.Posts {
		kept := next < len(answer.Posts) && answer.Posts[next].ID == p.ID
		if kept {
			next++
		}
		switch {
		case want[i] && kept:
			t.Errorf("%s sees %+v", m.user, p)
		case !want[i]:
			m.absent++
			reported[p.ID] = !kept
			// A false positive that the last look already reported is not counted again.
			if !kept && !m.reported[p.ID] {
				m.found++
			}
		}
	}
	m.reported = reported
	m.verifyOtherSide(t, s)
}

// verifyOtherSide checks that blocked users do not see the user's posts.
func (m *writerModel) verifyOtherSide(t *testing.T, s *service) {
	t.Helper()
	checked := 0
	for a, f := range m.fates {
		if a.plural != "blocks" || !f.live || checked == 5 {
			continue
		}
		checked++
		answer, err := s.feed(feedRequest{Viewer: a.target, Posts: []post{{ID: "x", Author: m.user}}})
		must(t, err)
		if len(answer.Dropped) != 1 {
			t.Errorf("%s is blocked, but sees %s", a.target, m.user)
		}
	}
}
