package feed_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/feed"
)

// TestManyFacetIDs: kinds look at the first ids of a facet. If a post has more, the answer names
// every kind that did not look at them, with the facet, and nothing else changes.
func TestManyFacetIDs(t *testing.T) {
	r := openWith(t, activity.Config{Kinds: moreKinds(t,
		activity.Kind{Name: "mute", Plural: "mutes", Target: "domain", Effect: activity.Drop, Fanout: true},
		activity.Kind{Name: "follow", Plural: "follows", Target: "domain", Effect: activity.Keep, Over: []string{"mute", "hide"}, Fanout: true},
		activity.Kind{Name: "tag-mute", Plural: "tag-mutes", Target: "tag", Effect: activity.Drop},
		activity.Kind{Name: "note", Plural: "notes", Target: "domain", Effect: activity.Annotate},
	)})
	record(t, r, "1 mute d64", "2 mute d65", "1 tag-mute d1", "3 hide p0", "3 follow d65")
	ids := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprint("d", i+1))
		}
		return all
	}
	post := func(id string, n int) feed.Post {
		return feed.Post{ID: id, Author: "9", Facets: map[activity.Facet][]string{"domain": ids(n), "tag": {"t"}}}
	}
	names := func(all []activity.Degraded) (kinds []string) {
		for _, d := range all {
			if !strings.Contains(d.Reason, `"domain"`) {
				t.Errorf("%s is degraded because %s", d.Kind, d.Reason)
			}
			kinds = append(kinds, d.Kind)
		}
		return kinds
	}
	for _, c := range []struct {
		viewer   string
		ids      int
		dropped  bool
		degraded []string
	}{
		{"1", feed.MaxFacetIDs, true, nil},
		{"1", feed.MaxFacetIDs + 1, true, []string{"mute", "note", "follow"}},
		{"1", 10_000, true, []string{"mute", "note", "follow"}},
		{"2", feed.MaxFacetIDs + 1, false, []string{"mute", "note", "follow"}},
		{"3", feed.MaxFacetIDs + 1, true, []string{"mute", "note", "follow"}},
	} {
		posts := []feed.Post{post("p0", c.ids), {ID: "p1", Author: "8"}}
		a := filter(t, r, feed.Request{Viewer: c.viewer, Posts: posts, Annotate: []string{"note"}})
		if got := names(a.Degraded); (len(a.Dropped) == 1) != c.dropped || !slices.Equal(got, c.degraded) {
			t.Errorf("%+v: dropped %+v, degraded %v", c, a.Dropped, got)
		}
		if len(posts[0].Facets["domain"]) != c.ids {
			t.Fatal("the caller's posts were changed")
		}
		e, err := feed.Explain(t.Context(), r, c.viewer, posts[0])
		must(t, err)
		if got := names(e.Degraded); e.Dropped != c.dropped || !slices.Equal(got, c.degraded) {
			t.Errorf("%+v: explained as %+v", c, e)
		}
		f := fanOut(t, r, feed.FanoutRequest{Post: posts[0], Viewers: []string{"1", "2"}})
		want := slices.DeleteFunc(slices.Clone(c.degraded), func(k string) bool { return k == "note" })
		if got := names(f.Degraded); len(f.Dropped) != 1 || f.Dropped[0].At != 0 || !slices.Equal(got, want) {
			t.Errorf("%+v: fan-out %+v", c, f)
		}
	}
	if a := filter(t, r, feed.Request{Viewer: "1", Posts: []feed.Post{post("p0", 65)}, Kinds: []string{"tag-mute", "hide"}}); a.Degraded != nil {
		t.Errorf("no kind looks at domains: %+v", a.Degraded)
	}
	many := slices.Repeat([]feed.Post{post("p0", 5000)}, 290) // of each, 67 ids count
	if a := filter(t, r, feed.Request{Viewer: "1", Posts: many}); len(a.Degraded) != 2 {
		t.Errorf("%+v", a.Degraded)
	}
	invalid := post("p0", feed.MaxFacetIDs+1)
	invalid.Facets["domain"][feed.MaxFacetIDs] = "\n"
	_, err := feed.Filter(t.Context(), r, feed.Request{Viewer: "1", Posts: []feed.Post{invalid}})
	if err == nil || !strings.Contains(err.Error(), "facets.domain[64]") {
		t.Errorf("an invalid id beyond the first: %v", err)
	}
}

