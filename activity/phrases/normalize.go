package phrases

import "unicode/utf8"

// edit says that the normalised text from norm until normEnd stands for the original from orig
// until origEnd. Between edits, the two have the same length.
type edit struct{ norm, normEnd, orig, origEnd int }

// base is the last code point that marks may follow, and the marks that did.
type base struct {
	char           // of its form, if that is one code point
	norm, orig int // where it begins

	marks  uint8 // marks in the normalised text
	ccc    uint8 // combining class of the last of them
	closed bool  // the last code point of the normalised text composes with nothing
	joined bool  // ZWJ follows
}

// keycapByte is the first byte of a keycap's box.
const keycapByte = 0xe2

// normalized is a text in canonical characters, with all that separates units. It keeps its memory
// for the next text.
type normalized struct {
	norm    []byte
	classes []byte // the class of each byte of norm that is not ASCII; empty if all are ASCII
	edits   []edit // that lead from the original to norm
	reread  int    // bytes and edits that were looked at again, for tests

	base  base
	raw   []byte // of compose
	table *table // nil until a text is not ASCII
}

// set replaces the text by s. For a text that is ASCII, ascii chooses the faster of two ways to the
// same characters.
func (t *normalized) set(s string, ascii bool) {
	t.norm, t.classes, t.edits, t.reread = t.norm[:0], t.classes[:0], t.edits[:0], 0
	if ascii {
		t.norm = lower(t.norm, s)
		return
	}
	if t.table == nil {
		t.table = newTable()
	}
	t.normalize(s)
}

// lower appends s, which is ASCII, in lower case.
func lower(to []byte, s string) []byte {
	n := len(to)
	to = append(to, s...)
	for i, b := range to[n:] {
		if b-'A' < 26 {
			to[n+i] = b + 'a' - 'A'
		}
	}
	return to
}

// normalize sets the normalised text, and the edits that lead from s to it. Each byte that is not
// UTF-8 becomes a space.
func (t *normalized) normalize(s string) {
	t.base = base{}
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			from := i
			for i < len(s) && s[i] < utf8.RuneSelf {
				i++
			}
			t.norm = lower(t.norm, s[from:i])
			t.classes = append(t.classes, s[from:i]...) // no classes, but as many bytes
			t.setBase(i-1, len(t.norm)-1, t.table.of(rune(t.norm[len(t.norm)-1])))
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			t.norm, t.classes = append(t.norm, ' '), append(t.classes, 0)
			t.base = base{}
			i++
			continue
		}
		c := t.table.of(r)
		if c.form == r && c.class <= glyph && !c.is(attaches) {
			t.setBase(i, len(t.norm), c)
			t.push(s[i:i+size], c.class)
			i += size
			continue
		}
		i = t.add(s, i, i+size, r, c)
	}
}

// push appends a code point that is not ASCII, and its class.
func (t *normalized) push(s string, c class) {
	t.norm = append(t.norm, s...)
	switch b := byte(c); len(s) {
	case 2:
		t.classes = append(t.classes, b, b)
	case 3:
		t.classes = append(t.classes, b, b, b)
	default:
		t.classes = append(t.classes, b, b, b, b)
	}
}

// classify appends the classes of the normalised text that has none yet.
func (t *normalized) classify() {
	for p := len(t.classes); p < len(t.norm); {
		r, size := utf8.DecodeRune(t.norm[p:])
		c := t.table.kind(r).class
		for range size {
			t.classes = append(t.classes, byte(c))
		}
		p += size
	}
}

func (t *normalized) setBase(orig, norm int, c char) {
	b := &t.base // field by field: that is faster than a value that is copied
	b.char, b.orig, b.norm = c, orig, norm
	b.marks, b.ccc, b.closed, b.joined = 0, 0, c.is(inert), false
}

// add adds the code point r, which is in s from i until end. If it adds more, it returns where that
// ends, else end.
func (t *normalized) add(s string, i, end int, r rune, c char) int {
	b := &t.base
	switch c.class {
	case ignorable:
		t.remove(i, end)
	case joiner:
		b.joined = b.class == emoji
		t.remove(i, end)
	case modifier, tag:
		const blackFlag = '\U0001f3f4'
		if b.class != emoji || b.marks == maxMarks ||
			c.class == tag && b.form != blackFlag {
			t.remove(i, end)
			break
		}
		t.push(s[i:end], c.class)
		b.marks++
	case mark:
		return t.addMark(s, i, end, r, c)
	default:
		if c.is(attaches) && b.class == letter {
			return t.compose(s)
		}
		t.start(s, i, end, r, c)
	}
	return end
}

