package feed_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/activity/phrases"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// wordKinds returns the built-in kinds, and some of phrases.
func wordKinds(t testing.TB) *activity.Kinds {
	t.Helper()
	return moreKinds(t,
		activity.Kind{Name: "word-mute", Plural: "word-mutes", Target: "phrase", Fold: activity.FoldText, Effect: activity.Drop, Fanout: true},
		activity.Kind{Name: "word-warn", Plural: "word-warns", Target: "phrase", Fold: activity.FoldText, Effect: activity.Annotate},
		activity.Kind{Name: "follow", Plural: "follows", Target: activity.User, Effect: activity.Keep, Over: []string{"word-mute"}},
	)
}

func mute(user, phrase string) activity.Activity {
	return activity.Activity{User: user, Kind: "word-mute", Target: phrase}
}

func recordActivities(t testing.TB, r activity.Activities, all ...activity.Activity) {
	t.Helper()
	_, err := r.Record(t.Context(), all)
	must(t, err)
}

// A post is dropped for a phrase in its text, or among its ids, in canonical form.
func TestPhrases(t *testing.T) {
	for _, c := range []struct{ muted, text, found string }{
		{"Climate Change", "CLIMATE—change is real", "climate change"},
		{"climate change", "Is the climate going to change?", ""},
		{"climate change", "climate chang", ""},
		{"mute", "muted", ""},
		{"#Go", "I like #GO", "#go"},
		{"go", "I like #go", "go"},
		{"#go", "I like go", ""},
		{"@alice", "thanks @Alice!", "@alice"},
		{"alice", "thanks @alice", ""},
		{"🍕", "🍕🍕", "🍕"},
		{"選挙", "次の選挙速報", "選挙"},
		{"選挙速報", "次の選挙 速報", "選挙速報"},
		{"Straße", "STRASSE 5", "strasse"},
		{"istanbul", "İSTANBUL", "istanbul"},
		{"example.com", "see https://EXAMPLE.com/a", "example com"},
		{"كتاب", "كِتَابٌ", "كتاب"},
		{"שלום", "שָׁלוֹם", "שלום"},
		{"a b c d e", "x a b c d e f", "a b c d e"},
		{"c++", "I write C++.", "c++"},
	} {
		r := openWith(t, activity.Config{Kinds: wordKinds(t), FalsePositiveRate: 1e-8})
		recordActivities(t, r, mute("1", c.muted))
		post := feed.Post{ID: "p", Author: "9", Text: c.text}
		var want []feed.Dropped
		if c.found != "" {
			want = []feed.Dropped{{Kind: "word-mute", Target: c.found}}
		}
		for _, exact := range []bool{false, true} {
			req := feed.Request{Viewer: "1", Posts: []feed.Post{post}, Exact: exact}
			if got := filter(t, r, req).Dropped; !slices.Equal(got, want) {
				t.Errorf("%q in %q: dropped %+v, want %+v", c.muted, c.text, got, want)
			}
		}
		for _, other := range []feed.Request{
			{Viewer: "2", Posts: []feed.Post{post}},
			{Viewer: "1", Posts: []feed.Post{{ID: "p", Author: "9"}}},
			{Viewer: "1", Posts: []feed.Post{{ID: "p", Author: "1", Text: c.text}}}, // the viewer's own
			{Viewer: "1", Posts: []feed.Post{post}, Kinds: []string{"hide"}},
		} {
			if got := filter(t, r, other).Dropped; got != nil {
				t.Errorf("%q in %q: %+v dropped %+v", c.muted, c.text, other, got)
			}
		}
		own := feed.FanoutRequest{Post: feed.Post{Author: "1", Text: c.text}, Viewers: []string{"1"}}
		if got := fanOut(t, r, own).Dropped; got != nil {
			t.Errorf("%q in %q: a fan-out drops %+v for the author", c.muted, c.text, got)
		}
		tagged := feed.Post{ID: "p", Author: "9", Facets: map[activity.Facet][]string{"phrase": {"x", c.muted}}}
		canonical, _, err := phrases.Canonical(c.muted)
		must(t, err)
		if got := filter(t, r, feed.Request{Viewer: "1", Posts: []feed.Post{tagged}}).Dropped; len(got) != 1 || got[0].Target != canonical {
			t.Errorf("%q as an id: dropped %+v", c.muted, got)
		}
		undo := mute("1", strings.ToUpper(c.muted))
		undo.Remove = true
		if outcomes, err := r.Record(t.Context(), []activity.Activity{undo}); err != nil || outcomes[0] != activity.Changed {
			t.Errorf("undo %q: %v, %v", c.muted, outcomes, err)
		}
		if got := filter(t, r, feed.Request{Viewer: "1", Posts: []feed.Post{post, tagged}}).Dropped; got != nil {
			t.Errorf("%q is undone: dropped %+v", c.muted, got)
		}
	}
}

