package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// kindsOf returns kinds by name. Names with a number are other definitions of the same kind.
func kindsOf(names ...string) (kinds []ledger.Kind) {
	for _, name := range names {
		kinds = append(kinds, map[string]ledger.Kind{
			"block":   {Name: "block", Reverse: "blocked-by", Target: ledger.User},
			"block2":  {Name: "block", Target: ledger.User},
			"block3":  {Name: "block", Reverse: "avoided-by", Target: ledger.User},
			"hide":    {Name: "hide", Target: ledger.Post},
			"hide2":   {Name: "hide", Target: ledger.User},
			"mute":    {Name: "mute", Target: ledger.User},
			"mute2":   {Name: "mute", Reverse: "muted-by", Target: ledger.User},
			"silence": {Name: "silence", Target: ledger.User},
			"word":    {Name: "word", Target: "phrase", Phrases: true, Reverse: "word-of"},
			"word2":   {Name: "word", Target: "phrase", Reverse: "word-of"},
			"flipped": {Name: "blocked-by", Reverse: "block", Target: ledger.User},
		}[name])
	}
	return kinds
}

// declared checks which kinds are declared.
func declared(t *testing.T, l *ledger.Ledger, names ...string) {
	t.Helper()
	got, err := l.Kinds(t.Context())
	if want := kindsOf(names...); err != nil || !slices.Equal(got, want) {
		t.Errorf("kinds %v, %v, want %v", got, err, want)
	}
}

func (s suite) kinds(t *testing.T) {
	url := s.fresh(t)
	l := open(t, url, ledger.Options{Pages: 16})
	declared(t, l)
	for _, c := range []struct{ declare, then string }{
		{"block hide", "block hide"},
		{"block hide mute", "block hide mute"},
		{"hide mute", "block hide mute"}, // another process may record the missing kind
		{"hide mute2", "block hide mute2"},
		{"block2 silence", "block2 hide mute2 silence"},
		{"flipped", "flipped hide mute2 silence"},
		{"block3", "block3 hide mute2 silence"},
		{"", "block3 hide mute2 silence"},
		{"block hide mute", "block hide mute silence"},
		{"word", "block hide mute silence word"},
	} {
		for range 2 {
			kinds := kindsOf(strings.Fields(c.declare)...)
			slices.Reverse(kinds) // the order makes no difference
			if err := l.Declare(t.Context(), kinds); err != nil {
				t.Fatal(err)
			}
			declared(t, l, strings.Fields(c.then)...)
		}
	}
	for _, other := range []string{"hide2", "word2"} {
		if err := l.Declare(t.Context(), kindsOf(other)); !errors.Is(err, ledger.ErrKindTaken) || !strings.Contains(err.Error(), "choose another name") {
			t.Errorf("%s: error %v, want ErrKindTaken", other, err)
		}
	}
	shut(t, l)
	declared(t, open(t, url, ledger.Options{}), "block", "hide", "mute", "silence", "word")
}

// kindWeights checks that the first declaration of a kind sets its weight, also if its other fields
// change later.
func (s suite) kindWeights(t *testing.T) {
	url := s.fresh(t)
	l := open(t, url, ledger.Options{Pages: 16})
	weighed := func(reverse string, block, hide int) (kinds []ledger.Kind) {
		return []ledger.Kind{
			{Name: "block", Reverse: reverse, Target: ledger.User, Weight: block}, {Name: "hide", Target: ledger.Post, Weight: hide},
		}
	}
	for _, c := range []struct{ declared, want []ledger.Kind }{
		{weighed("blocked-by", 6, 0), weighed("blocked-by", 6, 0)},
		{weighed("blocked-by", 0, 4), weighed("blocked-by", 6, 0)},
		{weighed("", 3, 4), weighed("", 6, 0)},
		{append(weighed("", 3, 4), ledger.Kind{Name: "mute", Target: ledger.User, Weight: 127}),
			append(weighed("", 6, 0), ledger.Kind{Name: "mute", Target: ledger.User, Weight: 127})},
	} {
		if err := l.Declare(t.Context(), c.declared); err != nil {
			t.Fatal(err)
		}
		if got, err := l.Kinds(t.Context()); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v, %v, want %v", got, err, c.want)
		}
	}
	for _, weight := range []int{-1, 128} {
		if err := l.Declare(t.Context(), weighed("", weight, 0)); err == nil || !strings.Contains(err.Error(), "not in 0 to 127") {
			t.Errorf("weight %d: error %v", weight, err)
		}
	}
}

