package activity

import (
	"testing"
)

// using is what tests do with activities, with a ledger or without.
type using struct{ activities Activities }

// plainRig is activities without a ledger.
type plainRig struct {
	*Plain
	using

	under *exchangeable
}

func openWithout(t testing.TB, c PlainConfig) *plainRig {
	t.Helper()
	under := &exchangeable{c.Store}
	c.Store = under
	p, err := OpenPlain(t.Context(), c)
	must(t, err)
	t.Cleanup(p.Close)
	return &plainRig{p, using{p}, under}
}

func (g using) record(t testing.TB, want bool, a Activity) {
	t.Helper()
	changed, err := g.activities.Record(t.Context(), []Activity{a})
	if err != nil {
		t.Fatalf("%+v: %v", a, err)
	}
	if (changed[0] == Changed) != want {
		t.Fatalf("%+v: changed %v, want %v", a, changed[0], want)
	}
}

func (g using) match(t testing.TB, user, kind, id string) Match {
	t.Helper()
	k, ok := g.activities.Kinds().Named(kind)
	if !ok {
		t.Fatalf("no kind %q", kind)
	}
	// A busy machine may delay Redis for longer than a view waits.
	for tries := 1; ; tries++ {
		v, err := g.activities.View(t.Context(), user, []Kind{k})
		must(t, err)
		if len(v.Degraded) == 0 {
			return v.Check(0, id)
		}
		if tries == 10 {
			t.Fatalf("degraded ten times: %v", v.Degraded)
		}
	}
}

func (g using) want(t testing.TB, user, kind, id string, want Match) {
	t.Helper()
	if got := g.match(t, user, kind, id); got != want {
		t.Fatalf("%s of %s with %s: match %d, want %d", kind, user, id, got, want)
	}
}
