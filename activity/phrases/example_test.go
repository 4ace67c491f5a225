package phrases_test

import (
	"fmt"
	"strings"

	"github.com/feedfilter/feedfilter/activity/phrases"
)

// A post is dropped if it contains a phrase that the user has muted. A real set is a Bloom filter.
func Example() {
	muted := make(map[string]bool)
	for _, phrase := range []string{"Election day", "#spoiler", "@alice", "選挙"} {
		canonical, _, err := phrases.Canonical(phrase)
		if err != nil {
			fmt.Println(err)
			continue
		}
		muted[canonical] = true
	}

	var text phrases.Text
	for _, post := range []string{
		"It’s ELECTION DAY, vote!",
		"No #Spoilers, but a ＃spoiler",
		"Ask @alice.bsky.social",
		"東京選挙区",
	} {
		text.Cut(post)
		for i := range text.Units() {
			for n := 1; ; n++ {
				phrase := text.Phrase(i, n)
				if phrase == nil {
					break
				}
				if muted[string(phrase)] {
					from, until := text.Place(i, n)
					fmt.Printf("%q has %q\n", post, post[from:until])
				}
			}
		}
	}
	// Output:
	// "It’s ELECTION DAY, vote!" has "ELECTION DAY"
	// "No #Spoilers, but a ＃spoiler" has "＃spoiler"
	// "東京選挙区" has "選挙"
}

// show prints the units of each text.
func show(texts ...string) {
	for _, s := range texts {
		var text phrases.Text
		text.Cut(s)
		units := make([]string, text.Units())
		for i := range units {
			units[i] = string(text.Phrase(i, 1))
		}
		fmt.Println(strings.Join(units, " | "))
	}
}

func ExampleCanonical() {
	for _, phrase := range []string{"  Climate   CHANGE! ", "New York's", "选举", "?!", "one two three four five six"} {
		canonical, units, err := phrases.Canonical(phrase)
		if err != nil {
			fmt.Println("error:", err)
			continue
		}
		fmt.Printf("%q, units: %d\n", canonical, units)
	}
	// Output:
	// "climate change", units: 2
	// "new york s", units: 3
	// "选举", units: 2
	// error: no word in it
	// error: 6 words, at most 5
}

// Characters are compared without case, width, ignorable characters and most marks.
func ExampleCanonical_characters() {
	for _, phrase := range []string{
		"Straße", "ΟΔΟΣ", "İstanbul", "Ｆｕｌｌ", "mu\u00adte", "m\u0336u\u0336t\u0336e\u0336", "cafe\u0301", "كِتَابٌ", "שָׁלוֹם", "ﾊﾟｿｺﾝ", "हिन्दी",
	} {
		canonical, _, _ := phrases.Canonical(phrase)
		fmt.Println(canonical)
	}
	// Output:
	// strasse
	// οδοσ
	// istanbul
	// full
	// mute
	// mute
	// café
	// كتاب
	// שלום
	// パソコン
	// हिन्दी
}

// The canonical form of a phrase is a part of that of the text.
func ExampleText_Phrase() {
	var text phrases.Text
	text.Cut("Über #Tag, 日・本")
	for i := range text.Units() {
		fmt.Printf("%s\n", text.Phrase(i, 2))
	}
	// Output:
	// über #
	// #tag
	// tag 日
	// 日本
}

func ExampleText_Place() {
	const s = "So: L’HOMME, hi"
	var text phrases.Text
	text.Cut(s)
	from, until := text.Place(1, 2)
	fmt.Printf("%s: bytes %d to %d, %s\n", text.Phrase(1, 2), from, until, s[from:until])
	// Output:
	// l homme: bytes 4 to 13, L’HOMME
}

// A hashtag is two units, so its word is found, too.
func ExampleText_hashtags() {
	show("#Tag ＃日本", "# tag, C#", "#foo_bar#x")
	// Output:
	// # | tag | # | 日 | 本
	// tag | c#
	// # | foo | bar | # | x
}

// A handle is one unit, with its host.
func ExampleText_handles() {
	show("@Alice, @alice.bsky.social", "@alice@mastodon.social's", "a@b.example", "@aliceさん")
	// Output:
	// @alice | @alice.bsky.social
	// @alice@mastodon.social | s
	// a | b | example
	// @alice | さ | ん
}

// A sequence of emoji is one unit. Skin tones differ, variation selectors do not.
func ExampleText_emoji() {
	show("ok👍👍🏽", "❤ ❤️", "👩‍👩‍👧🇩🇪1️⃣")
	// Output:
	// ok | 👍 | 👍🏽
	// ❤ | ❤
	// 👩‍👩‍👧 | 🇩🇪 | 1⃣
}

// Scripts that are written without spaces have a unit for each letter with its marks.
func ExampleText_scripts() {
	show("東京タワー", "ภาษาไทย", "မြန်မာ", "한국 사람")
	// Output:
	// 東 | 京 | タ | ワ | ー
	// ภ | า | ษ | า | ไ | ท | ย
	// မြ | န် | မာ
	// 한국 | 사람
}

// URLs are cut at their punctuation.
func ExampleText_urls() {
	show("https://example.com/foo-bar?x=1", "www.example.com/a_b", "10.0.0.1:80")
	// Output:
	// https | example | com | foo | bar | x | 1
	// www | example | com | a | b
	// 10.0.0.1 | 80
}

// Apostrophes cut elided articles and clitics off.
func ExampleText_apostrophes() {
	show("Trump's", "l’homme dell'acqua", "don't o'clock", "'quoted'", "צה״ל")
	// Output:
	// trump | s
	// l | homme | dell | acqua
	// don't | o'clock
	// quoted
	// צה"ל
}

// Symbols are no units, but c++ and c# are words.
func ExampleText_symbols() {
	show("C++ or C#", "AT&T © $5 100% LGBTQ+", "Disney™", "3.14, 1,000, 10:30")
	// Output:
	// c++ | or | c#
	// at | t | 5 | 100 | lgbtq
	// disney
	// 3.14 | 1,000 | 10 | 30
}
