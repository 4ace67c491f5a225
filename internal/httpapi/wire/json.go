package wire

import (
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/feedfilter/feedfilter/activity"
)

// MaxTexts is an upper bound of the number of strings in any list of a request. Most lists have
// lower limits, which are checked later.
const MaxTexts = activity.MaxPreviewed

// errNull is the error of a null. No field of a request may be null.
var errNull = errors.New("null is not allowed")

// Strict returns the options for reading JSON, with unmarshalers for the types of the caller's
// requests. The package refuses the rest by default: invalid UTF-8, duplicate names, names in
// another case, nesting deeper than 10,000, and data after the value.
//
// Each type in a request has its own unmarshaler. A single one for all types would take an
// interface, and allocate for each value.
func Strict(more ...*json.Unmarshalers) json.Options { //nolint:ireturn // what the library has for options
	return json.JoinOptions(
		json.RejectUnknownMembers(true),
		json.WithUnmarshalers(json.JoinUnmarshalers(append(more,
			Element[string](MaxTexts), NotNull[*string](), NotNull[[]string](), NotNull[*int](), NotNull[bool](),
		)...)),
	)
}

// NotNull refuses a null for a T, which would otherwise become the zero value.
func NotNull[T any]() *json.Unmarshalers { return Element[T](math.MaxInt64) }

// errTooMany is the error of an array with too many values.
var errTooMany = errors.New("too many values")

// Element refuses a null for a T in an array, and an array of more than most values. In memory an
// empty object takes fifty times the bytes of its text, and an empty string thirty times.
func Element[T any](most int64) *json.Unmarshalers {
	return json.UnmarshalFromFunc(func(dec *jsontext.Decoder, _ *T) error {
		kind, before := dec.StackIndex(dec.StackDepth())
		tooMany := kind == jsontext.KindBeginArray && before >= most
		if !tooMany && dec.PeekKind() != jsontext.KindNull {
			return errors.ErrUnsupported // read it as usual
		}
		if err := dec.SkipValue(); err != nil { // such as "nul"
			return err
		}
		if tooMany {
			return errTooMany
		}
		return errNull
	})
}

// ExplainJSON turns an error of reading strict JSON into the error for the client.
func ExplainJSON(err error) error {
	if err == nil {
		return nil
	}
	if bad, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		switch {
		case errors.Is(bad, jsontext.ErrDuplicateName):
			return Refuse(CodeDuplicateKey, fieldOf(bad.JSONPointer), "duplicate field")
		case errors.Is(bad, io.ErrUnexpectedEOF):
			return Refuse(CodeMalformedJSON, "", "unexpected end of JSON")
		}
		return Refuse(CodeMalformedJSON, fieldOf(bad.JSONPointer), fmt.Sprintf("invalid JSON at byte %d: %v", bad.ByteOffset, bad.Err))
	}
	if bad, ok := errors.AsType[*json.SemanticError](err); ok {
		field := fieldOf(bad.JSONPointer)
		switch {
		case errors.Is(bad, errTooMany): // the error names the first value too many, as in "posts[5000]"
			last := max(0, strings.LastIndexByte(field, '['))
			most := strings.Trim(field[last:], "[]")
			return TooManyValues(field[:last], most)
		case errors.Is(bad, json.ErrUnknownName):
			return Refuse(CodeUnknownField, field, "unknown field")
		case errors.Is(bad, errNull):
			return Refuse(CodeInvalidType, field, "null is not allowed")
		}
		if want := typeName(bad.GoType); want == wholeNumber && bad.JSONKind == jsontext.KindNumber {
			return Refuse(CodeInvalidType, field, "must be a whole number in plain digits, and not as large or as small as this one")
		}
		return Refuse(CodeInvalidType, field, "must be "+typeName(bad.GoType)+", not "+kindName(bad.JSONKind))
	}
	return Unreadable(err)
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

const wholeNumber = "a whole number"

func typeName(t reflect.Type) string {
	if t == nil {
		return "something else"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return wholeNumber
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

// TooManyValues returns the error of a list with more than most values.
func TooManyValues(field, most string) error {
	return Refuse(activity.CodeOutOfRange, field, "more than "+most+" values")
}
