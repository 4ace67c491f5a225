package migrate

import (
	"errors"
	"strings"
)

// placeholder stands for an id in a [Pattern].
const placeholder = "{user}"

// Pattern is the form of the keys of an app's sets: "blocks:{user}", or "blocks:{{user}}" with a
// hash tag.
type Pattern struct{ prefix, suffix string }

// ParsePattern parses a pattern, which must have {user} exactly once.
func ParsePattern(text string) (Pattern, error) {
	prefix, suffix, found := strings.Cut(text, placeholder)
	if !found || strings.Contains(suffix, placeholder) {
		return Pattern{}, errors.New("the pattern must have " + placeholder + " exactly once, in place of the id")
	}
	return Pattern{prefix, suffix}, nil
}

// Key returns the key of a user's set.
func (p Pattern) Key(user string) string { return p.prefix + user + p.suffix }

// User returns the user of a key. ok is false if the key does not match the pattern.
func (p Pattern) User(key string) (user string, ok bool) {
	rest, begins := strings.CutPrefix(key, p.prefix)
	user, ends := strings.CutSuffix(rest, p.suffix)
	return user, begins && ends && user != ""
}

// glob returns the pattern for SCAN.
func (p Pattern) glob() string {
	literal := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
	return literal.Replace(p.prefix) + "*" + literal.Replace(p.suffix)
}
