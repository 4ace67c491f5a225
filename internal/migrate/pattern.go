package migrate

import (
	"errors"
	"strings"
)

// placeholder stands for an id in a [Pattern].
const placeholder = "{user}"

// Pattern reports what the keys of an app's sets look like: "blocks:{user}", or "blocks:{{user}}"
// with a hash tag.
type Pattern struct{ prefix, suffix string }

// ParsePattern reads a pattern, which has {user} once, for the id.
func ParsePattern(text string) (Pattern, error) {
	prefix, suffix, found := strings.Cut(text, placeholder)
	if !found || strings.Contains(suffix, placeholder) {
		return Pattern{}, errors.New("the pattern does not have " + placeholder + " once, where the id stands in keys")
	}
	return Pattern{prefix, suffix}, nil
}

// Key returns the key of a user's set.
func (p Pattern) Key(user string) string { return p.prefix + user + p.suffix }

// User is whose set a key is of; not ok: it is none of the pattern.
func (p Pattern) User(key string) (user string, ok bool) {
	rest, begins := strings.CutPrefix(key, p.prefix)
	user, ends := strings.CutSuffix(rest, p.suffix)
	return user, begins && ends && user != ""
}

// glob is the pattern as SCAN takes it.
func (p Pattern) glob() string {
	literal := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
	return literal.Replace(p.prefix) + "*" + literal.Replace(p.suffix)
}
