package client

import (
	"bytes"
	"cmp"
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

	maxErrorBytes = 64 << 10 // of an error answer
	maxRetryAfter = time.Hour
)

// call is one call of the API.
type call struct {
	method string
	path   []string // unescaped segments
	query  url.Values
	body   any // sent as JSON; nil: no body, unless there is encode
	into   any // destination of the answer

	encode func() ([]byte, error) // returns the body in JSON, in place of body

	procedure *procedure // the call as a message; nil: only JSON exists

	timeout time.Duration // of an attempt; 0: the client's
	once    bool          // must not be made twice if it may have taken effect
	hedged  bool          // may be made twice at the same time
	also    int           // a status whose answer is read like that of 2xx
	sound   func() bool   // reports whether the answer is complete; nil: always
}

// Call makes a call that the Client has no method for. path is a list of unescaped segments. body
// is sent as JSON. query and body may be nil. Call reads the answer into the value that into points
// to. Retries and errors are those of all other calls.
func (c *Client) Call(
	ctx context.Context, method string, path []string, query url.Values, body, into any,
) error {
	return c.do(ctx, &call{method: method, path: path, query: query, body: body, into: into})
}

// do makes the call, with retries.
func (c *Client) do(ctx context.Context, call *call) error {
	var body prepared
	for made := 0; ; {
		attempts, err := c.attempt(ctx, call, &body, made == 0)
		if err == nil {
			c.budget.earn()
			return nil
		}
		if made += attempts; !c.again(ctx, call, made, err) {
			return err
		}
	}
}

// attempt makes the call as a message, or as JSON if the service does not accept messages, and
// reads the answer. It returns the number of attempts, which is up to two if mayHedge is true.
func (c *Client) attempt(
	ctx context.Context, call *call, body *prepared, mayHedge bool,
) (attempts int, err error) {
	mayHedge = mayHedge && call.hedged && c.o.Hedge > 0 && c.o.MaxAttempts > 1
	if call.procedure != nil && !c.onlyJSON.Load() {
		attempts, err = c.ask(ctx, call, asMessage, body, mayHedge)
		if !errors.Is(err, errNotOffered) {
			return attempts, err
		}
		c.onlyJSON.Store(true)
	}
	return c.ask(ctx, call, asJSON, body, mayHedge)
}

// form is the form in which a call is made.
type form int

const (
	asJSON form = iota
	asMessage
)

// ask makes the call in one form, and reads the answer.
func (c *Client) ask(
	ctx context.Context, call *call, form form, body *prepared, mayHedge bool,
) (attempts int, err error) {
	text, err := body.in(form, call)
	if err != nil {
		return 1, err
	}
	fetch := func(ctx context.Context) (answer, error) { return c.fetch(ctx, call, form, text) }
	var a answer
	if attempts = 1; mayHedge {
		a, attempts, err = c.hedged(ctx, fetch)
	} else {
		a, err = fetch(ctx)
	}
	if err != nil {
		return attempts, err
	}
	if form == asMessage {
		err = call.procedure.decode(a.text)
	} else {
		err = json.Unmarshal(a.text, call.into)
	}
	if err == nil && call.sound != nil && !call.sound() {
		err = errors.New("a required field is missing")
	}
	if err != nil {
		err = foreign(a.res, err)
	}
	return attempts, err
}

// answer is an answer that is not an error. It has the media type of the call's form.
type answer struct {
	res  *http.Response // its body is closed
	text []byte
}

// fetch makes one attempt.
func (c *Client) fetch(ctx context.Context, call *call, form form, body []byte) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(call.timeout, c.o.AttemptTimeout))
	defer cancel()
	res, err := c.sendCall(ctx, call, form, body)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	switch {
	case form == asMessage && res.StatusCode != http.StatusOK:
		return answer{}, c.messageFailure(res)
	case form == asMessage && typed(res, typeMessage) != nil:
		return answer{}, errNotOffered // some servers answer 200 to any request
	case form == asJSON && res.StatusCode/100 != 2 && res.StatusCode != call.also:
		return answer{}, c.failure(res)
	case form == asJSON:
		if err := typed(res, typeJSON); err != nil {
			return answer{}, err
		}
	}
	text, err := read(res, c.o.MaxAnswerBytes)
	return answer{res, text}, err
}

