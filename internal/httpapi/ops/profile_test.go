package ops_test

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
)

// profilesPath is where profiles of the process are.
const profilesPath = "/v1/ops/profiles/"

// symbols returns a profile without its compression, if it is one.
func symbols(t *testing.T, a httpapitest.Answer) string {
	t.Helper()
	r, err := gzip.NewReader(strings.NewReader(a.Body))
	if err != nil {
		t.Fatalf("%d %.100s: %v", a.Status, a.Body, err)
	}
	text, err := io.ReadAll(r)
	httpapitest.Must(t, err)
	return string(text)
}

// TestProfiles: profiles are those of Go's tools, and name functions of the service.
func TestProfiles(t *testing.T) {
	s := httpapitest.Open(t)
	for _, name := range []string{"heap", "goroutine"} {
		a := s.Do(t, "GET", profilesPath+name, "")
		if text := symbols(t, a); a.Status != 200 || !strings.Contains(text, "feedfilter") {
			t.Errorf("%s: %d, without a function of the service", name, a.Status)
		}
	}
	a := s.Do(t, "GET", profilesPath+"cpu?seconds=1", "")
	if text := symbols(t, a); a.Status != 200 || !strings.Contains(text, "nanoseconds") {
		t.Errorf("cpu: %d, without a time", a.Status)
	}
	if a := s.Do(t, "HEAD", profilesPath+"cpu", ""); a.Status != 200 || a.Body != "" {
		t.Errorf("HEAD: %d %q", a.Status, a.Body)
	}
}

// profiling starts a profile of the processors that takes longer than the test, and checks that
// others are refused. Its answer comes through the channel.
func profiling(ctx context.Context, t *testing.T, s *httpapitest.Service) (answered chan httpapitest.Answer) {
	t.Helper()
	answered = make(chan httpapitest.Answer, 1)
	go func() {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, profilesPath+"cpu?seconds=60", http.NoBody))
		answered <- httpapitest.Answer{Status: w.Code, Body: w.Body.String()}
	}()
	s.Await(t, "the processors are profiled", func() error { //nolint:contextcheck // ctx is that of one request
		var stacks strings.Builder
		httpapitest.Must(t, pprof.Lookup("goroutine").WriteTo(&stacks, 1))
		if !strings.Contains(stacks.String(), "pprof.profileWriter") {
			return errors.New("nobody reads samples")
		}
		return nil
	})
	for _, name := range []string{"cpu?seconds=1", "heap", "goroutine"} {
		a := s.Do(t, "GET", profilesPath+name, "") //nolint:contextcheck // ctx is that of one request
		if a.Status != 429 || a.Code != "rate_limited" || a.Header.Get("Retry-After") != "1" {
			t.Errorf("%s beside another profile: %d %.100s", name, a.Status, a.Body)
		}
	}
	return answered
}

// TestOneProfile: while a profile is taken, others are refused. It ends when the client leaves, and
// when the service shuts down.
func TestOneProfile(t *testing.T) {
	s := httpapitest.Open(t)
	ctx, leave := context.WithCancel(t.Context())
	answered := profiling(ctx, t, s)
	leave()
	if a := <-answered; strings.HasPrefix(a.Body, "\x1f\x8b") {
		t.Error("a client who left gets a profile")
	}
	answered = profiling(t.Context(), t, s)
	s.EndLong(t)
	if a := <-answered; a.Status != 200 || !strings.Contains(symbols(t, a), "nanoseconds") {
		t.Errorf("at shutdown: %d %.100s", a.Status, a.Body)
	}
}

// TestProfileRate: many profiles in a row are refused, so that nobody stops the process all the
// time.
func TestProfileRate(t *testing.T) {
	s := httpapitest.Open(t)
	refused := 0
	for range 300 {
		if a := s.Do(t, "GET", profilesPath+"goroutine", ""); a.Status == 429 {
			refused++
		}
	}
	if refused == 0 {
		t.Error("300 profiles in a row were answered")
	}
}
