package pages

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/phrases"
	"github.com/feedfilter/feedfilter/favfilter"
)

// Whatever was searched before, a PhraseSearch finds those phrases in a text that a search for each
// of them finds.
func TestPhraseSearch(t *testing.T) {
	units := []string{"選", "挙", "速", "𠀋", "a", "alongword1", "alongword2", "verylongwordofletters", "#tag", "x"}
	text := rapid.Custom(func(t *rapid.T) string {
		of := rapid.SliceOfN(rapid.SampledFrom(units), 1, 12).Draw(t, "units")
		return strings.Join(of, rapid.SampledFrom([]string{"", " "}).Draw(t, "between"))
	})
	rapid.Check(t, func(t *rapid.T) {
		var search PhraseSearch
		if rapid.Bool().Draw(t, "all in one slot") {
			search.known = make([]knownBeginning, 1)
		}
		for range rapid.IntRange(1, 4).Draw(t, "viewers") {
			lookups, owned := drawLookups(t, text)
			search.Forget()
			for range rapid.IntRange(1, 4).Draw(t, "texts") {
				post := text.Draw(t, "text")
				search.Cut(post)
				search.End = search.Units()
				for lookup, has := range owned {
					var found []string
					for at := range search.End {
						search.Find(lookups, at, func(of, units int) {
							if of == lookup {
								found = append(found, string(search.Phrase(at, units)))
							}
						})
					}
					for _, phrase := range append(has, phrasesOfOneUnit(post)...) {
						_, end := search.Text.Find(phrase)
						if want := end > 0 && slices.Contains(has, phrase); want != slices.Contains(found, phrase) {
							t.Fatalf("lookup %d with %q found %q in %q", lookup, has, found, post)
						}
					}
				}
			}
		}
	})
}

// What is remembered of a word is not taken for that of one that differs in its last letter.
func TestPhraseSearchOfAlike(t *testing.T) {
	page, err := favfilter.NewPage(favfilter.Header{
		Identity: favfilter.Identity{Pages: 1}, Shape: favfilter.Shape{Bits: 1 << 16, Hashes: 10, Region: 4},
	})
	must(t, err)
	lookup := PhraseLookup{PhrasesOf(0, "word-mute", "1", "phrase", 0), page}
	for _, word := range []string{"a", "abcd", "abcdefgh", "abcdefghijklmno"} {
		page.Insert(lookup.keys.With(favfilter.HashKey(0, word+"x")))
		var search PhraseSearch
		search.known = make([]knownBeginning, 1)
		search.Cut(word + "x " + word + "y " + word + "x")
		search.End = search.Units()
		found := 0
		for at := range search.End {
			search.Find([]PhraseLookup{lookup}, at, func(int, int) { found++ })
		}
		if found != 2 {
			t.Errorf("%sx was found %d times in %sx %sy %sx", word, found, word, word, word)
		}
	}
}

// phrasesOfOneUnit returns the phrases of one unit in a text.
func phrasesOfOneUnit(text string) (of []string) {
	var cut phrases.Text
	cut.Cut(text)
	for at := range cut.Units() {
		of = append(of, string(cut.Phrase(at, 1)))
	}
	return of
}

// drawLookups returns lookups of some owners in a page, and the phrases that each of them has.
// There may be more of them than a group has.
func drawLookups(t *rapid.T, text *rapid.Generator[string]) (lookups []PhraseLookup, owned [][]string) {
	page, err := favfilter.NewPage(favfilter.Header{
		Identity: favfilter.Identity{Pages: 1}, Shape: favfilter.Shape{Bits: 1 << 17, Hashes: 10, Region: 4},
	})
	if err != nil {
		t.Fatal(err)
	}
	kind := RowKind{Owner: ledger.User, Target: "phrase", Phrases: true, Weight: Weight("phrase", true)}
	count := rapid.SampledFrom([]int{1, 2, groupSize, 2*groupSize + 1}).Draw(t, "lookups")
	lookups, owned = make([]PhraseLookup, count), make([][]string, count)
	for i := range count {
		owner := fmt.Sprint(i)
		lookups[i] = PhraseLookup{PhrasesOf(0, "word-mute", owner, "phrase", kind.Weight), page}
	}
	for range rapid.IntRange(0, 8).Draw(t, "phrases") {
		i := rapid.IntRange(0, count-1).Draw(t, "owner")
		phrase, _, err := phrases.Canonical(text.Draw(t, "phrase"))
		if err != nil {
			continue
		}
		row := ledger.Row{Owner: fmt.Sprint(i), Kind: "word-mute", Target: phrase}
		page.Insert(lookups[i].keys.With(favfilter.HashKey(0, phrase)))
		for _, mark := range appendMarks(nil, 0, &row, kind) {
			page.Mark(mark)
		}
		owned[i] = append(owned[i], phrase)
	}
	return lookups, owned
}

// What is remembered of a beginning is not that of another one, even in the same slot.
func TestBytesOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 1, maxKnown).Draw(t, "bytes")
		front, back := bytesOf(b)
		known := make([]byte, len(b))
		for i := range known {
			switch fromEnd := len(b) - 1 - i; {
			case len(b) >= 8 && i < 8:
				known[i] = byte(front >> (8 * i))
			case len(b) >= 8:
				known[i] = byte(back >> (8 * (7 - fromEnd)))
			case len(b) >= 4 && i < 4:
				known[i] = byte(front >> (8 * i))
			case len(b) >= 4:
				known[i] = byte(back >> (8 * (3 - fromEnd)))
			case i == 0:
				known[i] = byte(front)
			case i == len(b)-1:
				known[i] = byte(front >> 16)
			default:
				known[i] = byte(front >> 8)
			}
		}
		if !slices.Equal(known, b) {
			t.Fatalf("%x has the numbers %x and %x, which are those of %x", b, front, back, known)
		}
	})
}
