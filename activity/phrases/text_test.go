package phrases

import (
	"bytes"
	"strings"
	"testing"
	"unicode"

	"github.com/clipperhouse/uax29/v2/graphemes"
	"github.com/clipperhouse/uax29/v2/words"
	"pgregory.net/rapid"
)

func TestUnits(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{" \t\r\n\u0085\u2028", ""},
		{"Hello, World! (again)", "hello|world|again"},
		{"snow-ball it—is “so”", "snow|ball|it|is|so"},

		// Hashtags.
		{"#Tag ＃tag ﹟tag", "#|tag|#|tag|#|tag"},
		{"# tag #, ##tag tag#", "tag|#|tag|tag"},
		{"#a#b #1 #日本 #👍 #🇩🇪 #\u0301x", "#|a|#|b|#|1|#|日|本|#|👍|#|🇩🇪|#|x"},
		{"#foo_bar #@a #😀x", "#|foo|bar|@a|#|😀|x"},
		{"a#b", "a|#|b"},

		// Handles.
		{"@alice, @Alice.bsky.social. @alice@Mastodon.social!", "@alice|@alice.bsky.social|@alice@mastodon.social"},
		{"＠alice ﹫alice .@alice (@alice)", "@alice|@alice|@alice|@alice"},
		{"@a.b-c_d @a..b @a.-b @-a @_a_ @a-", "@a.b-c_d|@a|b|@a|b|a|@_a_|@a"},
		{"@a@b@c @a@ @a@@b @@a", "@a@b|c|@a|@a|@b|@a"},
		{"@alice's @müller @Мария", "@alice|s|@müller|@мария"},
		{"@ alice @. @", "alice"},
		{"a@b.example first.last@b.example a+b@c", "a|b|example|first|last|b|example|a|b|c"},
		{"@aliceさん@b @田中 日@b", "@alice|さ|ん|@b|田|中|日|@b"},
		{"c++@b 👍@b", "c++|b|👍|@b"},

		// Emoji.
		{"❤ ❤️ ❤︎", "❤|❤|❤"},
		{"👍👍🏽👍🏿x", "👍|👍🏽|👍🏿|x"},
		{"👩‍❤️‍💋‍👩👨‍👩‍👧", "👩‍❤‍💋‍👩|👨‍👩‍👧"},
		{"👩‍ 👩‍a 👩\u200d\u200d\ufe0f👩", "👩|👩|a|👩\u200d👩"},
		{"🏳️‍🌈🏴‍☠️🏴󠁧󠁢󠁥󠁮󠁧󠁿🏴", "🏳‍🌈|🏴‍☠|🏴󠁧󠁢󠁥󠁮󠁧󠁿|🏴"},
		{"🇩🇪🇫🇷🇦 🇧 🇩\u200b🇪", "🇩🇪|🇫🇷|🇦|🇧|🇩🇪"},
		{"1️⃣ 1⃣ 21️⃣ a2⃣b #️⃣ *⃣ a1.2⃣ 1️", "1⃣|1⃣|2|1⃣|a|2⃣|b|#⃣|*⃣|a1|2⃣|1"},
		{"a⃣ ٣⃣ 👍⃣ 👍\u0336", "a|٣|👍|👍"},
		{"trump🏽 trump\U000e0067 👍\U000e0067 日🏽", "trump|trump|👍|日"},
		{"© ® ™ ℠ ℹ Ⓜ ㊗ 🈁 ↔ ↮ ↔\u0338 ★", "i|m|祝|コ|コ|↔"},
		{"Disney™ x℠y Intel®", "disney|x|y|intel"},

		// Scripts without spaces.
		{"選挙、速報 です。", "選|挙|速|報|で|す"},
		{"がガﾊﾟー々〇𠮷", "が|ガ|パ|ー|々|〇|𠮷"},
		{"日x本1語", "日|x|本|1|語"},
		{"น้ำ ทำไม ๑๒", "น้ํ|า|ทํ|า|ไ|ม|๑๒"},
		{"\u0e33ก \u0e49ก", "า|ก|ก"},
		{"ນ້ຳ", "ນ້ໍ|າ"},
		{"ខ្មែរ", "ខ្|មែ|រ"},
		{"မြန်မာ", "မြ|န်|မာ"},
		{"བོད་ཡིག", "བོ|ད|ཡི|ག"},
		{"ꦲꦏ꧀ꦱꦫ", "ꦲ|ꦏ꧀|ꦱ|ꦫ"},
		{"か゚か\u0301か\u093f", "か゚|か|か\u093f"},
		{"㍿ ﷺ ㎏ ½ ⑴", "株|式|会|社|صلى|الله|عليه|وسلم|kg|1⁄2|1"},

		// URLs, numbers and abbreviations.
		{"https://example.com/foo-bar?x=1", "https|example|com|foo|bar|x|1"},
		{"www.example.com/a_b/@alice#top", "www|example|com|a|b|@alice|#|top"},
		{"http://[::1]:80/%20x 1.2.3.4:80", "http|1|80|20x|1.2.3.4|80"},
		{"_trump_ *trump* ~trump~ foo_bar __init__ a‿b", "trump|trump|trump|foo|bar|init|a|b"},
		{"U.S.A. node.js a.1 1.a v1.0 3.14. 1,000; 1'000 10:30 24/7 1. 2", "u|s|a|node|js|a|1|1|a|v1.0|3.14|1,000|1'000|10|30|24|7|1|2"},
		{"AT&T $5 5€ 100% LGBTQ+ R&B k:a ", "at|t|5|5|100|lgbtq|r|b|k|a"},
		{"c++ C# c++17 c+ c# c#x #c# #c++ ab++ ab# é++ 1++ c#️⃣ l'c++", "c++|c#|c++|17|c|c#|c|#|x|#|c#|#|c++|ab|ab|é|1|c|#⃣|l|c++"},

		// Apostrophes.
		{"Trump's TRUMP’S trump'll they've you're he'd", "trump|s|trump|s|trump|ll|they|ve|you|re|he|d"},
		{"don't don’t dont I'm o'clock O'Brien y'all aujourd'hui", "don't|don't|dont|i'm|o'clock|o'brien|y'all|aujourd'hui"},
		{"l'homme L’homme d‘or jusqu'à qu'il dell'acqua un'altra", "l|homme|l|homme|d|or|jusqu|à|qu|il|dell|acqua|un|altra"},
		{"all'x coll'x dall'x quell'x quest'x sant'x sull'x nell'x lorsqu'x puisqu'x quoiqu'x", "all|x|coll|x|dall|x|quell|x|quest|x|sant|x|sull|x|nell|x|lorsqu|x|puisqu|x|quoiqu|x"},
		{"c'x j'x m'x n'x s'x t'x v'x dont'x", "c|x|j|x|m|x|n|x|s|x|t|x|v|x|dont'x"},
		{"'quoted' ''s 's trumps' rock'n'roll x's's d'l'x l'", "quoted|s|s|trumps|rock'n|roll|x|s|s|d|l|x|l"},
		{"1990's don'ts x'so м'ята l'日 l'1", "1990|s|don'ts|x'so|м'ята|l|日|l|1"},
		{"col·lecció צה\"ל צה״ל \"שלום\" ג'ורג' a\"b", "col·lecció|צה\"ל|צה\"ל|שלום|ג'ורג|a|b"},

		// Bytes that are not UTF-8.
		{"a\xffb\xe2\x82 \xed\xa0\x80c #\xffx e\xff\u0301x", "a|b|c|x|e|x"},
		{"\xf4\x90\x80\x80\U0010ffff\ufffd\ue000\x00", ""},
	} {
		if got := joinedUnits(c.text); got != c.want {
			t.Errorf("%q:\n is %q,\nwant %q", c.text, got, c.want)
		}
	}
}

