package httpapi

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/openapi"
)

// codeTexts says of every code what it means.
func codeTexts() map[string]string {
	return map[string]string{
		activity.CodeInvalidID:     "an id is empty, longer than 256 bytes, or not UTF-8 without control characters",
		activity.CodeUnknownKind:   "there is no such kind of activities",
		activity.CodeUnsupportedOp: "the kind has no such operation: what has a window is not undone, listed or counted, and has no end",
		activity.CodeSelfBlock:     "a user cannot do this to themselves",
		activity.CodeInvalidCursor: "the cursor is not one that a list returned",
		activity.CodeOutOfRange:    "a value, or the number of values, is out of its range",
		activity.CodeWrongEffect:   "the kind's effect is another than is asked for here",
		activity.CodeNoLedger:      "the call needs a ledger, and the service runs without",
		codeMalformedJSON:          "the body is not JSON",
		codeUnknownField:           "there is no such field",
		codeDuplicateKey:           "a field is there twice",
		codeInvalidType:            "a value is of another type than is needed, or null",
		codeMissingField:           "a field that is needed is not there",
		codeUnknownOp:              "the op is neither `add` nor `remove`",
		codeUnexpectedBody:         "the call takes no body",
		codeUnreadableBody:         "the body ended early, or is not framed as HTTP wants it",
		codeMalformedQuery:         "the query is not made of name=value, percent-encoded and with & between",
		codeUnknownParameter:       "there is no such query parameter here",
		codeRepeatedParameter:      "a query parameter is given more than once",
		codeUnsupportedMediaType:   "the body is of another type or encoding than the call takes",
		codeTooLarge:               "a JSON body, or a line of a stream, is too long",
		codeTimeout:                "the body took too long to arrive",
		codeNotFound:               "there is nothing at this path",
		codeMethodNotAllowed:       "the path does not take this method; the header Allow names those that it takes",
		codeOverloaded:             "too much is in progress; nothing was done",
		codeUnavailable:            "something that the call needs is down, or too slow: it may or may not have taken effect",
		codeLimitReached:           "the user has as many activities of the kind as there may be, `limit`",
		codeStuck:                  "the activity cannot be undone: there is no ledger, and all bits of its key are shared with others'",
		codeReshaping:              "the number of pages is being changed to another one",
		codeInternal:               "something went wrong inside the service",
		codeUnauthenticated:        "the token is missing, unknown or no longer good; WWW-Authenticate says which",
		codeForbidden:              "the token has none of the scopes that the call needs",
		codeCrossOrigin:            "a browser sent this for a page of another origin",
		codeMisdirected:            "the header Host says a name that the service does not have",
		codeRateLimited:            "too many requests of the token, or for the user",
	}
}

// errorResponses are the answers with any of the codes, by status.
func errorResponses(codes []string) (responses openapi.Ordered[openapi.Response]) {
	byStatus := make(map[int][]string)
	for _, code := range codes {
		status := problem{Code: code}.status()
		byStatus[status] = append(byStatus[status], code)
	}
	for _, status := range slices.Sorted(maps.Keys(byStatus)) {
		codes := byStatus[status]
		res := openapi.Response{
			Description: http.StatusText(status) + ": `" + strings.Join(codes, "`, `") + "`.",
			Content: openapi.Ordered[openapi.MediaType]{{Name: typeJSON, Value: openapi.MediaType{
				Schema:  errorOf(codes),
				Example: errorExample(codes[0]),
			}}},
		}
		if status == http.StatusUnauthorized {
			res.Headers = res.Headers.With(echo.HeaderWWWAuthenticate, openapi.Header{
				Description: "As RFC 6750 has it.", Schema: text(""),
			})
		}
		if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
			res.Headers = res.Headers.With(echo.HeaderRetryAfter, openapi.Header{Ref: "#/components/headers/RetryAfter"})
		}
		responses = responses.With(strconv.Itoa(status), res)
	}
	return responses
}

// errorOf is an error with one of the codes.
func errorOf(codes []string) *openapi.Schema {
	narrow := &openapi.Schema{Properties: openapi.Ordered[*openapi.Schema]{{Name: "error", Value: &openapi.Schema{
		Properties: openapi.Ordered[*openapi.Schema]{{Name: "code", Value: &openapi.Schema{Enum: codes}}},
	}}}}
	return &openapi.Schema{AllOf: []*openapi.Schema{ref("Error"), narrow}}
}

func errorExample(code string) []byte {
	return []byte(`{"error":{"code":` + string(quoted(code)) + `,"message":` + string(quoted(codeTexts()[code])) + `}}`)
}

// codeSchema is any of the codes.
func codeSchema() *openapi.Schema {
	s := oneOf("What is wrong, for programs.")
	texts := codeTexts()
	for _, code := range slices.Sorted(maps.Keys(texts)) {
		s.Enum = append(s.Enum, code)
		s.EnumTexts = s.EnumTexts.With(code, strconv.Itoa(problem{Code: code}.status())+": "+texts[code]+".")
	}
	return s
}
