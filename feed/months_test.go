package feed_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/pgtest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

//nolint:gochecknoglobals // flag of the test binary
var monthsSeed = flag.Uint64("months.seed", 1, "seed of what TestMonths chooses; 0: a random one, which it prints")

const (
	day    = 24 * time.Hour
	months = 182 * day // that TestMonths takes
	people = 200
)

// TestLongMonths: half a year of random activities of all kinds, and of feeds of all sorts, against
// a model of them in plain maps.
func TestLongMonths(t *testing.T) {
	if exact, all := passMonths(t, 1); all && exact < 1_000_000 {
		t.Errorf("exact feeds looked up %d activities only", exact)
	}
}

// TestMonths is a tenth of [TestLongMonths].
func TestMonths(t *testing.T) { passMonths(t, 10) }

// passMonths lets half a year pass, in as many steps divided by fewer. It returns how many
// activities exact feeds looked up, and whether all subtests were run.
func passMonths(t *testing.T, fewer int) (exact int, all bool) {
	t.Helper()
	ran := 0
	for _, c := range []struct {
		name  string
		rate  float64
		steps int
		redis bool
	}{
		{"memory and sqlite", 0.01, 300, false},
		{"memory and sqlite at a rate of a half", 0.5, 300, false},
		{"redis and postgres", 0.5, 60, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.steps /= fewer
			l := newLife(t, c.rate, c.redis)
			for step := range c.steps {
				l.pass(months / time.Duration(c.steps))
				l.act()
				l.feed(true)
				l.feed(false)
				l.count()
				if step%(c.steps/3) == c.steps/4 {
					l.windowsEnd()
				}
			}
			l.lists()
			l.forgetsWhatIsOver()
			l.report(fewer == 1)
			exact += l.exact
			ran++
		})
	}
	return exact, ran == 3
}

// life is the life of an app, and its model.
type life struct {
	*testing.T
	*activity.Recorder

	rng      *rand.Rand
	ledger   *ledger.Ledger
	model    *model
	rate     float64
	clock    atomic.Int64
	stranger int

	exact        int // lookups of exact feeds
	clean, wrong int // candidates without any activity, and those of them that were dropped
	late         int // that were over, and dropped before they were forgotten
	spared       int // reasons to drop that were overruled
}

func newLife(t *testing.T, rate float64, redis bool) *life {
	t.Helper()
	seed := *monthsSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d: again with -months.seed=%d", seed, seed)
	l := &life{T: t, rng: rand.New(rand.NewPCG(seed, 0)), rate: rate}
	l.clock.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
	kinds := moreKinds(t,
		activity.Kind{Name: "mute", Plural: "mutes", Target: activity.User, Effect: activity.Drop, Fanout: true},
		activity.Kind{Name: "no-repost", Plural: "no-reposts", Target: activity.User, Effect: activity.Drop, Roles: []string{"repost", "quote"}},
		activity.Kind{Name: "avoid", Plural: "avoids", Target: activity.User, Effect: activity.Drop, Reverse: "avoided-by", Roles: []string{"author"}},
		activity.Kind{Name: "friend", Plural: "friends", Target: activity.User, Effect: activity.Annotate, Roles: []string{"author", "repost"}},
		activity.Kind{Name: "snooze", Plural: "snoozes", Target: activity.Post, Effect: activity.Drop, Limit: 12},
		activity.Kind{Name: "glimpse", Plural: "glimpses", Target: activity.Post, Effect: activity.Drop, Window: 7 * day, Parts: 7},
		activity.Kind{Name: "shun", Plural: "shuns", Target: "tag", Effect: activity.Drop, Limit: 30},
		activity.Kind{Name: "pal", Plural: "pals", Target: activity.User, Effect: activity.Keep, Over: []string{"mute", "no-repost", activity.Lists}, Roles: []string{"author", "repost"}},
		activity.Kind{Name: "pin", Plural: "pins", Target: activity.Post, Effect: activity.Keep, Over: []string{"snooze", "seen", "mute"}},
		activity.Kind{Name: "fan", Plural: "fans", Target: "tag", Effect: activity.Keep, Over: []string{"shun", "skip", "hide"}},
		activity.Kind{Name: "star", Plural: "stars", Target: "tag", Effect: activity.Annotate},
		activity.Kind{Name: "skip", Plural: "skips", Target: "thread", Effect: activity.Drop, Window: 7 * day, Parts: 7},
	)
	l.model = newModel(kinds)
	url := "sqlite:" + filepath.Join(t.TempDir(), "ledger.db")
	var store favfilter.Store = &favfilter.Memory{Now: l.now}
	if redis {
		url = pgtest.Start(t).Schema()
		store = redisStore(t, redistest.Start(t))
	}
	l.ledger = openLedgerAt(t, url, 8)
	l.Recorder = openWith(t, activity.Config{Ledger: l.ledger, Store: store, Kinds: kinds, FalsePositiveRate: rate, Now: l.now})
	return l
}