// A phrase that can never be found is refused, and the error says why.
func TestInvalidPhrases(t *testing.T) {
	r := openWith(t, activity.Config{Kinds: wordKinds(t)})
	for phrase, why := range map[string]string{"!?": "no word in it", "a b c d e f": "6 words, at most 5", "#": "no word in it"} {
		_, err := r.Record(t.Context(), []activity.Activity{mute("1", phrase)})
		want := activity.InvalidError{Code: activity.CodeInvalidID, Field: "activities[0].target", Message: "not a phrase: " + why}
		if invalid, ok := errors.AsType[*activity.InvalidError](err); !ok || *invalid != want {
			t.Errorf("%q: error %v, want %v", phrase, err, want)
		}
	}
	for name, k := range map[string]activity.Kind{
		"window":  {Name: "x", Plural: "xs", Target: "phrase", Effect: activity.Drop, Fold: activity.FoldText, Window: 1e9},
		"roll-up": {Name: "x", Plural: "xs", Target: "phrase", Effect: activity.Drop, Fold: activity.FoldText, Rollup: activity.RollupPath},
		"users":   {Name: "x", Plural: "xs", Target: activity.User, Effect: activity.Drop, Fold: activity.FoldText},
	} {
		if _, err := activity.NewKinds(k); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// phraseWords has a small vocabulary of units of every sort. So random texts often have a phrase.
type phraseWords struct{ *rand.Rand }

func (w phraseWords) text(units int) string {
	var b strings.Builder
	for range units {
		b.WriteString([]string{"a", "B", "cc", "#a", "#cc", "@d", "的", "選", "🍕", "ß", "x.y"}[w.IntN(11)])
		b.WriteString([]string{" ", " ", "-", "\u200b ", "、"}[w.IntN(5)])
	}
	return b.String()
}

// has returns all phrases in a text, by brute force.
func has(text string) map[string]bool {
	var cut phrases.Text
	cut.Cut(text)
	all := make(map[string]bool)
	for i := range cut.Units() {
		for n := 1; cut.Phrase(i, n) != nil; n++ {
			all[string(cut.Phrase(i, n))] = true
		}
	}
	return all
}

// phraseModel has what users have, in a map beside a Recorder or a Plain.
type phraseModel struct {
	phraseWords

	r    activity.Activities
	has  map[string]map[string]bool // phrases by user
	loss func()                     // pages are lost, or rebuilt
}

func (m *phraseModel) change(t *testing.T, users int) {
	t.Helper()
	var batch []activity.Activity
	for range m.IntN(12) {
		a := mute(fmt.Sprint("u", m.IntN(users)), m.text(1+m.IntN(4)))
		canonical, _, err := phrases.Canonical(a.Target)
		if err != nil {
			continue
		}
		if a.Remove = m.IntN(3) == 0; a.Remove && m.has[a.User] != nil {
			for phrase := range m.has[a.User] { // any
				a.Target, canonical = phrase, phrase
				break
			}
		}
		batch = append(batch, a)
		if m.has[a.User] == nil {
			m.has[a.User] = make(map[string]bool)
		}
		if m.has[a.User][canonical] = true; a.Remove {
			delete(m.has[a.User], canonical)
		}
	}
	r, isRecorder := m.r.(*activity.Recorder)
	if isRecorder && m.IntN(3) == 0 {
		bulk, prepared := r.NewBulk(), r.NewBatch()
		must(t, prepared.AddAll(batch))
		_, err := bulk.Record(t.Context(), prepared)
		must(t, err)
		must(t, bulk.Finish(t.Context()))
	} else {
		recordActivities(t, m.r, batch...)
	}
	if isRecorder && m.IntN(8) == 0 {
		user := fmt.Sprint("u", m.IntN(users))
		_, _, err := r.DeleteUser(t.Context(), user)
		must(t, err)
		delete(m.has, user)
	}
	if m.IntN(4) == 0 {
		m.loss()
	}
}

// agree compares every page with the ledger.
func (m *phraseModel) agree(t *testing.T) {
	t.Helper()
	inside := m.r.Inside()
	for page := range inside.Identity().Pages {
		p, err := inside.InspectPage(t.Context(), page)
		must(t, err)
		if p.State == pages.PageMissing { // lost, and not needed since
			continue
		}
		if !p.Agrees() {
			t.Errorf("page %d: %s, %d keys more than the ledger, lacks %v", page, p.State, p.Residual, p.Lacks)
		}
	}
}

// check compares feeds, fan-outs and explanations with the model.
func (m *phraseModel) check(t *testing.T, users int, exact bool) (dropped int) {
	t.Helper()
	post := feed.Post{ID: "p", Author: "author", Text: m.text(m.IntN(30))}
	in := has(post.Text)
	list := fmt.Sprint("u", m.IntN(users))
	var viewers []string
	var want []feed.FanoutDropped
	for at := range users {
		viewer := fmt.Sprint("u", at)
		viewers = append(viewers, viewer)
		found := func(user string) bool {
			for phrase := range m.has[user] {
				if in[phrase] {
					return true
				}
			}
			return false
		}
		req := feed.Request{Viewer: viewer, Posts: []feed.Post{post}, Exact: exact}
		a, err := feed.Filter(t.Context(), m.r, req)
		must(t, err)
		if (len(a.Dropped) == 1) != found(viewer) || len(a.Degraded) > 0 {
			t.Fatalf("%q, %s with %v: %+v", post.Text, viewer, m.has[viewer], a)
		}
		for _, d := range a.Dropped {
			if !m.has[viewer][d.Target] || !in[d.Target] {
				t.Fatalf("%q, %s with %v: dropped for %q", post.Text, viewer, m.has[viewer], d.Target)
			}
			want = append(want, feed.FanoutDropped{At: at, Kind: d.Kind, Target: d.Target})
		}
		req.Lists = []string{list}
		a, err = feed.Filter(t.Context(), m.r, req)
		must(t, err)
		if (len(a.Dropped) == 1) != (found(viewer) || found(list)) {
			t.Fatalf("%q, %s with %v, list with %v: %+v", post.Text, viewer, m.has[viewer], m.has[list], a)
		}
	}
	got := fanOut(t, m.r, feed.FanoutRequest{Post: post, Viewers: viewers, Exact: exact})
	if !reflect.DeepEqual(got.Dropped, want) || len(got.Degraded) > 0 {
		t.Fatalf("%q:\nfan-out drops %+v\nfeeds drop    %+v", post.Text, got, want)
	}
	return len(want)
}

// Feeds and fan-outs find exactly the phrases that users have, whatever they did before, and after
// pages were lost and rebuilt.
func TestPhrasesModel(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (activity.Activities, func()){
		"recorder": func(t *testing.T) (activity.Activities, func()) {
			store := &favfilter.Memory{}
			r := openWith(t, activity.Config{Kinds: wordKinds(t), Store: store, FalsePositiveRate: 1e-8, MaxSharedKeys: 16})
			return r, func() {
				for page := range uint32(16) {
					_, _ = store.Replace(context.Background(), favfilter.Replacement{ID: favfilter.PageID{Number: page}})
				}
			}
		},
		"redis": func(t *testing.T) (activity.Activities, func()) {
			server := redistest.Start(t)
			r := openWith(t, activity.Config{Kinds: wordKinds(t), Store: redisStore(t, server), FalsePositiveRate: 1e-8, MaxSharedKeys: 16})
			return r, func() { must(t, server.Client().FlushAll(context.Background()).Err()) }
		},
		"plain": func(t *testing.T) (activity.Activities, func()) {
			kinds := newKinds(t, slices.DeleteFunc(wordKinds(t).All(), func(k activity.Kind) bool { return k.Effect == activity.Keep })...)
			p, err := activity.OpenPlain(t.Context(), activity.PlainConfig{Store: &favfilter.Memory{}, Kinds: kinds, FalsePositiveRate: 1e-8})
			must(t, err)
			t.Cleanup(p.Close)
			return p, func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, loss := open(t)
			m := phraseModel{phraseWords{rand.New(rand.NewPCG(7, 8))}, r, make(map[string]map[string]bool), loss}
			dropped := 0
			for range 150 {
				m.change(t, 12)
				dropped += m.check(t, 12, name != "plain" && m.IntN(3) == 0)
			}
			m.agree(t)
			if dropped < 200 {
				t.Errorf("dropped %d, want more", dropped)
			}
		})
	}
}

// An explanation says which phrase stands where.
func TestExplainPhrase(t *testing.T) {
	r := openWith(t, activity.Config{Kinds: wordKinds(t), FalsePositiveRate: 1e-8})
	warn := mute("1", "spoiler alert")
	warn.Kind = "word-warn"
	recordActivities(t, r, mute("1", "climate change"), warn, mute("L", "energy"), activity.Activity{User: "1", Kind: "follow", Target: "9"})
	post := feed.Post{ID: "p", Author: "9", Text: "Spoiler—ALERT: über Climate  Change and Energy"}
	e, err := feed.Explain(t.Context(), r, "1", post, "L")
	must(t, err)
	type where struct{ kind, target, list, text, by string }
	var got []where
	for _, reason := range e.Reasons {
		got = append(got, where{reason.Kind.Name, reason.Target, reason.List, post.Text[reason.Start:reason.End], reason.OverruledBy})
		if reason.Certainty != feed.Certain {
			t.Errorf("%+v", reason)
		}
	}
	want := []where{
		{"word-mute", "climate change", "", "Climate  Change", "follow"},
		{"word-mute", "energy", "L", "Energy", ""},
		{"word-warn", "spoiler alert", "", "Spoiler—ALERT", ""},
		{"follow", "", "", "", ""},
	}
	if !slices.Equal(got, want) || !e.Dropped {
		t.Errorf("explained as\n     %+v\nwant %+v", got, want)
	}
	a := filter(t, r, feed.Request{Viewer: "1", Posts: []feed.Post{post, {ID: "q", Author: "9"}}, Annotate: []string{"word-warn"}})
	if len(a.Dropped) > 0 || !a.annotated(0, 0) || a.annotated(0, 1) {
		t.Errorf("answered %+v, want both, and the first annotated", a.Answer)
	}
}

// Of a long text, kinds look at the beginning. If the viewer has phrases, the answer says so.
func TestLongText(t *testing.T) {
	r := openWith(t, activity.Config{Kinds: wordKinds(t), FalsePositiveRate: 1e-8})
	recordActivities(t, r, mute("1", "last"), mute("1", "las"), mute("1", "pre las"))
	for _, c := range []struct {
		text     string
		dropped  string
		degraded bool
	}{
		{strings.Repeat("x", activity.MaxText-5) + " last", "last", false},
		{strings.Repeat("x", activity.MaxText-4) + " last", "", true},               // and not las
		{strings.Repeat("x", activity.MaxText-5) + " las\U0001F355 last", "", true}, // it may go on
		{strings.Repeat("x", activity.MaxText-9) + " las\U0001F355 last", "las", true},
		{strings.Repeat("x", activity.MaxText-8) + " pre last", "", true}, // nor pre las
		{strings.Repeat("last ", 100_000), "last", true},
	} {
		for viewer, has := range map[string]bool{"1": true, "2": false} {
			post := feed.Post{ID: "p", Author: "9", Text: c.text}
			a := filter(t, r, feed.Request{Viewer: viewer, Posts: []feed.Post{post}})
			dropped := ""
			for _, d := range a.Dropped {
				dropped = d.Target
			}
			if dropped != map[bool]string{true: c.dropped}[has] || (len(a.Degraded) > 0) != (has && c.degraded) {
				t.Errorf("%d bytes, viewer %s: %+v", len(c.text), viewer, a.Answer)
			}
		}
		f := fanOut(t, r, feed.FanoutRequest{Post: feed.Post{Author: "9", Text: c.text}, Viewers: []string{"1"}})
		if (len(f.Dropped) == 1) != (c.dropped != "") || (len(f.Degraded) > 0) != c.degraded {
			t.Errorf("%d bytes: fan-out %+v", len(c.text), f)
		}
	}
}

// A phrase that ends is found until then, in feeds and in fan-outs.
func TestPhraseEnds(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Now().UnixNano())
	clock := func() time.Time { return time.Unix(0, now.Load()) }
	r := openWith(t, activity.Config{Kinds: wordKinds(t), Now: clock, FalsePositiveRate: 1e-8})
	short, long := mute("1", "spoiler alert"), mute("1", "spoiler")
	short.Until = clock().Add(time.Hour)
	recordActivities(t, r, short, long)
	post := feed.Post{ID: "p", Author: "9", Text: "Spoiler alert!"}
	wants := func(targets ...string) (got []string, ok bool) {
		e, err := feed.Explain(t.Context(), r, "1", post)
		must(t, err)
		for _, reason := range e.Reasons {
			got = append(got, reason.Target)
		}
		f := fanOut(t, r, feed.FanoutRequest{Post: post, Viewers: []string{"1"}, Exact: true})
		return got, slices.Equal(got, targets) && len(f.Dropped) == 1 && f.Dropped[0].Target == targets[0]
	}
	if got, ok := wants("spoiler", "spoiler alert"); !ok {
		t.Errorf("explained by %q", got)
	}
	now.Add(int64(2 * time.Hour))
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		got, ok := wants("spoiler")
		if ok {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("long after its end, explained by %q", got)
		}
	}
}

