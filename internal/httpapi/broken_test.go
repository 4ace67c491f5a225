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
	"time"

	"github.com/feedfilter/feedfilter/internal/httpapi"
)

// readFunc is a body whose Read is a function.
type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// breaking returns a body that has text, and then fails with err.
func breaking(text string, err error) io.Reader {
	return io.MultiReader(strings.NewReader(text), readFunc(func([]byte) (int, error) { return 0, err }))
}

func TestBodyBreaks(t *testing.T) {
	s := open(t)
	const whole = `{"posts":["x"]}`
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{os.ErrDeadlineExceeded, 408, "timeout"},
		{fmt.Errorf("read tcp: %w", os.ErrDeadlineExceeded), 408, "timeout"},
		{io.ErrUnexpectedEOF, 400, "unreadable_body"},
		{errInjected, 400, "unreadable_body"},
	} {
		for _, text := range []string{"", whole[:5], whole} {
			for method, target := range map[string]string{"POST": "/v1/users/1/seen", "PUT": "/v1/users/1/hides/x"} {
				if method == "PUT" && text != "" {
					continue // refused because of the part that arrived
				}
				r := httptest.NewRequestWithContext(t.Context(), method, target, breaking(text, c.err))
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				s.ServeHTTP(w, r)
				if want := `{"error":{"code":"` + c.code + `",`; w.Code != c.status || !strings.HasPrefix(w.Body.String(), want) {
					t.Errorf("%s, %q and then %v: %d %s", method, text, c.err, w.Code, w.Body)
				}
			}
		}
	}
	s.want(t, "POST", "/v1/feed/filter", `{"viewer":"1","posts":[{"id":"x"}],"kinds":["hide","seen"]}`, 200, `{"posts":[{"id":"x"}],"dropped":[],"degraded":[]}`)
}

// TestMalformedEscape requests a path that net/http servers never pass on.
func TestMalformedEscape(t *testing.T) {
	s := open(t)
	r := &http.Request{Method: http.MethodPut, URL: &url.URL{Path: "/v1/users/1/hides/x", RawPath: "/v1/users/1/hides/%zz"}, Header: http.Header{}, Body: http.NoBody}
	if a := serve(t, s, r.WithContext(t.Context())); a.Status != 400 || a.Code != "invalid_id" || a.Field != "target" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// badWriter is a connection with injected failures.
type badWriter struct {
	*httptest.ResponseRecorder

	write, flush, deadline, duplex error
	mad                            bool // panics instead of flushing
}

func (w *badWriter) Write(p []byte) (int, error) {
	if w.write != nil {
		return 0, w.write
	}
	return w.ResponseRecorder.Write(p)
}

func (w *badWriter) FlushError() error {
	if w.mad {
		panic("the writer is mad")
	}
	return w.flush
}

func (w *badWriter) SetReadDeadline(time.Time) error  { return w.deadline }
func (w *badWriter) SetWriteDeadline(time.Time) error { return w.deadline }
func (w *badWriter) EnableFullDuplex() error          { return w.duplex }

// aborted runs the request, and reports whether the connection must be closed.
func (s *service) aborted(w http.ResponseWriter, r *http.Request) (cut bool) {
	defer func() {
		switch v := recover(); v {
		case nil:
		case http.ErrAbortHandler:
			cut = true
		default:
			panic(v)
		}
	}()
	s.ServeHTTP(w, r)
	return false
}

// TestCutOff: if an answer cannot be completed, the client must not mistake it for a complete one.
func TestCutOff(t *testing.T) {
	logger, out := logs()
	s := newService(t, httpapi.Config{Logger: logger}, nil)
	l := activityLine("1", "hide", "p", "add") + "\n"
	for name, c := range map[string]struct {
		w      badWriter
		body   io.Reader
		status int
	}{
		"write":       {badWriter{write: errInjected}, strings.NewReader(l), 499},
		"flush":       {badWriter{flush: errInjected}, strings.NewReader(l), 499},
		"deadline":    {badWriter{deadline: errInjected}, strings.NewReader(l), 499},
		"client":      {badWriter{}, breaking(l+l, errInjected), 499},
		"idle":        {badWriter{}, breaking(l, os.ErrDeadlineExceeded), 499},
		"panic":       {badWriter{mad: true}, strings.NewReader(l), 500},
		"unsupported": {badWriter{duplex: http.ErrNotSupported, deadline: http.ErrNotSupported, flush: http.ErrNotSupported, write: errInjected}, strings.NewReader(l), 499},
	} {
		out.Reset()
		c.w.ResponseRecorder = httptest.NewRecorder()
		r := streamRequest(t.Context(), c.body)
		if !s.aborted(&c.w, r) {
			t.Errorf("%s: the answer looks complete: %q", name, c.w.Body)
		}
		if want := fmt.Sprintf(`"status":%d,`, c.status); !strings.Contains(out.String(), want) {
			t.Errorf("%s: no %s in %s", name, want, out)
		}
	}
	// An answer that is sent at once.
	w := &badWriter{ResponseRecorder: httptest.NewRecorder(), write: errInjected}
	if !s.aborted(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/healthz", http.NoBody)) {
		t.Error("an answer that was not written looks complete")
	}
}

// TestNoDuplex: a stream on a connection without full duplex fails before anything is sent.
func TestNoDuplex(t *testing.T) {
	s := open(t)
	w := &badWriter{ResponseRecorder: httptest.NewRecorder(), duplex: errInjected}
	r := streamRequest(t.Context(), strings.NewReader(""))
	if s.aborted(w, r) || w.Code != http.StatusInternalServerError || !strings.HasPrefix(w.Body.String(), `{"error":{"code":"internal",`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestAbortPassesThrough: a handler's http.ErrAbortHandler reaches the server.
func TestAbortPassesThrough(t *testing.T) {
	s := open(t)
	s.store.set(aborting)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/feed/filter", strings.NewReader(blockedFeed))
	r.Header.Set("Content-Type", "application/json")
	if w := httptest.NewRecorder(); !s.aborted(w, r) || w.Body.Len() > 0 {
		t.Errorf("answered %s", w.Body)
	}
}

// TestStreamEndsWhileRecording ends the context between a line and its result.
func TestStreamEndsWhileRecording(t *testing.T) {
	s := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	body := readFunc(func(p []byte) (int, error) {
		cancel()
		return copy(p, activityLine("1", "hide", "p", "add")+"\n"), nil
	})
	r := streamRequest(ctx, body)
	w := httptest.NewRecorder()
	if !s.aborted(w, r) || w.Body.Len() > 0 {
		t.Errorf("answered %s", w.Body)
	}
	// The result is unknown, but the write is not half done.
	if a := s.do(t, "PUT", "/v1/users/1/hides/p", ""); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}
