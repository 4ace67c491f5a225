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
		{FoldLower, "ΣΑΣ", "σασ"},
		{FoldLower, "Straße", "straße"},
		{FoldCase, "Go ÄΣ.", "go äσ."},
		{FoldCase, "ΣΑΣ", "σασ"},
		{FoldCase, "σας", "σασ"},
		{FoldCase, "Straße", "strasse"},
		{FoldCase, "STRASSE", "strasse"},
		{FoldCase, "STRAẞE", "strasse"},
		{FoldCase, "ﬁx İ", "fix i"},
		{FoldHost, "x.example", "x.example"},
		{FoldHost, "X.Example.:443", "x.example"},
		{FoldHost, "x.example:", "x.example"},
		{FoldHost, "HTTPS://X.Example", "x.example"},
		{FoldHost, "https://Bücher.example:8443/", "xn--bcher-kva.example"},
		{FoldHost, "https://http://x.example:80", "https://http://x.example:80"}, // a path
		{FoldHost, "x.ex\u200dample", "x.example"},
		{FoldHost, "Ä\u200d\u200c.Example", "xn--4ca.example"},
		{FoldHost, "क्\u200dष.example", "xn--11b2ezcw70k.example"}, // a joiner that a name may have
		{FoldHost, "क्ष.example", "xn--11b2ezc.example"},
		{FoldHost, "[::1]:80", "[::1]"},
		{FoldHost, "::1", "::1"},
		{FoldHost, "https://[2001:DB8::1]:443/", "[2001:db8::1]"},
		{FoldHost, "https://X.example/A", "https://x.example/a"}, // not all of x.example
		{FoldHost, "https://u@x.example", "https://u@x.example"},
		{FoldHost, "x.example:no", "x.example:no"},
		{FoldHost, "https://", "https://"},
		{FoldHost, ":443", ":443"},
		{FoldHost, "\u200d", "\u200d"},
		{FoldHost, "x。example：443", "x.example"}, // wide forms
		{FoldDomain, "x.example", "x.example"},
		{FoldDomain, "https://X.Example:443", "https://x.example:443"},
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
	eachRune(func(r rune) { wantFolded(t, string(r)+"a.b") })
}

// eachRune calls do for all runes of scripts and symbols. Of the ideographs, syllables and planes
// without letters, which have no case and no mapping of their own, it takes each 97th.
func eachRune(do func(r rune)) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		large := r >= 0x3400 && r < 0xa000 || r >= 0xac00 && r < 0xf900 || r >= 0x20000
		if utf8.ValidRune(r) && (!large || r%97 == 0) {
			do(r)
		}
	}
}

// TestFoldOther: a process with the earlier form of a fold looks for what one with the later form
// records, and the other way round.
func TestFoldOther(t *testing.T) {
	for _, c := range []struct {
		fold     Fold
		id, want string
	}{
		{AsIs, "Straße", ""},
		{FoldLower, "Straße", "strasse"},
		{FoldCase, "Straße", "straße"},
		{FoldCase, "STRASSE", ""},
		{FoldLower, "σας", "σασ"},
		{FoldCase, "σας", "σας"},
		{FoldDomain, "https://X.Example:443", "x.example"},
		{FoldHost, "https://X.Example:443", "https://x.example:443"},
		{FoldHost, "X.Example", ""},
		{FoldHost, "Bücher.example", ""},
	} {
		if got := c.fold.Other(c.id); got != c.want {
			t.Errorf("the other of %q of %q is %q, want %q", c.fold, c.id, got, c.want)
		}
	}
	for _, pair := range [][2]Fold{{FoldLower, FoldCase}, {FoldDomain, FoldHost}} {
		eachRune(func(r rune) {
			id := string(r) + "a.b:1"
			if CheckID(id, "") != nil {
				return
			}
			for i, f := range pair {
				recorded := pair[1-i].ID(id)
				if f.ID(id) != recorded && f.Other(id) != recorded {
					t.Errorf("%q does not look for %q, as which %q records %q", f, recorded, pair[1-i], id)
				}
			}
		})
	}
}

// wantFolded checks that folds of a valid id fold to themselves, and are valid unless too long.
func wantFolded(t *testing.T, id string) {
	t.Helper()
	if CheckID(id, "") != nil {
		return
	}
	for _, f := range []Fold{FoldLower, FoldCase, FoldDomain, FoldHost} {
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
	for _, id := range []string{"X.Example.", "Bücher。example", "xn--bcher-kva", "xn--a-.Ä", "ẞ", "a\u200d.é", "https://Ä:443/", "[::1]:9", "：：／"} {
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
