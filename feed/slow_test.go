package feed_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
)

// slowly filters as [feed.Filter] does, one look after another. It looks up the kinds that drop, in
// their order, and then those to annotate.
func slowly(t *testing.T, r *activity.Recorder, req feed.Request) feed.Answer {
	t.Helper()
	var kinds []activity.Kind
	for _, name := range append(append([]string{}, req.Kinds...), req.Annotate...) {
		k, ok := r.Kinds().Named(name)
		if !ok {
			t.Fatalf("no kind %s", name)
		}
		kinds = append(kinds, k)
	}
	view, err := r.View(t.Context(), req.Viewer, kinds)
	must(t, err)
	found := func(i int, p feed.Post) (actor string, ok bool) {
		if kinds[i].Target == activity.Post {
			return "", view.Check(i, p.ID) != activity.None
		}
		for _, who := range append([]string{p.Author}, p.Actors...) {
			if who != req.Viewer && view.Check(i, who) != activity.None {
				return who, true
			}
		}
		return "", false
	}
	a := feed.Answer{Kept: []int{}, Annotated: make([][]int, len(kinds)-len(req.Kinds))}
next:
	for n, p := range req.Posts {
		if req.Limit > 0 && len(a.Kept) == req.Limit {
			a.Next = n
			break
		}
		for i := range req.Kinds {
			if actor, ok := found(i, p); ok {
				a.Dropped = append(a.Dropped, feed.Dropped{At: n, Kind: kinds[i].Name, Actor: actor})
				continue next
			}
		}
		for i := range a.Annotated {
			if _, ok := found(len(req.Kinds)+i, p); ok {
				a.Annotated[i] = append(a.Annotated[i], n)
			}
		}
		a.Kept = append(a.Kept, n)
	}
	return a
}

// Hashing ahead gives the same answers as looking one by one, false positives included, for any
// request. Several goroutines ask at once, because the filter reuses memory.
func TestFilterAsSlowly(t *testing.T) {
	r := open(t)
	random := rand.New(rand.NewPCG(3, 4))
	for range 400 {
		kind := []string{"block", "hide", "like", "seen"}[random.IntN(4)]
		record(t, r, fmt.Sprintf("u%d %s u%d", random.IntN(6), kind, 6+random.IntN(40)))
		record(t, r, fmt.Sprintf("u%d block u%d", 6+random.IntN(40), random.IntN(6)))
	}
	var running sync.WaitGroup
	for worker := range uint64(4) {
		running.Go(func() {
			random := rand.New(rand.NewPCG(5, worker))
			dropped := 0
			for range 300 {
				req := randomRequest(random)
				want := slowly(t, r, req)
				got, err := feed.Filter(t.Context(), r, req)
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%+v:\ngot  %+v, %v\nwant %+v", req, got, err, want)
					return
				}
				dropped += len(got.Dropped)
			}
			if dropped < 1000 {
				t.Errorf("%d posts were dropped: too little is tried", dropped)
			}
		})
	}
	running.Wait()
}

func randomRequest(random *rand.Rand) feed.Request {
	user := func() string { return fmt.Sprint("u", random.IntN(50)) }
	req := feed.Request{Viewer: fmt.Sprint("u", random.IntN(6)), Kinds: []string{"hide", "block", "seen"}, Annotate: []string{"like"}}
	random.Shuffle(3, func(i, j int) { req.Kinds[i], req.Kinds[j] = req.Kinds[j], req.Kinds[i] })
	req.Kinds = req.Kinds[:1+random.IntN(3)]
	req.Annotate = req.Annotate[:random.IntN(2)]
	posts, actors := random.IntN(60), random.IntN(4)
	if random.IntN(10) == 0 {
		posts += 500 // so many that another goroutine reads
	}
	for range posts {
		p := feed.Post{ID: user(), Author: user()}
		for range random.IntN(actors + 1) {
			p.Actors = append(p.Actors, user())
		}
		req.Posts = append(req.Posts, p)
	}
	if random.IntN(2) == 0 {
		req.Limit = 1 + random.IntN(20)
	}
	return req
}
