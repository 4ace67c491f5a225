package pages

import (
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/phrases"
	"github.com/feedfilter/feedfilter/favfilter"
)

// Phrases are looked for in texts, which have as many of them as units, times their number of
// units. A page says by marks which of these are worth a look:
//
//	word-mute+:U1_phrase:         user 1 has some phrase of the kind
//	word-mute+:U1_phrase:climate  user 1 has a phrase that begins so, and is longer
//
// Nearly all texts are not even cut into units, because most users have no phrase. In others, two
// look-ups for each unit find nearly all that there is to find. Marks go up to the third beginning
// of a phrase: 選, 選挙 and 選挙速 of 選挙速報. Without the second and third, texts in scripts that
// are written without spaces would take five to eight times as long (BenchmarkPhrases of package
// feed). A page that has been rebuilt has the marks of its keys, and no others. Until then it may
// have marks of phrases that were removed. Those cost time alone.
//
// The other side of a phrase is on the page of its head, instead of one for each phrase: see
// [PhraseHash]. So a fan-out reads a page for each unit of a text. Marks on that page say which of
// the phrases with this head anybody has:
//
//	word-mute-of:U_phrase:climate change  somebody has this phrase
//	word-mute-of+:U_phrase:climate        somebody has a phrase that begins so, and is longer

// Phrases finds those phrases in a page that an owner has of a kind, or that anybody has.
type Phrases struct {
	keys, marks favfilter.Start
	any         favfilter.Hash
}

// PhrasesOf returns how to find the phrases that the owner has of the kind, whose keys have the
// weight. They are on the owner's page. Without an owner, they are those that anybody has, where
// kind is that of rows on the other side. They are on the pages of their heads.
func PhrasesOf(seed uint64, kind, owner, facet string, weight uint8) Phrases {
	p := Phrases{
		keys:  KeyStart(seed, kind, owner, facet),
		marks: KeyStart(seed, kind+"+", owner, facet), // no kind has a name with a plus sign
	}
	p.keys.Extra = weight
	p.any = p.marks.With(favfilter.HashKey(seed, ""))
	return p
}

// markedBeginnings is the number of beginnings of a phrase that have a mark: its head, and those
// with one and two units more.
const markedBeginnings = 3

// maxMarks is the largest number of marks of one phrase.
const maxMarks = 1 + markedBeginnings

// Any reports whether the page may have any phrase of the owner.
func (p *Phrases) Any(page *favfilter.Page) bool { return page.Contains(p.any) }

// CutText is a text in which phrases are looked for. It is not safe for concurrent use.
type CutText struct {
	phrases.Text

	Seed uint64 // of the filter
	End  int    // units from here on are not looked at
}

// HeadAt returns the hash of the head that begins with unit at, and its number of units. If it ends
// after End, HeadAt returns false.
func (t *CutText) HeadAt(at int) (head favfilter.Hash, n int, ok bool) {
	if n = t.Head(at); at+n > t.End {
		return head, n, false
	}
	return favfilter.HashKeyBytes(t.Seed, t.Phrase(at, n)), n, true
}

// PhraseHash returns the hash that places the other side of a phrase in canonical form: that of a
// user with the name of the phrase's head. In the page of the text "climate change is real" are all
// phrases that begin with climate, change, is or real.
func PhraseHash(seed uint64, phrase string) uint64 {
	return UserHash(seed, phrases.Head(phrase))
}

// appendMarks appends the marks of a row with a phrase.
func appendMarks(
	to []favfilter.Hash, seed uint64, row *ledger.Row, k RowKind,
) []favfilter.Hash {
	var of Phrases
	var first favfilter.Hash
	phrase := row.Target
	if !k.ownsPhrases() {
		of = PhrasesOf(seed, row.Kind, row.Owner, k.Target, k.Weight)
		first = of.any
	} else {
		phrase = row.Owner
		of = PhrasesOf(seed, row.Kind, "", k.Owner, k.Weight)
		first = of.keys.With(favfilter.HashKey(seed, phrase))
	}
	to = append(to, first)
	var text phrases.Text
	text.Cut(phrase)
	if text.Units() == 0 {
		return to
	}
	for n := text.Head(0); n < min(text.Units(), text.Head(0)+markedBeginnings); n++ {
		to = append(to, of.marks.With(favfilter.HashKeyBytes(seed, text.Phrase(0, n))))
	}
	return to
}
