package inspect

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/faulttest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// side returns the named side of a key.
func (k *Key) side(t *testing.T, name string) Side {
	t.Helper()
	for _, s := range k.Sides {
		if s.Side == name {
			return s
		}
	}
	t.Fatalf("no side %s of %s", name, k.Kind)
	return Side{}
}

// has reports whether the ledger has the key.
func (s *Side) has() bool { return s.Ledger != nil && *s.Ledger }

// The state of a key agrees with the feed and the ledger.
func TestInspectKey(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		g := newRigAt(t, store, 1, 0.2)
		var batch []activity.Activity
		const held, step = 300, 5
		for i := range held {
			batch = append(batch, add("1", "hide", fmt.Sprint(i)))
		}
		_, err := g.Record(t.Context(), batch)
		must(t, err)
		faulttest.Tamper(t, g.ledger, store, nil, []string{"1 hide 400", "1 hide 905"})
		seen := map[Verdict]int{}
		for i := 0; i < 5*held; i += step {
			target := fmt.Sprint(i)
			k := g.inspectedKey(t, "hide", "1", target)
			s := k.side(t, "direct")
			seen[s.Verdict]++
			reported := g.check(t, "1", "hide", target) == activity.Direct
			want := map[[2]bool]Verdict{{true, true}: Held, {true, false}: Lost, {false, true}: FalsePositive, {false, false}: Gone}
			if s.Verdict != want[[2]bool{i < held, reported}] || s.Reported != reported || s.has() != (i < held) || s.Since.IsZero() == (i < held) ||
				len(k.Sides) != 1 || len(k.Words) != 1 || s.Stored != "0" || s.PageState != "sound" || s.Key != "hide:U1_P"+target {
				t.Fatalf("%s: %+v, reported %v", target, s, reported)
			}
		}
		if seen[Held] != held/step || seen[FalsePositive] < 2 || seen[Gone] == 0 || seen[Lost] > 0 {
			t.Errorf("%v, want %d held and two or more false positives", seen, held/step)
		}
	})
}

