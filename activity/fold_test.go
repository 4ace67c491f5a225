package activity

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestFold(t *testing.T) {
	for _, c := range []struct {
		fold     Fold
		id, want string
	}{
		{AsIs, "X.Example.", "X.Example."},
		{FoldLower, "Go ÄΣ.", "go äσ."},
		{FoldDomain, "x.example", "x.example"},
		{FoldDomain, "X.Example..", "x.example"},
		{FoldDomain, "Bücher.example.", "xn--bcher-kva.example"},
		{FoldDomain, "XN--BCHER-KVA.example", "xn--bcher-kva.example"},
		{FoldDomain, "_a-.b--c.BÜCHER。Example｡", "_a-.b--c.xn--bcher-kva.example"},
		{FoldDomain, "straße.example", "xn--strae-oqa.example"},
		{FoldDomain, "Ä\u200d.Example", "ä\u200d.example"}, // a joiner where none may be
		{FoldDomain, "\u00ad", "\u00ad"},                   // nothing is left of it
		{FoldDomain, ".", "."},
		{FoldDomain, "[::1]:80", "[::1]:80"},
	} {
		if got := c.fold.ID(c.id); got != c.want {
			t.Errorf("%q of %q is %q, want %q", c.fold, c.id, got, c.want)
		}
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if utf8.ValidRune(r) {
			wantFolded(t, string(r)+"a.b")
		}
	}
}

// wantFolded checks that folds of a valid id fold to themselves, and are valid unless too long.
func wantFolded(t *testing.T, id string) {
	t.Helper()
	if CheckID(id, "") != nil {
		return
	}
	for _, f := range []Fold{FoldLower, FoldDomain} {
		once := f.ID(id)
		if again := f.ID(once); again != once {
			t.Errorf("%q of %q is %q, and of that %q", f, id, once, again)
		}
		if CheckID(once, "") != nil && len(once) <= MaxIDBytes {
			t.Errorf("%q of %q is %q", f, id, once)
		}
	}
}

func FuzzFold(f *testing.F) {
	for _, id := range []string{"X.Example.", "Bücher。example", "xn--bcher-kva", "xn--a-.Ä", "ẞ", "a\u200d.é"} {
		f.Add(id)
	}
	f.Fuzz(wantFolded)
}

// TestFoldedTooLong: an id that is too long once it is folded is refused, with nothing changed.
func TestFoldedTooLong(t *testing.T) {
	kinds, err := NewKinds(Kind{Name: "mute", Plural: "mutes", Target: "tag", Effect: Drop, Fold: FoldLower})
	if err != nil {
		t.Fatal(err)
	}
	a := Activity{User: "1", Kind: "mute", Target: strings.Repeat("Ⱥ", 128)} // a lower ⱥ takes a byte more
	if err := kinds.Check(a); !isInvalid(err, "target") {
		t.Errorf("%v", err)
	}
	for what, k := range map[string]Kind{
		"another fold":           {Name: "note", Plural: "notes", Target: "tag", Effect: Annotate},
		"another roll-up":        {Name: "note", Plural: "notes", Target: "tag", Effect: Annotate, Fold: FoldLower, Rollup: RollupPath},
		"a roll-up of posts":     {Name: "note", Plural: "notes", Target: Post, Effect: Annotate, Rollup: RollupPath},
		"an unknown fold":        {Name: "note", Plural: "notes", Target: "x", Effect: Annotate, Fold: "upper"},
		"a fold of ids of users": {Name: "note", Plural: "notes", Target: User, Effect: Annotate, Fold: FoldLower},
	} {
		if _, err := NewKinds(kinds.All()[0], k); err == nil {
			t.Errorf("%s is taken", what)
		}
	}
}

func isInvalid(err error, field string) bool {
	invalid, ok := errors.AsType[*InvalidError](err)
	return ok && invalid.Code == CodeInvalidID && invalid.Field == field
}

func TestParents(t *testing.T) {
	for _, c := range []struct {
		rollup   Rollup
		id, want string
	}{
		{NoRollup, "a.b/c", ""},
		{RollupDomain, "a.b.example", "b.example example"},
		{RollupDomain, "example", ""},
		{RollupDomain, "a..b.", ".b. b."},
		{RollupDomain, "...", ".. ."},
		{RollupDomain, strings.Repeat("x.", 130) + "1.2.3.4.5.6.7.8", "1.2.3.4.5.6.7.8 2.3.4.5.6.7.8 3.4.5.6.7.8 4.5.6.7.8 5.6.7.8 6.7.8 7.8 8"},
		{RollupPath, "b.example/x/y", "b.example/x b.example"},
		{RollupPath, "/x/", "/x"},
		{RollupPath, "1/2/3/4/5/6/7/8/" + strings.Repeat("/", 130), "1/2/3/4/5/6/7/8 1/2/3/4/5/6/7 1/2/3/4/5/6 1/2/3/4/5 1/2/3/4 1/2/3 1/2 1"},
	} {
		if got := strings.Join(c.rollup.appendParents(nil, c.id), " "); got != c.want {
			t.Errorf("%q of %q: %q, want %q", c.rollup, c.id, got, c.want)
		}
	}
}
