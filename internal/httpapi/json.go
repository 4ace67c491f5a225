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

// Bounds of the text of a client that an error repeats, in bytes.
const (
	maxField   = 64
	maxMessage = 200
)

// maxTexts is an upper bound of the number of strings in one list of any request. Most lists have
// lower limits, which are checked later.
const maxTexts = activity.MaxPreviewed

// errNull is the error of a null. No field of any request takes one.
var errNull = errors.New("null where a value is needed")

// strict returns the options for reading JSON. The package is strict by default about the rest:
// invalid UTF-8, duplicate names, names in another case, nesting deeper than 10,000, and anything
// after the value.
func strict() json.Options { //nolint:ireturn // what the library has for options
	return json.JoinOptions(
		json.RejectUnknownMembers(true),
		// One unmarshaler for each type in a request. A single one for all types would take an
		// interface, and allocate for each value.
		json.WithUnmarshalers(json.JoinUnmarshalers(
			element[string](maxTexts), notNull[*string](), notNull[[]string](),
			notNull[postsRequest](),
			notNull[*int](), notNull[bool](),
			notNull[explainRequest](), notNull[*feedPost](), notNull[previewRequest](), notNull[pagesRequest](), notNull[scrubRequest](),
			notNull[filterRequest](), notNull[[]feedPost](), element[feedPost](feed.MaxPosts),
			notNull[batchRequest](), notNull[[]batchLine](), element[batchLine](maxBatch),
		)),
	)
}

// notNull refuses a null for a T, which would otherwise be read as the zero value.
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

// element refuses a null for a T in an array, and an array of more than most values: in memory an
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

// explainJSON returns the error for the client for an error of reading strict JSON.
func explainJSON(err error) error {
	if err == nil {
		return nil
	}
	if bad, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		switch {
		case errors.Is(bad, jsontext.ErrDuplicateName):
			return refuse(codeDuplicateKey, fieldOf(bad.JSONPointer), "the field is there twice")
		case errors.Is(bad, io.ErrUnexpectedEOF):
			return refuse(codeMalformedJSON, "", "the JSON ends early")
		}
		return refuse(codeMalformedJSON, fieldOf(bad.JSONPointer), fmt.Sprintf("not JSON at byte %d: %v", bad.ByteOffset, bad.Err))
	}
	if bad, ok := errors.AsType[*json.SemanticError](err); ok {
		field := fieldOf(bad.JSONPointer)
		switch {
		case errors.Is(bad, errTooMany): // named by the first of them, as in "posts[5000]"
			last := max(0, strings.LastIndexByte(field, '['))
			most := strings.Trim(field[last:], "[]")
			return refuse(activity.CodeOutOfRange, field[:last], "more than "+most+" values")
		case errors.Is(bad, json.ErrUnknownName):
			return refuse(codeUnknownField, field, "there is no such field")
		case errors.Is(bad, errNull):
			return refuse(codeInvalidType, field, "a null where a value is needed")
		}
		return refuse(codeInvalidType, field, kindName(bad.JSONKind)+" where "+typeName(bad.GoType)+" is needed")
	}
	return unreadable(err)
}

// fieldOf returns a pointer such as "/posts/3/author" in the form "posts[3].author". In requests,
// an index always follows a name. So a number at the start, or after a number, is a name that the
// client made up.
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

// clip shortens text of a client, so that it can be sent back.
func clip(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit] + "..."
	}
	return strings.ToValidUTF8(text, "\uFFFD") // it may have been cut within a character
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

// send answers with body, which is JSON. It does not keep body.
func send(c echo.Context, status int, body []byte) error {
	return sendAs(c, status, typeJSON, body)
}

// sendAs answers with body, of the media type. It does not keep body.
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
