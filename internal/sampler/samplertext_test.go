package sampler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/sampler"
)

// newWords opens kinds whose ids have another form in a page than in a post, and phrases of viewer
// 1.
func newWords(t *testing.T, around ledger.Around) *sampled {
	t.Helper()
	kinds, err := activity.NewKinds(append(activity.BuiltinKinds().All(),
		activity.Kind{Name: "word-mute", Plural: "word-mutes", Target: "phrase", Fold: activity.FoldText, Effect: activity.Drop, Fanout: true},
		activity.Kind{Name: "word-warn", Plural: "word-warns", Target: "phrase", Fold: activity.FoldText, Effect: activity.Annotate},
		activity.Kind{Name: "tag-warn", Plural: "tag-warns", Target: "tag", Fold: activity.FoldCase, Effect: activity.Annotate},
		activity.Kind{Name: "site-warn", Plural: "site-warns", Target: "domain", Fold: activity.FoldDomain, Rollup: activity.RollupDomain, Effect: activity.Annotate},
	)...)
	must(t, err)
	s := newSampled(t, activity.Config{Kinds: kinds}, around)
	recordWords(t, s, "climate change", "選挙速報", "big spoiler")
	return s
}

// recordWords records that viewer 1 mutes all phrases but the last, of which the viewer is warned.
func recordWords(t *testing.T, s *sampled, phrases ...string) {
	t.Helper()
	batch := make([]activity.Activity, len(phrases))
	for i, phrase := range phrases {
		batch[i] = activity.Activity{User: "1", Kind: "word-mute", Target: phrase}
	}
	batch[len(batch)-1].Kind = "word-warn"
	for part := range slices.Chunk(batch, 1000) { // a busy machine takes longer for all than a call may
		_, err := s.Record(t.Context(), part)
		must(t, err)
	}
}

func wordFeed() feed.Request {
	return feed.Request{Viewer: "1", Annotate: []string{"word-warn"}, Posts: []feed.Post{
		{ID: "p0", Author: "9", Text: "Nothing"},
		{ID: "p1", Author: "9", Text: "CLIMATE change is real"},
		{ID: "p2", Author: "9", Text: "今日の選挙速報です"},
		{ID: "p3", Author: "9", Text: "A big spoiler, and a Big Spoiler!"},
		{ID: "p4", Author: "9", Facets: map[activity.Facet][]string{"phrase": {"Big Spoiler"}}},
		{ID: "p5", Author: "1", Text: "my climate change"}, // nobody mutes posts of their own
		{ID: "p6", Author: "9"},
	}}
}

// Feeds that find phrases, and ids in another form, agree with the ledger.
func TestSamplerPhrases(t *testing.T) {
	s := newWords(t, nil)
	record(t, s.Recorder, "1 tag-warn Go", "1 site-warn x.example")
	for _, exact := range []bool{false, true} {
		req := wordFeed()
		req.Exact, req.Annotate = exact, []string{"word-warn", "tag-warn", "site-warn"}
		req.Posts = append(req.Posts,
			feed.Post{ID: "p7", Author: "9", Facets: map[activity.Facet][]string{"tag": {"GO"}}},
			feed.Post{ID: "p8", Author: "9", Facets: map[activity.Facet][]string{"domain": {"a.b.X.example"}}})
		a := s.feed(t, req)
		if got, want := fmt.Sprint(a.Kept, a.Annotated), "[0 3 4 5 6 7 8] [[3 4] [7] [8]]"; got != want {
			t.Errorf("kept and annotated %s, want %s", got, want)
		}
		s.want(t, sampler.Stats{})
	}
}

// replacePage replaces the page by one without marks, or with those alone that say who has phrases,
// and with keys or without. The sequence stays the same.
func (s *sampled) replacePage(t *testing.T, keys, mark bool) {
	t.Helper()
	seed := s.ledger.Identity().Seed
	loaded, _, err := s.store.Load(t.Context(), []favfilter.PageID{{}})
	must(t, err)
	page, err := favfilter.NewPage(loaded[0].Page.Header())
	must(t, err)
	rows, _, err := s.ledger.Keys(t.Context(), 0)
	must(t, err)
	for _, row := range rows {
		if row.Owner != "1" {
			continue // the other side
		}
		start := pages.KeyStart(seed, row.Kind, "1", "phrase")
		if row.Kind == "word-mute" {
			start.Extra = pages.Weight("phrase", true)
		}
		key := start.With(favfilter.HashKey(seed, row.Target))
		some := pages.KeyStart(seed, row.Kind+"+", "1", "phrase").With(favfilter.HashKey(seed, ""))
		if !loaded[0].Page.Contains(key) || !loaded[0].Page.Contains(some) {
			t.Fatalf("the page has no key or mark for %+v", row)
		}
		if keys {
			page.Insert(key)
		}
		if mark {
			page.Insert(some)
		}
	}
	done, err := s.store.Replace(t.Context(), favfilter.Replacement{Page: page, Seen: loaded[0].Version})
	if err != nil || !done {
		t.Fatal("not replaced", err)
	}
}

