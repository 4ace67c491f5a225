package pages

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/favfilter"
)

// wideHashes is how many bits a key sets in the shapes of these tests.
const wideHashes = 10

// distinct returns how many bits a key sets in a very wide page. There, two bits of a key coincide
// once in ten million keys.
func distinct(h favfilter.Hash) int {
	return len(favfilter.Shape{Bits: favfilter.MaxBits, Hashes: wideHashes}.Positions(nil, h))
}

// keyHash hashes a key from its parts, as a feed check does.
func keyHash(seed uint64, kind, owner, facet, id string) favfilter.Hash {
	return KeyStart(seed, kind, owner, facet).With(favfilter.HashKey(seed, id))
}

// No relation between the text of a start and that of an id makes a key set fewer bits, or share
// its hash with another key.
func TestStructuredIDsDoNotDegenerate(t *testing.T) {
	owner := rapid.StringOfN(rapid.SampledFrom([]rune("_%12UP:-hide")), 1, 12, -1)
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		kinds := []string{"block", "blocked-by", "hide", "like"}
		kind, otherKind := rapid.SampledFrom(kinds).Draw(t, "kind"), rapid.SampledFrom(kinds).Draw(t, "other kind")
		user, otherUser := owner.Draw(t, "owner"), owner.Draw(t, "other owner")
		facet := facets().Draw(t, "facet")
		start := string(appendKeyStart(nil, kind, user, facet))
		otherStart := string(appendKeyStart(nil, otherKind, otherUser, facet))
		ids := []string{
			start, start[:1], start[:len(start)-1], start[:rapid.IntRange(1, len(start)).Draw(t, "prefix")], start + start, start + user,
			otherStart, start + otherStart, user, " ", "_", "%", "0",
		}
		seen := make(map[favfilter.Hash]string)
		for _, id := range ids {
			for from, h := range map[string]favfilter.Hash{
				start:      keyHash(seed, kind, user, facet, id),
				otherStart: keyHash(seed, otherKind, otherUser, facet, id),
			} {
				if got := distinct(h); got < wideHashes-1 { // two bits may coincide by chance
					t.Fatalf("start %q, id %q: %d distinct bits, want %d", from, id, got, wideHashes)
				}
				key := fmt.Sprintf("%q %q", from, id)
				if other, ok := seen[h]; ok && other != key {
					t.Fatalf("%s and %s share the hash %x", key, other, h)
				}
				seen[h] = key
			}
		}
	})
}