func TestInspectTwoWayKey(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 64)
	g.record(t, add("1", "block", "2"))
	g.dedicate(t, "2")
	g.want(t, "2", "block", "1", activity.Reverse) // rebuilds the page
	in := g.inspectedKey(t, "block", "1", "2")
	home := g.slot("1")
	for _, want := range []Side{
		{Side: "direct", Kind: "block", Owner: "1", Target: "2", Page: home, Verdict: Held},
		{Side: "mirror", Kind: "blocked-by", Owner: "2", Target: "1", Page: ledger.DedicatedPages, Verdict: Held},
		{Side: "reverse", Kind: "block", Owner: "2", Target: "1", Page: ledger.DedicatedPages, Verdict: Gone},
		{Side: "reverse_mirror", Kind: "blocked-by", Owner: "1", Target: "2", Page: home, Verdict: Gone},
	} {
		s := in.side(t, want.Side)
		if s.Kind != want.Kind || s.Owner != want.Owner || s.Target != want.Target || s.Page != want.Page || s.Verdict != want.Verdict {
			t.Errorf("%+v, want %+v", s, want)
		}
		if held := want.Verdict == Held; s.has() != held || held == s.Since.IsZero() {
			t.Errorf("%s: %+v", want.Side, s)
		}
		place := fmt.Sprint(home)
		if want.Page == ledger.DedicatedPages {
			place = fmt.Sprintf("%d:p%d", g.slot("2"), want.Page)
		}
		if s.Stored != place {
			t.Errorf("%s is in %s, want %s", want.Side, s.Stored, place)
		}
	}
	for _, c := range []struct{ kind, user, target, code, field string }{
		{"bless", "1", "2", activity.CodeUnknownKind, "kind"},
		{"blocked-by", "1", "2", activity.CodeUnknownKind, "kind"},
		{"block", "1", "1", activity.CodeSelfBlock, "target"},
		{"block", "", "1", activity.CodeInvalidID, "user"},
		{"hide", "1", "\n", activity.CodeInvalidID, "target"},
	} {
		if _, err := ReadKey(t.Context(), g.Activities, g.recorder(), c.kind, c.user, c.target); !isInvalid(err, c.code, c.field) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A lost key, an ended key, and a key on a missing page have different verdicts.
func TestInspectKeyStates(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	ends := time.Unix(0, g.now.Load()).Add(time.Hour).UTC()
	a := add("1", "hide", "short")
	a.Until = ends
	g.record(t, a)
	g.record(t, add("1", "hide", "long"))
	verdict := func(target string) (Verdict, string) {
		s := g.inspectedKey(t, "hide", "1", target).side(t, "direct")
		return s.Verdict, s.PageState
	}
	check := func(target string, want Verdict, state string) {
		t.Helper()
		if got, page := verdict(target); got != want || page != state {
			t.Errorf("%s is %v, page %v, want %v, %v", target, got, page, want, state)
		}
	}
	check("short", Held, "sound")
	if in := g.inspectedKey(t, "hide", "1", "short"); !in.Sides[0].Until.Equal(ends) {
		t.Errorf("%+v", in.Sides[0])
	}
	g.now.Add(int64(2 * time.Hour))
	check("short", Over, "sound")
	check("long", Held, "sound")
	put(t, g.store, emptied(t, g))
	check("long", Lost, "sound")
	_, err := g.store.Replace(t.Context(), favfilter.Replacement{ID: favfilter.PageID{}, Seen: version(t, g)})
	must(t, err)
	check("long", Lost, "missing")
	check("never", Gone, "missing")
}

// A user's keys do not include those of other users on the page. An unused page reports no key.
func TestInspectKeyOfOthers(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	gone := func(user, state string) {
		t.Helper()
		s := g.inspectedKey(t, "hide", user, "p").Sides[0]
		if s.Verdict != Gone || s.has() || s.Reported || s.PageState != state {
			t.Errorf("%s: %+v", user, s)
		}
	}
	gone("2", "unused")
	g.record(t, add("1", "hide", "p"))
	gone("2", "sound")
}

func version(t *testing.T, g *rig) favfilter.Version {
	t.Helper()
	loaded, _, err := g.store.Load(t.Context(), []favfilter.PageID{{}})
	must(t, err)
	return loaded[0].Version
}

// A window has one side, whatever the part. No ledger can confirm its content.
func TestInspectWindowKey(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		g := newRig(t, store, 4)
		if in := g.inspectedKey(t, "seen", "1", "p"); len(in.Sides) != 0 {
			t.Errorf("empty window: %+v", in)
		}
		const part = 5 * 24 * time.Hour
		partOf := func(at int64) time.Time { return time.Unix(0, at-at%int64(part)) }
		start := partOf(g.now.Load())
		g.record(t, add("1", "seen", "p"))
		g.record(t, add("1", "seen", "both"))
		g.now.Add(int64(8 * 24 * time.Hour)) // two parts later
		g.record(t, add("1", "seen", "q"))
		g.record(t, add("1", "seen", "both"))
		later := partOf(g.now.Load())
		for target, from := range map[string][2]time.Time{"p": {start, start}, "q": {later, later}, "both": {later, later}} {
			s := g.inspectedKey(t, "seen", "1", target).side(t, "direct")
			if s.Verdict != Reported || s.PageState != "sound" || s.Ledger != nil ||
				!s.Since.Equal(from[0]) || !s.Until.Equal(from[1].Add(7*part)) {
				t.Errorf("%s, recorded in the parts from %v: %+v", target, from, s)
			}
			if s.Page != g.slot("1") || !strings.HasPrefix(s.Stored, fmt.Sprintf("%d:seen.", g.slot("1"))) ||
				s.Key != "seen:U1_P"+target {
				t.Errorf("%s is in window %s of slot %d", target, s.Stored, s.Page)
			}
		}
		in := g.inspectedKey(t, "seen", "1", "never")
		if s := in.side(t, "direct"); len(in.Sides) != 1 || s.Verdict != Gone || !s.Until.IsZero() {
			t.Errorf("a post that was never seen: %+v", in.Sides)
		}
		u, err := ReadUser(t.Context(), g.Activities, "1")
		must(t, err)
		if w := u.Windows[0]; w.Keys != 3 || w.Parts != 2 || w.Bytes == 0 {
			t.Errorf("%+v, want 3 keys in 2 parts", w)
		}
	})
}