// facetID is an id of a facet, as an app may write it.
type facetID struct{ facet, given, recorded string }

// facetIDs returns ids of three facets, several times under different forms.
func facetIDs() (all []facetID) {
	for facet, forms := range map[string]map[string]string{
		"domain": {
			"example": "example Example EXAMPLE.", "x.example": "x.example X.example. https://x.example:443 X.Example:8080", "a_b.x.example": "a_b.X.Example",
			"xn--bcher-kva.example": "Bücher.example xn--BCHER-kva.example. bücher。EXAMPLE", "y.test": "y.test Y.TEST",
			"test": "test", "ax.example": "ax.example", "2.3.4.5.6.7.x.example": "2.3.4.5.6.7.X.example",
			"1.2.3.4.5.6.7.x.example": "1.2.3.4.5.6.7.x.example", "0.1.2.3.4.5.6.7.x.example": "0.1.2.3.4.5.6.7.x.example.",
		},
		"url": {
			"b.example": "b.example", "b.example/x": "b.example/x", "b.example/x/y": "b.example/x/y", "b.example/xy": "b.example/xy",
			"b.example/X": "b.example/X", "b.example/x/3/4/5/6/7/8": "b.example/x/3/4/5/6/7/8", "//c": "//c", "c": "c",
			"b.example/x/3/4/5/6/7/8/9": "b.example/x/3/4/5/6/7/8/9", "b.example/x/3/4/5/6/7/8/9/10": "b.example/x/3/4/5/6/7/8/9/10",
		},
		"tag": {"go": "go GO Go", "strasse": "STRAẞE Straße strasse STRASSE", "σασ": "ΣΑΣ σας", "go.": "Go."},
	} {
		for recorded, given := range forms {
			for id := range strings.FieldsSeq(given) {
				all = append(all, facetID{facet, id, recorded})
			}
		}
	}
	slices.SortFunc(all, func(a, b facetID) int { return strings.Compare(a.facet+a.given, b.facet+b.given) })
	return all
}

// below reports whether who has recorded other has this id, too.
func (id facetID) below(other string) bool {
	switch {
	case id.recorded == other:
		return true
	case id.facet == "domain":
		return strings.HasSuffix(id.recorded, "."+other) && strings.Count(other, ".") < activity.MaxParents
	case id.facet == "url":
		return strings.HasPrefix(id.recorded, other+"/") && strings.Count(other, "/") < activity.MaxParents
	default:
		return false
	}
}

// TestFacetsAreModel: whatever form of an id users write, undo, import and look for, feeds, lists,
// fan-outs and explanations say what plain maps say.
func TestFacetsAreModel(t *testing.T) {
	kinds := moreKinds(t,
		activity.Kind{Name: "domain-mute", Plural: "domain-mutes", Target: "domain", Effect: activity.Drop, Fanout: true, Fold: activity.FoldHost, Rollup: activity.RollupDomain},
		activity.Kind{Name: "url-mute", Plural: "url-mutes", Target: "url", Effect: activity.Drop, Fanout: true, Rollup: activity.RollupPath},
		activity.Kind{Name: "tag-mute", Plural: "tag-mutes", Target: "tag", Effect: activity.Drop, Fanout: true, Fold: activity.FoldCase},
		activity.Kind{Name: "tag-seen", Plural: "tags-seen", Target: "tag", Effect: activity.Annotate, Window: 240 * time.Hour, Fold: activity.FoldCase},
	)
	r := openWith(t, activity.Config{Kinds: kinds, FalsePositiveRate: 1e-8, MaxSharedKeys: 16})
	p, err := activity.OpenPlain(t.Context(), activity.PlainConfig{Store: &favfilter.Memory{}, Kinds: kinds, FalsePositiveRate: 1e-8})
	must(t, err)
	t.Cleanup(p.Close)
	m := facetModel{T: t, rng: rand.New(rand.NewPCG(3, 4)), ids: facetIDs(), has: make(map[string]map[facetID]bool)}
	for range 150 {
		m.write(r, p)
		m.look(r, p)
	}
	if m.dropped < 100 {
		t.Errorf("%d posts were dropped, and %d kept", m.dropped, m.kept)
	}
}

