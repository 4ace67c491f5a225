package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/httpapi"
)

// pipes is a listener in memory. In a synctest bubble, time passes while its connections wait.
type pipes struct {
	conns chan net.Conn
	ended chan struct{}
	once  sync.Once
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error { l.once.Do(func() { close(l.ended) }); return nil }

func (*pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// starvedConn is a connection of a process that gets no processor time after a read, for longer
// than the header timeout.
type starvedConn struct {
	net.Conn

	starved atomic.Bool // after the next read of some bytes
}

func (c *starvedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.starved.Swap(false) {
		time.Sleep(time.Minute)
	}
	return n, err
}

// sending is what a client does with a connection: it sends parts, with a pause before each but the
// first.
type sending struct {
	parts   []string
	pause   time.Duration
	starved int // the number of the part whose first read is followed by no processor time; 0: none
	secure  bool
}

// selfSigned returns a certificate of a name that nobody checks.
func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
}

// received returns all that a client receives until the server closes the connection, the
// service's log, and its metrics.
func (s sending) received(t *testing.T) (answers, log, metrics string) {
	t.Helper()
	activities, err := activity.OpenPlain(t.Context(), activity.PlainConfig{Store: &favfilter.Memory{}, Pages: 1})
	must(t, err)
	defer activities.Close()
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, nil))
	handler := httpapi.New(httpapi.Config{Activities: activities, Logger: logger})
	server := newServer(handler, logger, defaultTimeouts())
	listener := &pipes{conns: make(chan net.Conn), ended: make(chan struct{})}
	var accepting net.Listener = newConnectionLimit(10, handler.Unread).listener(listener)
	if s.secure {
		accepting = tls.NewListener(accepting, &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}, MinVersion: tls.VersionTLS13})
	}
	served := make(chan error)
	go func() { served <- server.Serve(accepting) }()
	near, far := net.Pipe()
	starved := &starvedConn{Conn: far}
	listener.conns <- starved
	client := near
	if s.secure {
		client = tls.Client(near, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13})
	}
	closed := make(chan struct{})
	go func() { // the server may close the connection before it has read everything
		for i, part := range s.parts {
			if i > 0 {
				select {
				case <-time.After(s.pause):
				case <-closed:
				}
			}
			if i+1 == s.starved {
				starved.starved.Store(true)
			}
			_, _ = io.WriteString(client, part)
		}
	}()
	all, _ := io.ReadAll(client) // with TLS, the end is an error
	close(closed)
	_ = client.Close()
	_ = server.Close()
	if err := <-served; err != http.ErrServerClosed { //nolint:errorlint // it is never wrapped
		t.Errorf("serve: %v", err)
	}
	synctest.Wait()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/metrics", http.NoBody))
	return string(all), out.String(), w.Body.String()
}

