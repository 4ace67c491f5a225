package pages

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// act is a change of a row, by its names. A kind with another side has a row there, too.
type act struct {
	User, Kind, Target string
	Remove             bool
	Until              time.Time
}

func add(user, kind, target string) act { return act{User: user, Kind: kind, Target: target} }

func undo(user, kind, target string) act {
	return act{User: user, Kind: kind, Target: target, Remove: true}
}

func (a act) until(t time.Time) act {
	a.Until = t
	return a
}

func testKinds() []ledger.Kind {
	return []ledger.Kind{
		{Name: "block", Reverse: "blocked-by", Target: ledger.User, Weight: 6}, {Name: "hide", Target: ledger.Post, Weight: 4},
		{Name: "like", Target: ledger.Post},
	}
}

// testKeyRate is the false-positive rate of one key. With four keys for each candidate, a feed's
// rate is 0.001.
const testKeyRate = 0.00025

// openPages opens pages with testKinds, unless c has others.
func openPages(ctx context.Context, c Config) (*Pages, error) {
	if c.Kinds == nil {
		c.Kinds = testKinds()
	}
	c.KeyRate = cmp.Or(c.KeyRate, testKeyRate)
	return Open(ctx, c)
}

func changesOf(p *Pages, acts []act) []ledger.Change {
	changes, at := make([]ledger.Change, len(acts)), p.Now()
	for i, a := range acts {
		changes[i] = changeOf(p, a, at)
	}
	return changes
}

// changeOf returns the change of one row, or of one on each side.
func changeOf(p *Pages, a act, at time.Time) ledger.Change {
	k := p.rebuilder.kinds[slices.IndexFunc(p.rebuilder.kinds, func(k ledger.Kind) bool { return k.Name == a.Kind })]
	hash := func(user string) uint64 { return UserHash(p.Identity().Seed, user) }
	row := ledger.Row{Hash: hash(a.User), Owner: a.User, Kind: k.Name, Target: a.Target, Since: at, Until: a.Until}
	if k.Target == ledger.User && k.Reverse == "" {
		row.Names, row.TargetHash = true, hash(a.Target)
	}
	c := ledger.Change{Remove: a.Remove, Rows: []ledger.Row{row}}
	if k.Reverse != "" {
		c.Rows = append(c.Rows, ledger.Row{Hash: hash(a.Target), Owner: a.Target, Kind: k.Reverse, Target: a.User, Since: at, Until: a.Until})
	}
	return c
}

// Record makes changes as if one after another, and returns which had an effect.
func (g *rig) Record(ctx context.Context, acts []act) ([]bool, error) {
	written, err := g.Write(ctx, changesOf(g.Pages, acts))
	return written.Changed, err
}

// recordBulk is Record in a Bulk.
func recordBulk(ctx context.Context, b *Bulk, acts []act) ([]bool, error) {
	written, err := b.Record(ctx, changesOf(b.r, acts))
	return written.Changed, err
}

// view is a user's page as read.
type view struct {
	Answer

	of   *Pages
	user string
}

// view reads the user's page.
func (g *rig) view(ctx context.Context, user string) (v *view, err error) {
	v = &view{of: g.Pages, user: user}
	v.Answer, err = g.Read(ctx, Query{User: UserHash(g.Identity().Seed, user), Page: true})
	return v, err
}

// has reports whether the page has the key of a row.
func (v *view) has(kind, id string) bool {
	of := (*v.of.rebuilder.declared.Load())[kind]
	start := KeyStart(v.of.Identity().Seed, kind, v.user, of.Target)
	start.Extra = of.Weight
	return v.Page.Contains(start.With(favfilter.HashKey(v.of.Identity().Seed, id)))
}

func (g *rig) record(t testing.TB, want bool, a act) {
	t.Helper()
	changed, err := g.Record(t.Context(), []act{a})
	if err != nil {
		t.Fatalf("%+v: %v", a, err)
	}
	if changed[0] != want {
		t.Fatalf("%+v: changed %v, want %v", a, changed[0], want)
	}
}

func (g *rig) check(t testing.TB, user, kind, id string) bool {
	t.Helper()
	v, err := g.view(t.Context(), user)
	must(t, err)
	return v.has(kind, id)
}

func (g *rig) want(t testing.TB, user, kind, id string, want bool) {
	t.Helper()
	if got := g.check(t, user, kind, id); got != want {
		t.Fatalf("%s of %s with %s: %v, want %v", kind, user, id, got, want)
	}
}

// countFound counts how many of n keys the user's page has.
func (g *rig) countFound(t testing.TB, user, kind string, ids func(i int) string, n int) int {
	t.Helper()
	v, err := g.view(t.Context(), user)
	must(t, err)
	found := 0
	for i := range n {
		if v.has(kind, ids(i)) {
			found++
		}
	}
	return found
}
