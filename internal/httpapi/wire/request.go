package wire

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
)

// Media types of bodies.
const (
	TypeJSON   = "application/json"
	TypeNDJSON = "application/x-ndjson"
)

// PathID returns the id in the named parameter of the path, unescaped once.
func PathID(k *Call, name string) (string, error) {
	id, err := url.PathUnescape(k.Param(name))
	if err != nil {
		return "", Refuse(activity.CodeInvalidID, name, "the id has an invalid percent-encoding")
	}
	return id, activity.CheckID(id, name)
}

// UserOf returns the query parameters, as [Query] does, and the user in the path. It refuses a
// body.
func UserOf(k *Call, known ...string) (params url.Values, user string, err error) {
	if params, err = Query(k, known...); err == nil {
		err = NoBody(k)
	}
	if err == nil {
		user, err = PathID(k, "user")
	}
	return params, user, err
}

// Query returns the query parameters. It refuses parameters that are not in known or are repeated.
func Query(k *Call, known ...string) (url.Values, error) {
	if k.Request().URL.RawQuery == "" {
		return nil, nil //nolint:nilnil // nothing given
	}
	values, err := url.ParseQuery(k.Request().URL.RawQuery)
	if err != nil {
		return nil, Refuse(CodeMalformedQuery, "", "the query must be name=value pairs, percent-encoded and joined by &")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch {
		case !slices.Contains(known, name):
			return nil, Refuse(CodeUnknownParameter, name, "unknown query parameter")
		case len(values[name]) > 1:
			return nil, Refuse(CodeRepeatedParameter, name, "duplicate query parameter")
		}
	}
	return values, nil
}

// NoBody returns an error if the request has a body that is not empty.
func NoBody(k *Call) error {
	r := k.Request()
	if r.ContentLength == 0 {
		return nil
	}
	var first [1]byte
	n, err := io.ReadFull(r.Body, first[:])
	switch {
	case n > 0:
		return Refuse(CodeUnexpectedBody, "", "this request takes no body")
	case !errors.Is(err, io.EOF):
		return Unreadable(err)
	default:
		return nil
	}
}

// MediaType returns the media type of the body. It fails if the type is not wanted, or if the body
// is compressed or not in UTF-8.
func MediaType(r *http.Request, wanted ...string) (string, error) {
	given, params, err := mime.ParseMediaType(r.Header.Get(echo.HeaderContentType))
	encoding := r.Header.Get(echo.HeaderContentEncoding)
	switch {
	case err != nil || !slices.Contains(wanted, given):
		return "", Refuse(CodeUnsupportedMediaType, "", "Content-Type must be "+strings.Join(wanted, " or "))
	case params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8"):
		return "", Refuse(CodeUnsupportedMediaType, "", "charset must be utf-8")
	case encoding != "" && !strings.EqualFold(encoding, "identity"):
		return "", Refuse(CodeUnsupportedMediaType, "", "Content-Encoding is not supported")
	}
	return given, nil
}

// TooLarge returns the error of a body that is longer than the limit.
func TooLarge(limit int64) error {
	return Refuse(CodeTooLarge, "", fmt.Sprintf("the body is longer than %d bytes", limit))
}

// Unreadable returns the error of a body that could not be read.
func Unreadable(err error) error {
	if errors.Is(err, activity.ErrOverloaded) {
		return err
	}
	if long, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return TooLarge(long.Limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return Refuse(CodeTimeout, "", "the body took too long to arrive")
	}
	return Refuse(CodeUnreadableBody, "", "the body ended early or has an invalid framing")
}