func (l *life) now() time.Time { return time.UnixMicro(l.clock.Load()).UTC() }

// pass lets some time go by, as long as mean on average.
func (l *life) pass(mean time.Duration) {
	l.clock.Add(l.rng.Int64N(2 * mean.Microseconds()))
}

func (l *life) user() string {
	n := l.rng.IntN(people)
	return fmt.Sprint([]string{"u", "u_", "u%", "ü:"}[n%4], n)
}

// pick is one of what the user named before, rather the latest, or somebody or something else.
func (l *life) pick(named []string, other func() string) string {
	if len(named) == 0 || l.rng.IntN(2) == 0 {
		return other()
	}
	if recent := min(len(named), 30); l.rng.IntN(2) == 0 {
		return named[len(named)-1-l.rng.IntN(recent)]
	}
	return named[l.rng.IntN(len(named))]
}

// target picks an id of a facet. Ids of other facets look like those of posts.
func (l *life) target(user string, facet activity.Facet) string {
	other := l.post
	if facet == activity.User {
		other = l.user
	}
	return l.pick(l.model.of(user).named[facet], other)
}

func (l *life) post() string { return fmt.Sprint("p", l.rng.IntN(2000)) }

// act records a batch of activities, and compares what became of them.
func (l *life) act() {
	l.Helper()
	var batch []activity.Activity
	crowd := []string{l.user(), l.user(), l.user(), l.user()}
	for range 10 + l.rng.IntN(60) {
		if a, ok := l.activity(crowd[l.rng.IntN(len(crowd))]); ok {
			batch = append(batch, a)
		}
	}
	outcomes, err := l.Record(l.Context(), batch)
	must(l, err)
	for i, a := range batch {
		want := l.model.record(a, l.now())
		if k, _ := l.Kinds().Named(a.Kind); k.InLedger() && outcomes[i] != want {
			l.Fatalf("%+v: %v, want %v", a, outcomes[i], want)
		}
	}
}

// activity is one of a user, to be done, done again, done until another time, or undone.
func (l *life) activity(user string) (activity.Activity, bool) {
	k := l.Kinds().All()[l.rng.IntN(len(l.Kinds().All()))]
	a := activity.Activity{User: user, Kind: k.Name}
	a.Target = l.target(user, k.Target)
	if k.Target == activity.User && a.Target == a.User {
		return a, false
	}
	if !k.InLedger() {
		return a, true
	}
	if a.Remove = l.rng.IntN(4) == 0; a.Remove {
		return a, true
	}
	if l.rng.IntN(3) == 0 {
		a.Until = l.now().Add(time.Microsecond + time.Duration(l.rng.Int64N(int64(20*day)))).Truncate(time.Microsecond)
	}
	if l.rng.IntN(10) == 0 {
		a.Since = l.now().Add(-time.Duration(l.rng.Int64N(int64(300 * day)))).Truncate(time.Microsecond)
	}
	return a, true
}

// request is a random one; one in three candidates is a stranger's.
func (l *life) request(exact bool) feed.Request {
	req := feed.Request{Viewer: l.user(), Exact: exact, RecordSeen: l.rng.IntN(4) == 0}
	there := make(map[string]bool)
	most := 200
	if exact {
		most = 1000
	}
	for range 1 + l.rng.IntN(most) {
		p := feed.Post{ID: l.target(req.Viewer, activity.Post), Author: l.target(req.Viewer, activity.User)}
		for range l.rng.IntN(3) {
			p.Actors = append(p.Actors, l.target(req.Viewer, activity.User))
		}
		for range l.rng.IntN(1 + len(p.Actors)) {
			p.Roles = append(p.Roles, []string{"author", "repost", "quote", "mention", ""}[l.rng.IntN(5)])
		}
		for range max(0, l.rng.IntN(6)-3) {
			p.Related = append(p.Related, l.target(req.Viewer, activity.Post))
		}
		for _, facet := range []activity.Facet{"tag", "thread"} {
			for range l.rng.IntN(3) {
				if p.Facets == nil {
					p.Facets = make(map[activity.Facet][]string)
				}
				p.Facets[facet] = append(p.Facets[facet], l.target(req.Viewer, facet))
			}
		}
		if l.rng.IntN(3) == 0 {
			l.stranger++
			p = feed.Post{ID: fmt.Sprint("s", l.stranger), Author: fmt.Sprint("nobody", l.stranger)}
		}
		if all := append([]string{p.ID}, p.Related...); !slices.ContainsFunc(all, func(id string) bool { return there[id] }) {
			for _, id := range all {
				there[id] = true
			}
			req.Posts = append(req.Posts, p)
		}
	}
	for range max(0, l.rng.IntN(6)-2) {
		if list := l.user(); list != req.Viewer && !slices.Contains(req.Lists, list) {
			req.Lists = append(req.Lists, list)
		}
	}
	if l.rng.IntN(4) == 0 {
		req.Limit = 1 + l.rng.IntN(most/2)
	}
	if l.rng.IntN(2) == 0 {
		req.Annotate = []string{"like", "star", "friend"}
	}
	if l.rng.IntN(3) == 0 {
		req.Kinds = []string{}
		for _, i := range l.rng.Perm(len(l.Kinds().All()))[l.rng.IntN(3):] {
			if k := l.Kinds().All()[i]; k.Effect != activity.Annotate {
				req.Kinds = append(req.Kinds, k.Name)
			}
		}
	}
	return req
}