// TestContains: what a phrase is found in, and what not.
func TestContains(t *testing.T) {
	for _, c := range []struct {
		phrase  string
		in, out []string
	}{
		{"tag", []string{"#tag", "a tag.", "＃ＴＡＧ", "x-tag/y"}, []string{"@tag", "tags", "#tags"}},
		{"#tag", []string{"a #tag!", "##tag", "#tag#x"}, []string{"tag", "# tag", "#tags", "@tag"}},
		{"@alice", []string{"hi @Alice!", ".@alice"}, []string{"alice", "@alice.bsky.social", "@alice@b.example", "@alicex", "x@alice"}},
		{"alice", []string{"alice", "#alice", "alice@b.example"}, []string{"@alice", "@alice@b.example", "@b@alice.example"}},
		{"new york", []string{"New York's", "new-york", "NEW\nYORK", "#new york"}, []string{"newyork", "new 👍 york", "york new", "#new #york"}},
		{"example.com", []string{"https://www.example.com/x", "a@example.com", "example com"}, []string{"@example.com", "examplecom"}},
		{"don't", []string{"I don’t know"}, []string{"dont", "don t"}},
		{"👍", []string{"ok👍", "👍👍🏽", "👍️"}, []string{"👍🏽", "👎"}},
		{"❤️", []string{"❤", "I ❤︎ it"}, []string{"💔"}},
		{"選挙", []string{"東京選挙区", "選・挙", "＃選挙"}, []string{"選x挙", "挙選"}},
		{"ラーメン", []string{"豚骨ラーメン屋", "ﾗｰﾒﾝ"}, []string{"ラメン"}},
		{"งาน", []string{"ทำงานหนัก"}, []string{"งา"}},
		{"trump", []string{"Trump’s", "t\u0336r\u0336u\u0336m\u0336p", "#trump", "_trump_", "trump/biden", "тrump trump"}, []string{"trumpet", "тrump", "tr ump"}},
		{"c", []string{"vitamin C", "c'est"}, []string{"c++", "c#"}},
		{"كتاب", []string{"هذا كِتَابٌ"}, []string{"الكتاب"}},
	} {
		for _, text := range c.in {
			if !contains(text, c.phrase) {
				t.Errorf("%q is not found in %q", c.phrase, text)
			}
		}
		for _, text := range c.out {
			if contains(text, c.phrase) {
				t.Errorf("%q is found in %q", c.phrase, text)
			}
		}
	}
}

