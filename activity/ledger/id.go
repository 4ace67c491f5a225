package ledger

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxIDBytes is the length of the longest id.
const MaxIDBytes = 256

// CheckID returns an error unless id can be a row's Owner, Kind or Target: 1 to
// MaxIDBytes bytes of UTF-8 without control characters. The error goes on from
// the name of what the id is: "is empty or missing".
func CheckID(id string) error {
	switch {
	case id == "":
		return errors.New("is empty or missing")
	case len(id) > MaxIDBytes:
		return fmt.Errorf("is longer than %d bytes", MaxIDBytes)
	case printableASCII(id): // nearly all ids
		return nil
	case !utf8.ValidString(id):
		return errors.New("is not valid UTF-8")
	case strings.ContainsFunc(id, unicode.IsControl):
		return errors.New("has a control character")
	default:
		return nil
	}
}

func printableASCII(id string) bool {
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
