package httpapi_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

// feedOf sends a body to the feed route. A negative length sends it without Content-Length.
func (s *service) feedOf(t *testing.T, body io.Reader, length int) (status int, answer string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/feed/filter", body)
	r.ContentLength = int64(length)
	r.Header.Set("Content-Type", wire.TypeJSON)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// TestFeedOneAnswer: a body has the same answer with its length, which the fast reader tries first,
// and without, which only the strict decoder reads.
func TestFeedOneAnswer(t *testing.T) {
	s := open(t)
	bodies := []string{
		`{"viewer":"1","posts":[{"id":"a","author":"2","actors":["3","4"]},{"id":"b","author":"5"}]}`,
		` { "posts" : [ ] , "viewer" : "\u0031" } `, blockedFeed,
	}
	for _, m := range malformedFeeds() {
		if m.request == filterPath {
			bodies = append(bodies, m.body)
		}
	}
	for _, body := range bodies {
		status, got := s.feedOf(t, strings.NewReader(body), len(body))
		wantStatus, want := s.feedOf(t, strings.NewReader(body), -1)
		if status != wantStatus || got != want {
			t.Errorf("%.200q: %d %.200s, and without its length %d %.200s", body, status, got, wantStatus, want)
		}
	}
}

// TestFeedCutOff sends bodies that end early. An error before the end takes precedence.
func TestFeedCutOff(t *testing.T) {
	s := open(t)
	for body, want := range map[string]string{
		``:                              wire.CodeUnreadableBody,
		`{"viewer":"u1","posts":[{"id"`: wire.CodeUnreadableBody,
		`{"viewer":"u1","posts":[]}`:    wire.CodeUnreadableBody,
		`{"viewer":1,"posts":`:          wire.CodeInvalidType,
		`{"viewer":"1","viewer":"2"`:    wire.CodeDuplicateKey,
		`{"viewer":"1",]`:               wire.CodeMalformedJSON,
	} {
		for _, length := range []int{len(body) + 10, -1} {
			cut := io.MultiReader(strings.NewReader(body), iotest.ErrReader(io.ErrUnexpectedEOF))
			status, got := s.feedOf(t, iotest.OneByteReader(cut), length)
			if status != http.StatusBadRequest || !strings.Contains(got, `{"code":"`+want+`"`) {
				t.Errorf("%q of %d bytes: %d %s, want %s", body, length, status, got, want)
			}
		}
	}
}

// TestFeedsAtOnce: concurrent feeds of various lengths never see each other's memory.
func TestFeedsAtOnce(t *testing.T) {
	s := open(t)
	var asking sync.WaitGroup
	for worker := range 8 {
		asking.Go(func() {
			for i := range 40 {
				var posts, kept []string
				for p := range (worker*31 + i*17) % 60 {
					id := fmt.Sprintf("p%d-%d-%d", worker, i, p)
					posts = append(posts, fmt.Sprintf(`{"id":%q,"author":"a%s","actors":["b%s","c%s"]}`, id, id, id, id))
					kept = append(kept, fmt.Sprintf(`{"id":%q}`, id))
				}
				body := `{"viewer":"u1","posts":[` + strings.Join(posts, ",") + `]}`
				want := `{"posts":[` + strings.Join(kept, ",") + `],"dropped":[],`
				// If the machine stalls for a second, `seen` may be degraded.
				if status, got := s.feedOf(t, strings.NewReader(body), len(body)); status != http.StatusOK || !strings.HasPrefix(got, want) {
					t.Errorf("%d %.300s ... %s, want %.300s", status, got, got[max(0, len(got)-200):], want)
					return
				}
			}
		})
	}
	asking.Wait()
}