// A damaged window is reported as damaged, not as missing.
func TestInspectDamagedWindow(t *testing.T) {
	server := redistest.Start(t)
	store, err := redisstore.New(server.Client(), "test")
	must(t, err)
	g := newRig(t, store, 4)
	g.record(t, add("1", "seen", "p"))
	key := "fav:{test/" + strings.Replace(g.inspectedKey(t, "seen", "1", "p").Sides[0].Stored, ":", "}:", 1) + ":bits"
	raw, err := server.Client().Get(t.Context(), key).Bytes()
	must(t, err)
	raw[len(raw)-1] ^= 1
	must(t, server.Client().Set(t.Context(), key, raw, 0).Err())
	s := g.inspectedKey(t, "seen", "1", "p").side(t, "direct")
	if s.PageState != "damaged" || s.Verdict != Gone {
		t.Errorf("%+v", s)
	}
}

// Without a ledger, a key is reported or absent, even on pages that have grown.
func TestInspectWithoutLedger(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		g := openWithout(t, activity.PlainConfig{Store: store, Pages: 1, FalsePositiveRate: 0.4})
		var batch []activity.Activity
		for i := range 3000 { // the filter was created for 512 keys a page
			batch = append(batch, add("1", "hide", fmt.Sprint(i)))
		}
		_, err := g.Record(t.Context(), batch)
		must(t, err)
		p := g.inspectOne(t, 0)
		if p.Ledger != nil || !p.Agrees() || len(p.Page.Layers()) < 2 || p.Status.Header.Grown == 0 {
			t.Fatalf("%+v", p)
		}
		seen := map[Verdict]int{}
		for i := 0; i < 6000; i += 7 {
			target := fmt.Sprint(i)
			k := g.inspectedKey(t, "hide", "1", target)
			s := k.Sides[0]
			reported := g.check(t, "1", "hide", target) == activity.Direct
			want := map[bool]Verdict{true: Reported, false: Gone}[reported]
			if s.Verdict != want || s.Reported != reported || s.Ledger != nil || len(k.Sides) != 1 || i < 3000 && !reported {
				t.Fatalf("%s: %+v, reported %v", target, s, reported)
			}
			seen[s.Verdict]++
		}
		if seen[Gone] == 0 {
			t.Errorf("%v", seen)
		}
		u, err := ReadUser(t.Context(), g.Activities, "1")
		if err != nil || u.Counts != nil || u.Page != 0 || u.PageKeys == 0 || u.FeedBytes == 0 {
			t.Errorf("%+v, %v", u, err)
		}
	})
}

// Keys on the other side of a domain, or of a phrase, are found on the page that a fan-out reads.
func TestInspectKeyOfFanout(t *testing.T) {
	kinds, err := activity.NewKinds(
		activity.Kind{Name: "domain-mute", Plural: "domain-mutes", Target: "domain", Effect: activity.Drop, Fanout: true},
		activity.Kind{Name: "word-mute", Plural: "word-mutes", Target: "phrase", Effect: activity.Drop, Fold: activity.FoldText, Fanout: true},
	)
	must(t, err)
	l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{Pages: 64})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	r, err := activity.Open(t.Context(), activity.Config{Ledger: l, Store: &favfilter.Memory{}, Kinds: kinds, Passive: true})
	must(t, err)
	t.Cleanup(r.Close)
	for name, g := range map[string]*rig{
		"ledger": {Activities: r}, "plain": openWithout(t, activity.PlainConfig{Store: &favfilter.Memory{}, Kinds: kinds, Pages: 64}),
	} {
		verdict := map[string]Verdict{"ledger": Held, "plain": Reported}[name]
		g.record(t, add("1", "domain-mute", "x.example"))
		g.record(t, add("climate change", "word-mute", "Climate Change"))
		for _, c := range [][2]string{{"1", "domain-mute"}, {"climate change", "word-mute"}} {
			target := map[string]string{"domain-mute": "x.example", "word-mute": "climate CHANGE"}[c[1]]
			in, err := ReadKey(t.Context(), g.Activities, g.recorder(), c[1], c[0], target)
			must(t, err)
			for _, side := range []string{"direct", "mirror"} {
				if s := in.side(t, side); s.Verdict != verdict {
					t.Errorf("%s, %s: %+v", name, c[1], s)
				}
			}
		}
	}
}
