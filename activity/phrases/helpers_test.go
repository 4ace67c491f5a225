package phrases

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// unitsOf returns the canonical forms of the units of s, without what stands between them.
func unitsOf(s string) (units []string) {
	var t Text
	t.Cut(s)
	for _, u := range t.units {
		units = append(units, string(t.buf[u.start:u.end]))
	}
	return units
}

// joinedUnits returns the units of s with a | between them.
func joinedUnits(s string) string { return strings.Join(unitsOf(s), "|") }

// contains reports whether text contains the phrase.
func contains(text, phrase string) bool {
	canonical, n, err := Canonical(phrase)
	if err != nil {
		return false
	}
	var t Text
	t.Cut(text)
	for i := range t.Units() {
		if string(t.Phrase(i, n)) == canonical {
			return true
		}
	}
	return false
}

// laws checks what holds for each text: a phrase in it is its own canonical form, and the form of
// the place where it stands. It cuts with two Texts that it is given, because to fill the tables of
// a new one takes long.
type laws struct{ text, piece Text }

func (l *laws) check(s string) error {
	t := &l.text
	t.Cut(s)
	if t.reread > 10*(len(s)+10) {
		return fmt.Errorf("%q: %d reread", s, t.reread)
	}
	for i := range t.Units() {
		for n := 1; n <= MaxUnits+1; n++ {
			if err := l.checkPhrase(s, i, n); err != nil {
				return fmt.Errorf("%q: %d units from %d: %w", s, n, i, err)
			}
		}
	}
	return nil
}

func (l *laws) checkPhrase(s string, i, n int) error {
	t := &l.text
	if n > t.Units()-i {
		if t.Phrase(i, n) != nil {
			return errors.New("there are fewer")
		}
		return nil
	}
	last := t.units[i+n-1]
	all := string(t.buf[t.units[i].start:last.end])
	got := t.Phrase(i, n)
	if got != nil && string(got) != all {
		return fmt.Errorf("%q, want %q", got, all)
	}
	if last.kind == hashUnit {
		return nil
	}
	if err := l.wantCanonical(all, all, n, got != nil); err != nil {
		return err
	}
	from, until := t.Place(i, n)
	if from >= until || !utf8.RuneStart(s[from]) || until < len(s) && utf8.ValidString(s) && !utf8.RuneStart(s[until]) {
		return fmt.Errorf("place %d to %d", from, until)
	}
	if i > 0 && t.units[i-1].until > from || i+n < t.Units() && t.units[i+n].from < until {
		// A character at either end stands for more units than these.
		if strings.ContainsAny(s, "@＠﹫") {
			return nil // the first of these units may be the end of a handle
		}
		l.piece.Cut(s[from:until])
		for j := range l.piece.Units() {
			if bytes.Equal(l.piece.Phrase(j, n), got) {
				return nil
			}
		}
		return fmt.Errorf("%q is not in its place %q", got, s[from:until])
	}
	return l.wantCanonical(s[from:until], all, n, got != nil)
}

// wantCanonical checks that the canonical form of s is of n units, or that s is no phrase.
func (l *laws) wantCanonical(s, want string, n int, valid bool) error {
	canonical, units, err := l.piece.canonical(s)
	if (err == nil) != valid || valid && (canonical != want || units != n) {
		return fmt.Errorf("%q is %q of %d units (%w), want %q", s, canonical, units, err, want)
	}
	return nil
}

// Characters in many scripts, and those that rules name.
const (
	bases = "aBcdlsxzIİıßẞéǆﬁŉÅΣςσᾳᾴΰЙёжԱև" +
		"ა\u1c90Ꭰꭰܐـكأاآلﷺﺍ" + "שאפּצכ" + "कषज़கஔঅ൹" + "กนาเກາကဦ၀ကြកខ་ཀꦲᦀ" + "日本龍㍿ｶカがㄅ々〆ー〇" +
		"가힣ㄱㅏﾡￂ\u1100\u1161\u11a8" + "09²½Ⅷ٣१๑⑴⒈𝐀Ａ１" + "፩ⴰߊ\u07fa𐐀𐎠\U0002f800\U0002b820"
	marks = "\u0300\u0301\u0307\u0308\u0323\u0327\u0336\u0345\u0344\u034f\u0483\u20dd\u20e3" +
		"\u05b8\u05c1\u064b\u064e\u0651\u0653\u0654\u0670\u093c\u094d\u093e\u09be\u09cb\u09d7\u0bbe\u0bd7" +
		"\u0e31\u0e49\u0e4d\u0e33\u0eb3\u0f71\u0f72\u0f77\u1039\u102e\u17d2\u3099\u309a\uff9e\u302e\U0001d165"
	emojis  = "👩👍❤↔☎🏴🏽🏿🇩🇪🇫\u200d\ufe0f\ufe0e\U000e0067\U000e007fℹ‼㊗🈁™©★"
	ignored = "\u00ad\u200b\u200c\u200d\u2060\ufeff\u200e\u202e\u115f\u3164\ufe00\u0640\u034f"
	between = " \n\u0000\u00a0\u3000.,:;'’‘ʼ׳\"״-–_/+@＠#＃*&$€!?…·‧・、。()؟؀\u06dd\u2044ͺ´`~\ufffd"
)

// texts generates texts of these characters and of all others, with bytes that are not UTF-8.
func texts() *rapid.Generator[string] {
	part := rapid.OneOf(
		sampled(bases), sampled(bases), sampled(marks), sampled(emojis), sampled(ignored), sampled(between), sampled(between),
		rapid.SampledFrom([]string{
			"a", "s", "l", "qu", "'", "'s", "'", "ll", "c++", "#", "@", "@a.b", "https://", "\xff", "\xe2\x82", "1️⃣", "👩\u200d❤️\u200d👩", " ", " ",
		}),
		rapid.Map(rapid.Rune(), func(r rune) string { return string(r) }),
	)
	return rapid.Map(rapid.SliceOfN(part, 0, 24), func(parts []string) string { return strings.Join(parts, "") })
}

func sampled(of string) *rapid.Generator[string] {
	return rapid.SampledFrom(strings.Split(of, ""))
}

// eachRune calls do for all code points of scripts and symbols. Of ideographs, syllables and planes
// without letters, it takes each 97th.
func eachRune(do func(r rune)) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		large := r >= 0x3400 && r < 0xa000 || r >= 0xac00 && r < 0xf900 || r >= 0x20000
		if utf8.ValidRune(r) && (!large || r%97 == 0) {
			do(r)
		}
	}
}

// thorough makes random tests check more texts, unless a flag sets the number: a text takes some
// microseconds.
func thorough(t *testing.T) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	if checks.Value.String() != checks.DefValue {
		return
	}
	if err := checks.Value.Set("5000"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = checks.Value.Set(checks.DefValue) })
}
