package activity

import (
	"testing"
)

// using is what tests do with activities, with a ledger or without.
type using struct{ Activities }

// plainRig is activities without a ledger.
type plainRig struct {
	using

	plain *Plain
	under *exchangeable
}

func openWithout(t testing.TB, c PlainConfig) *plainRig {
	t.Helper()
	under := &exchangeable{c.Store}
	c.Store = under
	p, err := OpenPlain(t.Context(), c)
	must(t, err)
	t.Cleanup(p.Close)
	return &plainRig{using{p}, p, under}
}

func (g using) record(t testing.TB, want bool, a Activity) {
	t.Helper()
	changed, err := g.Record(t.Context(), []Activity{a})
	if err != nil {
		t.Fatalf("%+v: %v", a, err)
	}
	if (changed[0] == Changed) != want {
		t.Fatalf("%+v: changed %v, want %v", a, changed[0], want)
	}
}

func (g using) check(t testing.TB, user, kind, id string) Match {
	t.Helper()
	k, ok := g.Kinds().Named(kind)
	if !ok {
		t.Fatalf("no kind %q", kind)
	}
	v, err := g.View(t.Context(), user, []Kind{k})
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Degraded) > 0 {
		t.Fatalf("degraded: %v", v.Degraded)
	}
	return v.Check(0, id)
}

func (g using) want(t testing.TB, user, kind, id string, want Match) {
	t.Helper()
	if got := g.check(t, user, kind, id); got != want {
		t.Fatalf("%s of %s with %s: match %d, want %d", kind, user, id, got, want)
	}
}

// lookAll counts which of n ids a kind of the user is found with.
func (g using) lookAll(t testing.TB, user, kind string, ids func(i int) string, n int) int {
	t.Helper()
	k, _ := g.Kinds().Named(kind)
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
