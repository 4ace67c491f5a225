package inspect

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// side returns the named side of a key.
func (in *KeyInside) side(t *testing.T, name string) KeySide {
	t.Helper()
	for _, s := range in.Sides {
		if s.Side == name {
			return s
		}
	}
	t.Fatalf("no side %s of %s", name, in.Kind.Name)
	return KeySide{}
}

// An undo has the predicted effect, and the state of a key agrees with the feed and the ledger.
func TestInspectKey(t *testing.T) {
	onStores(t, func(t *testing.T, store favfilter.Store) {
		g := newRigAt(t, store, 1, 0.2) // so few bits a key that many are shared
		var batch []activity.Activity
		for i := range 300 {
			batch = append(batch, add("1", "hide", fmt.Sprint(i)))
		}
		_, err := g.Record(t.Context(), batch)
		must(t, err)
		seen := map[string]int{}
		for i := range 1500 {
			target := fmt.Sprint(i)
			in := g.inspectedKey(t, "hide", "1", target)
			s := in.side(t, "direct")
			seen[s.Verdict.String()+" "+s.Removal.String()]++
			reported := g.check(t, "1", "hide", target) == activity.Direct
			want := map[[2]bool]Verdict{{true, true}: Held, {true, false}: Lost, {false, true}: FalsePositive, {false, false}: Gone}
			if s.Verdict != want[[2]bool{i < 300, reported}] || s.Traced.Reported != reported || (s.Row != nil) != (i < 300) ||
				len(in.Sides) != 1 || s.Page != "0" || s.State != pages.PageSound || s.Key(in.Kind) != "hide:U1_P"+target {
				t.Fatalf("%s: %+v, reported %v", target, s, reported)
			}
			if i%10 != 0 || i >= 300 {
				continue
			}
			before := g.Stats().Rebuilds["jammed"]
			g.record(t, undo("1", "hide", target))
			if rebuilt := g.Stats().Rebuilds["jammed"] > before; rebuilt != (s.Removal == RemovedByRebuild) {
				t.Fatalf("removal of %s was predicted as %v, page rebuilt: %v", target, s.Removal, rebuilt)
			}
			g.record(t, add("1", "hide", target))
		}
		for _, want := range []string{"held clears", "held rebuilds", Gone.String() + " " + NothingToRemove.String()} {
			if seen[want] == 0 {
				t.Errorf("no key is %q: %v", want, seen)
			}
		}
		if n := seen["false_positive clears"] + seen["false_positive rebuilds"]; n == 0 || seen["held clears"]+seen["held rebuilds"] != 300 {
			t.Errorf("%v, want 300 held and some false positives", seen)
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
	for _, want := range []KeySide{
		{Side: "direct", Kind: "block", Owner: "1", Target: "2", Number: home, Verdict: Held},
		{Side: "mirror", Kind: "blocked-by", Owner: "2", Target: "1", Number: ledger.DedicatedPages, Verdict: Held},
		{Side: "reverse", Kind: "block", Owner: "2", Target: "1", Number: ledger.DedicatedPages, Verdict: Gone},
		{Side: "reverse_mirror", Kind: "blocked-by", Owner: "1", Target: "2", Number: home, Verdict: Gone},
	} {
		s := in.side(t, want.Side)
		if s.Kind != want.Kind || s.Owner != want.Owner || s.Target != want.Target || s.Number != want.Number || s.Verdict != want.Verdict {
			t.Errorf("%+v, want %+v", s, want)
		}
		if held := want.Verdict == Held; (s.Row != nil) != held || held && s.Row.Since.IsZero() {
			t.Errorf("%s has the row %+v", want.Side, s.Row)
		}
		place := fmt.Sprint(home)
		if want.Number == ledger.DedicatedPages {
			place = fmt.Sprintf("%d:p%d", g.slot("2"), want.Number)
		}
		if s.Page != place {
			t.Errorf("%s is in %s, want %s", want.Side, s.Page, place)
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
	verdict := func(target string) (Verdict, pages.PageState) {
		s := g.inspectedKey(t, "hide", "1", target).side(t, "direct")
		return s.Verdict, s.State
	}
	check := func(target string, want Verdict, state pages.PageState) {
		t.Helper()
		if got, page := verdict(target); got != want || page != state {
			t.Errorf("%s is %v, page %v, want %v, %v", target, got, page, want, state)
		}
	}
	check("short", Held, pages.PageSound)
	if in := g.inspectedKey(t, "hide", "1", "short"); !in.Sides[0].Row.Until.Equal(ends) {
		t.Errorf("%+v", in.Sides[0].Row)
	}
	g.now.Add(int64(2 * time.Hour))
	check("short", Over, pages.PageSound)
	check("long", Held, pages.PageSound)
	put(t, g.store, emptied(t, g))
	check("long", Lost, pages.PageSound)
	_, err := g.store.Replace(t.Context(), favfilter.Replacement{ID: favfilter.PageID{}, Seen: version(t, g)})
	must(t, err)
	check("long", Lost, pages.PageMissing)
	check("never", Gone, pages.PageMissing)
}

// A user's keys do not include those of other users on the page. An unused page reports no key.
func TestInspectKeyOfOthers(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 1)
	gone := func(user string, state pages.PageState) {
		t.Helper()
		s := g.inspectedKey(t, "hide", user, "p").Sides[0]
		if s.Verdict != Gone || s.Row != nil || s.State != state || len(s.Traced.Positions) > 0 != (state == pages.PageSound) {
			t.Errorf("%s: %+v", user, s)
		}
	}
	gone("2", pages.PageUnused)
	g.record(t, add("1", "hide", "p"))
	gone("2", pages.PageSound)
}

func version(t *testing.T, g *rig) favfilter.Version {
	t.Helper()
	loaded, err := g.store.Load(t.Context(), []favfilter.PageID{{}})
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
			if s.Verdict != Reported || s.Removal != RemovedByTime || s.State != pages.PageSound || s.Confirmed || s.Row != nil ||
				!s.From.Equal(from[0]) || !s.Forgotten.Equal(from[1].Add(7*part)) {
				t.Errorf("%s, recorded in the parts from %v: %+v", target, from, s)
			}
			if s.Number != g.slot("1") || !strings.HasPrefix(s.Page, fmt.Sprintf("%d:seen.", g.slot("1"))) ||
				s.Key(g.kindOf(t)) != "seen:U1_P"+target {
				t.Errorf("%s is in window %s of slot %d", target, s.Page, s.Number)
			}
		}
		in := g.inspectedKey(t, "seen", "1", "never")
		if s := in.side(t, "direct"); len(in.Sides) != 1 || s.Verdict != Gone || s.Removal != NothingToRemove || !s.Forgotten.IsZero() {
			t.Errorf("a post that was never seen: %+v", in.Sides)
		}
		u, err := ReadUser(t.Context(), g.Activities, "1")
		must(t, err)
		if w := u.Windows[0]; w.Keys != 3 || w.Parts != 2 || w.Bytes == 0 {
			t.Errorf("%+v, want 3 keys in 2 parts", w)
		}
	})
}

// kindOf returns the kind that has a window.
func (g *rig) kindOf(t *testing.T) activity.Kind {
	t.Helper()
	k, ok := g.Kinds().Named("seen")
	if !ok {
		t.Fatal("no kind has a window")
	}
	return k
}

// A damaged window is reported as damaged, not as missing.
func TestInspectDamagedWindow(t *testing.T) {
	server := redistest.Start(t)
	store, err := redisstore.New(server.Client(), "test")
	must(t, err)
	g := newRig(t, store, 4)
	g.record(t, add("1", "seen", "p"))
	key := "fav:{test/" + strings.Replace(g.inspectedKey(t, "seen", "1", "p").Sides[0].Page, ":", "}:", 1) + ":bits"
	raw, err := server.Client().Get(t.Context(), key).Bytes()
	must(t, err)
	raw[len(raw)-1] ^= 1
	must(t, server.Client().Set(t.Context(), key, raw, 0).Err())
	s := g.inspectedKey(t, "seen", "1", "p").side(t, "direct")
	if s.State != pages.PageDamaged || s.Verdict != Gone || s.Removal != NothingToRemove {
		t.Errorf("%+v", s)
	}
}

// Without a ledger, the effect of an undo is still predicted, even on pages that have grown.
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
		seen := map[Removal]int{}
		for i := range 3000 {
			in := g.inspectedKey(t, "hide", "1", fmt.Sprint(i))
			s := in.Sides[0]
			if s.Row != nil || s.Verdict != Reported && s.Verdict != Gone || len(in.Sides) != 1 {
				t.Fatalf("%+v", s)
			}
			seen[s.Removal]++
			if i%100 != 0 {
				continue
			}
			outcomes, err := g.Record(t.Context(), []activity.Activity{undo("1", "hide", fmt.Sprint(i))})
			must(t, err)
			want := map[Removal]activity.Outcome{RemovedByClearing: activity.Changed, NotRemovable: activity.Stuck, NothingToRemove: activity.Unchanged}[s.Removal]
			if outcomes[0] != want {
				t.Fatalf("key %d: predicted %v, outcome %v", i, s.Removal, outcomes[0])
			}
		}
		if seen[RemovedByClearing] == 0 || seen[NotRemovable] == 0 || len(seen) > 3 {
			t.Errorf("%v", seen)
		}
		u, err := ReadUser(t.Context(), g.Activities, "1")
		if err != nil || u.Keys != nil || u.Page != 0 || u.Inside.Status.Header.Count == 0 || u.FeedBytes == 0 {
			t.Errorf("%+v, %v", u, err)
		}
	})
}
