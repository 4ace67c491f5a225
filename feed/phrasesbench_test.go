package feed_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// BenchmarkPhrases checks feeds of 500 posts on Redis in turns: without texts, with texts of 280
// characters for a viewer who has no phrase, and for one who has 200. x-none is how much longer the
// median is for the first of these two than without texts.
func BenchmarkPhrases(b *testing.B) {
	for _, language := range []string{"english", "japanese"} {
		b.Run(language, func(b *testing.B) {
			r := openWith(b, activity.Config{Store: redisStore(b, redistest.Start(b)), Kinds: wordKinds(b)})
			fill(b, r)
			without := candidates(500)
			with, phrases := withTexts(without, language)
			for _, phrase := range phrases {
				recordActivities(b, r, mute("200", phrase))
			}
			var none, noPhrase, some []time.Duration
			dropped := 0
			timed := func(to *[]time.Duration, req feed.Request) {
				start := time.Now()
				a, err := feed.Filter(b.Context(), r, req)
				*to = append(*to, time.Since(start))
				must(b, err)
				dropped += len(a.Dropped)
			}
			for i := 0; b.Loop(); i++ {
				bare, texts := without[i%len(without)], with[i%len(with)]
				if i%2 == 0 { // in either order
					timed(&none, bare)
				}
				timed(&noPhrase, texts)
				if i%2 == 1 {
					timed(&none, bare)
				}
				texts.Viewer = "200"
				timed(&some, texts)
			}
			b.ReportMetric(float64(median(noPhrase))/float64(median(none)), "x-none")
			b.ReportMetric(float64(median(none).Nanoseconds()), "without-ns")
			b.ReportMetric(float64(median(noPhrase).Nanoseconds()), "no-phrase-ns")
			b.ReportMetric(float64(median(some).Nanoseconds()), "phrases-ns")
			b.ReportMetric(float64(dropped)/float64(b.N), "dropped/op")
		})
	}
}

// withTexts returns feeds whose posts have texts of 280 characters, and 200 phrases of 1 to 5
// words. A few of these are in the texts.
func withTexts(feeds []feed.Request, language string) (with []feed.Request, phrases []string) {
	rng := rand.New(rand.NewPCG(1, 2))
	var words []string
	for range 20_000 {
		var word strings.Builder
		for range 2 + rng.IntN(9) {
			word.WriteByte(byte('a' + rng.IntN(26)))
		}
		words = append(words, word.String())
	}
	glyphs := []rune("のにはをたがでてとしれさあいうるらなも東京都日本人国会年大十中長出三同時政事自行社見月分議後前民生連")
	text := func(characters int) string {
		var b strings.Builder
		for n := 0; n < characters; n++ {
			if language == "japanese" {
				b.WriteRune(glyphs[rng.IntN(len(glyphs))])
				continue
			}
			rank := int(float64(len(words)) * rng.Float64() * rng.Float64() * rng.Float64()) // as words are used
			b.WriteString(words[rank] + []string{" ", " ", " ", ", ", ". "}[rng.IntN(5)])
			n = b.Len()
		}
		return string([]rune(b.String())[:characters])
	}
	for _, req := range feeds {
		posts := append([]feed.Post(nil), req.Posts...)
		for i := range posts {
			posts[i].Text = text(280)
		}
		req.Posts = posts
		with = append(with, req)
	}
	for i := range 200 {
		phrase := text(4 + rng.IntN(9))
		if language == "english" {
			phrase = strings.Join(words[rng.IntN(len(words)):][:1], " ")
			for range i % 5 {
				phrase += " " + words[rng.IntN(len(words))]
			}
		}
		phrases = append(phrases, fmt.Sprint(phrase))
	}
	return with, phrases
}
