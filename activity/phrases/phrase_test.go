package phrases

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"
)

// TestCanonical: one phrase in several spellings, and others that differ from it.
func TestCanonical(t *testing.T) {
	for _, c := range []struct {
		script string
		want   string
		units  int
		same   []string
		others []string
	}{
		{"Latin", "mute", 1, []string{"mute", "MUTE", " mute! ", "mu\u00adte", "m\u200bute", "\ufeffmute", "ｍｕｔｅ", "𝐦𝐮𝐭𝐞", "m\u0336u\u0336t\u0336e\u0336", "\u202emute\u202c"}, []string{"mutes", "mu te", "müte"}},
		{"Latin, composed", "café crème", 2, []string{"Café Crème", "CAFE\u0301  CRE\u0300ME", "café, crème", "cafe\u034f\u0301-crème"}, []string{"cafe creme"}},
		{"Latin, marks in both orders", "ệ", 1, []string{"e\u0302\u0323", "e\u0323\u0302", "ê\u0323", "Ẹ\u0302", "ệ\u0336"}, []string{"e", "ê"}},
		{"Latin, defaced", "e", 1, []string{"e\u0301\u0302\u0303\u0304\u0305", "é\u0336\u0337\u0338\u0335", "é\u0336\u0336\u0336\u0336", "e\u0336\u0337\u0338\u0335\u0301"}, []string{"é\u0336\u0337\u0338"}},
		{"Turkish", "istanbul ili", 2, []string{"İstanbul ili", "ISTANBUL ILI", "İSTANBUL İLİ", "ıstanbul ılı", "i\u0307stanbul ili"}, nil},
		{"German", "strasse", 1, []string{"Straße", "STRASSE", "STRAẞE", "strasse"}, []string{"strase"}},
		{"ligatures", "office", 1, []string{"oﬃce", "OFFICE"}, nil},
		{"Vietnamese", "việt nam", 2, []string{"Việt Nam", "VIỆT NAM", norm.NFD.String("Việt Nam")}, []string{"viet nam"}},
		{"Greek", "οδοσ", 1, []string{"ΟΔΟΣ", "οδος", "οδοσ"}, []string{"οδός"}},
		{"Greek, iota below", "άιω", 1, []string{"ᾴω", "α\u0345\u0301ω", "α\u0301\u0345ω", "ᾳ\u0301ω", "άιΩ"}, nil},
		{"Cyrillic", "война", 1, []string{"Война", "ВОЙНА", norm.NFD.String("война"), "война\u0301", "во\u0301йна"}, []string{"воина"}},
		{"Armenian", "երեւան", 1, []string{"Երևան", "երեւան", "ԵՐԵՒԱՆ"}, nil},
		{"Georgian", "საქართველო", 1, []string{"საქართველო", "ᲡᲐᲥᲐᲠᲗᲕᲔᲚᲝ"}, nil},
		{"Cherokee", "ᏣᎳᎩ", 1, []string{"ᏣᎳᎩ", "ꮳꮃꭹ"}, nil},
		{"Arabic", "كتاب", 1, []string{"كِتَابٌ", "كتاب", "كـــتاب", "ﻛﺘﺎﺏ", "كﹷتاب"}, []string{"كتب"}},
		{"Arabic, hamza", "أحمد", 1, []string{"أحمد", "ا\u0654حمد", "أَحْمَد"}, []string{"احمد"}},
		{"Hebrew", "שלום", 1, []string{"שָׁלוֹם", "שלום", "\u200fשלום\u200e", "שׁלום"}, nil},
		{"Hebrew, gershayim", "צה\"ל", 1, []string{"צה\"ל", "צה״ל"}, []string{"צהל"}},
		{"Hebrew, geresh", "צ'יפס", 1, []string{"צ'יפס", "צ׳יפס", "צ’יפס"}, nil},
		{"Devanagari", "हिन्दी फ\u093cिल्म", 2, []string{"हिन्दी फ\u093cिल्म", "हिन्दी फ़िल्म", "हिन्\u200dदी फ\u200c\u093cिल्म"}, []string{"हिन्द फ़िल्म"}},
		{"Bengali", "কোনো", 1, []string{"কোনো", "ক\u09c7\u09beন\u09c7\u09be"}, []string{"কানা"}},
		{"Tamil", "கொடி", 1, []string{"கொடி", "க\u0bc6\u0bbeடி"}, []string{"கெடி"}},
		{"Thai", "ทํางาน", 5, []string{"ทำงาน", "ทํางาน", "ทำ งาน", "ทำ\u200bงาน"}, []string{"ทางาน"}},
		{"Thai, many marks", "ก" + strings.Repeat("\u0e49", 8), 1, []string{"ก" + strings.Repeat("\u0e49", 8), "ก" + strings.Repeat("\u0e49", 9), "ก" + strings.Repeat("\u0e49", 99)}, []string{"ก" + strings.Repeat("\u0e49", 7)}},
		{"Thai, many marks after am", "กํา" + strings.Repeat("\u0e49", 8), 2, []string{"กำ" + strings.Repeat("\u0e49", 9)}, nil},
		{"Khmer", "ខ្មែរ", 3, []string{"ខ្មែរ"}, nil},
		{"Burmese", "မြန်မာ", 3, []string{"မြန်မာ"}, nil},
		{"Tibetan", "བོདཡིག", 4, []string{"བོད་ཡིག", "བོད་ཡིག་"}, nil},
		{"Han", "選挙", 2, []string{"選挙", "選・挙", "選 挙", "選\U000e0100挙"}, []string{"选举"}},
		{"Han, compatibility", "豈株式会社", 5, []string{"\uf900㍿"}, nil},
		{"Han, beyond the first plane", "𠮷野家", 3, []string{"𠮷野家"}, []string{"吉野家"}},
		{"Han, newer than the tables", "\U0002ebf0\U000323b0", 2, []string{"\U0002ebf0 \U000323b0"}, nil},
		{"Han, marks", "日\u3099", 1, []string{"日ﾞ", "日\u3099\u0336", "日\u0301ﾞ"}, nil},
		{"Hiragana", "がんばれ", 4, []string{"がんばれ", "か\u3099んは\u3099れ"}, []string{"かんはれ"}},
		{"Katakana, half width", "パソコンー", 5, []string{"パソコンー", "ﾊﾟｿｺﾝｰ", "ハ\u309aソコンー", "ハﾟソコンー"}, []string{"ハソコンー"}},
		{"iteration marks", "人々いすゞヽ", 6, []string{"人々いすゞヽ"}, nil},
		{"Hangul", "한국", 1, []string{"한국", norm.NFD.String("한국")}, []string{"한 국"}},
		{"Hangul, half width", "하", 1, []string{"ﾾￂ", "하", "\u1112\u1161", "ㅎㅏ"}, nil},
		{"Ethiopic", "አዲስ አበባ", 2, []string{"አዲስ አበባ", "አዲስ፡አበባ"}, nil},
		{"full width", "abc 123", 2, []string{"ＡＢＣ　１２３", "abc 123"}, nil},
		{"numbers", "3.14 1,000 2⁄3 10 30", 5, []string{"3.14 1,000 ⅔ 10:30"}, []string{"3 14 1 000 ⅔ 10 30"}},
		{"numbers, marks", "1 ٣ ३\u0902", 3, []string{"1\u064e ٣\u064e ३\u0902"}, nil},
		{"numbers, signs", "\u0600٣", 1, []string{"\u0600٣"}, []string{"٣"}},
		{"invalid UTF-8", "a b", 2, []string{"a\xffb", "a\xe2\x82b", "\xf0\x9fa b"}, []string{"ab"}},
	} {
		for _, s := range c.same {
			if got, units, err := Canonical(s); got != c.want || units != c.units || err != nil {
				t.Errorf("%s: %q is %q of %d units (%v), want %q of %d", c.script, s, got, units, err, c.want, c.units)
			}
		}
		for _, s := range c.others {
			if got, _, _ := Canonical(s); got == c.want {
				t.Errorf("%s: %q is %q", c.script, s, got)
			}
		}
	}
}