type facetModel struct {
	*testing.T

	rng *rand.Rand
	ids []facetID
	// has holds the ids that users have, without the form that was given.
	has           map[string]map[facetID]bool
	dropped, kept int
}

func (m *facetModel) user() string { return fmt.Sprint("u", m.rng.IntN(6)) }

func (m *facetModel) id() facetID { return m.ids[m.rng.IntN(len(m.ids))] }

// write records and undoes, by one of the ways in.
func (m *facetModel) write(r *activity.Recorder, p *activity.Plain) {
	m.Helper()
	var batch []activity.Activity
	for range 1 + m.rng.IntN(4) {
		user, id := m.user(), m.id()
		a := activity.Activity{User: user, Kind: id.facet + "-mute", Target: id.given, Remove: m.rng.IntN(2) == 0}
		batch = append(batch, a)
		if m.has[user] == nil {
			m.has[user] = make(map[facetID]bool)
		}
		delete(m.has[user], facetID{id.facet, "", id.recorded})
		if !a.Remove {
			m.has[user][facetID{id.facet, "", id.recorded}] = true
		}
	}
	_, err := p.Record(m.Context(), batch)
	must(m, err)
	switch m.rng.IntN(3) {
	case 0:
		_, err = r.Record(m.Context(), batch)
	case 1:
		b := r.NewBatch()
		for _, a := range batch {
			must(m, b.Add(a))
		}
		_, err = b.Record(m.Context())
	case 2:
		b, bulk := r.NewBatch(), r.NewBulk()
		must(m, b.AddAll(batch))
		_, err = bulk.Record(m.Context(), b)
		must(m, err)
		err = bulk.Finish(m.Context())
	}
	must(m, err)
}

// look asks in all ways what becomes of a post.
func (m *facetModel) look(r *activity.Recorder, p *activity.Plain) {
	m.Helper()
	post := feed.Post{ID: "p", Author: "9", Facets: make(map[activity.Facet][]string)}
	var on []facetID
	for range m.rng.IntN(3) {
		id := m.id()
		on = append(on, id)
		post.Facets[activity.Facet(id.facet)] = append(post.Facets[activity.Facet(id.facet)], id.given)
	}
	var viewers []string
	var want []bool
	for i := range 6 {
		viewer := fmt.Sprint("u", i)
		drops := slices.ContainsFunc(on, func(id facetID) bool { return m.covered(viewer, id) })
		viewers, want = append(viewers, viewer), append(want, drops)
		exact := m.rng.IntN(2) == 0
		req := feed.Request{Viewer: viewer, Posts: []feed.Post{post}, Exact: exact}
		if a := filter(m, r, req); (len(a.Dropped) == 1) != drops || drops && !m.covers(viewer, a.Dropped[0].Kind, a.Dropped[0].Target, on) {
			m.Fatalf("%s has %v: a feed with %v dropped %+v", viewer, m.has[viewer], post, a.Dropped)
		}
		req.Viewer, req.Lists = "other", []string{viewer}
		if a := filter(m, r, req); (len(a.Dropped) == 1) != drops {
			m.Fatalf("the list %s has %v: a feed with %v dropped %+v", viewer, m.has[viewer], post, a.Dropped)
		}
		req = feed.Request{Viewer: viewer, Posts: []feed.Post{post}}
		if a, err := feed.Filter(m.Context(), p, req); err != nil || (len(a.Dropped) == 1) != drops {
			m.Fatalf("%s has %v: without a ledger, %v is dropped %+v, %v", viewer, m.has[viewer], post, a.Dropped, err)
		}
		e, err := feed.Explain(m.Context(), r, viewer, post)
		certain := !slices.ContainsFunc(e.Reasons, func(r feed.Reason) bool { return r.Certainty != feed.Certain })
		if err != nil || e.Dropped != drops || !certain {
			m.Fatalf("%s has %v: %v is explained by %+v, %v", viewer, m.has[viewer], post, e.Reasons, err)
		}
		if drops {
			m.dropped++
		} else {
			m.kept++
		}
		m.list(r, viewer)
	}
	got := make([]bool, len(viewers))
	for _, d := range fanOut(m.T, r, feed.FanoutRequest{Post: post, Viewers: viewers, Exact: m.rng.IntN(2) == 0}).Dropped {
		got[d.At] = m.covers(viewers[d.At], d.Kind, d.Target, on)
	}
	if !slices.Equal(got, want) {
		m.Fatalf("%v: a fan-out of %v drops %v, want %v", m.has, post, got, want)
	}
}

