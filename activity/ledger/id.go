package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// CheckID returns an error unless id is a valid Owner, Kind or Target of a row: 1 to MaxIDBytes
// bytes of UTF-8 without control characters. The error completes a sentence that begins with the
// name of the id: "is empty or missing".
func CheckID(id string) error {
	switch {
	case id == "":
		return errors.New("is empty or missing")
	case len(id) > MaxIDBytes:
		return fmt.Errorf("is longer than %d bytes", MaxIDBytes)
	case IsPlain(id):
		return nil
	case !utf8.ValidString(id):
		return errors.New("is not valid UTF-8")
	case strings.ContainsFunc(id, unicode.IsControl):
		return errors.New("has a control character")
	default:
		return nil
	}
}

// IsPlain reports whether id is valid and of printable ASCII, as nearly all ids are. It is faster
// than [CheckID], since a feed has a thousand ids: it tests eight bytes at a time.
func IsPlain(id string) bool {
	const ones, tops, spaces = 0x0101010101010101, 0x8080808080808080, 0x2020202020202020
	if id == "" || len(id) > MaxIDBytes {
		return false
	}
	if len(id) >= 8 {
		for rest := id; ; rest = rest[8:] {
			if len(rest) < 8 {
				rest = id[len(id)-8:] // overlaps the word before
			}
			word := binary.LittleEndian.Uint64([]byte(rest[:8]))
			// The top bit is set for a byte above 0x7f, at 0x7f, and below a space. A byte that
			// carries or borrows has its own top bit set.
			if (word|(word+ones)|(word-spaces))&tops != 0 {
				return false
			}
			if len(rest) == 8 {
				return true
			}
		}
	}
	for i := range len(id) {
		if c := id[i]; c < 0x20 || c > 0x7e {
			return false
		}
	}
	return true
}

func validateID(field, id string) error {
	if err := CheckID(id); err != nil {
		return fmt.Errorf("%s %w", field, err)
	}
	return nil
}
