package feed_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/faulttest"
	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// listKinds are some kinds that drop, and two that overrule lists or the viewer.
func listKinds(t *testing.T) *activity.Kinds {
	t.Helper()
	return moreKinds(t,
		activity.Kind{Name: "mute", Plural: "mutes", Target: activity.User, Effect: activity.Drop},
		activity.Kind{Name: "follow", Plural: "follows", Target: activity.User, Effect: activity.Keep, Over: []string{activity.Lists}},
		activity.Kind{Name: "pal", Plural: "pals", Target: activity.User, Effect: activity.Keep, Over: []string{"mute"}},
	)
}

// TestLists: what a list has against users and posts counts as the viewer's, if the list did it
// itself.
func TestLists(t *testing.T) {
	r := openWith(t, activity.Config{Kinds: listKinds(t)})
	record(t, r, "L block 2", "M mute 3", "M hide h", "5 block L", "1 mute 4", "M mute 4", "L like p", "L seen s", "1 follow 6",
		"M mute 6", "1 pal 7", "M mute 7", "M block 8", "1 block 8", "L block 1")
	posts := []feed.Post{
		{ID: "a", Author: "2"}, {ID: "b", Author: "9", Actors: []string{"3"}}, {ID: "h", Author: "9"}, {ID: "c", Author: "5"},
		{ID: "d", Author: "4"}, {ID: "p", Author: "9"}, {ID: "s", Author: "9"}, {ID: "e", Author: "6"}, {ID: "f", Author: "7"},
		{ID: "g", Author: "8"}, {ID: "i", Author: "1"},
	}
	want := []feed.Dropped{
		{At: 0, Kind: "block", Actor: "2", List: "L"}, {At: 1, Kind: "mute", Actor: "3", List: "M"}, {At: 2, Kind: "hide", List: "M"},
		{At: 4, Kind: "mute", Actor: "4"}, {At: 8, Kind: "mute", Actor: "7", List: "M"}, {At: 9, Kind: "block", Actor: "8"},
	}
	lists := []string{"L", "N", "M"}
	for _, exact := range []bool{false, true} {
		a := filter(t, r, feed.Request{Viewer: "1", Posts: posts, Lists: lists, Annotate: []string{"like"}, Exact: exact})
		if !reflect.DeepEqual(a.Dropped, want) || len(a.Degraded) > 0 || len(a.Annotated[0]) > 0 {
			t.Errorf("exact %v: dropped %v, want %v; annotated %v", exact, a.Dropped, want, a.Annotated)
		}
	}
	if a := filter(t, r, feed.Request{Viewer: "1", Posts: posts}); len(a.Dropped) != 2 {
		t.Errorf("without lists, dropped %v", a.Dropped)
	}
	hides := filter(t, r, feed.Request{Viewer: "1", Posts: posts, Lists: []string{"M", "L"}, Kinds: []string{"hide"}})
	if !reflect.DeepEqual(hides.Dropped, want[2:3]) {
		t.Errorf("hides alone: dropped %v", hides.Dropped)
	}
	for i, p := range posts {
		e, err := feed.Explain(t.Context(), r, "1", p, lists...)
		at := slices.IndexFunc(want, func(d feed.Dropped) bool { return d.At == i })
		switch {
		case err != nil || e.Dropped != (at >= 0):
			t.Errorf("post %d is explained by %+v, %v", i, e, err)
		case at < 0:
		case e.Reasons[0].Kind.Name != want[at].Kind || e.Reasons[0].List != want[at].List || e.Reasons[0].Certainty != feed.Certain:
			t.Errorf("post %d is explained by %+v", i, e.Reasons)
		}
	}
	if e, err := feed.Explain(t.Context(), r, "1", posts[7], "M"); err != nil || len(e.Reasons) != 2 || e.Reasons[0].OverruledBy != "follow" {
		t.Errorf("explained by %+v, %v", e, err)
	}
}

