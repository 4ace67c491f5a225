package wire

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
)

const (
	// maxDiscarded is the length, in bytes, up to which the body of a refused request is read and
	// discarded. After a longer one, an HTTP/1 connection is closed.
	maxDiscarded = 64 << 10
	// discardTimeout is how long the body of a refused request may take to arrive.
	discardTimeout = time.Second
)

// Refuse returns the error of a request that can never succeed.
func Refuse(code, field, message string) error {
	return &activity.InvalidError{Code: code, Field: field, Message: message}
}

// RefusedError is the error of a request that is refused before it has any effect.
type RefusedError struct {
	Problem

	Challenge string        // WWW-Authenticate
	After     time.Duration // Retry-After
}

func (r *RefusedError) Error() string { return r.Message }

// SetHeaders sets the response headers of the refusal.
func (r *RefusedError) SetHeaders(h http.Header) {
	if r.Challenge != "" {
		h.Set(echo.HeaderWWWAuthenticate, r.Challenge)
	}
	if r.After > 0 {
		h.Set(echo.HeaderRetryAfter, strconv.Itoa(int(math.Ceil(r.After.Seconds()))))
	}
}

// Busy returns the error of a request that may be repeated after a time, and not before.
func Busy(wait time.Duration, message string) error {
	return &RefusedError{Problem: Problem{Code: CodeRateLimited, Message: message}, After: wait}
}

// LeaveBody keeps the unread body of a refused request from delaying the answer. net/http reads the
// rest of a body before it answers, unless it will close the connection.
func LeaveBody(k *Call) {
	res, length := k.Response(), k.Request().ContentLength
	// Over HTTP/2, this header would also close the connection of other requests.
	if (length < 0 || length > maxDiscarded) && k.Request().ProtoMajor < 2 {
		res.Header().Set(echo.HeaderConnection, "close")
	}
	if length != 0 {
		// An error means that there is no connection, as in a test, so nothing waits.
		_ = http.NewResponseController(res.Writer).SetReadDeadline(time.Now().Add(discardTimeout))
	}
}
