package activity

import (
	"strings"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// MaxIDBytes is the length of the longest id.
const MaxIDBytes = ledger.MaxIDBytes

// CheckID returns an [*InvalidError] unless id is 1 to [MaxIDBytes] bytes of UTF-8 without control
// characters. field names the id in the error.
func CheckID(id, field string) error {
	if err := ledger.CheckID(id); err != nil {
		return &InvalidError{Code: CodeInvalidID, Field: field, Message: "the id " + err.Error()}
	}
	return nil
}

// A key names an activity inside a page: "hide:U1_P2" means that user 1 hid post 2, "block:U1_U2"
// that user 1 blocked user 2. Ids have '_' written as %5F and '%' as %25, so that no two activities
// share a key, whatever their ids.
//
// A key is hashed in two parts with different seeds: the start, up to the target's id, and that id
// unescaped. A feed check hashes the start of each kind once, and the id of each candidate once.
// See [favfilter.Start].

// startHash returns the hash of a key's start.
func startHash(seed uint64, kind, owner string, target Target) favfilter.Start {
	var buf [128]byte
	return favfilter.HashStartBytes(seed, appendKeyStart(buf[:0], kind, owner, target))
}

// hashOf returns the hash of a whole key: that of [startHash], combined with the target's id.
func hashOf(seed uint64, key string) favfilter.Hash {
	owner := strings.Index(key, ":U") + len(":U")
	end := owner + strings.IndexByte(key[owner:], '_') + len("_U")
	return favfilter.HashStart(seed, key[:end]).With(favfilter.HashKey(seed, unescape(key[end:])))
}

// appendKeyStart appends a key up to the target's id.
func appendKeyStart(dst []byte, kind, owner string, target Target) []byte {
	dst = append(dst, kind...)
	dst = append(dst, ":U"...)
	dst = appendEscaped(dst, owner)
	if target == User {
		return append(dst, "_U"...)
	}
	return append(dst, "_P"...)
}

func appendEscaped(dst []byte, id string) []byte {
	if !strings.ContainsAny(id, "_%") {
		return append(dst, id...)
	}
	from := 0
	for i := range len(id) {
		c := id[i]
		if c != '_' && c != '%' {
			continue
		}
		dst = append(dst, id[from:i]...)
		if c == '_' {
			dst = append(dst, "%5F"...)
		} else {
			dst = append(dst, "%25"...)
		}
		from = i + 1
	}
	return append(dst, id[from:]...)
}

// unescape returns the id that appendEscaped wrote.
func unescape(id string) string {
	if !strings.Contains(id, "%") {
		return id
	}
	return strings.NewReplacer("%5F", "_", "%25", "%").Replace(id)
}

// userHash returns the hash that places a user: its top bits are the number of the home page.
func userHash(seed uint64, user string) uint64 {
	return favfilter.HashKey(seed, user).H1
}
