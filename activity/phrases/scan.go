package phrases

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// isWordByte reports whether b is a letter or a digit of ASCII, in lower case.
func isWordByte(b byte) bool { return b-'a' < 26 || b-'0' < 10 }

// sign cuts at a character of ASCII that is neither a letter nor a digit.
func (t *Text) sign(p int) (next int) {
	switch t.norm[p] {
	case '#', '*':
		if t.isKeycap(p) {
			return t.emit(wordUnit, p, p+1+len(string(keycap)))
		}
		if t.isHash(p) {
			return t.emit(hashUnit, p, p+1)
		}
	case '@':
		return t.handle(p)
	}
	return p + 1
}

// isHash reports whether the character at p makes a hashtag of what follows.
func (t *Text) isHash(p int) bool {
	if t.norm[p] != '#' {
		return false
	}
	switch t.classAt(p + 1) {
	case letter, digit, glyph, emoji, regional:
		return true
	default:
		return false
	}
}

// handle cuts off the handle that begins with the @ at p. An @ directly after a word begins none:
// that is an address for e-mail.
func (t *Text) handle(p int) (next int) {
	if p == t.wordEnd {
		return p + 1
	}
	end := t.name(p + 1)
	if end == p+1 {
		return end
	}
	if end < len(t.norm) && t.norm[end] == '@' {
		if host := t.name(end + 1); host > end+1 {
			end = host
		}
	}
	t.wordEnd = end
	return t.emit(wordUnit, p, end)
}

// name returns where a name ends that begins at p: letters, digits and underscores, and single dots
// and dashes between them.
func (t *Text) name(p int) (end int) {
	end = p
	for {
		q, _ := t.run(p)
		for q < len(t.norm) && t.norm[q] == '_' {
			q, _ = t.run(q + 1)
		}
		if q == p {
			return end
		}
		end = q
		if q == len(t.norm) || t.norm[q] != '.' && t.norm[q] != '-' {
			return end
		}
		p = q + 1
	}
}

// run returns where a run of letters and digits ends that begins at p, and the class of the last.
func (t *Text) run(p int) (end int, last class) {
	for ; p < len(t.norm); p++ {
		b := t.norm[p]
		switch {
		case b-'a' < 26:
			last = letter
			continue
		case b-'0' < 10:
			last = digit
			continue
		case b < utf8.RuneSelf:
			return p, last
		}
		switch c := class(t.classes[p]); {
		case c == letter || c == digit:
			last = c
		case c != mark:
			return p, last
		case b == keycapByte && t.isKeycap(p-1):
			return p - 1, last
		}
	}
	return p, last
}

// word cuts off the word that begins at start, with the punctuation inside it. An apostrophe ends
// the word if an elided word stands before it or a clitic after it.
func (t *Text) word(start int) (next int) {
	end, last := t.run(start)
	if end == start {
		return t.emit(wordUnit, start, start+1+len(string(keycap)))
	}
	for part := start; end < len(t.norm); {
		r, size := rune(t.norm[end]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(t.norm[end:])
		}
		if !t.goesOn(last, r, end, end+size) {
			break
		}
		if r == '\'' && last == letter && t.elides(part, end) {
			return t.emit(wordUnit, start, end) + size
		}
		part = end + size
		end, last = t.run(part)
	}
	if end == start+1 && t.norm[start]-'a' < 26 {
		end = t.suffix(end)
	}
	t.wordEnd = end
	return t.emit(wordUnit, start, end)
}

// goesOn reports whether a word goes on after the character r, which is in norm from p until next.
// The class of the letter or digit before r is last.
func (t *Text) goesOn(last class, r rune, p, next int) bool {
	const inNumbers, inWords = ".,;'\u2044\u0589\u060c\u060d\u066c\u07f8", "'\u00b7\u2027\u055f"
	within := inNumbers
	if last == letter {
		within = inWords
	}
	if !strings.ContainsRune(within, r) && (r != '"' || last != letter) {
		return false
	}
	if t.classAt(next) != last || t.isKeycap(next) {
		return false
	}
	if r == '"' {
		before, _ := utf8.DecodeLastRune(t.norm[:p])
		after, _ := utf8.DecodeRune(t.norm[next:])
		return unicode.Is(unicode.Hebrew, before) && unicode.Is(unicode.Hebrew, after)
	}
	return true
}

// elides reports whether the apostrophe at p cuts a word. The letters before it begin at part.
func (t *Text) elides(part, p int) bool {
	switch string(t.norm[part:p]) {
	case "c", "d", "j", "l", "m", "n", "s", "t", "v", "qu", "jusqu", "lorsqu", "puisqu", "quoiqu",
		"all", "coll", "dall", "dell", "nell", "quell", "quest", "sant", "sull", "un":
		return true
	}
	for _, clitic := range [...]string{"s", "d", "ll", "re", "ve"} {
		if bytes.HasPrefix(t.norm[p+1:], []byte(clitic)) {
			end, _ := t.run(p + 1)
			t.reread += end - p
			return end == p+1+len(clitic)
		}
	}
	return false
}

// suffix returns where a word such as c++ or c# ends. Its only letter ends at p.
func (t *Text) suffix(p int) (end int) {
	rest := t.norm[p:]
	switch {
	case bytes.HasPrefix(rest, []byte("++")):
		return p + 2
	case len(rest) > 0 && rest[0] == '#' && !t.isHash(p) && !t.isKeycap(p):
		return p + 1
	default:
		return p
	}
}

// wide cuts at a character that is not ASCII.
func (t *Text) wide(p int) (next int) {
	switch class(t.classes[p]) {
	case letter, digit:
		return t.word(p)
	case glyph:
		end := t.skip(p)
		for t.classAt(end) == mark {
			end++
		}
		return t.emit(glyphUnit, p, end)
	case regional:
		end := t.skip(p)
		if t.classAt(end) == regional {
			end = t.skip(end)
		}
		return t.emit(wordUnit, p, end)
	case emoji:
		return t.emit(wordUnit, p, t.sequence(t.skip(p)))
	default:
		return t.skip(p)
	}
}

// sequence returns where a sequence of emoji ends, of which the first ends at p.
func (t *Text) sequence(p int) (end int) {
	for {
		switch t.classAt(p) {
		case modifier, tag:
			p = t.skip(p)
		case joiner:
			p = t.skip(t.skip(p)) // the emoji that is joined
		default:
			return p
		}
	}
}
