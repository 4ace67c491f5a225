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

// Activity is one change by its names, for tests.
type Activity struct {
	User, Kind, Target string
	Remove             bool
	Until              time.Time
}

func add(user, kind, target string) Activity {
	return Activity{User: user, Kind: kind, Target: target}
}

func undo(user, kind, target string) Activity {
	return Activity{User: user, Kind: kind, Target: target, Remove: true}
}

// Target is what a kind points at.
type Target string

const (
	User Target = ledger.User
	Post Target = ledger.Post
)

// Kind is a kind of activities.
type Kind struct {
	Name    string
	Reverse string // of a two-way kind: its name on the other side
	Target  Target
	Limit   uint32
}

// lookups is the number of keys that a feed tests for one candidate.
func (k Kind) lookups() int {
	if k.Reverse != "" {
		return 2
	}
	return 1
}

type kinds []Kind

func testKinds() kinds {
	return kinds{{Name: "block", Reverse: "blocked-by", Target: User}, {Name: "hide", Target: Post}, {Name: "like", Target: Post}}
}

func (ks kinds) All() []Kind { return ks }

func (ks kinds) Named(name string) (Kind, bool) {
	i := slices.IndexFunc(ks, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, false
	}
	return ks[i], true
}

// ofRows are the kinds in the form that the ledger takes.
func (ks kinds) ofRows() (rows []ledger.Kind) {
	for _, k := range ks {
		rows = append(rows, ledger.Kind{Name: k.Name, Reverse: k.Reverse, Target: string(k.Target)})
	}
	return rows
}

// testKeyRate is the false-positive rate of one key. With four keys for each candidate, a feed's
// rate is 0.001.
const testKeyRate = 0.00025

// recorder records and reads activities of a few kinds, as package activity does.
type recorder struct {
	*Pages

	kinds kinds
}

// openRecorder opens pages with testKinds, or with the given kinds.
func openRecorder(ctx context.Context, c Config, of ...Kind) (*recorder, error) {
	r := &recorder{kinds: testKinds()}
	if len(of) > 0 {
		r.kinds = of
	}
	c.Kinds = r.kinds.ofRows()
	c.KeyRate = cmp.Or(c.KeyRate, testKeyRate)
	var err error
	r.Pages, err = Open(ctx, c)
	return r, err
}

// Outcome is the result for one activity.
type Outcome uint8

const (
	Unchanged Outcome = iota
	Changed
	OverLimit
)

func outcomesOf(w Written) []Outcome {
	outcomes := make([]Outcome, len(w.Changed))
	for i := range outcomes {
		switch {
		case w.Refused[i]:
			outcomes[i] = OverLimit
		case w.Changed[i]:
			outcomes[i] = Changed
		}
	}
	return outcomes
}

// Record records activities as if one after another.
func (r *recorder) Record(ctx context.Context, activities []Activity) ([]Outcome, error) {
	written, err := r.Write(ctx, r.changes(activities))
	return outcomesOf(written), err
}

func (r *recorder) changes(activities []Activity) []ledger.Change {
	changes := make([]ledger.Change, len(activities))
	at := r.storage.now()
	for i, a := range activities {
		k, _ := r.kinds.Named(a.Kind)
		changes[i] = r.change(k, a, at)
	}
	return changes
}

// change returns the activity as a ledger change: one row, or for a two-way kind one on each side.
func (r *recorder) change(k Kind, a Activity, at time.Time) ledger.Change {
	c := ledger.Change{Remove: a.Remove, Limit: k.Limit}
	row := func(owner, kind, target string) {
		c.Rows = append(c.Rows, ledger.Row{
			Hash: UserHash(r.storage.identity.Seed, owner), Owner: owner, Kind: kind, Target: target, Since: at, Until: a.Until,
		})
	}
	row(a.User, k.Name, a.Target)
	switch {
	case k.Reverse != "":
		row(a.Target, k.Reverse, a.User)
	case k.Target == User:
		c.Rows[0].Names, c.Rows[0].TargetHash = true, UserHash(r.storage.identity.Seed, a.Target)
	}
	return c
}

