package ledger

import (
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
)

// Position is up to where the ledger has what a source committed; "", or [Reading] as the first
// word: the source has not been read whole. Its first word is a place in the source's log, or names
// the form. Fields follow, which the follower of the source alone understands. Each is a name, or a
// name and a value with = between:
//
//	00000001:0/16B3748 tables=1f2e3d4c catalog=2a
//
// There is one space between two words.
type Position string

// Reading is the first word of the position of a source that is being read whole. The rest says
// where a process goes on whose predecessor was interrupted.
const Reading = "reading"

// Whole reports whether the source has been read whole.
func (p Position) Whole() bool { return p != "" && p.First() != Reading }

// With returns the position with one more field. Names and values have no spaces, and names no =.
// A field without a value is its name alone.
func (p Position) With(name, value string) Position {
	p += Position(" " + name)
	if value != "" {
		p += Position("=" + value)
	}
	return p
}

// First returns the first word.
func (p Position) First() string {
	word, _, _ := strings.Cut(string(p), " ")
	return word
}

// Log returns the place in the log of a PostgreSQL source. It reports false for another source, and
// for one that has not been read whole.
func (p Position) Log() (LogPosition, bool) { return ParseLogPosition(p.First()) }

// Fields returns the names and values after the first word, in order.
func (p Position) Fields() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		_, rest, _ := strings.Cut(string(p), " ")
		for word := range strings.SplitSeq(rest, " ") {
			name, value, _ := strings.Cut(word, "=")
			if name != "" && !yield(name, value) {
				return
			}
		}
	}
}

var errPosition = errors.New("a position is words with one space between them")

func (p Position) validate() error {
	if p == "" {
		return nil
	}
	control := func(r rune) bool { return r <= ' ' || r == 0x7f }
	for word := range strings.SplitSeq(string(p), " ") {
		if word == "" || word[0] == '=' || strings.ContainsFunc(word, control) {
			return errPosition
		}
	}
	return nil
}

// LogPosition is a place in the log of a PostgreSQL source. The zero value is before all others.
type LogPosition struct {
	// Timeline is the history of the server that the place is in. It grows with each failover.
	// 0: not known.
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
