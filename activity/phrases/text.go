package phrases

import (
	"slices"
	"unicode/utf8"
)

// Text is a text that is cut into units. The zero value has none. A Text keeps its memory for the
// next text, so use one Text for many, one after the other. It is not safe for concurrent use.
type Text struct {
	normalized

	buf   []byte // the canonical form of the whole text
	units []unit

	mapped  int // edits that end before the last unit begins
	wordEnd int // where the last word or handle ends in norm; -1: there is none
}

// unit is a unit of a text.
type unit struct {
	start, end  int // in buf
	from, until int // in the original
	words       int // that begin in the text until the end of this unit
	kind        unitKind
}

// unitKind is what stands between a unit and its neighbours, and how it counts.
type unitKind uint8

const (
	wordUnit  unitKind = iota // a word, handle or emoji: a space on both sides
	hashUnit                  // the # of a hashtag: no space after it, and no word
	glyphUnit                 // of a script without spaces: several in a row are one word
)

// Cut cuts s into units, in place of those of the text before. Slices that Phrase returned are no
// longer valid. It takes time and memory in proportion to len(s), whatever s is.
func (t *Text) Cut(s string) { t.cut(s, isASCII(s)) }

// cut is Cut. For a text that is ASCII, ascii chooses the faster of two ways to the same units.
func (t *Text) cut(s string, ascii bool) {
	t.set(s, ascii)
	t.buf, t.units, t.mapped, t.wordEnd = t.buf[:0], t.units[:0], 0, -1
	for p := 0; p < len(t.norm); {
		switch b := t.norm[p]; {
		case isWordByte(b):
			p = t.word(p)
		case b < utf8.RuneSelf:
			p = t.sign(p)
		default:
			p = t.wide(p)
		}
	}
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// Units returns the number of units.
func (t *Text) Units() int { return len(t.units) }

// Phrase returns the canonical form of n units, of which i, counted from 0, is the first. It is
// valid until the next Cut, and the caller must not change it. It is nil if there are fewer units,
// or if they are more than a phrase may have; then it is nil for each larger n, too. If the last of
// the units is the # of a hashtag, the result is no phrase that can be recorded.
func (t *Text) Phrase(i, n int) []byte {
	if i < 0 || n < 1 || n > MaxUnits || n > len(t.units)-i {
		return nil
	}
	first, last := &t.units[i], &t.units[i+n-1]
	if last.end-first.start > MaxBytes || t.wordsOf(i, n) > MaxWords {
		return nil
	}
	return t.buf[first.start:last.end:last.end]
}

// wordsOf returns the number of words in n units from unit i on.
func (t *Text) wordsOf(i, n int) int {
	words := t.units[i+n-1].words - t.units[i].words
	if t.units[i].kind != hashUnit {
		words++ // the unit at i, also if its word began before it
	}
	return words
}

// Place returns where n units from unit i on stand in the text that was cut: at the bytes from
// until before until. A character such as ㍿ stands for several units, and is in the place of each.
// Place panics if there are fewer units, or if n is 0.
func (t *Text) Place(i, n int) (from, until int) {
	return t.units[i].from, t.units[i+n-1].until
}

// Find returns where a phrase in canonical form stands first in the text that was cut: at the bytes
// from until before until. If it stands nowhere, until is 0.
func (t *Text) Find(phrase string) (from, until int) {
	for i := range t.units {
		for n := 1; ; n++ {
			p := t.Phrase(i, n)
			if p == nil || len(p) > len(phrase) {
				break
			}
			if string(p) == phrase {
				return t.Place(i, n)
			}
		}
	}
	return 0, 0
}

// emit adds a unit, which is in norm from start until end, and returns end.
func (t *Text) emit(kind unitKind, start, end int) int {
	words := 0
	if kind != hashUnit {
		words = 1
	}
	n := len(t.units)
	if n > 0 {
		last := &t.units[n-1]
		words += last.words
		switch {
		case last.kind == glyphUnit && kind == glyphUnit:
			words--
		case last.kind != hashUnit:
			t.buf = append(t.buf, ' ')
		}
	}
	t.units = slices.Grow(t.units, 1)[:n+1]
	u := &t.units[n]
	u.kind, u.words = kind, words
	u.from, u.until = t.original(start, end)
	u.start = len(t.buf)
	t.buf = append(t.buf, t.norm[start:end]...)
	u.end = len(t.buf)
	return end
}

// original returns where in the original a unit is that is in norm from start until end. Units must
// be given in their order.
func (t *Text) original(start, end int) (from, until int) {
	for t.mapped < len(t.edits) && t.edits[t.mapped].normEnd <= start {
		t.mapped++
	}
	from, until = start, end
	if t.mapped > 0 {
		e := &t.edits[t.mapped-1]
		from += e.origEnd - e.normEnd
		until += e.origEnd - e.normEnd
	}
	for i := t.mapped; i < len(t.edits) && t.edits[i].norm < end; i++ {
		e := &t.edits[i]
		if e.norm <= start {
			from = e.orig
		}
		until = e.origEnd + max(0, end-e.normEnd)
		t.reread++
	}
	return from, until
}
