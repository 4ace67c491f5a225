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
		phrases = append(phrases, phrase)
	}
	return with, phrases
}

// BenchmarkPhrasesFanout checks 10,000 viewers of a new post on Redis in turns: without a text, and
// with texts of 280 and 5,000 characters. 2,000 other users have 10 phrases each. x-none is how
// much longer the median is than without a text.
func BenchmarkPhrasesFanout(b *testing.B) {
	r := openWith(b, activity.Config{Store: redisStore(b, redistest.Start(b)), Kinds: wordKinds(b), Ledger: openLedger(b, 4096)})
	feeds, phrases := withTexts(candidates(500), "english")
	bulk, batch := r.NewBulk(), r.NewBatch()
	for i := range 20_000 {
		must(b, batch.Add(mute(fmt.Sprint("u", i%2000), phrases[i%len(phrases)])))
	}
	_, err := bulk.Record(b.Context(), batch)
	must(b, err)
	must(b, bulk.Finish(b.Context()))
	var viewers []string
	for i := range feed.MaxViewers {
		viewers = append(viewers, fmt.Sprint("viewer", i))
	}
	long := ""
	for i := 0; len(long) < activity.MaxText; i++ {
		long += feeds[0].Posts[i].Text + " "
	}
	var took [3][]time.Duration
	for i := 0; b.Loop(); i++ {
		for n, text := range []string{"", feeds[0].Posts[i%500].Text, long[:activity.MaxText]} {
			start := time.Now()
			_, err := feed.Fanout(b.Context(), r, feed.FanoutRequest{Post: feed.Post{Author: "1", Text: text}, Viewers: viewers})
			took[n] = append(took[n], time.Since(start))
			must(b, err)
		}
	}
	for n, name := range []string{"none", "short", "long"} {
		b.ReportMetric(float64(median(took[n]).Nanoseconds()), name+"-ns")
	}
	b.ReportMetric(float64(median(took[1]))/float64(median(took[0])), "x-none")
}
