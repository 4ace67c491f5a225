package client_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/feedfilter/feedfilter/client"
)

// TestConnectionsAreUsedAgain: consecutive calls share one connection, whatever their answers,
// unless an answer is too long to be read.
func TestConnectionsAreUsedAgain(t *testing.T) {
	var connections, calls atomic.Int64
	answers := []struct {
		status int
		body   string
	}{{200, okKinds}, {422, `{"error":{"code":"x","message":"y"}}`}, {501, `{"error":{"code":"no_ledger","message":"y"}}`}, {200, "nonsense"}, {404, strings.Repeat("x", 9000)}}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		a := answers[int(calls.Add(1))%len(answers)]
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.body)
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	c := newClient(t, server.URL, client.Options{})
	for range 50 {
		_, _ = c.Kinds(t.Context())
	}
	if connections.Load() != 1 || calls.Load() != 50 {
		t.Errorf("%d connections for %d calls", connections.Load(), calls.Load())
	}
}

// TestRealFaults: a call succeeds although the server closes several connections, and does not
// follow redirects.
func TestRealFaults(t *testing.T) {
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch calls.Add(1) {
		case 1: // no answer
			panic(http.ErrAbortHandler)
		case 2: // half an answer
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"kinds":`)
			panic(http.ErrAbortHandler)
		case 3:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, okKinds)
		default:
			http.Redirect(w, r, "/v1/elsewhere", http.StatusFound)
		}
	}))
	t.Cleanup(server.Close)
	c := newClient(t, server.URL, client.Options{})
	if _, err := c.Kinds(t.Context()); err != nil || calls.Load() != 3 {
		t.Errorf("%d calls, %v", calls.Load(), err)
	}
	if _, err := c.Kinds(t.Context()); !errors.Is(err, client.ErrForeign) || calls.Load() != 4 {
		t.Errorf("a redirect: %d calls, %v", calls.Load(), err)
	}
	server.Close()
	if _, err := c.Kinds(t.Context()); !errors.Is(err, client.ErrUnavailable) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("no server: %v", err)
	}
}

// TestRedirects: no call takes its token and body elsewhere, whatever the caller's HTTPClient does.
func TestRedirects(t *testing.T) {
	var followed atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	t.Cleanup(elsewhere.Close)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/elsewhere" {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect) // to the same host, with the token
			return
		}
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(server.Close)
	for name, own := range map[string]*http.Client{
		"without a policy": {},
		"with a policy":    {CheckRedirect: func(*http.Request, []*http.Request) error { return nil }},
	} {
		before := own.CheckRedirect == nil
		c := newClient(t, server.URL, client.Options{HTTPClient: own, Token: client.StaticToken("t"), MaxAttempts: 1})
		_, feed := c.Filter(t.Context(), client.FilterRequest{Viewer: "1", Posts: []client.Post{{ID: "p", Author: "2"}}})
		_, kinds := c.Kinds(t.Context())
		var export error
		for _, err := range c.Export(t.Context(), "1") {
			export = err
		}
		for call, err := range map[string]error{"Filter": feed, "Kinds": kinds, "Export": export} {
			if !errors.Is(err, client.ErrForeign) {
				t.Errorf("%s, %s: %v", name, call, err)
			}
		}
		if n := followed.Load(); n > 0 {
			t.Errorf("%s: %d redirects followed", name, n)
		}
		if (own.CheckRedirect == nil) != before {
			t.Errorf("%s: the caller's client has changed", name)
		}
	}
}