func TestCanonicalLimits(t *testing.T) {
	for _, c := range []struct{ phrase, want string }{
		{"a b c d e", ""},
		{"a b c d e f", "6 words, at most 5"},
		{"#a #b #c #d #e", ""},
		{"@a @b @c @d @e @f", "6 words, at most 5"},
		{"👍👍👍👍👍👍", "6 words, at most 5"},
		{strings.Repeat("日", 16), ""},
		{strings.Repeat("日 ", 16), ""},
		{strings.Repeat("日", 17), "17 units, at most 16"},
		{"日 a 本 b 語", ""},
		{"日 a 本 b 語 c", "6 words, at most 5"},
		{strings.Repeat("a", 256), ""},
		{strings.Repeat("a", 257), "257 bytes in canonical form, at most 256"},
		{strings.Repeat("ß", 128) + "\u00ad", ""},
		{"don't it's", ""},
		{"", "no word in it"},
		{" .,!? # @ * © $ + \u200d\ufe0f\u0301\xff🏽", "no word in it"},
	} {
		got, units, err := Canonical(c.phrase)
		switch {
		case c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want):
			t.Errorf("%q: %v, want %q", c.phrase, err, c.want)
		case err != nil && (got != "" || units != 0):
			t.Errorf("%q: %q of %d units with an error", c.phrase, got, units)
		}
	}
}

