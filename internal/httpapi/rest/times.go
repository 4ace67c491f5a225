package rest

import (
	"fmt"
	"regexp"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/httpapi/operations"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

// rfc3339 is stricter than the time package, which accepts hours of one digit, commas, and offsets
// of more than a day.
var rfc3339 = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// parseUntil parses a time in RFC 3339, in UTC or with an offset. It truncates to microseconds. The
// Recorder checks that the time is in the future.
func parseUntil(text string) (time.Time, error) {
	at, err := parseTime(operations.FieldUntil, text)
	return operations.Ended(at), err
}

// parseTime parses a time of a request, and truncates it to microseconds.
func parseTime(field, text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || !rfc3339.MatchString(text) {
		return time.Time{}, wire.Refuse(activity.CodeOutOfRange, field,
			fmt.Sprintf("%q is not a time such as 2027-01-01T00:00:00Z; percent-encode it in a query", wire.Clip(text)))
	}
	return at.UTC().Truncate(time.Microsecond), nil
}