// kindsInUse declares kinds in a ledger that already has rows of some kinds.
func (s suite) kindsInUse(t *testing.T) {
	l := s.make(t, 16)
	if err := l.Declare(t.Context(), kindsOf("block", "hide", "mute")); err != nil {
		t.Fatal(err)
	}
	there, reverse, stray := block(4, "u2"), block(3, "u1"), block(5, "p")
	reverse.Kind, stray.Kind = "blocked-by", "stray"
	record(t, l, add(until(mute(2, "a"), at(-1))), add(there, reverse), add(stray))
	there.Until, reverse.Until = at(1), at(1)
	recordOn(t, l, at(0), add(there, reverse))
	recordOn(t, l, at(2), removeEnded(there)) // the reverse alone is enough
	check := func(kind string, had, has string, names ...string) {
		t.Helper()
		err := l.Declare(t.Context(), kindsOf(names...))
		if !errors.Is(err, ledger.ErrKindHasData) {
			t.Fatalf("error %v, want ErrKindHasData", err)
		}
		for _, part := range []string{fmt.Sprintf("%q was declared %s", kind, had), has, "remove its rows", "cannot be renamed"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("error %q does not contain %q", err, part)
			}
		}
		declared(t, l, "block", "hide", "mute")
	}
	const blockWas, muteWas = `with target "user" and mirrored as "blocked-by"`, `with target "user"`
	check("block", blockWas, "is not declared now", "hide", "mute")
	check("block", blockWas, `is now declared with target "user": declare`, "block2", "hide", "mute")
	check("block", blockWas, `is now declared with target "user" and mirrored as "avoided-by"`, "block3", "mute")
	check("block", blockWas, "is not declared now", "flipped", "hide", "mute")
	check("mute", muteWas, "is not declared now", "block", "hide", "silence") // renamed
	check("mute", muteWas, `is now declared with target "user" and mirrored as "muted-by"`, "block", "mute2", "silence")
	if err := l.Declare(t.Context(), kindsOf("block", "mute", "silence")); err != nil {
		t.Errorf("declare without hide, which has no rows: %v", err)
	}
	declared(t, l, "block", "hide", "mute", "silence")
	record(t, l, remove(mute(2, "a")))
	if err := l.Declare(t.Context(), kindsOf("block", "silence")); err != nil {
		t.Errorf("declare without kinds that have no rows: %v", err)
	}
	recordOn(t, l, at(2), removeEnded(reverse))
	if err := l.Declare(t.Context(), nil); err != nil {
		t.Errorf("declare without kinds that have no rows: %v", err)
	}
	if err := l.Declare(t.Context(), kindsOf("block3", "mute2")); err != nil {
		t.Errorf("change kinds without rows: %v", err)
	}
	declared(t, l, "block3", "hide", "mute2", "silence")
	// Rows of a kind that nobody declared prevent nothing.
	if err := l.Declare(t.Context(), []ledger.Kind{{Name: "stray", Target: ledger.Post}}); err != nil {
		t.Error(err)
	}
	checkPage(t, l, 5, []ledger.Row{stray}, 1)
}