// TestEachCharacter: laws hold for each character, alone, in a word, and with marks after it.
func TestEachCharacter(t *testing.T) {
	var l laws
	eachRune(func(r rune) {
		if c := properties(r); c.class == emoji && !c.is(inert) && r != '↔' {
			t.Errorf("%U is an emoji and composes with something", r)
		}
		for _, s := range []string{"a" + string(r) + "1\u0301 \u0301", "か" + string(r) + "\u3099" + string(r)} {
			if err := l.check(s); err != nil {
				t.Errorf("%U: %v", r, err)
			}
		}
	})
}

// TestEquivalent: canonically equivalent texts have one canonical form. This is not so for letters
// with more marks than stay.
func TestEquivalent(t *testing.T) {
	tooMany := regexp.MustCompile(`[\pM\x{ff9e}]{5}`)
	var a, b Text
	thorough(t)
	rapid.Check(t, func(t *rapid.T) {
		s := texts().Draw(t, "text")
		decomposed := norm.NFD.String(s)
		if tooMany.MatchString(strings.Map(visible, norm.NFKD.String(s))) {
			return
		}
		a.Cut(s)
		b.Cut(decomposed)
		if !bytes.Equal(a.buf, b.buf) {
			t.Fatalf("%q is %q, and decomposed %q", s, a.buf, b.buf)
		}
	})
}

// visible returns r, or -1 if r is ignorable.
func visible(r rune) rune {
	if c := classOf(r); c >= modifier {
		return -1
	}
	return r
}

func FuzzCanonical(f *testing.F) {
	for _, s := range []string{
		"Hello, World", "#tag", "@alice@mastodon.social", "l’homme", "1️⃣👩\u200d❤️\u200d👩🇩🇪", "ＡＢＣ㍿½", "ﾊﾟｿｺﾝ", "ทำน้ำ",
		"e\u0301\u0323\u034f\u0336", "\u1100\u0301\u1161\u11a8ㄱㅏ", "ᾳ\u0301İıßŉ", "\xff\xe2\x82", "c++ c#d 3.14 a.b_c", "צה״ל كـتَاب",
	} {
		f.Add(s)
	}
	var other Text
	f.Fuzz(func(t *testing.T, s string) {
		canonical, units, err := Canonical(s)
		if again, n, err2 := other.canonical(s); again != canonical || n != units || (err2 == nil) != (err == nil) {
			t.Fatalf("%q is %q with new tables, %q with used ones", s, canonical, again)
		}
		if err != nil {
			return
		}
		if again, n, err := Canonical(canonical); again != canonical || n != units || err != nil {
			t.Fatalf("%q is %q, and that is %q (%v)", s, canonical, again, err)
		}
		if words := len(strings.Fields(canonical)); units > MaxUnits || len(canonical) > MaxBytes || words > MaxWords {
			t.Fatalf("%q is %q: %d units, %d words", s, canonical, units, words)
		}
	})
}
