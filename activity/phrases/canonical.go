package phrases

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	// maxMarks is the largest number of marks that stay on a letter.
	maxMarks = 8
	// maxBareMarks is the largest number of marks on a letter that loses marks. Those that compose
	// stay if there are no more. Unicode composes at most 3.
	maxBareMarks = 4
	// rawMarks is the largest number of marks that are composed with one code point. Each of them
	// decomposes to at most two, and package norm inserts a joiner after 30.
	rawMarks = 12
	// rawLetters is the largest number of letters that are composed with the code point before
	// them: the vowel and the final consonant of a syllable of Hangul.
	rawLetters = 2
	// maxCompositions is the largest number of forms that a table remembers, and maxRemembered the
	// largest length of their originals in bytes.
	maxCompositions = 2048
	maxRemembered   = 24
)

// composed appends the canonical form of a code point and its marks, and remembers it.
func (t *table) composed(to, raw []byte) []byte {
	if len(raw) > maxRemembered {
		return t.canonical(to, raw)
	}
	if form, ok := t.compositions[string(raw)]; ok {
		return append(to, form...)
	}
	n := len(to)
	to = t.canonical(to, raw)
	if len(t.compositions) == maxCompositions {
		clear(t.compositions)
	}
	t.compositions[string(raw)] = string(to[n:])
	return to
}

// canonical appends the canonical form of a code point and its marks: compatibility composition
// (NFKC) and case folding, without the marks that are dropped. A canonical form is its own form.
func (t *table) canonical(to, raw []byte) []byte {
	t.first = t.bound(norm.NFKD.Append(t.first[:0], raw...))
	t.second = t.strip(norm.NFKC.Append(t.second[:0], t.first...))
	t.first = t.fold(t.first[:0], t.second)
	return append(to, norm.NFKC.Append(t.second[:0], t.first...)...)
}

// bound drops from decomposed text, in place, marks beyond the largest number. A letter from which
// marks may be dropped loses all of them if they are too many: such text is defaced.
func (t *table) bound(text []byte) []byte {
	bounded := text[:0]
	var base char
	end, marks := 0, 0 // of the base
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		c := t.kind(r)
		i += size
		if c.class != mark {
			bounded = append(bounded, text[i-size:i]...)
			base, end, marks = c, len(bounded), 0
			continue
		}
		marks++
		switch {
		case base.is(bare) && marks > maxBareMarks:
			bounded = bounded[:end]
		case marks <= maxMarks:
			bounded = append(bounded, text[i-size:i]...)
		}
	}
	return bounded
}

// strip drops from composed text, in place, ignorable code points, marks without a base, general
// marks, and all marks on letters that lose them.
func (t *table) strip(text []byte) []byte {
	stripped := text[:0]
	var base char
	end := 0 // of the base
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		c := t.kind(r)
		drop := c.class == ignorable
		if c.class == mark {
			drop = base.class <= other || base.is(bare) || c.is(general)
			if r == keycap && end == len(stripped) && endsInKey(stripped) {
				drop = false
			}
		}
		if !drop {
			stripped = append(stripped, text[i:i+size]...)
		}
		if !drop && c.class != mark {
			base, end = c, len(stripped)
		}
		i += size
	}
	return stripped
}

// endsInKey reports whether text ends in a character that may stand in a keycap.
func endsInKey(text []byte) bool {
	if len(text) == 0 {
		return false
	}
	b := text[len(text)-1]
	return b >= '0' && b <= '9' || b == '#' || b == '*'
}

// fold appends text in folded case. Of apostrophes and of the letters i it keeps one each.
func (t *table) fold(to, text []byte) []byte {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		i += size
		switch r {
		case '’', '‘', '‛', 'ʼ', '׳':
			to = append(to, '\'')
		case '״':
			to = append(to, '"')
		case 'ı':
			to = append(to, 'i')
		default:
			to = t.foldCase(to, r)
		}
	}
	return to
}

// foldCase appends the folded case of r. It folds the lower case, because the folder exchanges
// upper and lower case of Cherokee letters.
func (t *table) foldCase(to []byte, r rune) []byte {
	n := utf8.EncodeRune(t.lower[:], unicode.ToLower(r))
	n, _, _ = t.folder.Transform(t.folded[:], t.lower[:n], true) // at most three code points
	return append(to, t.folded[:n]...)
}

// plain returns a space for the sign of a trademark, and other code points as they are. In NFKC,
// the sign would add letters to the name before it.
func plain(r rune) rune {
	if r == '™' || r == '℠' {
		return ' '
	}
	return r
}
