package httpapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/internal/httpapi/core"
)

// ask sends a body to the feed route. A negative length sends it without Content-Length.
func ask(ctx context.Context, h http.Handler, body io.Reader, length int) (status int, answer string) {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/feed/filter", body)
	r.ContentLength = int64(length)
	r.Header.Set(echo.HeaderContentType, core.TypeJSON)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func openFeeds(t *testing.T) http.Handler {
	t.Helper()
	h, end, err := feedServiceAt(t.Context(), t.TempDir(), 1e-8) // the test looks up tens of thousands of ids
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// TestFeedCutOff sends bodies that end early. An error before the end takes precedence.
func TestFeedCutOff(t *testing.T) {
	h := openFeeds(t)
	for body, want := range map[string]string{
		``:                              core.CodeUnreadableBody,
		`{"viewer":"u1","posts":[{"id"`: core.CodeUnreadableBody,
		`{"viewer":"u1","posts":[]}`:    core.CodeUnreadableBody,
		`{"viewer":1,"posts":`:          core.CodeInvalidType,
		`{"viewer":"1","viewer":"2"`:    core.CodeDuplicateKey,
		`{"viewer":"1",]`:               core.CodeMalformedJSON,
	} {
		for _, length := range []int{len(body) + 10, -1} {
			cut := io.MultiReader(strings.NewReader(body), iotest.ErrReader(io.ErrUnexpectedEOF))
			status, got := ask(t.Context(), h, iotest.OneByteReader(cut), length)
			if status != http.StatusBadRequest || !strings.Contains(got, `{"code":"`+want+`"`) {
				t.Errorf("%q of %d bytes: %d %s, want %s", body, length, status, got, want)
			}
		}
	}
}

// TestFeedsAtOnce: concurrent feeds of various lengths never see each other's memory.
func TestFeedsAtOnce(t *testing.T) {
	h := openFeeds(t)
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
				if status, got := ask(t.Context(), h, strings.NewReader(body), len(body)); status != http.StatusOK || !strings.HasPrefix(got, want) {
					t.Errorf("%d %.300s ... %s, want %.300s", status, got, got[max(0, len(got)-200):], want)
					return
				}
			}
		})
	}
	asking.Wait()
}