func TestPhrase(t *testing.T) {
	const s = "Ça, ＃Tag 日・本 a b c d"
	var x Text
	x.Cut(s)
	for _, c := range []struct {
		i, n        int
		want, place string
	}{
		{0, 1, "ça", "Ça"},
		{0, 3, "ça #tag", "Ça, ＃Tag"},
		{1, 1, "#", "＃"},
		{1, 2, "#tag", "＃Tag"},
		{2, 1, "tag", "Tag"},
		{2, 3, "tag 日本", "Tag 日・本"},
		{4, 4, "本 a b c", "本 a b c"},
		{4, 5, "本 a b c d", "本 a b c d"},
		{0, 7, "ça #tag 日本 a b", "Ça, ＃Tag 日・本 a b"},
		{0, 8, "", ""}, // too many words
		{8, 1, "d", "d"},
		{8, 2, "", ""}, // too few units
		{9, 1, "", ""},
		{-1, 1, "", ""},
		{0, 0, "", ""},
		{0, -1, "", ""},
	} {
		got := x.Phrase(c.i, c.n)
		if string(got) != c.want || (got == nil) != (c.want == "") {
			t.Errorf("%d units from %d are %q, want %q", c.n, c.i, got, c.want)
		}
		if got == nil {
			continue
		}
		if from, until := x.Place(c.i, c.n); s[from:until] != c.place {
			t.Errorf("%d units from %d stand in %q, want %q", c.n, c.i, s[from:until], c.place)
		}
		if cap(got) != len(got) {
			t.Errorf("to append to %q changes the text", got)
		}
	}
	if x.Units() != 9 {
		t.Errorf("%d units, want 9", x.Units())
	}
	x.Cut(strings.Repeat("日", 17))
	if x.Phrase(0, 16) == nil || x.Phrase(0, 17) != nil {
		t.Error("17 units are a phrase, or 16 are none")
	}
	x.Cut("b " + strings.Repeat("a", 255))
	if x.Phrase(0, 2) != nil || x.Phrase(1, 1) == nil {
		t.Error("257 bytes are a phrase, or 255 are none")
	}
}

