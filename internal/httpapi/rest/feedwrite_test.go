package rest

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// TestAppendField compares the strings with the encoder of JSON.
func TestAppendField(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z0-9"\\\x00-\x20\x7f]{0,9}`), rapid.Just("\u2028<>&")).
			Filter(utf8.ValidString).Draw(t, "s")
		want, err := jsontext.AppendQuote([]byte("x,"), s)
		if got := appendField([]byte("x"), ",", s); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%q: %s; want %s, %v", s, got, want, err)
		}
	})
}
