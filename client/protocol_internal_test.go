package client

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestDefaultProtocol: a client that hedges speaks HTTP/1.1, so that a second attempt has a
// connection of its own, and any other HTTP/2.
func TestDefaultProtocol(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", typeJSON)
		_, _ = fmt.Fprintf(w, `{"kinds":[{"name":%q}]}`, r.Proto)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	trusting, _ := server.Client().Transport.(*http.Transport)
	for hedge, want := range map[time.Duration]string{0: "HTTP/2.0", time.Minute: "HTTP/1.1"} {
		c, err := New(server.URL, Options{Hedge: hedge})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		transport, _ := c.http.Transport.(*http.Transport)
		transport.TLSClientConfig = trusting.TLSClientConfig.Clone()
		transport.TLSClientConfig.NextProtos = nil
		transport.ForceAttemptHTTP2 = true // as without a TLSClientConfig
		if kinds, err := c.Kinds(t.Context()); err != nil || len(kinds) != 1 || kinds[0].Name != want {
			t.Errorf("Hedge %v: %v, %v; want %s", hedge, kinds, err, want)
		}
	}
}