func (s suite) kindsInvalid(t *testing.T) {
	l := s.make(t, 16)
	for _, c := range []struct {
		kinds []ledger.Kind
		text  string // in the error
	}{
		{[]ledger.Kind{{Name: ""}}, `name is empty`},
		{[]ledger.Kind{{Name: "x\n"}}, `"x\n": name has`},
		{[]ledger.Kind{{Name: "x", Target: ledger.Post}, {Name: "y", Target: ledger.Post}, {Name: "x", Target: ledger.User}}, `"x": duplicate name "x"`},
		{[]ledger.Kind{{Name: "x", Target: ledger.Post}, {Name: "y", Reverse: "x", Target: ledger.Post}}, `"y": duplicate name "x"`},
		{[]ledger.Kind{{Name: "x", Reverse: "x", Target: ledger.User}}, `"x": duplicate name "x"`},
		{[]ledger.Kind{{Name: "x"}}, `"x": target is empty`},
		{[]ledger.Kind{{Name: "x", Reverse: "y\xff", Target: ledger.User}}, `"x": name is not valid`},
		{[]ledger.Kind{{Name: strings.Repeat("x", 257), Target: ledger.Post}}, `is longer than 256 bytes`},
	} {
		if err := l.Declare(t.Context(), c.kinds); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%+v: error %v, want one with %s", c.kinds, err, c.text)
		}
	}
	declared(t, l)
	anywhere(t, func(ctx context.Context) error { return l.Declare(ctx, kindsOf("hide")) }, func() { declared(t, l) })
	declared(t, l, "hide")
}

// kindsConcurrent declares kinds from several processes at once. No name may be declared twice,
// and the kind that has a row must not change.
func (s suite) kindsConcurrent(t *testing.T) {
	handles := s.handles(t, 16)
	configurations := [][]string{{"block", "hide", "mute"}, {"block3", "hide", "mute"}, {"mute"}, {"mute", "silence"}, {"block", "hide"}}
	if err := handles[0].Declare(t.Context(), kindsOf("mute")); err != nil {
		t.Fatal(err)
	}
	record(t, handles[0], add(mute(2, "a")))
	together(handles, 10, func(l *ledger.Ledger, w int) {
		for i := range 10 {
			names := configurations[(w+i)%len(configurations)]
			err := l.Declare(t.Context(), kindsOf(names...))
			if want := !slices.Contains(names, "mute"); errors.Is(err, ledger.ErrKindHasData) != want || err != nil && !want {
				t.Errorf("declare %v: %v", names, err)
			}
			got, err := l.Kinds(t.Context())
			names = nil
			for _, k := range got {
				names = append(names, k.Name)
			}
			if err != nil || !slices.Contains(got, kindsOf("mute")[0]) || len(slices.Compact(names)) != len(got) {
				t.Errorf("kinds %v, %v", got, err)
			}
		}
	})
}

// kindsDiffer records by definitions that another process has changed since.
func (s suite) kindsDiffer(t *testing.T) {
	handles := s.handles(t, 16)
	old, now := handles[0], handles[len(handles)-1]
	reverse := block(3, "u1")
	reverse.Kind = "blocked-by"
	one, two := add(block(1, "u3")), add(block(1, "u3"), reverse)
	refused := func(c ledger.Change) {
		t.Helper()
		c.Remove = true
		removal := c
		c.Remove = false
		for _, c := range []ledger.Change{c, removal} {
			all := []ledger.Change{add(mute(2, "a")), c}
			if _, err := old.Record(t.Context(), at(0), all); !errors.Is(err, ledger.ErrKindsDiffer) {
				t.Errorf("error %v, want ErrKindsDiffer", err)
			}
		}
		for page := range uint32(16) {
			checkPage(t, old, page, nil, 0)
		}
	}
	must(t, old.Declare(t.Context(), kindsOf("block2", "mute")))
	must(t, now.Declare(t.Context(), kindsOf("block", "mute")))
	refused(one)
	must(t, now.Declare(t.Context(), kindsOf("block2", "mute")))
	refused(two)
	must(t, now.Declare(t.Context(), kindsOf("block3", "mute")))
	refused(one)
	refused(two)
	must(t, now.Declare(t.Context(), kindsOf("block", "mute")))
	record(t, old, two, add(mute(2, "a")))
	// Rows end one by one, in processes that know nothing of their kinds.
	ends := two
	ends.Rows[0].Until, ends.Rows[1].Until = at(1), at(1)
	recordOn(t, old, at(0), ends)
	recordOn(t, old, at(2), removeEnded(ends.Rows[0]), removeEnded(ends.Rows[1]))
}
