package ledger_test

import (
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

func TestCheckID(t *testing.T) {
	t.Parallel()
	for id, problem := range map[string]string{
		"a":                       "",
		" ":                       "",
		"~":                       "",
		"\u00a0":                  "",
		"\U0001f600":              "",
		strings.Repeat("x", 256):  "",
		strings.Repeat("ä", 128):  "",
		"":                        "is empty or missing",
		strings.Repeat("x", 257):  "is longer than 256 bytes",
		strings.Repeat("ä", 129):  "is longer than 256 bytes",
		"a\xff":                   "is not valid UTF-8",
		"\xed\xa0\x80":            "is not valid UTF-8", // half of a surrogate pair
		"a\x00":                   "has a control character",
		"a\nb":                    "has a control character",
		"a\x7f":                   "has a control character",
		"a\u0085":                 "has a control character",
		"ä\x1f":                   "has a control character",
		strings.Repeat("\n", 257): "is longer than 256 bytes",
	} {
		err := ledger.CheckID(id)
		if problem == "" && err != nil || problem != "" && (err == nil || err.Error() != problem) {
			t.Errorf("%q: error %v, want %q", id, err, problem)
		}
	}
}

// TestIsPlain checks that tests of eight bytes at a time and of single bytes agree, for
// all positions and neighbours of a byte.
func TestIsPlain(t *testing.T) {
	for _, fill := range []byte{' ', 'a', '~', 0x1f, 0x7f, 0x80, 0xff, 0} {
		for n := range 34 {
			id := make([]byte, n)
			for at := range id {
				for c := range 256 {
					for i := range id {
						id[i] = fill
					}
					id[at] = byte(c)
					want := n > 0
					for _, c := range id {
						want = want && c >= 0x20 && c <= 0x7e
					}
					if got := ledger.IsPlain(string(id)); got != want {
						t.Fatalf("%q: %v, want %v", id, got, want)
					}
				}
			}
		}
	}
}