// A page has lost phrases, or only marks that lead to them. The sampler finds each phrase that a
// feed missed and no other, and has the page rebuilt.
func TestSamplerFindsMissedPhrases(t *testing.T) {
	for name, c := range map[string]struct {
		keys, mark bool
		misses     uint64
	}{
		"keys":        {false, true, 4},
		"all marks":   {true, false, 4},
		"other marks": {true, true, 3}, // a phrase as an id needs none
	} {
		t.Run(name, func(t *testing.T) {
			s := newWords(t, nil)
			s.replacePage(t, c.keys, c.mark)
			if a := s.feed(t, wordFeed()); len(a.Dropped)+len(a.Annotated[0]) != 4-int(c.misses) {
				t.Fatalf("answered %+v", a.Answer)
			}
			s.want(t, sampler.Stats{Misses: c.misses, Repaired: 1})
			if a := s.feed(t, wordFeed()); !slices.Equal(a.Kept, []int{0, 3, 4, 5, 6}) || !slices.Equal(a.Annotated[0], []int{3, 4}) {
				t.Errorf("after the repair: %+v", a.Answer)
			}
			s.want(t, sampler.Stats{Misses: c.misses, Repaired: 1})
		})
	}
}

// A phrase that is removed after a feed is no false positive, and neither is one that has ended,
// whose key is in the page until it is removed.
func TestSamplerPhraseGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWords(t, nil)
		soon := time.Now().Add(time.Second)
		_, err := s.Record(t.Context(), []activity.Activity{{User: "1", Kind: "word-warn", Target: "nothing", Until: soon}})
		must(t, err)
		time.Sleep(time.Second)
		a, chosen, err := s.Filter(t.Context(), wordFeed())
		if err != nil || !slices.Equal(a.Annotated[0], []int{0, 3, 4}) {
			t.Fatalf("annotated %v, %v", a.Annotated, err)
		}
		chosen.Compare(t.Context())
		s.asked++
		s.want(t, sampler.Stats{})
		_, chosen, err = s.Filter(t.Context(), wordFeed())
		must(t, err)
		_, err = s.Record(t.Context(), []activity.Activity{{User: "1", Kind: "word-warn", Target: "big spoiler", Remove: true}})
		must(t, err)
		chosen.Compare(t.Context())
		s.asked++
		s.want(t, sampler.Stats{Undecided: 2}) // the posts with it
	})
}

// An exact feed asks the ledger about a phrase, and the phrase has ended. Then it is recorded
// again, with a time long past, and the page does not change. The feed was right.
func TestSamplerPhraseRecordedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWords(t, nil)
		warn := activity.Activity{User: "1", Kind: "word-warn", Target: "nothing", Until: time.Now().Add(time.Second)}
		_, err := s.Record(t.Context(), []activity.Activity{warn})
		must(t, err)
		time.Sleep(time.Second)
		req := wordFeed()
		req.Exact = true
		a, chosen, err := s.Filter(t.Context(), req)
		if err != nil || !slices.Equal(a.Annotated[0], []int{3, 4}) {
			t.Fatalf("annotated %v, %v", a.Annotated, err)
		}
		warn.Since, warn.Until = time.Now().Add(-time.Hour), time.Time{}
		_, err = s.Record(t.Context(), []activity.Activity{warn})
		must(t, err)
		chosen.Compare(t.Context())
		s.asked++
		s.want(t, sampler.Stats{})
	})
}

