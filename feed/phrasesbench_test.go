package feed_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// BenchmarkPhrases checks feeds of 500 posts on Redis in turns: without texts, with texts of 280
// characters for a viewer who has no phrase, and for one who has 200. x-none is how much longer the
// median is for the first of these two than without texts.
func BenchmarkPhrases(b *testing.B) {
	for _, language := range []string{"english", "japanese", "characters"} {
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

// withTexts returns feeds whose posts have texts of 280 characters, and 200 phrases. A few of these
// are in the texts.
func withTexts(feeds []feed.Request, language string) (with []feed.Request, phrases []string) {
	rng := rand.New(rand.NewPCG(1, 2))
	text, phrase := inLanguage(language, rng)
	for _, req := range feeds {
		posts := append([]feed.Post(nil), req.Posts...)
		for i := range posts {
			var b strings.Builder
			for b.Len() < 280*utf8.UTFMax {
				b.WriteString(text())
			}
			posts[i].Text = string([]rune(b.String())[:280])
		}
		req.Posts = posts
		with = append(with, req)
	}
	for i := range 200 {
		phrases = append(phrases, phrase(i))
	}
	return with, phrases
}

// inLanguage returns functions that return parts of texts, and phrases.
func inLanguage(name string, rng *rand.Rand) (text func() string, phrase func(i int) string) {
	switch name {
	case "english":
		return inEnglish(rng)
	case "japanese":
		return inJapanese(rng)
	default:
		return inCharacters(rng)
	}
}

// inEnglish has words of 2 to 10 letters, used as words are: a few often. Phrases have 1 to 5 of
// them.
func inEnglish(rng *rand.Rand) (text func() string, phrase func(i int) string) {
	letter := func() rune { return 'a' + rng.Int32N(26) }
	words := vocabulary(func() int { return 2 + rng.IntN(9) }, letter)
	text = func() string { return often(rng, words) + often(rng, []string{" ", " ", ", ", ". "}) }
	return text, func(i int) string {
		of := make([]string, 1+i%5)
		for n := range of {
			of[n] = words[rng.IntN(len(words))]
		}
		return strings.Join(of, " ")
	}
}

// inJapanese has words of 1 to 4 of 1,500 Chinese characters, used as those are, and particles
// after them. Phrases have 1 or 2 words.
func inJapanese(rng *rand.Rand) (text func() string, phrase func(i int) string) {
	character := func() rune { return '\u4e00' + 13*rune(rank(rng, 1500)) }
	words := vocabulary(func() int { return 1 + rng.IntN(4) }, character)
	particles := strings.Fields("の に は を が た で て と し れ さ ある いる も する")
	text = func() string { return often(rng, words) + often(rng, particles) }
	return text, func(i int) string {
		of := words[rng.IntN(len(words))]
		if i%2 == 1 || len(of) < 6 {
			of += words[rng.IntN(len(words))]
		}
		return of
	}
}

// inCharacters has 50 characters without any order, of which each begins some phrase. Nothing takes
// longer.
func inCharacters(rng *rand.Rand) (text func() string, phrase func(i int) string) {
	characters := []rune("のにはをがたでてとしれさあいうるらなも東京都日本人国会年大十中長出三同時政事自行社見月分議後前民生連")
	text = func() string { return string(characters[rng.IntN(len(characters))]) }
	return text, func(int) string {
		of := ""
		for range 4 + rng.IntN(9) {
			of += text()
		}
		return of
	}
}

// vocabulary returns 20,000 words.
func vocabulary(length func() int, letter func() rune) (words []string) {
	for range 20_000 {
		word := ""
		for range length() {
			word += string(letter())
		}
		words = append(words, word)
	}
	return words
}

// often returns one of the strings, the first of them often.
func often(rng *rand.Rand, of []string) string { return of[rank(rng, len(of))] }

// rank returns one of n ranks, the first of them often.
func rank(rng *rand.Rand, n int) int {
	return int(float64(n) * rng.Float64() * rng.Float64() * rng.Float64())
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