// covered reports whether the viewer has an id that covers this one.
func (m *facetModel) covered(viewer string, id facetID) bool {
	for has := range m.has[viewer] {
		if has.facet == id.facet && id.below(has.recorded) {
			return true
		}
	}
	return false
}

// covers reports whether the viewer has the target of a drop, and it covers an id on the post.
func (m *facetModel) covers(viewer, kind, target string, on []facetID) bool {
	facet := strings.TrimSuffix(kind, "-mute")
	return m.has[viewer][facetID{facet, "", target}] &&
		slices.ContainsFunc(on, func(id facetID) bool { return id.facet == facet && id.below(target) })
}

// list asks the ledger what the user has.
func (m *facetModel) list(r *activity.Recorder, user string) {
	m.Helper()
	for _, facet := range []string{"domain", "tag", "url"} {
		listing, err := r.List(m.Context(), user, facet+"-mute", "", activity.MaxListed)
		must(m, err)
		n := 0
		for has := range m.has[user] {
			if has.facet == facet {
				n++
			}
		}
		for _, item := range listing.Items {
			if !m.has[user][facetID{facet, "", item.Target}] {
				m.Fatalf("%s has %v: listed %v", user, m.has[user], listing.Items)
			}
		}
		if len(listing.Items) != n {
			m.Fatalf("%s has %v: listed %v", user, m.has[user], listing.Items)
		}
		var targets []string
		distinct := make(map[string]bool)
		for _, id := range m.ids {
			if id.facet == facet {
				targets, distinct[id.recorded] = append(targets, id.given), true
			}
		}
		preview, err := r.Preview(m.Context(), user, facet+"-mute", targets)
		if err != nil || preview.Present != n || preview.Total != len(distinct) {
			m.Fatalf("%s has %v: preview %+v, %v", user, m.has[user], preview, err)
		}
	}
}

