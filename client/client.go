package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// Options configure a Client. The zero value has good defaults.
type Options struct {
	_ struct{} // fields are named

	// Token returns the token for an attempt, "" for none. It is called before each attempt,
	// possibly concurrently. See [StaticToken] and [TokenFile]. Default: no token.
	Token func(context.Context) (string, error)

	// HTTPClient makes the requests. If it has a timeout of its own, that limits streams, too.
	// Default: a client that keeps up to 64 connections, uses the proxy that the environment names,
	// and follows no redirect.
	HTTPClient *http.Client

	// AttemptTimeout is how long one attempt may take, its answer included. It does not limit
	// streams and exports, which end with the context, nor the deletion of a user, whose attempts
	// may take 6 minutes. Default 15 s, more than the 10 s after which the service itself says what
	// is down.
	AttemptTimeout time.Duration

	// MaxAttempts is the largest number of attempts of a call, the first one included. 1: no
	// retries. Default 4.
	MaxAttempts int

	// Hedge is the time after which a read without an answer is made a second time, on another
	// connection. Reads are Filter without RecordSeen, Explain, List and Counts. The first answer
	// counts, and the other attempt is canceled. A good value is the time in which 95 % of these
	// calls are answered. The second attempt counts as a retry: see the package documentation. With
	// Hedge, the default HTTPClient speaks HTTP/1.1 only, because all attempts over HTTP/2 would
	// share a connection. Default 0: no second attempt.
	Hedge time.Duration

	// MaxAnswerBytes bounds the length of an answer, and that of a line of a stream, in bytes.
	// Default 16 MiB.
	MaxAnswerBytes int64

	// UserAgent is sent with each request. Default "feedfilter-go".
	UserAgent string

	// JSON makes every call with JSON, to a service that knows AnswerDropped. By default, calls of
	// feeds and activities are Protobuf, which costs both sides less time, unless the service does
	// not take it.
	JSON bool
}

// Client calls one service. It is safe for concurrent use.
type Client struct {
	base    *url.URL
	http    *http.Client
	token   func(context.Context) (string, error)
	timeout time.Duration
	most    int
	hedge   time.Duration
	length  int64
	agent   string
	json    bool // the service is of this version, and messages are not wanted
	budget  budget

	onlyJSON atomic.Bool // messages are not wanted, or the service takes none
}

// New returns a Client of the service at baseURL, such as "http://127.0.0.1:8080". The URL may have
// a path, which then precedes the service's paths. "unix:/run/feedfilter.sock" is a service that
// listens on a Unix socket. New does not connect yet. It fails if the URL or an option is invalid;
// the error does not repeat the URL, which may contain a password.
func New(baseURL string, o Options) (*Client, error) {
	socket, isSocket := strings.CutPrefix(baseURL, "unix:")
	if isSocket {
		socket, baseURL = strings.TrimPrefix(socket, "//"), "http://localhost"
	}
	base, err := url.Parse(baseURL)
	switch { // errors do not repeat the URL, which may have a password
	case err != nil, base.Scheme != "http" && base.Scheme != "https", base.Hostname() == "",
		base.RawQuery != "", base.Fragment != "", base.User != nil:
		return nil, errors.New("not of the form http://<host>:<port> or unix:<path>")
	case isSocket && socket == "":
		return nil, errors.New("unix: without the path of a socket")
	case o.AttemptTimeout < 0 || o.MaxAttempts < 0 || o.Hedge < 0 || o.MaxAnswerBytes < 0:
		return nil, errors.New("an option of the client is negative")
	}
	base.Path, base.RawPath = strings.TrimSuffix(base.Path, "/"), strings.TrimSuffix(base.RawPath, "/")
	c := &Client{
		base:    base,
		http:    o.HTTPClient,
		token:   o.Token,
		timeout: cmp.Or(o.AttemptTimeout, 15*time.Second),
		most:    cmp.Or(o.MaxAttempts, 4),
		hedge:   o.Hedge,
		length:  cmp.Or(o.MaxAnswerBytes, 16<<20),
		agent:   cmp.Or(o.UserAgent, "feedfilter-go"),
		json:    o.JSON,
		budget:  budget{left: maxBudget},
	}
	if c.http == nil {
		c.http = defaultHTTPClient(o.Hedge > 0)
	}
	c.onlyJSON.Store(o.JSON)
	if isSocket {
		c.http, err = overSocket(c.http, socket)
	}
	return c, err
}

// overSocket returns the client with connections to a socket.
func overSocket(c *http.Client, path string) (*http.Client, error) {
	transport, ok := c.Transport.(*http.Transport)
	if c.Transport == nil {
		transport, ok = http.DefaultTransport.(*http.Transport)
	}
	if !ok {
		return nil, errors.New("unix: needs an HTTPClient whose Transport is an *http.Transport")
	}
	transport = transport.Clone()
	transport.Proxy = nil
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	over := *c
	over.Transport = transport
	return &over, nil
}

// defaultHTTPClient keeps as many connections to the service as there are concurrent calls, up to
// 64. With onlyHTTP1, each call has a connection of its own while it lasts.
func defaultHTTPClient(onlyHTTP1 bool) *http.Client {
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		MaxIdleConns:          64,
		MaxIdleConnsPerHost:   64,
		IdleConnTimeout:       90 * time.Second, // before the service ends them
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true,     // the service does not compress
		WriteBufferSize:       32 << 10, // a request for a feed of 500 posts is one write
	}
	if onlyHTTP1 {
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetHTTP1(true)
	}
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Close closes idle connections. The Client can still be used.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// StaticToken returns a Token function for a token that does not change.
func StaticToken(token string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return token, nil }
}

// TokenFile returns a Token function that reads the token from a file, without surrounding white
// space. It reads the file for each attempt, so the file may be replaced at any time. It fails if
// the file cannot be read or has no token.
func TokenFile(path string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("read the token: %w", err)
		}
		token := strings.TrimSpace(string(text))
		if token == "" {
			return "", fmt.Errorf("read the token: %s is empty", path)
		}
		return token, nil
	}
}

// requestIDKey is the key of a request's id in a context.
type requestIDKey struct{}

// WithRequestID returns a context whose calls carry id, by which the service's log names them. id
// is 1 to 64 letters, digits and "-_."; for any other id the service makes one up.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}
