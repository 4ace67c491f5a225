package pages

import (
	"strings"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// A key names an activity inside a page. "hide:U1_P2" means that user 1 hid post 2, and
// "block:U1_U2" that user 1 blocked user 2. "mute-tag:U1_tag:x" means that user 1 muted the tag x.
// Ids have '_' written as %5F and '%' as %25, and the name of a facet has no ':'. So no two
// activities share a key, whatever their ids.
//
// A key is hashed in two parts with different seeds: the start, up to the target's id, and that id
// unescaped. A feed check hashes the start of each kind once, and the id of each candidate once.
// See [favfilter.Start].

// Key returns the key of a row as text. The facet is that of the target, as [ledger.Kind] has it.
func Key(kind, owner, facet, target string) string {
	return string(appendEscaped(appendKeyStart(nil, kind, owner, facet), target))
}

// KeyStart returns the hash of the start of the owner's keys of a kind with targets of a facet.
func KeyStart(seed uint64, kind, owner, facet string) favfilter.Start {
	var buf [128]byte
	return favfilter.HashStartBytes(seed, appendKeyStart(buf[:0], kind, owner, facet))
}

// UserHash returns the hash that places a user. Its top bits choose the user's page and hash slot.
func UserHash(seed uint64, user string) uint64 {
	return favfilter.HashKey(seed, user).H1
}

// hashOf returns the hash of a whole key: that of [KeyStart], combined with the target's id.
func hashOf(seed uint64, key string) favfilter.Hash {
	owner := strings.Index(key, ":U") + len(":U")
	end := owner + strings.IndexByte(key[owner:], '_') + len("_U")
	if letter := key[end-1]; letter != 'U' && letter != 'P' {
		end += strings.IndexByte(key[end:], ':') + len(":")
	}
	return favfilter.HashStart(seed, key[:end]).With(favfilter.HashKey(seed, unescape(key[end:])))
}

// ownerOf returns the id of the user whose page holds the key.
func ownerOf(key string) string {
	_, rest, _ := strings.Cut(key, ":U")
	owner, _, _ := strings.Cut(rest, "_")
	return unescape(owner)
}

// appendKeyStart appends a key up to the target's id.
func appendKeyStart(dst []byte, kind, owner, facet string) []byte {
	dst = append(dst, kind...)
	dst = append(dst, ":U"...)
	dst = appendEscaped(dst, owner)
	switch facet {
	case ledger.User:
		return append(dst, "_U"...)
	case ledger.Post:
		return append(dst, "_P"...)
	default:
		dst = append(dst, '_')
		dst = append(dst, facet...)
		return append(dst, ':')
	}
}

func appendEscaped(dst []byte, id string) []byte {
	if !strings.ContainsAny(id, "_%") {
		return append(dst, id...)
	}
	for i := range len(id) {
		switch c := id[i]; c {
		case '_':
			dst = append(dst, "%5F"...)
		case '%':
			dst = append(dst, "%25"...)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// unescape returns the id that appendEscaped wrote.
func unescape(id string) string {
	if !strings.Contains(id, "%") {
		return id
	}
	return strings.NewReplacer("%5F", "_", "%25", "%").Replace(id)
}