// TestFoldUpgrade: while some processes have the earlier form of a fold and others the later one,
// each finds what others recorded, and undoes it. What the earlier form recorded is found and
// undone for good.
func TestFoldUpgrade(t *testing.T) {
	of := func(tag, domain activity.Fold) *activity.Kinds {
		return moreKinds(t,
			activity.Kind{Name: "tag-mute", Plural: "tag-mutes", Target: "tag", Effect: activity.Drop, Fanout: true, Fold: tag},
			activity.Kind{Name: "tag-seen", Plural: "tags-seen", Target: "tag", Effect: activity.Drop, Window: 240 * time.Hour, Fold: tag},
			activity.Kind{Name: "domain-mute", Plural: "domain-mutes", Target: "domain", Effect: activity.Drop, Fanout: true,
				Fold: domain, Rollup: activity.RollupDomain},
		)
	}
	earlier, later := of(activity.FoldLower, activity.FoldDomain), of(activity.FoldCase, activity.FoldHost)
	l, store := openLedger(t, 16), &favfilter.Memory{}
	open := func(kinds *activity.Kinds) *activity.Recorder {
		return openWith(t, activity.Config{Ledger: l, Store: store, Kinds: kinds, FalsePositiveRate: 1e-8})
	}
	processes := map[string]*activity.Recorder{"earlier": open(earlier), "later": open(later)}
	for _, c := range []struct{ facet, muted, posted, by string }{
		{"tag", "straße", "straße", ""}, // in any process, from any
		{"tag", "ΣΑΣ", "σας", ""},
		{"tag", "σας", "σας", ""},
		{"domain", "https://x.example:443", "https://x.example:443", ""},
		{"domain", "x.example", "https://a.x.example:443", ""},
		{"domain", "x.exam\u200dple", "x.exam\u200dple", ""},
		{"tag", "straße", "STRASSE", "later"}, // what the earlier form missed
		{"tag", "σας", "ΣΑΣ", "later"},
		{"domain", "https://x.example:443", "x.example", "later"},
		{"domain", "x.exam\u200dple", "x.example", "later"},
	} {
		for writer, w := range processes {
			for undoer, u := range processes {
				if c.by != "" && (writer != c.by || undoer != c.by) {
					continue
				}
				record(t, w, "1 "+c.facet+"-mute "+c.muted)
				for reader, r := range processes {
					wantDropped(t, r, c.facet, c.posted, true, fmt.Sprintf("%+v recorded by %s, read by %s", c, writer, reader))
					if item, err := r.Get(t.Context(), "1", c.facet+"-mute", c.muted); err != nil || item == nil {
						t.Errorf("%+v recorded by %s: %s has %v, %v", c, writer, reader, item, err)
					}
				}
				undo := activity.Activity{User: "1", Kind: c.facet + "-mute", Target: c.muted, Remove: true}
				if done, err := u.Record(t.Context(), []activity.Activity{undo}); err != nil || done[0] != activity.Changed {
					t.Errorf("%+v recorded by %s: %s undoes %v, %v", c, writer, undoer, done, err)
				}
				wantDropped(t, w, c.facet, c.posted, false, fmt.Sprintf("%+v recorded by %s, undone by %s", c, writer, undoer))
			}
		}
	}
	plain, err := activity.OpenPlain(t.Context(), activity.PlainConfig{Store: &favfilter.Memory{}, Kinds: earlier, FalsePositiveRate: 1e-8})
	must(t, err)
	t.Cleanup(plain.Close)
	for name, to := range map[string]interface {
		Record(ctx context.Context, activities []activity.Activity) ([]activity.Outcome, error)
	}{"with a ledger": processes["earlier"], "without": plain} {
		of := func(target string, remove bool) activity.Activity {
			return activity.Activity{User: "1", Kind: "tag-mute", Target: target, Remove: remove}
		}
		// In their order: the first two leave STRASSE recorded, the third removes it again.
		done, err := to.Record(t.Context(), []activity.Activity{of("straße", true), of("STRASSE", false), of("straße", true), of("go", true)})
		must(t, err)
		want := []activity.Outcome{activity.Unchanged, activity.Changed, activity.Changed, activity.Unchanged}
		if !slices.Equal(done, want) {
			t.Errorf("%s: %v, want %v", name, done, want)
		}
	}
	record(t, processes["earlier"], "1 tag-seen straße")
	wantDropped(t, processes["later"], "tag", "straße", true, "in a window")
}

// wantDropped asks in all ways whether 1 loses a post with the id of the facet.
func wantDropped(t *testing.T, r *activity.Recorder, facet, id string, want bool, when string) {
	t.Helper()
	post := feed.Post{ID: "p", Author: "9", Facets: map[activity.Facet][]string{activity.Facet(facet): {id}}}
	for _, exact := range []bool{false, true} {
		if a := filter(t, r, feed.Request{Viewer: "1", Posts: []feed.Post{post}, Exact: exact}); (len(a.Dropped) == 1) != want {
			t.Errorf("%s: a feed drops %+v, exact %v", when, a.Dropped, exact)
		}
	}
	if e, err := feed.Explain(t.Context(), r, "1", post); err != nil || e.Dropped != want {
		t.Errorf("%s: explained as %+v, %v", when, e, err)
	}
	fanned := fanOut(t, r, feed.FanoutRequest{Post: post, Viewers: []string{"1"}}).Dropped
	if (len(fanned) == 1) != want && !strings.HasPrefix(when, "in a window") {
		t.Errorf("%s: a fan-out drops %+v", when, fanned)
	}
	v, err := r.View(t.Context(), "1", r.Kinds().All()[4:])
	must(t, err)
	found := v.Check(0, id)|v.Check(1, id)|v.Check(2, id) != activity.None
	if found != want && !strings.Contains(id, "a.x") { // a View knows no parents
		t.Errorf("%s: a view has %v", when, found)
	}
	if runs := v.Runs("tag-seen", id); want && strings.HasPrefix(when, "in a window") && len(runs) != 1 {
		t.Errorf("%s: the window has %v", when, runs)
	}
}

