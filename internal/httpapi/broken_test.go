package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
)

func TestBodyBreaks(t *testing.T) {
	s := httpapitest.Open(t)
	const whole = `{"posts":["x"]}`
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{os.ErrDeadlineExceeded, 408, "timeout"},
		{fmt.Errorf("read tcp: %w", os.ErrDeadlineExceeded), 408, "timeout"},
		{io.ErrUnexpectedEOF, 400, "unreadable_body"},
		{httpapitest.ErrInjected, 400, "unreadable_body"},
	} {
		for _, text := range []string{"", whole[:5], whole} {
			for method, target := range map[string]string{"POST": "/v1/users/1/seen", "PUT": "/v1/users/1/hides/x"} {
				if method == "PUT" && text != "" {
					continue // refused because of the part that arrived
				}
				r := httptest.NewRequestWithContext(t.Context(), method, target, httpapitest.Breaking(text, c.err))
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				s.ServeHTTP(w, r)
				if want := `{"error":{"code":"` + c.code + `",`; w.Code != c.status || !strings.HasPrefix(w.Body.String(), want) {
					t.Errorf("%s, %q and then %v: %d %s", method, text, c.err, w.Code, w.Body)
				}
			}
		}
	}
	s.Want(t, "POST", "/v1/feed/filter", `{"viewer":"1","posts":[{"id":"x"}],"kinds":["hide","seen"]}`, 200, `{"posts":[{"id":"x"}],"dropped":[],"degraded":[]}`)
}

// TestMalformedEscape requests a path that net/http servers never pass on.
func TestMalformedEscape(t *testing.T) {
	s := httpapitest.Open(t)
	r := &http.Request{Method: http.MethodPut, URL: &url.URL{Path: "/v1/users/1/hides/x", RawPath: "/v1/users/1/hides/%zz"}, Header: http.Header{}, Body: http.NoBody}
	if a := httpapitest.Serve(t, s, r.WithContext(t.Context())); a.Status != 400 || a.Code != "invalid_id" || a.Field != "target" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// TestCutOff: if an answer cannot be completed, the client must not mistake it for a complete one.
func TestCutOff(t *testing.T) {
	logger, out := httpapitest.Logs()
	s := httpapitest.NewService(t, httpapi.Config{Logger: logger}, nil)
	l := httpapitest.ActivityLine("1", "hide", "p", "add") + "\n"
	for name, c := range map[string]struct {
		w      httpapitest.BadWriter
		body   io.Reader
		status int
	}{
		"write":       {httpapitest.BadWriter{WriteErr: httpapitest.ErrInjected}, strings.NewReader(l), 499},
		"flush":       {httpapitest.BadWriter{FlushErr: httpapitest.ErrInjected}, strings.NewReader(l), 499},
		"deadline":    {httpapitest.BadWriter{DeadlineErr: httpapitest.ErrInjected}, strings.NewReader(l), 499},
		"client":      {httpapitest.BadWriter{}, httpapitest.Breaking(l+l, httpapitest.ErrInjected), 499},
		"idle":        {httpapitest.BadWriter{}, httpapitest.Breaking(l, os.ErrDeadlineExceeded), 499},
		"panic":       {httpapitest.BadWriter{Mad: true}, strings.NewReader(l), 500},
		"unsupported": {httpapitest.BadWriter{DuplexErr: http.ErrNotSupported, DeadlineErr: http.ErrNotSupported, FlushErr: http.ErrNotSupported, WriteErr: httpapitest.ErrInjected}, strings.NewReader(l), 499},
	} {
		out.Reset()
		c.w.ResponseRecorder = httptest.NewRecorder()
		r := httpapitest.StreamRequest(t.Context(), c.body)
		if !s.Aborted(&c.w, r) {
			t.Errorf("%s: the answer looks complete: %q", name, c.w.Body)
		}
		if want := fmt.Sprintf(`"status":%d,`, c.status); !strings.Contains(out.String(), want) {
			t.Errorf("%s: no %s in %s", name, want, out)
		}
	}
	// An answer that is sent at once.
	w := &httpapitest.BadWriter{ResponseRecorder: httptest.NewRecorder(), WriteErr: httpapitest.ErrInjected}
	if !s.Aborted(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/healthz", http.NoBody)) {
		t.Error("an answer that was not written looks complete")
	}
}

// TestNoDuplex: a stream on a connection without full duplex fails before anything is sent.
func TestNoDuplex(t *testing.T) {
	s := httpapitest.Open(t)
	w := &httpapitest.BadWriter{ResponseRecorder: httptest.NewRecorder(), DuplexErr: httpapitest.ErrInjected}
	r := httpapitest.StreamRequest(t.Context(), strings.NewReader(""))
	if s.Aborted(w, r) || w.Code != http.StatusInternalServerError || !strings.HasPrefix(w.Body.String(), `{"error":{"code":"internal",`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestAbortPassesThrough: a handler's http.ErrAbortHandler reaches the server.
func TestAbortPassesThrough(t *testing.T) {
	s := httpapitest.Open(t)
	s.Store.Set(httpapitest.Aborting)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/feed/filter", strings.NewReader(httpapitest.BlockedFeed))
	r.Header.Set("Content-Type", "application/json")
	if w := httptest.NewRecorder(); !s.Aborted(w, r) || w.Body.Len() > 0 {
		t.Errorf("answered %s", w.Body)
	}
}

// TestStreamEndsWhileRecording ends the context between a line and its result.
func TestStreamEndsWhileRecording(t *testing.T) {
	s := httpapitest.Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	body := httpapitest.ReadFunc(func(p []byte) (int, error) {
		cancel()
		return copy(p, httpapitest.ActivityLine("1", "hide", "p", "add")+"\n"), nil
	})
	r := httpapitest.StreamRequest(ctx, body)
	w := httptest.NewRecorder()
	if !s.Aborted(w, r) || w.Body.Len() > 0 {
		t.Errorf("answered %s", w.Body)
	}
	// The result is unknown, but the write is not half done.
	if a := s.Do(t, "PUT", "/v1/users/1/hides/p", ""); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}
