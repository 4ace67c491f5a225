package operations_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
	"github.com/feedfilter/feedfilter/internal/sampler"
)

// sampling is a service that compares all feeds with the ledger.
func sampling(t *testing.T, log *slog.Logger) *httpapitest.Service {
	t.Helper()
	s := httpapitest.Open(t)
	recorder, ok := s.Activities.(*activity.Recorder)
	if !ok {
		t.Fatalf("a %T", s.Activities)
	}
	sampler, err := sampler.New(recorder, sampler.Config{Rate: 1, Logger: log})
	httpapitest.Must(t, err)
	t.Cleanup(sampler.Close)
	s.Handler = httpapi.New(httpapi.Config{Activities: s.Activities, Logger: log, Sampler: sampler})
	return s
}

// sampled waits until that many feeds are compared or skipped, and returns the counts.
func sampled(t *testing.T, s *httpapitest.Service, feeds float64) map[string]any {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		counts, _ := s.Do(t, "GET", "/v1/stats", "").JSON["sampling"].(map[string]any)
		done, _ := counts["feeds"].(float64)
		skipped, _ := counts["skipped"].(float64)
		if done+skipped == feeds {
			return counts
		}
		if time.Now().After(end) {
			t.Fatalf("fewer than %g feeds compared: %v", feeds, counts)
		}
	}
}

// loseKeys empties every page without changing its sequence.
func loseKeys(t *testing.T, s *httpapitest.Service) {
	t.Helper()
	for number := range uint32(16) {
		id := favfilter.PageID{Number: number}
		loaded, _, err := s.Store.Load(t.Context(), []favfilter.PageID{id})
		httpapitest.Must(t, err)
		if loaded[0].Page == nil {
			continue
		}
		empty, err := favfilter.NewPage(loaded[0].Page.Header())
		httpapitest.Must(t, err)
		if done, err := s.Store.Replace(t.Context(), favfilter.Replacement{ID: id, Page: empty, Seen: loaded[0].Version}); !done || err != nil {
			t.Fatal(done, err)
		}
	}
}

// TestSampling: a missed post is counted under "sampling", logged with the request's id but without
// the user's, and repaired.
func TestSampling(t *testing.T) {
	var logged bytes.Buffer
	s := sampling(t, slog.New(slog.NewJSONHandler(&logged, nil)))
	s.Do(t, "PUT", "/v1/users/secretviewer/blocks/secretauthor", "")
	const body = `{"viewer":"secretviewer","posts":[{"id":"secretpost","author":"secretauthor"},{"id":"q","author":"3"}]}`
	loseKeys(t, s)
	if a := s.Do(t, "POST", "/v1/feed/filter", body, "X-Request-Id", "request-7"); !strings.Contains(a.Body, `"posts":[{"id":"secretpost"}`) {
		t.Fatalf("answered %s", a.Body)
	}
	want := map[string]any{
		"feeds": 1.0, "candidates": 2.0, "misses": 1.0, "false_positives": 0.0, "late": 0.0, "undecided": 0.0, "skipped": 0.0, "errors": 0.0,
		"repaired": 1.0,
	}
	if got := sampled(t, s, 1); !reflect.DeepEqual(got, want) {
		t.Errorf("counted %v", got)
	}
	if a := s.Do(t, "POST", "/v1/feed/filter", body); !strings.Contains(a.Body, `"posts":[{"id":"q"}]`) {
		t.Errorf("then answered %s", a.Body)
	}
	sampled(t, s, 2)
	text := logged.String()
	if !strings.Contains(text, `"level":"ERROR"`) || !strings.Contains(text, `"request_id":"request-7"`) || strings.Contains(text, "secret") {
		t.Errorf("logged %s", text)
	}
}

// TestSamplingWhileMemoryIsUsedAgain: a feed's memory is reused while the feed waits to be
// compared. The comparison still sees the right feed.
func TestSamplingWhileMemoryIsUsedAgain(t *testing.T) {
	s := sampling(t, nil)
	for viewer := range 10 {
		for author := range 10 {
			if (viewer+author)%3 == 0 {
				s.Do(t, "PUT", fmt.Sprintf("/v1/users/v%d/blocks/a%d", viewer, author), "")
			}
		}
	}
	const feeds = 300
	for n := range feeds {
		var posts []string
		for i := range 10 {
			posts = append(posts, fmt.Sprintf(`{"id":"p%d","author":"a%d","actors":["a%d"]}`, n+i, (n+i)%10, (n+2*i)%10))
		}
		s.Do(t, "POST", "/v1/feed/filter", fmt.Sprintf(`{"viewer":"v%d","annotate":["like"],"posts":[%s]}`, n%10, strings.Join(posts, ",")))
	}
	got := sampled(t, s, feeds)
	done, _ := got["feeds"].(float64)
	if done < 10 || got["candidates"] != 10*done || got["misses"] != 0.0 || got["false_positives"] != 0.0 || got["undecided"] != 0.0 {
		t.Errorf("counted %v", got)
	}
}