// start adds a code point that does not belong to the base before it: the next base.
func (t *normalized) start(s string, i, end int, r rune, c char) {
	from := len(t.norm)
	switch {
	case c.form == r:
		if c.class == emoji && t.base.joined {
			t.push(string(zwj), joiner)
			t.edits = append(t.edits, edit{from, len(t.norm), i, i})
		}
		t.push(s[i:end], c.class)
		t.setBase(i, from, c)
		return
	case c.form >= 0:
		t.norm = utf8.AppendRune(t.norm, c.form)
		t.classify()
		t.setBase(i, from, t.table.of(c.form))
		if len(t.norm)-from == end-i {
			return
		}
	default:
		t.norm = append(t.norm, t.table.forms[^c.form]...)
		t.classify()
		t.base = base{char: c, norm: from, orig: i}
	}
	t.edits = append(t.edits, edit{from, len(t.norm), i, end})
}

// addMark adds a mark, or drops it. If the mark may compose with something, addMark composes the
// base with all of its marks, and returns where they end.
func (t *normalized) addMark(s string, i, end int, r rune, c char) int {
	b := &t.base
	switch {
	case r == keycap && (b.class == digit || b.form == '#' || b.form == '*'):
		return t.compose(s)
	case b.class <= other && isAm(r):
		t.start(s, i, end, r, char{form: r - thaiAm + aa})
	case b.class <= other:
		t.remove(i, end)
	case (b.class == emoji || b.class == regional) && (b.closed || r != slash):
		t.drop(end)
	case isAm(r) && b.class == glyph && b.marks < maxMarks:
		t.addAm(i, end, r-thaiAm)
	case !b.is(atomic) || c.form < 0 || !c.is(settled) && !b.closed:
		return t.compose(s)
	case c.is(general) || b.is(bare):
		t.drop(end)
	case c.ccc != 0 && c.ccc < b.ccc || b.marks == maxMarks:
		return t.compose(s)
	default:
		t.push(s[i:end], mark)
		b.marks++
		b.ccc, b.closed = c.ccc, c.is(inert)
	}
	return end
}

// addAm adds the vowel am of Thai, or of the script offset from it, to the letter before it.
func (t *normalized) addAm(i, end int, offset rune) {
	from := len(t.norm)
	t.push(string(nikhahit+offset), mark)
	t.setBase(i, len(t.norm), t.table.of(aa+offset))
	t.push(string(aa+offset), glyph)
	t.edits = append(t.edits, edit{from, len(t.norm), i, end})
}

// compose replaces the base in the normalised text by the canonical form of the base and all that
// belongs to it. It returns where that ends.
func (t *normalized) compose(s string) (end int) {
	b := t.base
	t.norm, t.classes = t.norm[:b.norm], t.classes[:b.norm]
	t.forget(b.orig)
	end = t.collect(s, b.orig)
	t.norm = t.table.composed(t.norm, t.raw)
	t.classify()
	t.edits = append(t.edits, edit{b.norm, len(t.norm), b.orig, end})
	t.base = base{}
	return end
}

// collect sets raw to the code point of s at i and all that belongs to it, without ignorable code
// points. It returns where that ends.
func (t *normalized) collect(s string, i int) (end int) {
	r, size := utf8.DecodeRuneInString(s[i:])
	t.raw = utf8.AppendRune(t.raw[:0], plain(r))
	i += size
	end = i
	for marks, letters := 0, 0; i < len(s); t.reread++ {
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		c := t.table.of(r)
		switch {
		case c.class >= modifier:
			continue
		case c.class == mark:
			marks++
		case c.is(attaches) && letters < rawLetters:
			letters++
		default:
			return end
		}
		end = i
		if c.class != mark || marks <= rawMarks {
			t.raw = utf8.AppendRune(t.raw, r)
		}
	}
	return end
}

// remove records that nothing stands for the original from i until end.
func (t *normalized) remove(i, end int) {
	at := len(t.norm)
	if n := len(t.edits); n > 0 && t.edits[n-1].norm == at {
		t.edits[n-1].origEnd = end
		return
	}
	t.edits = append(t.edits, edit{at, at, i, end})
}

// drop records that the base and its marks stand for the original until end.
func (t *normalized) drop(end int) {
	t.forget(t.base.orig)
	t.edits = append(t.edits, edit{t.base.norm, len(t.norm), t.base.orig, end})
}

// forget removes the edits of the original from orig on.
func (t *normalized) forget(orig int) {
	n := len(t.edits)
	for n > 0 && t.edits[n-1].orig >= orig {
		n--
	}
	t.edits = t.edits[:n]
}

// classAt returns the class of the character of the normalised text at p.
func (t *normalized) classAt(p int) class {
	if p >= len(t.norm) {
		return other
	}
	switch b := t.norm[p]; {
	case b-'a' < 26:
		return letter
	case b-'0' < 10:
		return digit
	case b < utf8.RuneSelf:
		return other
	}
	return class(t.classes[p])
}

// skip returns where the character at p ends.
func (t *normalized) skip(p int) (end int) {
	end = p + 1
	for end < len(t.norm) && !utf8.RuneStart(t.norm[end]) {
		end++
	}
	return end
}

// isKeycap reports whether a keycap is at p: one character in a box.
func (t *normalized) isKeycap(p int) bool {
	const box = string(keycap)
	return len(t.norm)-p > len(box) && string(t.norm[p+1:p+1+len(box)]) == box
}
