package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	typeJSON   = "application/json"
	typeNDJSON = "application/x-ndjson"

	maxErrorBytes = 64 << 10 // of an answer with an error
	maxRetryAfter = time.Hour
)

// call is one call of the API.
type call struct {
	method string
	path   []string // unescaped segments
	query  url.Values
	body   any // sent as JSON; nil: no body
	into   any // destination of the answer

	procedure *procedure // the call as a message; nil: there is none

	timeout time.Duration // of an attempt; 0: the client's
	once    bool          // must not be retried if it may have taken effect
	also    int           // a status whose answer is read like that of 2xx
	sound   func() bool   // whether the answer is complete; nil: always
}

// Call makes a call that the Client has no method for. path is a list of unescaped segments. body
// is sent as JSON. query and body may be nil. The answer is read into the value that into points
// to. Call retries and returns errors as all other calls do.
func (c *Client) Call(ctx context.Context, method string, path []string, query url.Values, body, into any) error {
	return c.do(ctx, &call{method: method, path: path, query: query, body: body, into: into})
}

// do makes the call, with retries.
func (c *Client) do(ctx context.Context, call *call) error {
	var body prepared
	for attempt := 1; ; attempt++ {
		err := c.attempt(ctx, call, &body)
		if err == nil {
			c.budget.earn()
			return nil
		}
		if !c.again(ctx, call, attempt, err) {
			return err
		}
	}
}

// attemptJSON makes the call once, as JSON.
func (c *Client) attemptJSON(ctx context.Context, call *call, prepared *prepared) error {
	body, err := prepared.body(call)
	if err != nil {
		return err
	}
	mediaType, reader := "", io.Reader(http.NoBody)
	if call.body != nil {
		mediaType, reader = typeJSON, bytes.NewReader(body)
	}
	res, err := c.send(ctx, call.method, c.url(call.path, call.query), mediaType, reader)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 && res.StatusCode != call.also {
		return c.failure(res)
	}
	if err := typed(res, typeJSON); err != nil {
		return err
	}
	text, err := read(res, c.length)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, call.into); err != nil {
		return foreign(res, err)
	}
	if call.sound != nil && !call.sound() {
		return foreign(res, errors.New("what is needed is not there"))
	}
	return nil
}

// send sends the request and returns the answer. The caller must read and close its body.
func (c *Client) send(ctx context.Context, method string, to *url.URL, mediaType string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base.String(), body)
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	req.URL = to
	if mediaType != "" {
		req.Header.Set("Content-Type", mediaType)
	}
	req.Header.Set("User-Agent", c.agent)
	if id, ok := ctx.Value(requestIDKey{}).(string); ok {
		req.Header.Set("X-Request-ID", id)
	}
	if c.token != nil {
		token, err := c.token(ctx)
		if err != nil {
			return nil, err
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, &lostError{err}
	}
	return res, nil
}

// url returns the URL of a path, whose segments may contain any characters.
func (c *Client) url(path []string, query url.Values) *url.URL {
	u := *c.base
	var raw strings.Builder
	raw.WriteString(u.EscapedPath())
	for _, part := range path {
		u.Path += "/" + part
		escaped := url.PathEscape(part)
		if strings.Trim(part, ".") == "" { // "." and ".." have a meaning in paths
			escaped = strings.ReplaceAll(part, ".", "%2E")
		}
		raw.WriteString("/" + escaped)
	}
	u.RawPath, u.RawQuery = raw.String(), query.Encode()
	return &u
}

// read reads the answer to its end, so that the connection can be reused, or fails if it has more
// than limit bytes.
func read(res *http.Response, limit int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	switch {
	case err != nil:
		return nil, &lostError{fmt.Errorf("%s: read the answer: %w", where(res), err)}
	case int64(len(text)) > limit:
		return nil, foreign(res, fmt.Errorf("more than %d bytes", limit))
	default:
		return text, nil
	}
}

// typed returns an error unless the answer has the media type.
func typed(res *http.Response, want string) error {
	given := res.Header.Get("Content-Type")
	if got, _, err := mime.ParseMediaType(given); err != nil || got != want {
		return foreign(res, fmt.Errorf("of type %q", given))
	}
	return nil
}

// foreign returns the error for an answer that this package does not understand.
func foreign(res *http.Response, err error) error {
	return fmt.Errorf("%s: answered %s, and %w: %w", where(res), res.Status, ErrForeign, err)
}

// where returns the method and the URL of the request.
func where(res *http.Response) string {
	return res.Request.Method + " " + res.Request.URL.Redacted()
}

// failure reads an answer with an error.
func (c *Client) failure(res *http.Response) error {
	e := &Error{Status: res.StatusCode, RetryAfter: retryAfter(res.Header.Get("Retry-After")), RequestID: res.Header.Get("X-Request-ID")}
	text, err := io.ReadAll(io.LimitReader(res.Body, min(maxErrorBytes, c.length)))
	var answer struct {
		Error problem `json:"error"`
	}
	if err == nil {
		err = errors.Join(typed(res, typeJSON), json.Unmarshal(text, &answer))
	}
	if err == nil && answer.Error.Code != "" {
		answer.Error.to(e)
		return fmt.Errorf("%s: %w", where(res), e)
	}
	e.Message = http.StatusText(res.StatusCode)
	if retryable(res.StatusCode) { // from a proxy, which knows no codes
		return fmt.Errorf("%s: %w", where(res), e)
	}
	return fmt.Errorf("%s: answered %s, and %w: %w", where(res), res.Status, ErrForeign, e)
}

// problem is an error in the service's format.
type problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Field   string `json:"field"`
	Limit   uint32 `json:"limit"`
}

func (p problem) to(e *Error) {
	e.Code, e.Message, e.Field, e.Limit = p.Code, p.Message, p.Field, p.Limit
}

// retryAfter parses the header in seconds, the only form that the service uses. It returns 0 for
// any other form.
func retryAfter(text string) time.Duration {
	seconds, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxRetryAfter)
}

// user returns the path of a user, followed by below.
func user(id string, below ...string) []string {
	return slices.Concat([]string{"v1", "users", id}, below)
}
