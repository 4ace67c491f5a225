package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// health exits with 0 if the service answers feeds, even degraded ones. Otherwise it exits with 1
// and prints the reason on one line.
func TestHealth(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"status":"ready"}`))
	}))
	t.Cleanup(elsewhere.Close)
	for name, c := range map[string]struct {
		status int
		body   string
		code   int
		stdout string
		stderr string
	}{
		"ready":    {200, `{"status":"ready"}`, 0, "ready\n", ""},
		"degraded": {200, `{"status":"degraded","down":[{"dependency":"pages","reason":"it does not answer in time"}]}`, 0, "degraded; pages: it does not answer in time\n", ""},
		"unavailable": {
			503, `{"status":"unavailable","down":[{"dependency":"ledger","reason":"gone"},{"dependency":"pages","reason":"gone too"}]}`,
			1, "", ": unavailable; ledger: gone; pages: gone too",
		},
		"something else":   {200, `<html>`, 1, "", "unexpected answer: 200 OK"},
		"no status":        {200, `{}`, 1, "", "unexpected answer: 200 OK"},
		"another's ready":  {404, `{"status":"ready"}`, 1, "", "unexpected answer: 404 Not Found"},
		"a way to another": {302, ``, 1, "", "unexpected answer: 302 Found"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/readyz" {
				t.Errorf("%s: asked for %s", name, r.URL)
			}
			w.Header().Set("Location", elsewhere.URL)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		}))
		t.Cleanup(server.Close)
		r := runCommand(t, nil, "feedfilter", "health", "--url", server.URL)
		if r.code != c.code || r.stdout != c.stdout || (r.stderr == "") != (c.stderr == "") {
			t.Errorf("%s: exit code %d, %q, %q", name, r.code, r.stdout, r.stderr)
		}
		wantContains(t, r.stderr, c.stderr)
	}
}

// A service that is not running or does not answer is not healthy.
func TestHealthOfNone(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed with the test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	r := feedfilter(t, exitFailure, "health", "--timeout", "50ms", "--url", "http://"+silent.Addr().String())
	wantContains(t, r.stderr, "feedfilter: health: ", "deadline exceeded")
	r = feedfilter(t, exitFailure, "health", "--url", "http://127.0.0.1:1")
	wantContains(t, r.stderr, "connection refused")
	for _, url := range []string{"127.0.0.1:8080", "ftp://h", "http://", "http://u:secret@h", "http://h?x=1", "http://u:secret@h:x"} {
		r := feedfilter(t, exitUsage, "health", "--url", url)
		wantContains(t, r.stderr, "--url: not ")
		if got := r.stderr; len(got) > 120 {
			t.Errorf("%q", got)
		}
	}
	for _, timeout := range []string{"0s", "61s"} {
		wantContains(t, feedfilter(t, exitUsage, "health", "--timeout", timeout).stderr, "--timeout: ", "is not above 0 and up to 1m")
	}
}
