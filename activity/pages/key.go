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

// KeyStart returns the hash of the start of the owner's keys of a kind with targets of a facet,
// without the weight of the kind's keys.
func KeyStart(seed uint64, kind, owner, facet string) favfilter.Start {
	var buf [128]byte
	return favfilter.HashStartBytes(seed, appendKeyStart(buf[:0], kind, owner, facet))
}

// Weight returns the weight for keys of a kind with targets of a facet, which may be phrases, see
// [favfilter.Hash.Extra]. Mirrored keys, whose targets are users, have it as well: a fan-out looks
// for its users on the pages of all ids of a post.
//
// A post must not be dropped more often than [Config.KeyRate] says because of one kind, whatever it
// carries. So the weight makes up for the look-ups that a kind may need for one post:
//
//	posts   17      its own id and 16 related ones
//	users   101     its author and 100 actors
//	phrases 160,000 those of a text: 5,000 bytes have up to 10,000 units, each with up to 16 phrases
//	others  1,152   64 ids of another facet, each with two forms of its fold and eight parents
//
// At up to [MaxKeyRate], a page at its limit has 45.9 % of its bits set or fewer. Then each extra
// bit divides the rate by 2.18 or more.
func Weight(facet string, phrases bool) uint8 {
	switch {
	case facet == ledger.Post:
		return 4
	case facet == ledger.User:
		return 6
	case phrases:
		return favfilter.MaxExtra
	default:
		return 10
	}
}

// MaxKeyRate is the highest rate at which the weights are enough. At a higher one, keys set so few
// bits that a page at its limit has more of its bits set.
const MaxKeyRate = 1.0 / 512

// UserHash returns the hash that places a user. Its top bits choose the user's page and hash slot.
func UserHash(seed uint64, user string) uint64 {
	return favfilter.HashKey(seed, user).H1
}

// hashOf returns the hash of a whole key of the given weight: that of [KeyStart], combined with the
// target's id.
func hashOf(seed uint64, key string, weight uint8) favfilter.Hash {
	start := favfilter.HashStart(seed, key[:startOf(key)])
	start.Extra = weight
	return start.With(favfilter.HashKey(seed, targetOf(key)))
}

// startOf returns where the start of a key ends, and its target begins.
func startOf(key string) int {
	owner := strings.Index(key, ":U") + len(":U")
	end := owner + strings.IndexByte(key[owner:], '_') + len("_U")
	if letter := key[end-1]; letter != 'U' && letter != 'P' {
		end += strings.IndexByte(key[end:], ':') + len(":")
	}
	return end
}

// targetOf returns the id of the target.
func targetOf(key string) string { return unescape(key[startOf(key):]) }

// kindOf returns the kind of a key.
func kindOf(key string) string { return key[:strings.IndexByte(key, ':')] }

// ownerOf returns the id of the owner.
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
