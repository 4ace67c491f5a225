package httpapi

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/feed"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
	"github.com/feedfilter/feedfilter/proto/feedfilter/v1/feedfilterv1connect"
)

// BenchmarkServedFanout compares the processor time of a separate service process for 10,000
// viewers of a new post with that for a feed of 1,000 posts. The author has 1,000 blocks. They take
// turns, in rounds that are long enough to include garbage collection. x-feed is the ratio of the
// medians.
func BenchmarkServedFanout(b *testing.B) {
	const round = servedBodies
	s := startServed(b, "service")
	ask := func(path, mediaType string, body []byte) {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://"+s.addr+path, bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		r.Header.Set("Content-Type", mediaType)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		answer, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK {
			b.Fatalf("%s: %s %.200s, %v", path, res.Status, answer, err)
		}
	}
	for _, form := range [][]string{
		{"JSON", echo.MIMEApplicationJSON, "/v1/feed/filter", "/v1/fanout/filter"},
		{"Protobuf", "application/proto", feedfilterv1connect.FeedServiceFilterProcedure, feedfilterv1connect.FeedServiceFanoutProcedure},
	} {
		for _, record := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/record=%t", form[0], record), func(b *testing.B) {
				feedBodies, fanoutBodies := make([][]byte, round), make([][]byte, round)
				for n := range round {
					feedBodies[n], fanoutBodies[n] = bodiesOfFanout(n, form[1], record)
				}
				var feeds, fanouts []time.Duration
				for b.Loop() {
					start := s.cpu(b)
					for _, body := range feedBodies {
						ask(form[2], form[1], body)
					}
					between := s.cpu(b)
					for _, body := range fanoutBodies {
						ask(form[3], form[1], body)
					}
					feeds, fanouts = append(feeds, between-start), append(fanouts, s.cpu(b)-between)
				}
				slices.Sort(feeds)
				slices.Sort(fanouts)
				of, fanout := feeds[len(feeds)/2]/round, fanouts[len(fanouts)/2]/round
				b.ReportMetric(float64(fanout)/float64(of), "x-feed")
				b.ReportMetric(float64(of.Microseconds()), "feed-us")
				b.ReportMetric(float64(fanout.Microseconds()), "fanout-us")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// bodiesOfFanout returns the n-th feed and the n-th fan-out.
func bodiesOfFanout(n int, mediaType string, record bool) (of, fanout []byte) {
	viewers := make([]string, feed.MaxViewers)
	for i := range viewers {
		if viewers[i] = "u" + strconv.Itoa(80_000_000+n%100*feed.MaxViewers+i); i%100 == 0 {
			viewers[i] = "b" + strconv.Itoa(i/100)
		}
	}
	m := &feedfilterv1.FilterRequest{Viewer: fmt.Sprint(mediaType, record, n), RecordSeen: record, Answer: feedfilterv1.Answer_ANSWER_DROPPED}
	var posts strings.Builder
	for i := range 1000 {
		post, author := "p"+strconv.Itoa(70_000_000_000+n*1000+i), "u"+strconv.Itoa(50_000_000+n%100*1000+i)
		m.Posts, m.Authors = append(m.Posts, post), append(m.Authors, author)
		fmt.Fprintf(&posts, `{"id":%q,"author":%q},`, post, author)
	}
	if mediaType != echo.MIMEApplicationJSON {
		return marshaled(m), marshaled(&feedfilterv1.FanoutRequest{Post: "p1", Author: "u1", Viewers: viewers})
	}
	of = fmt.Appendf(nil, `{"viewer":%q,"record_seen":%t,"answer":"dropped","posts":[%s]}`, m.GetViewer(), record, strings.TrimSuffix(posts.String(), ","))
	fanout, _ = json.Marshal(map[string]any{"post": "p1", "author": "u1", "viewers": viewers})
	return of, fanout
}
