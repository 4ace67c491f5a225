package httpapi

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/activity"
)

// paramUntil is the name of a query's parameter and of a line's field, paramSince of a line's field alone.
const (
	paramUntil = "until"
	paramSince = "since"
)

// rfc3339 is stricter than the time package, which takes hours of one digit, commas and
// offsets of more than a day too.
var rfc3339 = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// parseUntil takes a time as RFC 3339 writes it, in UTC or with an offset. What is finer
// than a microsecond is cut off. That the time is still to come is the Recorder's to check.
func parseUntil(text string) (time.Time, error) {
	at, err := parseTime(paramUntil, text)
	if err == nil && at.IsZero() { // which would stand for no end
		err = refuse(activity.CodeOutOfRange, paramUntil, "not in the future")
	}
	return at, err
}

// parseTime reads a time of a request, to the microsecond.
func parseTime(field, text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || !rfc3339.MatchString(text) {
		return time.Time{}, refuse(activity.CodeOutOfRange, field, "not a time such as 2027-01-01T00:00:00Z, percent-encoded in a query")
	}
	return at.UTC().Truncate(time.Microsecond), nil
}

// ofActivity takes apart an [*activity.InvalidError] about one of the activities that were
// given to the Recorder: which one, and the error as it is for that one alone. Of other
// errors it makes nil.
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
