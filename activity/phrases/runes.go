package phrases

import (
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// class says how a code point takes part in units.
type class uint8

const (
	unknown   class = iota // not looked up yet
	other                  // separates units: spaces, punctuation, most symbols, controls
	letter                 // part of a word
	digit                  // part of a word
	glyph                  // a letter of a script without spaces: a unit, with its marks
	mark                   // belongs to the code point before it
	emoji                  // a unit, with its modifiers, and with emoji that are joined to it
	regional               // two of them are a flag
	modifier               // a skin tone: part of an emoji, ignored elsewhere
	tag                    // a letter of the region of a flag: part of an emoji, ignored elsewhere
	joiner                 // ZWJ joins two emoji, and is ignored elsewhere
	ignorable              // removed before anything else is looked at
)

// traits are further properties of a code point.
type traits uint8

const (
	ready    traits = 1 << iota // table.find has found its form
	attaches                    // it is a mark, or may compose with the code point before it
	inert                       // it composes with nothing
	atomic                      // it has no canonical decomposition
	settled                     // a mark that composes with nothing before it
	bare                        // it loses marks that do not compose with it
	general                     // a mark of no script: every letter loses it
)

const (
	zwj    = '\u200d'
	slash  = '\u0338' // composes with ↔, and with no other emoji
	keycap = '\u20e3' // the box around a digit, # or *

	// The vowel am of Thai belongs to the letter before it. In NFKC it is nikhahit, a mark, and the
	// letter aa. All three of Lao are lao code points further on.
	thaiAm, nikhahit, aa = '\u0e33', '\u0e4d', '\u0e32'
	lao                  = 0x80

	// astral is where the planes begin that hold only ideographs, tags and private letters.
	astral = 0x20000

	pageBits = 7
	pageSize = 1 << pageBits
)

// char holds the properties of a code point.
type char struct {
	// form is the canonical form if that is one code point. If it is several or none, form is
	// negative, and ^form is its index in table.forms. Marks have themselves as form, or -1 if they
	// are not in NFKC.
	form   rune
	class  class
	traits traits
	ccc    uint8 // canonical combining class
}

func (c char) is(t traits) bool { return c.traits&t != 0 }

// table remembers the properties of code points, because to find them takes far longer than to cut
// a text. It has an entry of 8 bytes for each code point below astral, in pages that are allocated
// when a text has one of their code points.
type table struct {
	pages  [astral >> pageBits]*[pageSize]char
	forms  []string
	folder cases.Caser

	compositions map[string]string // of composed

	// Buffers of find, canonical and foldCase.
	one           []byte
	first, second []byte
	lower         [utf8.UTFMax]byte
	folded        [4 * utf8.UTFMax]byte
}

func newTable() *table {
	return &table{folder: cases.Fold(), compositions: make(map[string]string)}
}

// of returns the properties of r.
func (t *table) of(r rune) char {
	if r < astral {
		if page := t.pages[r>>pageBits]; page != nil && page[r%pageSize].is(ready) {
			return page[r%pageSize]
		}
	}
	return t.find(r)
}

// kind returns the properties of r without its form. Only of has that.
func (t *table) kind(r rune) char {
	if r >= astral {
		return properties(r)
	}
	page := t.pages[r>>pageBits]
	if page == nil {
		page = new([pageSize]char)
		t.pages[r>>pageBits] = page
	}
	c := &page[r%pageSize]
	if c.class == unknown {
		*c = properties(r)
	}
	return *c
}

// find returns the properties of r with its form, and remembers them below astral.
func (t *table) find(r rune) char {
	c := t.kind(r)
	switch c.class {
	case mark, emoji, regional, modifier, tag, joiner, ignorable:
	default:
		t.one = t.canonical(t.one[:0], utf8.AppendRune(t.one[:0], plain(r)))
		if form, size := utf8.DecodeRune(t.one); size > 0 && size == len(t.one) {
			c.form = form
			c.traits = c.traits&^attaches | t.kind(form).traits&attaches
		} else if r < astral {
			c.form = ^rune(len(t.forms))
			t.forms = append(t.forms, string(t.one))
		}
	}
	c.traits |= ready
	if r < astral {
		t.pages[r>>pageBits][r%pageSize] = c
	}
	return c
}

// properties returns the properties of r itself, with r in place of its form.
func properties(r rune) char {
	s := string(r)
	info := norm.NFKC.PropertiesString(s)
	c := char{form: r, class: classOf(r), ccc: info.CCC()}
	set := func(t traits, when bool) {
		if when {
			c.traits |= t
		}
	}
	set(inert, info.BoundaryAfter())
	set(atomic, norm.NFD.IsNormalString(s))
	set(attaches, c.class == mark || !info.BoundaryBefore())
	switch c.class {
	case letter, digit:
		set(bare, unicode.In(r, unicode.Latin, unicode.Greek, unicode.Cyrillic, unicode.Arabic,
			unicode.Hebrew) || c.class == digit && unicode.Is(unicode.Common, r))
	case emoji, regional:
		set(bare, true)
	case mark:
		const ideograph = "\u4e00"
		set(settled, norm.NFKC.QuickSpanString(ideograph+s) == len(ideograph+s))
		set(general, isGeneral(r))
		if !norm.NFKC.IsNormalString(ideograph + s) {
			c.form = -1
		}
	default:
	}
	return c
}

func classOf(r rune) class {
	s := string(r)
	switch {
	case r == zwj:
		return joiner
	case r >= 0x1f3fb && r <= 0x1f3ff:
		return modifier
	case r >= 0xe0020 && r <= 0xe007f:
		return tag
	case isIgnorable(r):
		return ignorable
	case r >= astral && r < 0x3fffe:
		return glyph // also ideographs that are newer than the tables
	case unicode.Is(unicode.M, r), isAm(r):
		return mark
	case joined("a"+s) && !joined(s+"a"): // Extend or Format of UAX 29
		if unicode.Is(unicode.Cf, r) {
			return ignorable
		}
		return mark
	case isGlyph(r):
		return glyph
	case isWordLetter(s):
		return letter
	case joined(s + ".1"):
		return digit
	case joined(s + "\U0001f1e6"):
		return regional
	case joined(string(zwj)+s) && r != '©' && r != '®' && norm.NFKC.IsNormalString(s):
		return emoji
	default:
		return other
	}
}

func isAm(r rune) bool { return r == thaiAm || r == thaiAm+lao }

// joined reports whether UAX 29 finds no word boundary in s. The answers for a code point beside
// others tell its word-break property, which the library does not export.
func joined(s string) bool {
	segments := words.FromString(s)
	return segments.Next() && segments.End() == len(s)
}

// isWordLetter reports whether s is a letter for UAX 29: an apostrophe and a letter join it.
func isWordLetter(s string) bool { return joined(s + "'a") }

// isGlyph reports whether r is a letter of a script that is written without spaces: a letter that
// UAX 29 does not join to others, or one of these scripts.
func isGlyph(r rune) bool {
	if !unicode.In(r, unicode.L, unicode.Nl) {
		return false
	}
	return unicode.In(r,
		unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Tibetan, unicode.Javanese,
		unicode.Balinese, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar,
		unicode.Tai_Le, unicode.New_Tai_Lue, unicode.Tai_Tham, unicode.Tai_Viet, unicode.Ahom,
	) || !isWordLetter(string(r))
}

// isIgnorable reports whether r is a default-ignorable code point, or an Arabic tatweel.
func isIgnorable(r rune) bool {
	const tatweel = '\u0640'
	switch {
	case r == tatweel || r >= 0xe0000 && r <= 0xe0fff:
		return true
	case unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
		return true
	case unicode.Is(unicode.Prepended_Concatenation_Mark, r):
		return false // a sign before digits
	default:
		return unicode.Is(unicode.Cf, r)
	}
}

// isGeneral reports whether r is in a block of combining marks that belong to no script.
func isGeneral(r rune) bool {
	return r >= 0x300 && r <= 0x36f || r >= 0x1ab0 && r <= 0x1aff || r >= 0x1dc0 && r <= 0x1dff ||
		r >= 0x20d0 && r <= 0x20ff || r >= 0xfe20 && r <= 0xfe2f
}
