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

	// HTTPClient makes the requests. Its own timeout, if any, also limits streams. The Client uses
	// a copy that follows no redirects: they would carry the token and the body elsewhere. Default:
	// a client that keeps up to 64 connections, and uses the proxy of the environment.
	HTTPClient *http.Client

	// AttemptTimeout is how long one attempt may take, including its answer. It does not limit
	// streams and exports, which end with the context. An attempt to delete a user may take 6
	// minutes instead. Default 15 s: the service itself answers after at most 10 s, and names what
	// is down.
	AttemptTimeout time.Duration

	// MaxAttempts is the maximum number of attempts of a call, including the first. 1: no retries.
	// Default 4.
	MaxAttempts int

	// Hedge is the time after which an unanswered read is sent again, on another connection. Reads
	// are Filter without RecordSeen, Explain, List and Counts. The first answer counts, and the
	// other attempt is canceled. A good value is the time in which 95 % of these calls are
	// answered. The second attempt counts as a retry: see the package documentation. With Hedge,
	// the default HTTPClient speaks only HTTP/1.1, because attempts over HTTP/2 would share a
	// connection. Default 0: no second attempt.
	Hedge time.Duration

	// MaxAnswerBytes limits the length of an answer, and of a line of a stream, in bytes. Default
	// 16 MiB.
	MaxAnswerBytes int64

	// UserAgent is sent with each request. Default "feedfilter-go".
	UserAgent string

	// JSON makes every call with JSON. The service must be of a version that knows AnswerDropped.
	// By default, calls of feeds and activities use Protobuf, which takes both sides less time,
	// unless the service does not accept it.
	JSON bool
}

// Client calls one service. It is safe for concurrent use.
type Client struct {
	base   *url.URL
	http   *http.Client
	o      Options // with defaults
	budget budget

	onlyJSON atomic.Bool // messages are off, or the service accepts none
}

// New returns a Client of the service at baseURL, such as "http://127.0.0.1:8080". The URL may have
// a path, which then precedes the service's paths. "unix:/run/feedfilter.sock" is a service on a
// Unix socket. New does not connect. It fails if the URL or an option is invalid. The error does
// not repeat the URL, which may contain a password.
func New(baseURL string, o Options) (*Client, error) {
	socket, isSocket := strings.CutPrefix(baseURL, "unix:")
	if isSocket {
		socket, baseURL = strings.TrimPrefix(socket, "//"), "http://localhost"
	}
	base, err := url.Parse(baseURL)
	switch { // errors do not repeat the URL, which may contain a password
	case err != nil, base.Scheme != "http" && base.Scheme != "https", base.Hostname() == "",
		base.RawQuery != "", base.Fragment != "", base.User != nil:
		return nil, errors.New("not of the form http://<host>:<port> or unix:<path>")
	case isSocket && socket == "":
		return nil, errors.New("unix: the path of the socket is missing")
	case o.AttemptTimeout < 0 || o.MaxAttempts < 0 || o.Hedge < 0 || o.MaxAnswerBytes < 0:
		return nil, errors.New(
			"AttemptTimeout, MaxAttempts, Hedge and MaxAnswerBytes must not be negative",
		)
	}
	base.Path = strings.TrimSuffix(base.Path, "/")
	base.RawPath = strings.TrimSuffix(base.RawPath, "/")
	o.AttemptTimeout = cmp.Or(o.AttemptTimeout, 15*time.Second)
	o.MaxAttempts = cmp.Or(o.MaxAttempts, 4)
	o.MaxAnswerBytes = cmp.Or(o.MaxAnswerBytes, 16<<20)
	o.UserAgent = cmp.Or(o.UserAgent, "feedfilter-go")
	if o.HTTPClient == nil {
		o.HTTPClient = defaultHTTPClient(o.Hedge > 0)
	}
	direct := *o.HTTPClient
	direct.CheckRedirect = func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}
	if isSocket {
		direct.Transport, err = overSocket(direct.Transport, socket)
	}
	c := &Client{base: base, http: &direct, o: o, budget: budget{left: maxBudget}}
	c.onlyJSON.Store(o.JSON)
	return c, err
}

// overSocket returns the transport with connections to a Unix socket.
func overSocket(of http.RoundTripper, path string) (http.RoundTripper, error) {
	transport, ok := cmp.Or(of, http.DefaultTransport).(*http.Transport)
	if !ok {
		return nil, errors.New("unix: needs an HTTPClient whose Transport is an *http.Transport")
	}
	transport = transport.Clone()
	transport.Proxy = nil
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	return transport, nil
}

// defaultHTTPClient keeps as many connections to the service as there are concurrent calls, up to
// 64. With onlyHTTP1, each call in progress has its own connection.
func defaultHTTPClient(onlyHTTP1 bool) *http.Client {
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		MaxIdleConns:          64,
		MaxIdleConnsPerHost:   64,
		IdleConnTimeout:       90 * time.Second, // shorter than the service's idle timeout
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true,     // the service does not compress
		WriteBufferSize:       32 << 10, // a request for a feed of 500 posts is one write
	}
	if onlyHTTP1 {
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetHTTP1(true)
	}
	return &http.Client{Transport: transport}
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

// WithRequestID returns a context whose calls carry id, which the service's log then shows. id is 1
// to 64 letters, digits and "-_."; the service replaces any other id.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}