// TestPlace: the place of a unit begins and ends with a character of it, and has the marks that
// were dropped.
func TestPlace(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"  mu\u00adte\u00ad  x", "mu\u00adte|x"},
		{"\u200be\u0301\u0336\u200b\u0336x\u200b", "e\u0301\u0336\u200b\u0336x"},
		{"كِتَابٌ، x", "كِتَابٌ|x"},
		{"Straße İs", "Straße|İs"},
		{"👩\u200d❤\ufe0f\u200d👩\ufe0f 1\ufe0f\u20e3", "👩\u200d❤\ufe0f\u200d👩|1\ufe0f\u20e3"},
		{"ﾊﾟｿ㍿", "ﾊﾟ|ｿ|㍿|㍿|㍿|㍿"},
		{"ทำไ", "ทำ|ำ|ไ"},
		{"L’homme @Ａ.b", "L|homme|@Ａ.b"},
		{"\xff\xffa\xffb e\xff\u0336x", "a|b|e|x"},
	} {
		var x Text
		x.Cut(c.text)
		var places []string
		for i := range x.Units() {
			from, until := x.Place(i, 1)
			places = append(places, c.text[from:until])
		}
		if got := strings.Join(places, "|"); got != c.want {
			t.Errorf("%q:\n has %q,\nwant %q", c.text, got, c.want)
		}
	}
}

// TestLaws: see laws.
func TestLaws(t *testing.T) {
	var l laws
	thorough(t)
	rapid.Check(t, func(t *rapid.T) {
		if err := l.check(texts().Draw(t, "text")); err != nil {
			t.Fatal(err)
		}
	})
}

// TestASCII: the way for ASCII leads to the units to which the way for all texts leads.
func TestASCII(t *testing.T) {
	part := rapid.OneOf(
		rapid.StringOfN(rapid.RuneFrom([]rune("abcdlsxzAIZ019'.,;:_-#@+*/\" ")), 0, 12, -1),
		rapid.StringOfN(rapid.RuneFrom(nil, &unicode.RangeTable{R16: []unicode.Range16{{Hi: 0x7f, Stride: 1}}, LatinOffset: 1}), 0, 8, -1),
	)
	var fast, general Text
	thorough(t)
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOfN(part, 0, 6).Draw(t, "parts"), "")
		fast.cut(s, true)
		general.cut(s, false)
		if !bytes.Equal(fast.buf, general.buf) || len(fast.units) != len(general.units) {
			t.Fatalf("%q is %q, and in general %q", s, fast.buf, general.buf)
		}
		for i, u := range fast.units {
			if u != general.units[i] {
				t.Fatalf("unit %d of %q is %+v, and in general %+v", i, s, u, general.units[i])
			}
		}
	})
}

// TestFound: a phrase is found between any texts, if spaces separate it from them.
func TestFound(t *testing.T) {
	var l laws
	thorough(t)
	rapid.Check(t, func(t *rapid.T) {
		phrase := texts().Draw(t, "phrase")
		canonical, n, err := l.piece.canonical(phrase)
		if err != nil {
			return
		}
		before, after := texts().Draw(t, "before"), texts().Draw(t, "after")
		l.text.Cut(before + " " + phrase + " " + after)
		for i := range l.text.Units() {
			if string(l.text.Phrase(i, n)) == canonical {
				return
			}
		}
		t.Fatalf("%q (%q) is not found between %q and %q", phrase, canonical, before, after)
	})
}

