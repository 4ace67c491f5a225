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

	"github.com/feedfilter/feedfilter/feed"
)

// ask sends a body to the feed route. A negative length sends it without Content-Length.
func ask(ctx context.Context, h http.Handler, body io.Reader, length int) (status int, answer string) {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/feed/filter", body)
	r.ContentLength = int64(length)
	r.Header.Set(echo.HeaderContentType, typeJSON)
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

// TestFeedOneAnswer: a body has the same answer with its length, which readFeed tries first, and
// without, which only the strict decoder reads.
func TestFeedOneAnswer(t *testing.T) {
	h, without := openFeeds(t), openFeeds(t) // a feed may be recorded as seen
	statuses := make(map[int]int)
	bodies := feedBodies()
	bodies[servedBody(0)] = true
	for body := range bodies {
		if body == "" { // an empty body always has a length
			continue
		}
		status, got := ask(t.Context(), h, strings.NewReader(body), len(body))
		wantStatus, want := ask(t.Context(), without, strings.NewReader(body), -1)
		if status != wantStatus || got != want {
			t.Errorf("%.200q: %d %.200s, and without its length %d %.200s", body, status, got, wantStatus, want)
		}
		statuses[status]++
	}
	if statuses[http.StatusOK] == 0 || statuses[http.StatusBadRequest] == 0 || len(statuses) != 2 {
		t.Errorf("statuses %v", statuses)
	}
}

// TestFeedCutOff sends bodies that end early. An error before the end takes precedence.
func TestFeedCutOff(t *testing.T) {
	h := openFeeds(t)
	for body, want := range map[string]string{
		``:                              codeUnreadableBody,
		`{"viewer":"u1","posts":[{"id"`: codeUnreadableBody,
		`{"viewer":"u1","posts":[]}`:    codeUnreadableBody,
		`{"viewer":1,"posts":`:          codeInvalidType,
		`{"viewer":"1","viewer":"2"`:    codeDuplicateKey,
		`{"viewer":"1",]`:               codeMalformedJSON,
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

// TestRoomForgets: a room keeps no strings of a finished feed, which would keep the whole body.
func TestRoomForgets(t *testing.T) {
	in := newRoom()
	if req, ok := readFeed(servedBody(0), in); !ok || len(req.Posts) != servedPosts || len(in.actors) == 0 {
		t.Fatal("the feed was not accepted")
	}
	new(rooms).put(in)
	for _, p := range in.posts[:cap(in.posts)] {
		if p.ID != "" || p.Author != "" || p.Actors != nil {
			t.Fatalf("post %+v is still in the room", p)
		}
	}
	for _, a := range in.actors[:cap(in.actors)] {
		if a != "" {
			t.Fatalf("actor %q is still in the room", a)
		}
	}
	in.actors = make([]string, feed.MaxPosts+1)
	new(rooms).put(in)
	if cap(in.actors) > feed.MaxPosts {
		t.Errorf("capacity for %d actors is kept", cap(in.actors))
	}
}
