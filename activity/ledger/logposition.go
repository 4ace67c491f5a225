package ledger

import (
	"fmt"
	"strconv"
	"strings"
)

// LogPosition is a place in the log of a PostgreSQL source. The zero value is before all others.
type LogPosition struct {
	// Timeline is the history of the server that the place is in. It grows with each failover. 0: not
	// known.
	Timeline uint32
	Byte     uint64 // PostgreSQL calls it LSN
}

// ParseLogPosition parses a position as PostgreSQL prints it, "0/16B3748", or with the timeline
// before it as in the names of its files, "00000003:0/16B3748". It reports false for another form.
func ParseLogPosition(text string) (p LogPosition, ok bool) {
	if timeline, rest, found := strings.Cut(text, ":"); found {
		n, err := strconv.ParseUint(timeline, 16, 32)
		if err != nil || n == 0 {
			return LogPosition{}, false
		}
		p.Timeline, text = uint32(n), rest
	}
	high, low, _ := strings.Cut(text, "/")
	h, err1 := strconv.ParseUint(high, 16, 32)
	l, err2 := strconv.ParseUint(low, 16, 32)
	if err1 != nil || err2 != nil {
		return LogPosition{}, false
	}
	p.Byte = h<<32 | l
	return p, true
}

// String returns the form that ParseLogPosition parses.
func (p LogPosition) String() string {
	if p.Timeline == 0 {
		return fmt.Sprintf("%X/%X", p.Byte>>32, uint32(p.Byte))
	}
	return fmt.Sprintf("%08X:%X/%X", p.Timeline, p.Byte>>32, uint32(p.Byte))
}