// TestWordsOfUAX29: where no rule of this package applies, units are the words of the library.
func TestWordsOfUAX29(t *testing.T) {
	part := rapid.OneOf(
		sampled("aBéЖωאبتҐԱაᎠकষகఅ가አߊܐ"),
		sampled("12٣१"), sampled("\u0301\u0327\u064e\u05b8\u093e\u094d\u09be\u0bbe\u302e"),
		sampled(" ,;·‧-–/()!?…‿"), rapid.SampledFrom([]string{" ", "\n", ", "}),
	)
	var x Text
	thorough(t)
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOfN(part, 0, 20).Draw(t, "parts"), "")
		x.Cut(s)
		var got, want []string
		for i := range x.Units() {
			from, until := x.Place(i, 1)
			got = append(got, s[from:until])
		}
		for segments := words.FromString(s); segments.Next(); {
			for word := range strings.SplitSeq(segments.Value(), "‿") {
				word = strings.TrimLeftFunc(word, unicode.IsMark)
				if strings.ContainsFunc(word, func(r rune) bool { return unicode.In(r, unicode.L, unicode.N) }) {
					want = append(want, word)
				}
			}
		}
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Fatalf("%q:\n is %q,\nwant %q", s, got, want)
		}
	})
}

// TestGraphemesOfUAX29: units of scripts without spaces, and emoji, are the grapheme clusters of
// the library. To it, some vowel signs of Burmese are clusters of their own, and letters that stand
// below each other are one. Neither is in the test.
func TestGraphemesOfUAX29(t *testing.T) {
	part := rapid.OneOf(
		sampled("日本龍かカぁァっー々กนไາກမကရဥខរཀꦲ👩👍❤🏴"), sampled("\u0e31\u0e49\u0ebb\u1031\u103a\u17b6\u17c6\u0f72\ua9b6\u3099"),
		rapid.SampledFrom([]string{"👩\u200d👩", "👍🏽", "❤\u200d🔥", "🇩🇪", "🏴\U000e0067\U000e007f", "1\u20e3", "#\u20e3"}),
	)
	var x Text
	thorough(t)
	rapid.Check(t, func(t *rapid.T) {
		s := "日" + strings.Join(rapid.SliceOfN(part, 0, 20).Draw(t, "parts"), "")
		x.Cut(s)
		var got, want []string
		for i := range x.Units() {
			from, until := x.Place(i, 1)
			got = append(got, s[from:until])
		}
		for segments := graphemes.FromString(s); segments.Next(); {
			want = append(want, segments.Value())
		}
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Fatalf("%q:\n is %q,\nwant %q", s, got, want)
		}
	})
}

