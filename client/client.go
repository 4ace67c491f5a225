package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Options are how a Client calls. The zero value has good defaults.
type Options struct {
	_ struct{} // fields are named

	// Token returns the token to call with, "" for none, before each attempt: see [StaticToken] and [TokenFile]. Default: none.
	// It may be called concurrently.
	Token func(context.Context) (string, error)

	// HTTPClient makes the requests. Its own timeout, if it has one, holds for streams too. Default: one that keeps up to 64
	// connections, goes by the proxy that the environment names, and follows no redirect.
	HTTPClient *http.Client

	// AttemptTimeout is how long one attempt may take, its answer included; that of a user's deletion, which takes longer, and of
	// streams and exports, which take any time, is the context's. Default 15 s; more than the service's own 10 s, after which it says
	// what is down.
	AttemptTimeout time.Duration

	// MaxAttempts is how often a call is made at most, the first time included. 1: without retries. Default 4.
	MaxAttempts int

	// MaxAnswerBytes is the length of the longest answer that is read, and of a line of one that is a stream, in bytes. Default 16 MiB.
	MaxAnswerBytes int64

	// UserAgent is sent with each request. Default "feedfilter-go".
	UserAgent string
}

// Client calls one service. It is safe for concurrent use.
type Client struct {
	base    *url.URL
	http    *http.Client
	token   func(context.Context) (string, error)
	timeout time.Duration
	most    int
	length  int64
	agent   string
	budget  budget
}

// New returns a Client of the service at baseURL, such as "http://127.0.0.1:8080", which may have a path in front of the service's
// own. It connects to nothing yet. It fails if the URL or an option is wrong; the error does not repeat the URL.
func New(baseURL string, o Options) (*Client, error) {
	base, err := url.Parse(baseURL)
	switch { // the URL may have a password in it
	case err != nil, base.Scheme != "http" && base.Scheme != "https", base.Hostname() == "",
		base.RawQuery != "", base.Fragment != "", base.User != nil:
		return nil, errors.New("not of the form http://<host>:<port>")
	case o.AttemptTimeout < 0 || o.MaxAttempts < 0 || o.MaxAnswerBytes < 0:
		return nil, errors.New("an option of the client is negative")
	}
	base.Path, base.RawPath = strings.TrimSuffix(base.Path, "/"), strings.TrimSuffix(base.RawPath, "/")
	c := &Client{
		base:    base,
		http:    o.HTTPClient,
		token:   o.Token,
		timeout: cmp.Or(o.AttemptTimeout, 15*time.Second),
		most:    cmp.Or(o.MaxAttempts, 4),
		length:  cmp.Or(o.MaxAnswerBytes, 16<<20),
		agent:   cmp.Or(o.UserAgent, "feedfilter-go"),
		budget:  budget{left: maxBudget},
	}
	if c.http == nil {
		c.http = defaultHTTPClient()
	}
	return c, nil
}

// defaultHTTPClient keeps as many connections to the one service as calls are made at a time.
func defaultHTTPClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			MaxIdleConns:          64,
			MaxIdleConnsPerHost:   64,
			IdleConnTimeout:       90 * time.Second, // before the service ends them
			TLSHandshakeTimeout:   10 * time.Second,
			ExpectContinueTimeout: time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Close closes the connections that are idle. The Client can still be used.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// StaticToken is a token that does not change.
func StaticToken(token string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return token, nil }
}

// TokenFile is the token in a file, with white space around it, which is read for each attempt: so it may be replaced at any time.
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

// requestIDKey is that of a request's id in a context.
type requestIDKey struct{}

// WithRequestID has calls with the context carry an id of 1 to 64 letters, digits and "-_.", by which the service's log names
// them. Of others the service makes one up.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}