// TestListsExact: what others did with a list does not confirm what a page reports by mistake.
func TestListsExact(t *testing.T) {
	r, tamper := openPage(t, activity.Config{Kinds: listKinds(t)}, nil)
	record(t, r, "5 block L", "L block 6")
	tamper(nil, []string{"L block 5"})
	req := feed.Request{Viewer: "1", Lists: []string{"L"}, Posts: []feed.Post{{ID: "a", Author: "5"}, {ID: "b", Author: "6"}}}
	if a := filter(t, r, req); len(a.Kept) != 0 {
		t.Errorf("kept %v", a.Kept)
	}
	req.Exact = true
	if a := filter(t, r, req); !slices.Equal(a.Kept, []int{0}) {
		t.Errorf("an exact feed kept %v", a.Kept)
	}
}

// TestInvalidLists: a request has so many lists at most, each once.
func TestInvalidLists(t *testing.T) {
	r := open(t)
	many := make([]string, feed.MaxLists+1)
	for i := range many {
		many[i] = fmt.Sprint("L", i)
	}
	for field, lists := range map[string][]string{"lists": many, "lists[1]": {"a", "a"}, "lists[0]": {""}, "lists[2]": {"a", "b", "\n"}} {
		_, err := feed.Filter(t.Context(), r, feed.Request{Viewer: "1", Lists: lists})
		if invalid, ok := errors.AsType[*activity.InvalidError](err); !ok || invalid.Field != field {
			t.Errorf("%q: %v, want field %s", lists, err, field)
		}
		_, err = feed.Explain(t.Context(), r, "1", feed.Post{ID: "p", Author: "2"}, lists...)
		if invalid, ok := errors.AsType[*activity.InvalidError](err); !ok || invalid.Field != field {
			t.Errorf("explain with %q: %v, want field %s", lists, err, field)
		}
	}
	if _, err := feed.Filter(t.Context(), r, feed.Request{Viewer: "1", Lists: many[1:]}); err != nil {
		t.Error(err)
	}
}

// openTwo opens two Recorders of one ledger and one Redis, each with a cache of so many bytes for
// lists. The store is that of the first.
func openTwo(t *testing.T, cache int) (one, other *activity.Recorder, store *switched, server *redistest.Server) {
	t.Helper()
	server = redistest.Start(t)
	url := pgtest.Start(t).Schema()
	open := func() (*activity.Recorder, *switched) {
		store := &switched{Store: redisStore(t, server)}
		return openWith(t, activity.Config{
			Ledger: openLedgerAt(t, url, 16), Store: store, Kinds: listKinds(t), MaxSharedKeys: 16, ListCache: cache,
		}), store
	}
	one, store = open()
	other, _ = open()
	return one, other, store, server
}

// TestListsOfOthers: a feed has every member of a list that another process recorded before it, and
// none that was removed, whatever this process holds. The lists move to dedicated pages.
func TestListsOfOthers(t *testing.T) {
	for _, cache := range []int{1, 1 << 20} {
		one, other, store, _ := openTwo(t, cache)
		var posts []feed.Post
		for n := range 60 {
			posts = append(posts, feed.Post{ID: fmt.Sprint("p", n), Author: fmt.Sprint("u", n)})
		}
		members := make(map[string]string) // their list
		for round := range 60 {
			list, user := []string{"L", "M"}[round%2], fmt.Sprint("u", round)
			record(t, other, fmt.Sprint(list, " mute ", user))
			members[user] = list
			store.down.Store(round%5 == 4) // then pages come from the ledger
			if gone := fmt.Sprint("u", round-6); round%7 == 6 {
				_, err := other.Record(t.Context(), []activity.Activity{{User: members[gone], Kind: "mute", Target: gone, Remove: true}})
				must(t, err)
				delete(members, gone)
			}
			for _, r := range []*activity.Recorder{one, other} {
				a := filter(t, r, feed.Request{Viewer: "1", Posts: posts, Lists: []string{"L", "M"}, Exact: round%3 == 0})
				for _, at := range a.Kept {
					if list, is := members[posts[at].Author]; is {
						t.Fatalf("round %d: %s of %s is shown", round, posts[at].Author, list)
					}
				}
				if extra := len(a.Dropped) - len(members); extra > 3 || extra > 0 && round%3 == 0 {
					t.Errorf("round %d: %d dropped, %d members", round, len(a.Dropped), len(members))
				}
			}
		}
	}
}