// TestUnreadRequests: the service answers a request whose header is not read in time, and counts
// it. It is overload if the process had no time to read it, and otherwise the client's timeout.
// Nothing is said to a client that has sent nothing.
func TestUnreadRequests(t *testing.T) {
	const (
		whole  = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
		post   = "POST /v1/feed/filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 26\r\n\r\n"
		feed   = `{"viewer":"1","posts":[]} `
		long   = time.Hour // longer than any timeout
		none   = ""
		late   = "overloaded"
		slow   = "timeout"
		failed = "HTTP/1.1 400 Bad Request"
	)
	for name, c := range map[string]struct {
		sending

		answers []string // how each answer begins, in order
		counted string   // the reason
	}{
		"no time after the first bytes": {sending{parts: []string{whole}, starved: 1}, []string{"HTTP/1.1 503 "}, late},
		"no time within the header": {
			sending{parts: []string{"GET /healthz HTTP/1.1\r\nHost: x\r\nX: ", strings.Repeat("x", 5000) + "\r\n\r\n"}, starved: 2}, []string{"HTTP/1.1 503 "}, late,
		},
		"no time within the second request": {
			sending{parts: []string{whole, "GET /healthz HT", "TP/1.1\r\nHost: x\r\n", "\r\n"}, pause: time.Second, starved: 3}, []string{"HTTP/1.1 200 ", "HTTP/1.1 503 "}, late,
		},
		"a few bytes":       {sending{parts: []string{"GET /", whole}, pause: long}, []string{"HTTP/1.1 408 "}, slow},
		"a part of a line":  {sending{parts: []string{"GET /healthz HTTP/1", whole}, pause: long}, []string{"HTTP/1.1 408 "}, slow},
		"a part of a field": {sending{parts: []string{"GET /healthz HTTP/1.1\r\nHo", whole}, pause: long}, []string{"HTTP/1.1 408 "}, slow},
		"some fields":       {sending{parts: []string{"GET /healthz HTTP/1.1\r\nHost: x\r\n", whole}, pause: long}, []string{"HTTP/1.1 408 "}, slow},
		"a part of the second request": {
			sending{parts: []string{whole, "GET /healthz", whole}, pause: 10 * time.Second}, []string{"HTTP/1.1 200 ", "HTTP/1.1 408 "}, slow,
		},
		"a request and a part at once": {sending{parts: []string{whole + "GET /healthz", whole}, pause: long}, []string{"HTTP/1.1 200 ", "HTTP/1.1 408 "}, slow},
		"nothing":                      {sending{parts: []string{"", whole}, pause: long}, nil, none},
		"nothing after a request":      {sending{parts: []string{whole, whole}, pause: long}, []string{"HTTP/1.1 200 "}, none},
		"two requests":                 {sending{parts: []string{whole, post + feed, whole + "GET /"}, pause: time.Minute}, []string{"HTTP/1.1 200 ", "HTTP/1.1 200 ", "HTTP/1.1 200 ", "HTTP/1.1 408 "}, slow},
		"a body that does not end":     {sending{parts: []string{post + feed[:9], whole}, pause: long}, []string{"HTTP/1.1 408 "}, none},
		"answered by net/http itself": {
			sending{parts: []string{"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", whole}, pause: long}, []string{"HTTP/1.1 200 "}, none,
		},
		"no request": {sending{parts: []string{"hello, is this FTP?\r\n\r\n", whole}, pause: long}, []string{failed}, none},
		"no host":    {sending{parts: []string{"GET /healthz HTTP/1.1\r\n\r\n", whole}, pause: long}, []string{failed}, none},

		"TLS: no time within the header": {
			sending{parts: []string{"GET /healthz HTTP/1.1\r\nHo", "st: x\r\n", "\r\n"}, starved: 2, secure: true}, nil, late,
		},
		"TLS: a part of a field":       {sending{parts: []string{"GET /healthz HTTP/1.1\r\nHo", whole}, pause: long, secure: true}, nil, slow},
		"TLS: some fields":             {sending{parts: []string{"GET /healthz HTTP/1.1\r\nHost: x\r\n", whole}, pause: long, secure: true}, nil, slow},
		"TLS: nothing":                 {sending{parts: []string{"", whole}, pause: long, secure: true}, nil, none},
		"TLS: nothing after a request": {sending{parts: []string{whole, whole}, pause: long, secure: true}, []string{"HTTP/1.1 200 "}, none},
		"TLS: no request":              {sending{parts: []string{"hello, is this FTP?\r\n\r\n", whole}, pause: long, secure: true}, []string{failed}, none},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answers, log, metrics := c.received(t)
				all := strings.Split(answers, "HTTP/1.1 ")
				for i := range all {
					all[i] = "HTTP/1.1 " + all[i]
				}
				all = all[1:]
				for i, want := range c.answers {
					if i >= len(all) || !strings.HasPrefix(all[i], want) {
						t.Fatalf("answer %d does not begin with %q: %q", i, want, answers)
					}
				}
				if len(all) != len(c.answers) {
					t.Errorf("%d answers, want %d: %q", len(all), len(c.answers), answers)
				}
				for _, reason := range []string{late, slow} {
					want := "0"
					if reason == c.counted {
						want = "1"
					}
					if line := "\nfeedfilter_http_requests_unread_total{reason=\"" + reason + "\"} " + want + "\n"; !strings.Contains(metrics, line) {
						t.Errorf("the metrics lack %q", line)
					}
				}
				overload := c.counted == late
				if strings.Contains(metrics, "\nfeedfilter_http_requests_shed_total 1\n") != overload || strings.Contains(log, "overloaded, requests refused") != overload {
					t.Errorf("overload is counted and logged, want %v: %s", overload, log)
				}
				if c.counted != none && len(c.answers) > 0 {
					wantRefusal(t, all[len(all)-1], c.counted)
				}
			})
		})
	}
}

// wantRefusal checks that a whole answer is in the form of all others.
func wantRefusal(t *testing.T, answer, code string) {
	t.Helper()
	header, body, _ := strings.Cut(answer, "\r\n\r\n")
	for _, field := range []string{"Connection: close", "Content-Type: application/json", "X-Request-Id: ", "Cache-Control: no-store", "X-Content-Type-Options: nosniff"} {
		if !strings.Contains(header+"\r\n", "\r\n"+field) {
			t.Errorf("the header lacks %q: %q", field, header)
		}
	}
	if strings.Contains(header, "\r\nRetry-After: ") != (code == "overloaded") {
		t.Errorf("Retry-After: %q", header)
	}
	if !strings.HasPrefix(body, `{"error":{"code":"`+code+`","message":"`) || !strings.HasSuffix(body, `"}}`) {
		t.Errorf("body %q", body)
	}
}
