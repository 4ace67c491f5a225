package httpapi

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/activity"
)

// paramUntil names a query parameter and a field of a line. paramSince names only a field.
const (
	paramUntil = "until"
	paramSince = "since"
)

// rfc3339 is stricter than the time package, which accepts hours of one digit, commas, and offsets
// of more than a day.
var rfc3339 = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// parseUntil parses a time in RFC 3339, in UTC or with an offset. It truncates to microseconds. The
// Recorder checks that the time is in the future.
func parseUntil(text string) (time.Time, error) {
	at, err := parseTime(paramUntil, text)
	if err == nil && at.IsZero() { // the zero time means "no end"
		err = refuse(activity.CodeOutOfRange, paramUntil, "not in the future")
	}
	return at, err
}

// parseTime parses a time of a request, and truncates it to microseconds.
func parseTime(field, text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || !rfc3339.MatchString(text) {
		return time.Time{}, refuse(activity.CodeOutOfRange, field,
			fmt.Sprintf("%q is not a time such as 2027-01-01T00:00:00Z; percent-encode it in a query", clip(text, maxField)))
	}
	return at.UTC().Truncate(time.Microsecond), nil
}

// ofActivity returns the index of the activity that an [*activity.InvalidError] is about, and the
// error that this activity alone would have had; nil for any other error.
func ofActivity(err error) (int, *activity.InvalidError) {
	invalid, ok := errors.AsType[*activity.InvalidError](err)
	if !ok {
		return 0, nil
	}
	head, field, _ := strings.Cut(invalid.Field, "].")
	number, ok := strings.CutPrefix(head, "activities[")
	if i, err := strconv.Atoi(number); ok && err == nil {
		return i, &activity.InvalidError{Code: invalid.Code, Field: field, Message: invalid.Message}
	}
	return 0, nil
}