// bulk is a Bulk of activities.
type bulk struct {
	*Bulk

	r *recorder
}

func (r *recorder) NewBulk() *bulk { return &bulk{r.Pages.NewBulk(), r} }

// preparedBulk is a part of a bulk, ready to be recorded.
type preparedBulk struct {
	changes []ledger.Change
	ready   *ledger.Prepared
}

func (b *bulk) Prepare(activities []Activity) (p *preparedBulk, err error) {
	p = &preparedBulk{changes: b.r.changes(activities)}
	p.ready, err = b.r.poller.ledger.Prepare(p.changes)
	return p, err
}

func (b *bulk) Record(ctx context.Context, p *preparedBulk) ([]Outcome, error) {
	written, err := b.Bulk.Record(ctx, p.ready, func(yield func(uint64) bool) {
		for _, c := range p.changes {
			for _, row := range c.Rows {
				if !yield(row.Hash) {
					return
				}
			}
		}
	})
	return outcomesOf(written), err
}

// Match is the side on which an id was found.
type Match uint8

const (
	None Match = iota
	Direct
	Reverse
)

// View is a user's page as read.
type View struct {
	Answer

	seed  uint64
	user  string
	kinds []Kind
}

// View reads the user's page.
func (r *recorder) View(ctx context.Context, user string, of []Kind) (*View, error) {
	v := &View{seed: r.storage.identity.Seed, user: user, kinds: of}
	var err error
	v.Answer, err = r.Read(ctx, Query{User: UserHash(v.seed, user), Page: len(of) > 0})
	return v, err
}

// names returns the kinds of the keys that the View looks for, on each side that the kind has.
func (v *View) names(k Kind) []string {
	if k.Reverse == "" {
		return []string{k.Name}
	}
	return []string{k.Name, k.Reverse}
}

func (v *View) start(name string, k Kind) favfilter.Start {
	return KeyStart(v.seed, name, v.user, string(k.Target))
}

// Check looks for an id among the activities of the i-th kind.
func (v *View) Check(i int, id string) Match {
	k := v.kinds[i]
	for n, name := range v.names(k) {
		if v.Page.Contains(v.start(name, k).With(favfilter.HashKey(v.seed, id))) {
			return Direct + Match(n)
		}
	}
	return None
}

func (g *rig) record(t testing.TB, want bool, a Activity) {
	t.Helper()
	changed, err := g.Record(t.Context(), []Activity{a})
	if err != nil {
		t.Fatalf("%+v: %v", a, err)
	}
	if (changed[0] == Changed) != want {
		t.Fatalf("%+v: changed %v, want %v", a, changed[0], want)
	}
}

func (g *rig) check(t testing.TB, user, kind, id string) Match {
	t.Helper()
	k, ok := g.kinds.Named(kind)
	if !ok {
		t.Fatalf("no kind %q", kind)
	}
	v, err := g.View(t.Context(), user, []Kind{k})
	if err != nil {
		t.Fatal(err)
	}
	return v.Check(0, id)
}

func (g *rig) want(t testing.TB, user, kind, id string, want Match) {
	t.Helper()
	if got := g.check(t, user, kind, id); got != want {
		t.Fatalf("%s of %s with %s: match %d, want %d", kind, user, id, got, want)
	}
}

// lookAll counts how many of n ids a View of the user's kind reports.
func (g *rig) lookAll(t testing.TB, user, kind string, ids func(i int) string, n int) int {
	t.Helper()
	k, _ := g.kinds.Named(kind)
	v, err := g.View(t.Context(), user, []Kind{k})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for i := range n {
		if v.Check(0, ids(i)) != None {
			found++
		}
	}
	return found
}
