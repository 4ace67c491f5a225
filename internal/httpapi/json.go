package httpapi

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
)

// Limits of the client's text that an error repeats, in bytes.
const (
	maxField   = 64
	maxMessage = 200
)

// maxTexts is an upper bound of the number of strings in any list of a request. Most lists have
// lower limits, which are checked later.
const maxTexts = activity.MaxPreviewed

// errNull is the error of a null. No field of a request may be null.
var errNull = errors.New("null is not allowed")

// strict returns the options for reading JSON. The package refuses the rest by default: invalid
// UTF-8, duplicate names, names in another case, nesting deeper than 10,000, and data after the
// value.
func strict() json.Options { //nolint:ireturn // what the library has for options
	return json.JoinOptions(
		json.RejectUnknownMembers(true),
		// Each type in a request has its own unmarshaler. A single one for all types would take an
		// interface, and allocate for each value.
		json.WithUnmarshalers(json.JoinUnmarshalers(
			element[string](maxTexts), notNull[*string](), notNull[[]string](),
			notNull[postsRequest](),
			notNull[*int](), notNull[bool](),
			notNull[fanoutRequest](),
			notNull[explainRequest](), notNull[*feedPost](), notNull[previewRequest](), notNull[pagesRequest](), notNull[scrubRequest](),
			notNull[filterRequest](), notNull[[]feedPost](), notNull[map[activity.Facet][]string](), element[feedPost](feed.MaxPosts),
			notNull[[]feedActor](), element[feedActor](maxTexts),
			notNull[batchRequest](), notNull[[]batchLine](), element[batchLine](maxBatch),
		)),
	)
}

// notNull refuses a null for a T, which would otherwise become the zero value.
func notNull[T any]() *json.Unmarshalers {
	return json.UnmarshalFromFunc(func(dec *jsontext.Decoder, _ *T) error {
		if dec.PeekKind() != jsontext.KindNull {
			return errors.ErrUnsupported // read it as usual
		}
		if err := dec.SkipValue(); err != nil { // such as "nul"
			return err
		}
		return errNull
	})
}

// errTooMany is the error of an array with too many values.
var errTooMany = errors.New("too many values")

// element refuses a null for a T in an array, and an array of more than most values. In memory an
// empty object takes fifty times the bytes of its text, and an empty string thirty times.
func element[T any](most int64) *json.Unmarshalers {
	return json.UnmarshalFromFunc(func(dec *jsontext.Decoder, _ *T) error {
		kind, before := dec.StackIndex(dec.StackDepth())
		tooMany := kind == jsontext.KindBeginArray && before >= most
		if !tooMany && dec.PeekKind() != jsontext.KindNull {
			return errors.ErrUnsupported // read it as usual
		}
		if err := dec.SkipValue(); err != nil {
			return err
		}
		if tooMany {
			return errTooMany
		}
		return errNull
	})
}

// explainJSON turns an error of reading strict JSON into the error for the client.
func explainJSON(err error) error {
	if err == nil {
		return nil
	}
	if bad, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		switch {
		case errors.Is(bad, jsontext.ErrDuplicateName):
			return refuse(codeDuplicateKey, fieldOf(bad.JSONPointer), "duplicate field")
		case errors.Is(bad, io.ErrUnexpectedEOF):
			return refuse(codeMalformedJSON, "", "unexpected end of JSON")
		}
		return refuse(codeMalformedJSON, fieldOf(bad.JSONPointer), fmt.Sprintf("invalid JSON at byte %d: %v", bad.ByteOffset, bad.Err))
	}
	if bad, ok := errors.AsType[*json.SemanticError](err); ok {
		field := fieldOf(bad.JSONPointer)
		switch {
		case errors.Is(bad, errTooMany): // the error names the first value too many, as in "posts[5000]"
			last := max(0, strings.LastIndexByte(field, '['))
			most := strings.Trim(field[last:], "[]")
			return refuse(activity.CodeOutOfRange, field[:last], "more than "+most+" values")
		case errors.Is(bad, json.ErrUnknownName):
			return refuse(codeUnknownField, field, "unknown field")
		case errors.Is(bad, errNull):
			return refuse(codeInvalidType, field, "null is not allowed")
		}
		return refuse(codeInvalidType, field, "must be "+typeName(bad.GoType)+", not "+kindName(bad.JSONKind))
	}
	return unreadable(err)
}

// fieldOf returns a pointer such as "/posts/3/author" in the form "posts[3].author". In requests,
// an index always follows a name. So a number at the start, or after another number, is a name that
// the client invented.
func fieldOf(pointer jsontext.Pointer) string {
	var b strings.Builder
	indexed := true
	for token := range pointer.Tokens() {
		_, err := strconv.ParseUint(token, 10, 64)
		indexed = err == nil && !indexed
		switch {
		case indexed:
			b.WriteString("[" + token + "]")
		case b.Len() > 0:
			b.WriteString("." + token)
		default:
			b.WriteString(token)
		}
	}
	return b.String()
}

// clip shortens text of a client, so that an error can repeat it.
func clip(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit] + "..."
	}
	return strings.ToValidUTF8(text, "\uFFFD") // the cut may be inside a character
}

func kindName(k jsontext.Kind) string {
	switch k {
	case jsontext.KindString:
		return "a string"
	case jsontext.KindNumber:
		return "a number"
	case jsontext.KindTrue, jsontext.KindFalse:
		return "a boolean"
	case jsontext.KindBeginArray:
		return "an array"
	case jsontext.KindBeginObject:
		return "an object"
	default:
		return "something"
	}
}

func typeName(t reflect.Type) string {
	if t == nil {
		return "something else"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Int:
		return "a whole number"
	case reflect.Bool:
		return "a boolean"
	case reflect.Slice:
		return "an array"
	case reflect.Struct:
		return "an object"
	default:
		return "something else"
	}
}

// respond answers with v as JSON.
func respond(c echo.Context, status int, v any, options ...json.Options) error {
	body, err := json.Marshal(v, options...)
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	return send(c, status, body)
}

// send answers with body, which is JSON. It does not keep a reference to body.
func send(c echo.Context, status int, body []byte) error {
	return sendAs(c, status, typeJSON, body)
}

// sendAs answers with body. It does not keep a reference to body.
func sendAs(c echo.Context, status int, mediaType string, body []byte) error {
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, mediaType)
	h.Set(echo.HeaderContentLength, strconv.Itoa(len(body)))
	c.Response().WriteHeader(status)
	if _, err := c.Response().Write(body); err != nil {
		return fmt.Errorf("answer: %w: %w", errGone, err)
	}
	return nil
}
