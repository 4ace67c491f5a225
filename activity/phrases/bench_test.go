package phrases

import (
	"strings"
	"testing"
)

type sample struct{ name, text string }

// sampleTexts returns posts of 280 characters.
func sampleTexts() []sample {
	samples := []sample{
		{"english", "Breaking: the president said on Tuesday that the economy, which had been slowing, is growing again. It's @alice's #news, https://example.com/a "},
		{"typographic", "“The president,” she said, “doesn’t know” — the economy’s growing again… 👍 "},
		{"german", "Über die Straße läuft größer der Bär; dass man’s weiß, ist schön für uns alle im Süden. "},
		{"russian", "Президент заявил во вторник, что экономика, которая замедлялась, снова растёт. "},
		{"arabic", "قال الرئيس يوم الثلاثاء إن الاقتصاد الذي كان يتباطأ ينمو مرة أخرى، وفقا للتقرير. "},
		{"hindi", "राष्ट्रपति ने मंगलवार को कहा कि अर्थव्यवस्था, जो धीमी हो रही थी, फिर से बढ़ रही है। "},
		{"japanese", "東京都は火曜日、新しい政策を発表しました。カタカナのテストとひらがなが混ざった文章です。"},
		{"thai", "นายกรัฐมนตรีกล่าวเมื่อวันอังคารว่าเศรษฐกิจกำลังเติบโตอีกครั้งทำให้ทุกคนมีความสุข"},
		{"korean", "대통령은 화요일에 둔화되던 경제가 다시 성장하고 있다고 말했다. "},
	}
	for i, s := range samples {
		samples[i].text = string([]rune(strings.Repeat(s.text, 10))[:280])
	}
	return samples
}

// BenchmarkCut cuts the posts of a feed: 500, one after the other, with one Text.
func BenchmarkCut(b *testing.B) {
	const posts = 500
	for _, s := range sampleTexts() {
		b.Run(s.name, func(b *testing.B) {
			var t Text
			t.Cut(s.text)
			b.SetBytes(posts * int64(len(s.text)))
			b.ReportAllocs()
			for b.Loop() {
				for range posts {
					t.Cut(s.text)
				}
			}
		})
	}
}

// BenchmarkFirstCut cuts one post with a Text that knows no character.
func BenchmarkFirstCut(b *testing.B) {
	for _, s := range sampleTexts() {
		b.Run(s.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				new(Text).Cut(s.text)
			}
		})
	}
}

func BenchmarkCanonical(b *testing.B) {
	for _, s := range []sample{{"ascii", "Climate change"}, {"latin", "Größe zählt"}, {"han", "選挙速報"}} {
		b.Run(s.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := Canonical(s.text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
