package pages

import (
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// A page that lacks a mark lacks something: its phrases would not be found.
func TestMarksAreCompared(t *testing.T) {
	kind := RowKind{Owner: ledger.User, Target: "phrase", Mirror: "word-mute-of", Phrases: true, Weight: Weight("phrase", true)}
	other := RowKind{Owner: "phrase", Target: ledger.User, Mirror: "word-mute", Phrases: true, Weight: kind.Weight}
	for name, c := range map[string]struct {
		row   ledger.Row
		kind  RowKind
		marks int
	}{
		"a word":                      {ledger.Row{Owner: "1", Kind: "word-mute", Target: "a"}, kind, 1},
		"a phrase":                    {ledger.Row{Owner: "1", Kind: "word-mute", Target: "a b"}, kind, 2},
		"a hashtag":                   {ledger.Row{Owner: "1", Kind: "word-mute", Target: "#a"}, kind, 1},
		"a hashtag and more":          {ledger.Row{Owner: "1", Kind: "word-mute", Target: "#a b c"}, kind, 3},
		"a long phrase":               {ledger.Row{Owner: "1", Kind: "word-mute", Target: "a b c d e"}, kind, 4},
		"the other side":              {ledger.Row{Owner: "a", Kind: "word-mute-of", Target: "1"}, other, 1},
		"the other side of a phrase":  {ledger.Row{Owner: "a b c", Kind: "word-mute-of", Target: "1"}, other, 3},
		"what is no phrase is no row": {ledger.Row{Owner: "1", Kind: "word-mute", Target: "!"}, kind, 1},
	} {
		marks := appendMarks(nil, 1, &c.row, c.kind)
		if len(marks) != c.marks {
			t.Errorf("%s: %d marks, want %d", name, len(marks), c.marks)
		}
		for i := range marks {
			page, err := favfilter.NewPage(favfilter.Header{
				Identity: favfilter.Identity{Pages: 1}, Shape: favfilter.Shape{Bits: 1 << 16, Hashes: 10, Region: 4},
			})
			must(t, err)
			for j, mark := range marks {
				if j != i {
					page.Mark(mark)
				}
			}
			if got := lacking(page, rowKeys{marks: marks}); got != 1 {
				t.Errorf("%s, without mark %d: lacks %d", name, i, got)
			}
		}
	}
}

// Kinds, owners and facets have marks of their own, and those of heads are not those of phrases.
func TestMarksDiffer(t *testing.T) {
	known := make(map[favfilter.Hash]string)
	note := func(what string, h favfilter.Hash) {
		if before, ok := known[h]; ok {
			t.Errorf("%s has the hash of %s", what, before)
		}
		known[h] = what
	}
	for _, kind := range []string{"word-mute", "word-mute-of"} {
		for _, owner := range []string{"", "1", "a"} {
			for _, facet := range []string{"phrase", "tag"} {
				p := PhrasesOf(1, kind, owner, facet, 0)
				what := kind + " of " + owner + " with " + facet
				note("any "+what, p.any)
				for _, phrase := range []string{"a", "b"} {
					note("key "+what+" "+phrase, p.keys.With(favfilter.HashKey(1, phrase)))
					note("mark "+what+" "+phrase, p.marks.With(favfilter.HashKey(1, phrase)))
				}
			}
		}
	}
}