// makeUp adds a phrase of which viewer 1 is warned to the page alone.
func (s *sampled) makeUp(t *testing.T, phrase string) {
	t.Helper()
	loaded, _, err := s.store.Load(t.Context(), []favfilter.PageID{{}})
	must(t, err)
	page, seed := loaded[0].Page, s.ledger.Identity().Seed
	page.Insert(pages.KeyStart(seed, "word-warn", "1", "phrase").With(favfilter.HashKey(seed, phrase)))
	done, err := s.store.Replace(t.Context(), favfilter.Replacement{Page: page, Seen: loaded[0].Version})
	if err != nil || !done {
		t.Fatal("not replaced", err)
	}
}

// A page has a phrase that nobody recorded, and changes after the feed. That is a false positive
// still, unless the feed asked the ledger.
func TestSamplerPhraseMadeUp(t *testing.T) {
	for exact, want := range map[bool]sampler.Stats{false: {FalsePositives: 1}, true: {}} {
		s := newWords(t, nil)
		s.makeUp(t, "nothing")
		req := wordFeed()
		req.Exact = exact
		a, chosen, err := s.Filter(t.Context(), req)
		if err != nil || slices.Contains(a.Annotated[0], 0) == exact {
			t.Fatalf("exact %v: annotated %v, %v", exact, a.Annotated, err)
		}
		record(t, s.Recorder, "1 hide elsewhere")
		chosen.Compare(t.Context())
		s.asked++
		s.want(t, want)
	}
}

// An exact feed denied a phrase that the page has by mistake. Another phrase in the same text is
// recorded after the feed, and removed during the comparison, which therefore looks at the page
// again. It still denies the first.
func TestSamplerPhraseDenied(t *testing.T) { synctest.Test(t, testSamplerPhraseDenied) }

func testSamplerPhraseDenied(t *testing.T) {
	var armed atomic.Bool
	var s *sampled
	warn := activity.Activity{User: "1", Kind: "word-warn", Target: "new"}
	s = newWords(t, func(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
		err := next(ctx)
		if c.Operation == "lookup" && armed.CompareAndSwap(true, false) {
			warn.Remove = true
			_, failed := s.Record(ctx, []activity.Activity{warn})
			err = errors.Join(err, failed)
		}
		return err
	})
	s.makeUp(t, "nothing")
	req := feed.Request{Viewer: "1", Exact: true, Annotate: []string{"word-warn"}, Posts: []feed.Post{{ID: "p", Author: "9", Text: "Nothing new"}}}
	a, chosen, err := s.Filter(t.Context(), req)
	if err != nil || len(a.Annotated[0]) > 0 {
		t.Fatalf("annotated %v, %v", a.Annotated, err)
	}
	_, err = s.Record(t.Context(), []activity.Activity{warn})
	must(t, err)
	armed.Store(true)
	chosen.Compare(t.Context())
	s.asked++
	s.want(t, sampler.Stats{Late: 1}) // "new", for what the sampler can tell
}

// Phrases are not looked for in a page of the format before marks, and the feed says so.
func TestSamplerPhrasesOfEarlierFormat(t *testing.T) {
	s := newWords(t, nil)
	loaded, _, err := s.store.Load(t.Context(), []favfilter.PageID{{}})
	must(t, err)
	h := loaded[0].Page.Header()
	h.Shape.Uniform = true
	page, err := favfilter.NewPage(h)
	must(t, err)
	done, err := s.store.Replace(t.Context(), favfilter.Replacement{Page: page, Seen: loaded[0].Version})
	if err != nil || !done {
		t.Fatal("not replaced", err)
	}
	if a := s.feed(t, wordFeed()); len(a.Dropped) > 0 || len(a.Degraded) != 2 {
		t.Fatalf("answered %+v", a.Answer)
	}
	s.want(t, sampler.Stats{})
}

// A viewer has more phrases than the sampler reads, and posts have longer texts than it copies.
func TestSamplerPhrasesTooMany(t *testing.T) {
	s := newWords(t, nil)
	req := wordFeed()
	for range 1<<20/activity.MaxText + 1 {
		req.Posts = append(req.Posts, feed.Post{ID: "long", Author: "9", Text: strings.Repeat("x", activity.MaxText)})
	}
	if a := s.feed(t, req); len(a.Annotated[0]) == 0 || len(a.Degraded) > 0 {
		t.Fatalf("answered %+v", a.Answer)
	}
	s.want(t, sampler.Stats{}) // other kinds are compared
	many := make([]string, 10_001)
	for i := range many {
		many[i] = fmt.Sprint("phrase ", i)
	}
	recordWords(t, s, many...)
	s.feed(t, wordFeed())
	s.want(t, sampler.Stats{Skipped: 1})
}