// A page in the format of an earlier version may lack marks, so kinds of phrases are degraded. All
// other kinds are not.
func TestPhrasesOnEarlierFormat(t *testing.T) {
	store := &favfilter.Memory{}
	l := openLedger(t, 2)
	r := openWith(t, activity.Config{Kinds: wordKinds(t), Ledger: l, Store: store, FalsePositiveRate: 1e-8, Passive: true})
	seed := l.Identity().Seed
	user := func(page uint32) string { // on that page
		for i := 0; ; i++ {
			if u := fmt.Sprint("u", i); favfilter.PageNumber(pages.UserHash(seed, u), 2) == page {
				return u
			}
		}
	}
	earlier, current := user(0), user(1)
	word := user(0) // a word whose other side is on the same page
	recordActivities(t, r, mute(earlier, word), mute(current, word), activity.Activity{User: earlier, Kind: "hide", Target: "h"})
	loaded, err := store.LoadWhole(t.Context(), []favfilter.PageID{{Number: 0}})
	must(t, err)
	h := loaded[0].Page.Header()
	h.Shape.Uniform = true
	page, err := favfilter.NewPage(h)
	must(t, err)
	rows, _, err := l.Keys(t.Context(), 0)
	must(t, err)
	for _, row := range rows {
		facet := map[string]string{"word-mute": "phrase", "hide": ledger.Post}[row.Kind]
		page.Insert(pages.KeyStart(seed, row.Kind, row.Owner, cmp.Or(facet, ledger.User)).With(favfilter.HashKey(seed, row.Target)))
	}
	done, err := store.Replace(t.Context(), favfilter.Replacement{ID: favfilter.PageID{Number: 0}, Page: page, Seen: loaded[0].Version})
	if err != nil || !done {
		t.Fatal(done, err)
	}
	posts := []feed.Post{{ID: "h", Author: "9"}, {ID: "p", Author: "9", Text: "so: " + word}}
	degraded := func(all []activity.Degraded) (kinds []string) {
		for _, d := range all {
			kinds = append(kinds, d.Kind)
		}
		return kinds
	}
	for _, c := range []struct {
		req      feed.Request
		kept     []string
		degraded []string
	}{
		{feed.Request{Viewer: earlier}, []string{"p"}, []string{"word-mute"}},
		{feed.Request{Viewer: current}, []string{"h"}, nil},
		{feed.Request{Viewer: current, Lists: []string{earlier}}, nil, []string{"word-mute"}},
	} {
		c.req.Posts = posts
		if a := filter(t, r, c.req); !slices.Equal(kept(a), c.kept) || !slices.Equal(degraded(a.Degraded), c.degraded) {
			t.Errorf("%s, lists %v: kept %v, degraded %v", c.req.Viewer, c.req.Lists, kept(a), a.Degraded)
		}
	}
	f := fanOut(t, r, feed.FanoutRequest{Post: posts[1], Viewers: []string{earlier, current}})
	if got := degraded(f.Degraded); len(f.Dropped) > 0 || !slices.Equal(got, []string{"word-mute"}) {
		t.Errorf("fan-out: %+v", f)
	}
}

