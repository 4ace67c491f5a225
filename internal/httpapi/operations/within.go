package operations

import (
	"fmt"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

// maxWithin bounds the field within. A source that was followed before that is one to look at.
const maxWithin = 24 * time.Hour

// ParseWithin parses the field within of a request, such as "2s": how recently sources must have
// been followed. "" is 0.
func ParseWithin(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Millisecond || d > maxWithin {
		return 0, wire.Refuse(activity.CodeOutOfRange, "within", fmt.Sprintf("%q is not a time of 1ms to 24h, such as 2s", wire.Clip(text)))
	}
	return d, nil
}