// TestHostile: texts that are made to be slow or large take memory in proportion to their length,
// and what is read again is bounded, too.
func TestHostile(t *testing.T) {
	var l laws
	for _, c := range []struct {
		name, start, part string
		units, bytes      int // largest number, for 5000 parts
	}{
		{"zalgo", "m", "\u0336", 1, 1},
		{"zalgo that composes", "e", "\u0301", 1, 1},
		{"zalgo in Thai", "ก", "\u0e49", 1, 3 + 3*8},
		{"zalgo in Thai with general marks", "ก", "\u0e49\u0336", 1, 3 + 3*maxMarks},
		{"marks that compose", "か", "\u3099", 1, 3 + 3*maxMarks},
		{"marks without a letter", "", "\u0301", 0, 0},
		{"zalgo on emoji", "👍", "\u0336", 1, 4},
		{"skin tones", "👍", "🏽", 1, 4 + 4*8},
		{"tags", "🏴", "\U000e0067", 1, 4 + 4*maxMarks},
		{"ZWJ", "👩", "\u200d", 1, 4},
		{"ZWJ and marks", "a", "\u200d\u0336", 1, 1},
		{"ZWJ between emoji", "👩", "\u200d👩", 1, 4 + 7*5000},
		{"soft hyphens", "a", "\u00ad", 1, 1},
		{"hashtags", "", "#a", 10000, 15000},
		{"hashes", "", "#", 0, 0},
		{"handles", "", "@a", 5000, 15000},
		{"an address", "a", "@a", 5001, 15000},
		{"a handle", "@a", ".a", 1, 10002},
		{"no handle", "x@a", ".a", 5002, 10003},
		{"apostrophes", "a", "'s", 5001, 10001},
		{"apostrophes that stay", "a", "'so", 1, 15001},
		{"a long clitic", "a's", "s", 1, 5003},
		{"dots", "1", ".1", 1, 10001},
		{"quotes", "א", "\"א", 1, 15002},
		{"parts of syllables", "\u1100", "\u1161", 1, 15003},
		{"parts of syllables with hyphens", "\u1100", "\u00ad\u1161", 1, 15003},
		{"half-width parts", "", "ﾡￂ", 1, 15003},
		{"flags", "", "🇩", 2500, 8*2500 + 2499},
		{"keycaps", "", "1\u20e3", 5000, 24999},
		{"characters that stand for many", "", "ﷺ", 15001, 33 * 5000},
		{"letters that fold to two", "", "ß", 1, 10000},
		{"bytes that are not UTF-8", "", "\xf0\x9f", 0, 0},
		{"letters", "", "日", 5000, 15000},
		{"words", "", "a ", 5000, 9999},
	} {
		s := c.start + strings.Repeat(c.part, 5000)
		x := &l.text
		x.Cut(s)
		if x.Units() > c.units || len(x.buf) > c.bytes {
			t.Errorf("%s: %d units of %d bytes, at most %d of %d", c.name, x.Units(), len(x.buf), c.units, c.bytes)
		}
		if x.reread > 6*len(s)+10 {
			t.Errorf("%s: %d bytes or edits are read again, of %d", c.name, x.reread, len(s))
		}
		if used := len(x.norm) + len(x.classes) + 32*len(x.edits); used > 40*len(s)+100 {
			t.Errorf("%s: %d bytes of memory for %d", c.name, used, len(s))
		}
		if len(x.raw) > 100 {
			t.Errorf("%s: %d bytes are composed at once", c.name, len(x.raw))
		}
		if err := l.check(c.start + strings.Repeat(c.part, 20)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestMillionJoiners(t *testing.T) {
	for _, s := range []string{strings.Repeat("\u200d", 1_000_000), strings.Repeat("👩\u200d", 100_000), strings.Repeat("e\u0301\u00ad", 100_000)} {
		var x Text
		x.Cut(s)
		if x.reread > 6*len(s) || len(x.norm) > 2*len(s) {
			t.Errorf("%q...: %d read again", s[:12], x.reread)
		}
	}
}

// TestRemembered: a table does not remember more and more forms.
func TestRemembered(t *testing.T) {
	var x Text
	for base := range rune(64) {
		for mark := range rune(40) {
			x.Cut(string([]rune{'À' + base, 0x300 + mark, 'x'}))
		}
	}
	if n := len(x.table.compositions); n == 0 || n > maxCompositions {
		t.Errorf("%d forms, at most %d", n, maxCompositions)
	}
}

// TestNoAllocations: a Text that was used for such a text before allocates nothing.
func TestNoAllocations(t *testing.T) {
	var x Text
	for _, s := range sampleTexts() {
		x.Cut(s.text)
		if n := testing.AllocsPerRun(20, func() {
			x.Cut(s.text)
			for i := range x.Units() {
				x.Phrase(i, 3)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", s.name, n)
		}
	}
}

func FuzzCut(f *testing.F) {
	for _, s := range []string{
		"Hello, World! It's @alice's #tag: https://example.com/a_b?c=1", "a\xff\xe2\x82#a#b@c@d@e.f", "c++ c# 3.14 l’homme",
		"日本・語ﾊﾟｰが ทำน้ำ ខ្មែរ", "👩\u200d❤️\u200d👩👍🏽🇩🇪🇫1️⃣#️⃣🏴\U000e0067\U000e007f", "كِتَابٌ צה״ל क\u093c्ष কো",
		"e\u0301\u0323\u034f\u0336\u00ad\u0301x", "\u1100\u0301\u1161\u11a8ㄱㅏﾡￂ", "㍿ﷺ½⑴™ſͅᾴ",
	} {
		f.Add(s)
	}
	var l laws
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 200 {
			return // laws are checked of each phrase: that takes long
		}
		if err := l.check(s); err != nil {
			t.Fatal(err)
		}
	})
}