// feed asks for a feed, and compares it with what the model says of each candidate.
func (l *life) feed(exact bool) {
	l.Helper()
	req := l.request(exact)
	a, err := feed.Filter(l.Context(), l.Recorder, req)
	must(l, err)
	if len(a.Degraded) > 0 {
		l.Fatalf("degraded: %+v", a.Degraded)
	}
	looked := len(req.Posts)
	if a.Next > 0 {
		looked = a.Next
	}
	if len(a.Kept)+len(a.Dropped) != looked || req.Limit > 0 && len(a.Kept) > req.Limit || a.Next > 0 && len(a.Kept) != req.Limit {
		l.Fatalf("%d kept, %d dropped of %d, limit %d, next %d", len(a.Kept), len(a.Dropped), len(req.Posts), req.Limit, a.Next)
	}
	if req.Limit > 0 && looked < len(req.Posts) && a.Next == 0 {
		l.Fatalf("ended at %d of %d, and does not say so", looked, len(req.Posts))
	}
	j := judge{life: l, req: req, drops: l.kindsOf(req, activity.Drop), keeps: l.kindsOf(req, activity.Keep), now: l.now()}
	keeps, drops := a.Kept, a.Dropped
	if len(a.Annotated) != len(req.Annotate) {
		l.Fatalf("annotated %v, for %v", a.Annotated, req.Annotate)
	}
	for i, p := range req.Posts[:looked] {
		if len(keeps) > 0 && keeps[0] == i {
			j.kept(p, func(kind int) bool { return slices.Contains(a.Annotated[kind], i) })
			keeps = keeps[1:]
			continue
		}
		if len(drops) == 0 || drops[0].At != i {
			l.Fatalf("%s is neither kept nor dropped, or out of order", p.ID)
		}
		j.dropped(p, drops[0])
		drops = drops[1:]
	}
	if req.RecordSeen {
		var saw []string
		for _, at := range a.Kept {
			saw = append(saw, append(req.Posts[at].Related, req.Posts[at].ID)[0])
		}
		l.model.saw(req.Viewer, saw, j.now)
	}
}

// kindsOf returns the kinds with an effect that the request checks.
func (l *life) kindsOf(req feed.Request, effect activity.Effect) (kinds []activity.Kind) {
	for _, k := range l.Kinds().All() {
		if k.Effect == effect && req.Kinds == nil {
			kinds = append(kinds, k)
		}
	}
	for _, name := range req.Kinds {
		if k, _ := l.Kinds().Named(name); k.Effect == effect {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// count compares a preview, and counts after it: it changes nothing.
func (l *life) count() {
	l.Helper()
	user := l.user()
	k := l.Kinds().All()[l.rng.IntN(len(l.Kinds().All()))]
	if targets := l.targets(user, k); k.InLedger() && len(targets) > 0 {
		p, err := l.Preview(l.Context(), user, k.Name, targets)
		must(l, err)
		if want := l.model.preview(user, k.Name, targets, l.now()); p != want {
			l.Fatalf("preview of %s: %+v, want %+v", k.Name, p, want)
		}
	}
	counts, err := l.Counts(l.Context(), user)
	must(l, err)
	if want := l.model.counts(user, l.now()); !reflect.DeepEqual(counts, want) {
		l.Fatalf("counts %v, want %v", counts, want)
	}
}

func (l *life) targets(user string, k activity.Kind) (targets []string) {
	for range 1 + l.rng.IntN(20) {
		if target := l.target(user, k.Target); k.Target != activity.User || target != user {
			targets = append(targets, target)
		}
	}
	return targets
}