// sendCall sends the call in one form.
func (c *Client) sendCall(
	ctx context.Context, call *call, form form, body []byte,
) (*http.Response, error) {
	switch {
	case form == asMessage:
		to := c.procedureURL(call.procedure.path)
		return c.send(ctx, http.MethodPost, to, typeMessage, bytes.NewReader(body))
	case body == nil:
		return c.send(ctx, call.method, c.url(call.path, call.query), "", http.NoBody)
	default:
		return c.send(ctx, call.method, c.url(call.path, call.query), typeJSON, bytes.NewReader(body))
	}
}

// send sends the request and returns the answer. The caller must read and close its body.
func (c *Client) send(
	ctx context.Context, method string, to *url.URL, mediaType string, body io.Reader,
) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "", body)
	if err != nil {
		return nil, fmt.Errorf("create the request: %w", err)
	}
	req.URL, req.Header = to, make(http.Header, 8)
	if mediaType != "" {
		req.Header["Content-Type"] = []string{mediaType}
	}
	if end, ok := ctx.Deadline(); ok && mediaType == typeMessage {
		const longest = 9_999_999_999 // Connect takes at most 10 digits
		left := min(max(time.Until(end).Milliseconds(), 1), longest)
		req.Header["Connect-Timeout-Ms"] = []string{strconv.FormatInt(left, 10)}
	}
	req.Header["User-Agent"] = []string{c.o.UserAgent}
	if id, ok := ctx.Value(requestIDKey{}).(string); ok {
		req.Header.Set("X-Request-ID", id)
	}
	if c.o.Token != nil {
		token, err := c.o.Token(ctx)
		if err != nil {
			return nil, err
		}
		if token != "" {
			req.Header["Authorization"] = []string{"Bearer " + token}
		}
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, &lostError{err}
	}
	return res, nil
}

// procedureURL returns the URL of a procedure, whose path needs no escapes.
func (c *Client) procedureURL(path string) *url.URL {
	u := *c.base
	u.Path += path
	if u.RawPath != "" {
		u.RawPath += path
	}
	return &u
}

// url returns the URL of a path, whose segments may contain any characters.
func (c *Client) url(path []string, query url.Values) *url.URL {
	u := *c.base
	var raw strings.Builder
	raw.WriteString(u.EscapedPath())
	for _, part := range path {
		u.Path += "/" + part
		escaped := url.PathEscape(part)
		if strings.Trim(part, ".") == "" { // "." and ".." have a special meaning in paths
			escaped = strings.ReplaceAll(part, ".", "%2E")
		}
		raw.WriteString("/" + escaped)
	}
	u.RawPath, u.RawQuery = raw.String(), query.Encode()
	return &u
}

// read reads the answer to its end, so that the connection can be reused. It fails if the answer
// has more than limit bytes.
func read(res *http.Response, limit int64) (text []byte, err error) {
	if n := res.ContentLength; n > 0 && n <= limit {
		text = make([]byte, n)
		_, err = io.ReadFull(res.Body, text)
	} else {
		text, err = io.ReadAll(io.LimitReader(res.Body, limit+1))
	}
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
	if given == want {
		return nil
	}
	if got, _, err := mime.ParseMediaType(given); err != nil || got != want {
		return foreign(res, fmt.Errorf("Content-Type %q", given))
	}
	return nil
}

// foreign returns the error of an answer that this package does not understand.
func foreign(res *http.Response, err error) error {
	return fmt.Errorf("%s: %w: %s: %w", where(res), ErrForeign, res.Status, err)
}

// where returns the method and the URL of the request.
func where(res *http.Response) string {
	return res.Request.Method + " " + res.Request.URL.Redacted()
}

// failure reads an answer with an error.
func (c *Client) failure(res *http.Response) error {
	e := &Error{
		Status:     res.StatusCode,
		RetryAfter: retryAfter(res.Header.Get("Retry-After")),
		RequestID:  res.Header.Get("X-Request-ID"),
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, min(maxErrorBytes, c.o.MaxAnswerBytes)))
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
	if e.retryable() { // from a proxy or the HTTP server, which have no codes
		return fmt.Errorf("%s: %w", where(res), e)
	}
	return fmt.Errorf("%s: %w: %w", where(res), ErrForeign, e)
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
