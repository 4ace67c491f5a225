package feed_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/activity/phrases"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/ratetest"
)

// A clean post is dropped at most as often as the rate says, whatever it carries. The page is as
// full as a page may be, and so are the windows.
func TestRateOfAPost(t *testing.T) { dropCleanPosts(t, 1) }

func TestLongRateOfAPost(t *testing.T) { dropCleanPosts(t, 12) }

// dropCleanPosts lets a viewer who did nothing but see posts have posts of each form.
func dropCleanPosts(t *testing.T, times int) {
	t.Helper()
	const rate = 0.001
	r := fullPages(t, rate)
	rng := rand.New(rand.NewPCG(1, uint64(times)))
	id := func(prefix string) string { return fmt.Sprint(prefix, rng.Uint64()) }
	some := func(n int, prefix string) (ids []string) {
		for range n {
			ids = append(ids, id(prefix))
		}
		return ids
	}
	host := func() string { return id("h") + ".a.b.c.d.e.f.example" + strings.Repeat("x", rng.IntN(9)) }
	hosts := func() (all []string) {
		for range feed.MaxFacetIDs {
			all = append(all, host())
		}
		return all
	}
	text := func(of ...string) string {
		var b strings.Builder
		for b.Len() < activity.MaxText {
			b.WriteString(of[rng.IntN(len(of))])
		}
		return b.String()[:activity.MaxText]
	}
	for _, form := range []struct {
		name  string
		posts int
		carry func(p *feed.Post)
	}{
		{"an author", 50_000, func(*feed.Post) {}},
		{"100 actors", 20_000, func(p *feed.Post) { p.Actors = some(feed.MaxActors, "u") }},
		{"16 related ids", 60_000, func(p *feed.Post) { p.Related = some(feed.MaxRelated, "p") }},
		{"64 hosts of 8 labels", 2000, func(p *feed.Post) { p.Facets = map[activity.Facet][]string{"domain": hosts()} }},
		{"64 threads", 10_000, func(p *feed.Post) {
			p.Facets = map[activity.Facet][]string{"thread": some(feed.MaxFacetIDs, "t")}
		}},
		{"a text of words", 1000, func(p *feed.Post) { p.Text = text(words()...) }},
		{"a text of signs", 400, func(p *feed.Post) { p.Text = text(signs()...) }},
		{"everything", 1000, func(p *feed.Post) {
			p.Text = text(words()...)
			p.Actors, p.Related = some(feed.MaxActors, "u"), some(feed.MaxRelated, "p")
			p.Facets = map[activity.Facet][]string{"domain": hosts(), "thread": some(feed.MaxFacetIDs, "t")}
		}},
	} {
		dropped, posts := 0, form.posts*times
		for from := 0; from < posts; from += 20 {
			req := feed.Request{Viewer: "v"}
			for range 20 {
				p := feed.Post{ID: id("p"), Author: id("u")}
				form.carry(&p)
				req.Posts = append(req.Posts, p)
			}
			dropped += len(filter(t, r, req).Dropped)
		}
		most := ratetest.Most(float64(posts) * rate)
		t.Logf("%s: %d of %d clean posts dropped, %.4f %%, at most %d may be", form.name, dropped, posts, 100*float64(dropped)/float64(posts), most)
		if dropped > most {
			t.Errorf("%s: %d of %d clean posts dropped, at most %d may be at a rate of %g", form.name, dropped, posts, most, rate)
		}
	}
}

// fullPages returns a Recorder whose only page has as many bits set as the rate allows. The windows
// of user v have as many posts and threads as they keep. Nobody did anything else.
func fullPages(t *testing.T, rate float64) *activity.Recorder {
	t.Helper()
	kinds := moreKinds(t,
		activity.Kind{Name: "mute", Plural: "mutes", Target: activity.User, Effect: activity.Drop},
		activity.Kind{Name: "domain-mute", Plural: "domain-mutes", Target: "domain", Effect: activity.Drop,
			Fold: activity.FoldHost, Rollup: activity.RollupDomain},
		activity.Kind{Name: "word-mute", Plural: "word-mutes", Target: "phrase", Effect: activity.Drop, Fold: activity.FoldText},
		activity.Kind{Name: "thread-read", Plural: "threads-read", Target: "thread", Effect: activity.Drop, Window: 30 * 24 * time.Hour},
	)
	store := &favfilter.Memory{}
	r := openWith(t, activity.Config{Ledger: openLedger(t, 1), Store: store, Kinds: kinds, FalsePositiveRate: rate, Passive: true})
	record(t, r, "somebody hide something") // makes the page
	loaded, _, err := store.Load(t.Context(), []favfilter.PageID{{}})
	must(t, err)
	key := kinds.Rates(rate).Key
	h := loaded[0].Page.Header()
	h.Shape, err = favfilter.ShapeFor(2000, key)
	must(t, err)
	page, err := favfilter.NewPage(h)
	must(t, err)
	// The viewer has phrases that begin with each word of the texts, so all longer ones are tried.
	seed := r.Inside().Identity().Seed
	marks := pages.KeyStart(seed, "word-mute+", "v", "phrase")
	for _, text := range append(append(words(), signs()...), "") {
		var cut phrases.Text
		cut.Cut(text)
		page.Mark(marks.With(favfilter.HashKey(seed, "")))
		for i := range cut.Units() {
			page.Mark(marks.With(favfilter.HashKeyBytes(seed, cut.Phrase(i, 1))))
		}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for n := 0; page.Header().Set+32 <= h.Shape.Limit(key); n++ {
		page.Insert(favfilter.Hash{H1: rng.Uint64(), H2: rng.Uint64(), Extra: []uint8{4, 6, 10, 16}[n%4]})
	}
	done, err := store.Replace(t.Context(), favfilter.Replacement{Page: page, Seen: loaded[0].Version})
	if err != nil || !done {
		t.Fatalf("replace the page: %v, %v", done, err)
	}
	for _, kind := range []string{activity.Seen, "thread-read"} {
		var batch []activity.Activity
		for i := range activity.DefaultMost + activity.DefaultMost/8 {
			batch = append(batch, activity.Activity{User: "v", Kind: kind, Target: fmt.Sprint("old", i)})
		}
		_, err := r.Record(t.Context(), batch)
		must(t, err)
	}
	return r
}

// words returns 500 short words, each followed by a space.
func words() (all []string) {
	for i := range 500 {
		all = append(all, strconv.FormatInt(int64(1000+i), 36)+" ")
	}
	return all
}

// signs returns signs of three bytes that stand for five or six letters each, of which a phrase has
// up to 16. No text has more phrases.
func signs() []string { return []string{"㌖", "㌚", "㌫", "㌇", "㌗", "㌙"} }
