package httpapi

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

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
)

// Media types of bodies.
const (
	typeJSON   = "application/json"
	typeNDJSON = "application/x-ndjson"
)

// pathID returns the id in the named parameter of the path, unescaped once.
func pathID(c echo.Context, name string) (string, error) {
	id, err := url.PathUnescape(c.Param(name))
	if err != nil {
		return "", refuse(activity.CodeInvalidID, name, "the id has an invalid percent-encoding")
	}
	return id, activity.CheckID(id, name)
}

// bareUser returns the user in the path of a request without query parameters and body.
func bareUser(c echo.Context) (string, error) {
	if err := bare(c); err != nil {
		return "", err
	}
	return pathID(c, "user")
}

// bare refuses a request with query parameters or a body.
func bare(c echo.Context) error {
	if _, err := query(c); err != nil {
		return err
	}
	return noBody(c)
}

// query returns the query parameters. It refuses parameters that are not in known or are repeated.
func query(c echo.Context, known ...string) (url.Values, error) {
	if c.Request().URL.RawQuery == "" {
		return nil, nil //nolint:nilnil // nothing given
	}
	values, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil {
		return nil, refuse(codeMalformedQuery, "", "the query must be name=value pairs, percent-encoded and joined by &")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch {
		case !slices.Contains(known, name):
			return nil, refuse(codeUnknownParameter, name, "unknown query parameter")
		case len(values[name]) > 1:
			return nil, refuse(codeRepeatedParameter, name, "duplicate query parameter")
		}
	}
	return values, nil
}

// noBody returns an error if the request has a body that is not empty.
func noBody(c echo.Context) error {
	r := c.Request()
	if r.ContentLength == 0 {
		return nil
	}
	var first [1]byte
	n, err := io.ReadFull(r.Body, first[:])
	switch {
	case n > 0:
		return refuse(codeUnexpectedBody, "", "this request takes no body")
	case !errors.Is(err, io.EOF):
		return unreadable(err)
	default:
		return nil
	}
}

// mediaType returns the media type of the body. It fails if the type is not wanted, or if the body
// is compressed or not in UTF-8.
func mediaType(r *http.Request, wanted ...string) (string, error) {
	given, params, err := mime.ParseMediaType(r.Header.Get(echo.HeaderContentType))
	encoding := r.Header.Get(echo.HeaderContentEncoding)
	switch {
	case err != nil || !slices.Contains(wanted, given):
		return "", refuse(codeUnsupportedMediaType, "", "Content-Type must be "+strings.Join(wanted, " or "))
	case params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8"):
		return "", refuse(codeUnsupportedMediaType, "", "charset must be utf-8")
	case encoding != "" && !strings.EqualFold(encoding, "identity"):
		return "", refuse(codeUnsupportedMediaType, "", "Content-Encoding is not supported")
	}
	return given, nil
}

// decode reads the JSON body into the value that into points to. The caller calls done when it no
// longer needs the value.
func (s *intake) decode(c echo.Context, into any) (done func(), err error) {
	return s.readBody(c, func(body io.Reader) error {
		return explainJSON(json.UnmarshalRead(body, into, s.strict))
	})
}

// readBody calls read with the JSON body, if it is not too long. The caller calls done when it no
// longer needs what read returned.
func (s *intake) readBody(c echo.Context, read func(body io.Reader) error) (done func(), err error) {
	r := c.Request()
	if _, err := mediaType(r, typeJSON); err != nil {
		return nil, err
	}
	if r.ContentLength > s.maxBody {
		return nil, tooLarge(s.maxBody)
	}
	// MaxBytesReader needs net/http's own writer to close the connection at the limit.
	body := s.hold(c, http.MaxBytesReader(c.Response().Writer, r.Body, s.maxBody))
	sound := false
	defer func() {
		if !sound { // also after a panic
			body.release()
		}
	}()
	if err := read(body); err != nil {
		return nil, err
	}
	sound = true
	return body.release, nil
}

func tooLarge(limit int64) error {
	return refuse(codeTooLarge, "", fmt.Sprintf("the body is longer than %d bytes", limit))
}

// unreadable returns the error of a body that could not be read.
func unreadable(err error) error {
	if errors.Is(err, activity.ErrOverloaded) {
		return err
	}
	if long, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge(long.Limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return refuse(codeTimeout, "", "the body took too long to arrive")
	}
	return refuse(codeUnreadableBody, "", "the body ended early or has an invalid framing")
}
