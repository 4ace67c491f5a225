package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestHeaderLengths sends headers up to the limit, and longer ones. The service refuses the latter
// at once and closes the connection.
func TestHeaderLengths(t *testing.T) {
	t.Parallel()
	addr := serveWith(t, defaultTimeouts(), 10)
	for name, c := range map[string]struct {
		target, header string
		want           int
	}{
		"as long as may be":   {"/healthz", "X: " + strings.Repeat("x", maxHeaderBytes-200) + "\r\n", http.StatusOK},
		"a long one":          {"/healthz", "X: " + strings.Repeat("x", maxHeaderBytes+8192) + "\r\n", http.StatusRequestHeaderFieldsTooLarge},
		"a long token":        {"/healthz", "Authorization: Bearer " + strings.Repeat("x", maxHeaderBytes+8192) + "\r\n", http.StatusRequestHeaderFieldsTooLarge},
		"many":                {"/healthz", strings.Repeat("X-A: y\r\n", maxHeaderBytes/4), http.StatusRequestHeaderFieldsTooLarge},
		"an endless name":     {"/healthz", strings.Repeat("x", 2*maxHeaderBytes) + "\r\n", http.StatusRequestHeaderFieldsTooLarge},
		"a long path":         {"/" + strings.Repeat("x", 2*maxHeaderBytes), "", http.StatusRequestHeaderFieldsTooLarge},
		"a path that is read": {"/" + strings.Repeat("x", maxHeaderBytes/2), "", http.StatusNotFound},
	} {
		conn := dial(t, addr)
		go func() { // the server may refuse it before its end
			_, _ = io.WriteString(conn, "GET "+c.target+" HTTP/1.1\r\nHost: localhost\r\n"+c.header+"\r\n")
		}()
		if got := conn.answer(); got.status != c.want || got.closed != (c.want == http.StatusRequestHeaderFieldsTooLarge) {
			t.Errorf("%s: answered %d, closed: %v; want %d", name, got.status, got.closed, c.want)
		}
	}
}