// TestFoldOfWindows: kinds with a window fold what is recorded and what is looked for.
func TestFoldOfWindows(t *testing.T) {
	tag := activity.Kind{Name: "tag-seen", Plural: "tags-seen", Target: "tag", Effect: activity.Drop, Window: 240 * time.Hour, Fold: activity.FoldLower}
	r := openWith(t, activity.Config{Kinds: moreKinds(t, tag)})
	record(t, r, "1 tag-seen Go")
	v, err := r.View(t.Context(), "1", []activity.Kind{tag})
	must(t, err)
	must(t, v.Record(t.Context(), "tag-seen", []string{"REDIS"}))
	for tag, want := range map[string]int{"gO": 1, "go": 1, "redis": 1, "sql": 0} {
		posts := []feed.Post{{ID: "p", Author: "2", Facets: map[activity.Facet][]string{"tag": {tag}}}}
		if a := filter(t, r, feed.Request{Viewer: "1", Posts: posts}); len(a.Dropped) != want {
			t.Errorf("%s: dropped %+v", tag, a.Dropped)
		}
		v, err := r.View(t.Context(), "1", r.Kinds().All()[4:])
		must(t, err)
		if (v.Check(0, tag) == activity.Direct) != (want == 1) || len(v.Runs("tag-seen", tag)) != want {
			t.Errorf("%s: a view says %v", tag, v.Check(0, tag))
		}
	}
}

// loads is a Store that counts the calls that read.
type loads struct {
	favfilter.Store

	n int
}

func (l *loads) Load(
	ctx context.Context, ids []favfilter.PageID, held ...favfilter.PageID,
) ([]favfilter.Loaded, []favfilter.Version, error) {
	l.n++
	return l.Store.Load(ctx, ids, held...)
}

// TestRollupInOneRoundTrip: with parents, feeds with lists and fan-outs still take one call of the
// store, once the process holds the pages.
func TestRollupInOneRoundTrip(t *testing.T) {
	for _, rollup := range []activity.Rollup{activity.NoRollup, activity.RollupDomain} {
		store := &loads{Store: &favfilter.Memory{}}
		mute := activity.Kind{Name: "mute", Plural: "mutes", Target: "domain", Effect: activity.Drop, Fanout: true, Rollup: rollup}
		r := openWith(t, activity.Config{Store: store, Kinds: moreKinds(t, mute), Passive: true})
		record(t, r, "1 mute example", "list mute x.test")
		post := feed.Post{ID: "p", Author: "2", Facets: map[activity.Facet][]string{"domain": {"a.b.example", "y.x.test"}}}
		for _, warm := range []bool{false, true} {
			for viewer, lists := range map[string][]string{"1": nil, "3": {"list"}} {
				before := store.n
				a := filter(t, r, feed.Request{Viewer: viewer, Posts: []feed.Post{post}, Lists: lists})
				if n := store.n - before; warm && n != 1 || (len(a.Dropped) == 1) != (rollup != activity.NoRollup) {
					t.Errorf("roll-up %q: dropped %+v, with %d calls", rollup, a.Dropped, n)
				}
			}
			before := store.n
			f := fanOut(t, r, feed.FanoutRequest{Post: post, Viewers: []string{"1", "list"}})
			if n := store.n - before; warm && n != 1 || (len(f.Dropped) == 2) != (rollup != activity.NoRollup) {
				t.Errorf("roll-up %q: a fan-out drops %+v, with %d calls", rollup, f.Dropped, n)
			}
		}
	}
}