// TestListsInOneRoundTrip: while lists do not change, a feed sends one command for the viewer, and
// one that is answered with a header for each list.
func TestListsInOneRoundTrip(t *testing.T) {
	r, _, _, server := openTwo(t, 1<<20)
	var lists []string
	for i := range feed.MaxLists {
		lists = append(lists, fmt.Sprint("L", i))
		for n := range 1 + 3*i {
			record(t, r, fmt.Sprintf("L%d mute u%d", i, n))
		}
	}
	req := feed.Request{Viewer: "1", Lists: lists, Posts: []feed.Post{{ID: "a", Author: "u1"}, {ID: "b", Author: "nobody"}}}
	var before map[string]int64
	const n = 20
	for range 50 { // until the lists are on dedicated pages
		before = server.CommandStats()
		held := r.Stats().FromHeld
		for range n {
			if a := filter(t, r, req); len(a.Dropped) != 1 || a.Dropped[0].List != "L1" {
				t.Fatalf("dropped %v", a.Dropped)
			}
		}
		after := server.CommandStats()
		if after["mget"]-before["mget"] == n && after["getrange"]-before["getrange"] == n*feed.MaxLists {
			if s := r.Stats(); s.FromHeld-held != n*feed.MaxLists || s.HeldBytes == 0 {
				t.Errorf("%d views by held pages of lists, which take %d bytes", s.FromHeld-held, s.HeldBytes)
			}
			return
		}
	}
	t.Errorf("of %d feeds with %d lists, some read more than the viewer's page and a version for each list", n, feed.MaxLists)
}

// TestListsWithoutLedger: without a ledger, lists come from their pages, and fail with the store.
func TestListsWithoutLedger(t *testing.T) {
	store := &switched{Store: &favfilter.Memory{}}
	p, err := activity.OpenPlain(t.Context(), activity.PlainConfig{Store: store})
	must(t, err)
	t.Cleanup(p.Close)
	if _, err := p.Record(t.Context(), []activity.Activity{
		{User: "L", Kind: "block", Target: "2"}, {User: "M", Kind: "hide", Target: "b"}, {User: "M", Kind: "block", Target: "3"},
		{User: "1", Kind: "block", Target: "4"}, {User: "1", Kind: "seen", Target: "d"},
	}); err != nil {
		t.Fatal(err)
	}
	req := feed.Request{Viewer: "1", Lists: []string{"L", "none", "M"}, Posts: []feed.Post{
		{ID: "a", Author: "2"}, {ID: "b", Author: "9"}, {ID: "c", Author: "3"}, {ID: "d", Author: "9"}, {ID: "e", Author: "4"}, {ID: "f", Author: "5"},
	}}
	want := []feed.Dropped{
		{At: 0, Kind: "block", Actor: "2", List: "L"}, {At: 1, Kind: "hide", List: "M"}, {At: 2, Kind: "block", Actor: "3", List: "M"},
		{At: 3, Kind: "seen"}, {At: 4, Kind: "block", Actor: "4"},
	}
	if a, err := feed.Filter(t.Context(), p, req); err != nil || !reflect.DeepEqual(a.Dropped, want) {
		t.Errorf("dropped %v, %v, want %v", a.Dropped, err, want)
	}
	store.down.Store(true)
	var unavailable *activity.UnavailableError
	if _, err := feed.Filter(t.Context(), p, req); !errors.As(err, &unavailable) {
		t.Errorf("while the store is down: %v", err)
	}
}

// switched is a store that may be down, and counts calls.
type switched struct {
	favfilter.Store

	down  atomic.Bool
	reads atomic.Int64
}

func (s *switched) Load(
	ctx context.Context, ids []favfilter.PageID, held ...favfilter.PageID,
) ([]favfilter.Loaded, []favfilter.Version, error) {
	s.reads.Add(1)
	if s.down.Load() {
		return nil, nil, faulttest.ErrInjected
	}
	return s.Store.Load(ctx, ids, held...)
}
