package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
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
		r := runCommand(t, nil, "feedfilter", "health", "--server", server.URL)
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
	must(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	r := feedfilter(t, exitFailure, "health", "--timeout", "50ms", "--server", "http://"+silent.Addr().String())
	wantContains(t, r.stderr, "feedfilter: health: ", "deadline exceeded")
	r = feedfilter(t, exitFailure, "health", "--server", "http://127.0.0.1:1")
	wantContains(t, r.stderr, "connection refused")
	for _, url := range []string{"127.0.0.1:8080", "ftp://h", "http://", "http://u:secret@h", "http://h?x=1", "http://u:secret@h:x"} {
		r := feedfilter(t, exitUsage, "health", "--server", url)
		wantContains(t, r.stderr, "--server: not ")
		if got := r.stderr; len(got) > 120 {
			t.Errorf("%q", got)
		}
	}
	for _, timeout := range []string{"0s", "61s"} {
		wantContains(t, feedfilter(t, exitUsage, "health", "--timeout", timeout).stderr, "--timeout: ", "is not above 0 and up to 1m")
	}
}

// Without --server, the command asks the first address of serve. It waits for a service that
// starts.
func TestHealthOfTheAddress(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"127.0.0.1:8080":              "http://127.0.0.1:8080",
		"0.0.0.0:81,unix:/run/f.sock": "http://127.0.0.1:81",
		":82":                         "http://127.0.0.1:82",
		"[::]:83":                     "http://[::1]:83",
		"feeds.example:84":            "http://feeds.example:84",
		"unix:/run/f.sock":            "unix:/run/f.sock",
	} {
		if got := (&healthCmd{Addr: addr}).server(); got != want {
			t.Errorf("--addr %s: %s, want %s", addr, got, want)
		}
	}
	var asked atomic.Int64
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"status":"unavailable"}`))
			return
		}
		_, _ = w.Write([]byte(`{"status":"ready"}`))
	}))
	t.Cleanup(service.Close)
	at := []string{"FEEDFILTER_ADDR=" + strings.TrimPrefix(service.URL, "http://")}
	if r := runCommand(t, at, "feedfilter", "health"); r.code != exitFailure {
		t.Errorf("exit code %d of a service that is unavailable", r.code)
	}
	if r := runCommand(t, at, "feedfilter", "health", "--wait", "1m"); r.code != 0 || r.stdout != "ready\n" {
		t.Errorf("exit code %d, %q, %q", r.code, r.stdout, r.stderr)
	}
	wantContains(t, feedfilter(t, exitUsage, "health", "--url", service.URL).stderr, "--url: has another name: --server")
}
