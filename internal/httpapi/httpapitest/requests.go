package httpapitest

import (
	"fmt"
	"strings"
	"time"
)

// ActivityLine returns an activity of a batch or a stream.
func ActivityLine(user, kind, target, op string) string {
	return fmt.Sprintf(`{"user":%q,"kind":%q,"target":%q,"op":%q}`, user, kind, target, op)
}

// Repeated returns n copies of item, separated by commas.
func Repeated(n int, item string) string {
	return strings.TrimSuffix(strings.Repeat(item+",", n), ",")
}

// Line is a valid activity of a batch. A refused request does not record it.
const Line = `{"user":"1","kind":"block","target":"9","op":"add"}`

// Lines returns a batch of Line and more activities.
func Lines(more ...string) string {
	return `{"activities":[` + strings.Join(append([]string{Line}, more...), ",") + `]}`
}

// EveryByte escapes all bytes of an id; plain escapes only those that must be.
func EveryByte(id string) string {
	const hex = "0123456789abcdef"
	var b strings.Builder
	for _, c := range []byte(id) {
		b.Write([]byte{'%', hex[c>>4], hex[c&15]})
	}
	return b.String()
}

const day = 24 * time.Hour

// Ages of seen posts.
const (
	SightedRecently = 29 * day
	SightedLongAgo  = 36 * day // forgotten
)

// UntilLine is a line of user 1 that adds an activity with an end.
func UntilLine(kind, target, until string) string {
	return strings.TrimSuffix(ActivityLine("1", kind, target, "add"), "}") + `,"until":"` + until + `"}`
}
