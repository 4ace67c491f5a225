package pages

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// seeds is the number of seeds for each test of hashes, because the seed of a ledger is random.
const seeds = 200

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

// A user can choose a post id that equals the start of the viewer's keys. Such a key sets as many
// bits as any other.
func TestIDThatEqualsItsStart(t *testing.T) {
	for seed := range uint64(seeds) {
		h := keyHash(seed, "hide", "1", ledger.Post, "hide:U1_P")
		if got := distinct(h); got != wideHashes {
			t.Fatalf("seed %d: %d distinct bits, want %d", seed, got, wideHashes)
		}
	}
}

// A page reports an id that equals the start of a key no more often than its rate allows.
func TestIDThatEqualsItsStartIsNotReported(t *testing.T) {
	shape, err := favfilter.ShapeFor(500, 0.001)
	if err != nil {
		t.Fatal(err)
	}
	reported := 0
	for seed := range uint64(seeds) {
		page, err := favfilter.NewPage(favfilter.Header{Identity: favfilter.Identity{Seed: seed, Pages: 1}, Shape: shape})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 500 {
			page.Insert(keyHash(seed, "hide", "1", ledger.Post, fmt.Sprint("post", i)))
		}
		if page.Contains(keyHash(seed, "hide", "1", ledger.Post, "hide:U1_P")) {
			reported++
		}
	}
	if reported > 3 { // 0.2 are expected
		t.Errorf("reported under %d of %d seeds, never recorded", reported, seeds)
	}
}

// Start A with id B is another key than start B with id A.
func TestSwappedHalvesDiffer(t *testing.T) {
	for seed := range uint64(seeds) {
		one := keyHash(seed, "hide", "1", ledger.Post, "like:U2_P")
		other := keyHash(seed, "like", "2", ledger.Post, "hide:U1_P")
		if one == other {
			t.Fatalf("seed %d: %q and %q share the hash %x", seed, "hide:U1_Plike:U2_P", "like:U2_Phide:U1_P", one)
		}
	}
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
