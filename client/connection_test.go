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

// TestConnectionsAreUsedAgain: calls that follow each other go over one connection, whatever they
// are answered, as long as that is not too long to be read.
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

// TestRealFaults: a server that closes connections, over and over, is answered for in the end, and
// redirects are not followed.
func TestRealFaults(t *testing.T) {
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch calls.Add(1) {
		case 1: // nothing
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