// Ids that nothing looks for do not count: phrases, and those of facets of which the request has no
// kind.
func TestCountedIDs(t *testing.T) {
	r := openWith(t, activity.Config{Kinds: moreKinds(t,
		activity.Kind{Name: "word-mute", Plural: "word-mutes", Target: "phrase", Fold: activity.FoldText, Effect: activity.Drop},
		activity.Kind{Name: "tag-mute", Plural: "tag-mutes", Target: "tag", Effect: activity.Drop},
	)})
	recordActivities(t, r, mute("1", "w7"))
	var ids []string
	for i := range feed.MaxFacetIDs {
		ids = append(ids, fmt.Sprint("w", i))
	}
	request := func(facet activity.Facet, kinds ...string) feed.Request {
		post := feed.Post{ID: "p", Author: "9", Facets: map[activity.Facet][]string{facet: ids}}
		return feed.Request{Viewer: "1", Kinds: kinds, Posts: slices.Repeat([]feed.Post{post}, 500)}
	}
	for name, c := range map[string]struct {
		req     feed.Request
		dropped int // -1: refused
	}{
		"phrases":              {request("phrase"), 500},
		"tags":                 {request("tag"), -1},
		"tags without a kind":  {request("tag", "hide", "block"), 0},
		"tags beside one kind": {request("tag", "tag-mute"), -1},
	} {
		a, err := feed.Filter(t.Context(), r, c.req)
		invalid, refused := errors.AsType[*activity.InvalidError](err)
		switch {
		case c.dropped < 0 && (!refused || invalid.Code != activity.CodeTooManyIDs):
			t.Errorf("%s: error %v", name, err)
		case c.dropped >= 0 && (err != nil || len(a.Dropped) != c.dropped):
			t.Errorf("%s: %d dropped, error %v, want %d", name, len(a.Dropped), err, c.dropped)
		}
	}
}

