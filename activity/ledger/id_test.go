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
