package wire

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

func TestFieldOf(t *testing.T) {
	for pointer, want := range map[jsontext.Pointer]string{
		"":                     "",
		"/viewer":              "viewer",
		"/posts/3/author":      "posts[3].author",
		"/posts/3/actors/12":   "posts[3].actors[12]",
		"/posts/3/7":           "posts[3].7",
		"/0":                   "0",
		"/a~1b~0c":             "a/b~c",
		"/posts/-":             "posts.-",
		"/activities/0/target": "activities[0].target",
	} {
		if got := fieldOf(pointer); got != want {
			t.Errorf("%s: %q, want %q", pointer, got, want)
		}
	}
}

func TestClip(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"abcde":                  "abcde",
		"abcdef":                 "abcde...",
		"abcd\u00e9":             "abcd\ufffd...",
		"a\xffb":                 "a\ufffdb",
		strings.Repeat("é", 100): "éé\ufffd...",
	} {
		if got := clip(text, 5); got != want || !utf8.ValidString(got) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