// A text belongs to all facets of phrases, and an id to its own alone.
func TestTwoFacetsOfPhrases(t *testing.T) {
	r := openWith(t, activity.Config{FalsePositiveRate: 1e-8, Kinds: moreKinds(t,
		activity.Kind{Name: "word-mute", Plural: "word-mutes", Target: "phrase", Fold: activity.FoldText, Effect: activity.Drop},
		activity.Kind{Name: "topic-mute", Plural: "topic-mutes", Target: "topic", Fold: activity.FoldText, Effect: activity.Drop},
	)})
	topic := activity.Activity{User: "1", Kind: "topic-mute", Target: "Big News"}
	recordActivities(t, r, mute("1", "spoiler"), topic)
	ids := func(facet activity.Facet, id string) map[activity.Facet][]string {
		return map[activity.Facet][]string{"phrase": {"x"}, "topic": {"y"}, facet: {"z", id}}
	}
	a := filter(t, r, feed.Request{Viewer: "1", Posts: []feed.Post{
		{ID: "kept: no topic", Author: "9", Facets: ids("topic", "SPOILER")},
		{ID: "kept: no word", Author: "9", Facets: ids("phrase", "big-news")},
		{ID: "dropped by a word", Author: "9", Facets: ids("phrase", "SPOILER")},
		{ID: "dropped by a topic", Author: "9", Facets: ids("topic", "big-news")},
		{ID: "dropped by its text", Author: "9", Text: "big news"},
	}})
	if got := kept(a); !slices.Equal(got, []string{"kept: no topic", "kept: no word"}) {
		t.Errorf("kept %q", got)
	}
}
