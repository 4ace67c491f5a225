package pages

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

func TestKeys(t *testing.T) {
	for want, got := range map[string]string{
		"hide:U1_P2":              Key("hide", "1", ledger.Post, "2"),
		"block:U1_U2":             Key("block", "1", ledger.User, "2"),
		"hide:Ua%5Fb_Pc":          Key("hide", "a_b", ledger.Post, "c"),
		"hide:U1_P%5FP2":          Key("hide", "1", ledger.Post, "_P2"),
		"hide:U%255F_P%25":        Key("hide", "%5F", ledger.Post, "%"),
		"like:U:/_P\u00e9\u4e16":  Key("like", ":/", ledger.Post, "\u00e9\u4e16"),
		"mute:U1_tag:x":           Key("mute", "1", "tag", "x"),
		"mute:U1_tag:x%5F:z":      Key("mute", "1", "tag", "x_:z"),
		"blocked-by:U%5F%5F_U%5F": Key("blocked-by", "__", ledger.User, "_"),
	} {
		if got != want {
			t.Errorf("key %q, want %q", got, want)
		}
	}
}

// facets draws names of facets, those that a key writes as one letter included.
func facets() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{ledger.User, ledger.Post, "u", "p", "tag", "tag-a"})
}

// TestKeysAreInjective draws ids from the characters that have a meaning in keys.
func TestKeysAreInjective(t *testing.T) {
	type activity struct {
		kind, owner, id string
		facet           string
	}
	id := rapid.StringOfN(rapid.SampledFrom([]rune("_%5FUP2:-a")), 1, 8, -1)
	draw := rapid.Custom(func(t *rapid.T) activity {
		return activity{
			kind:  rapid.SampledFrom([]string{"block", "blocked-by", "hide", "u"}).Draw(t, "kind"),
			owner: id.Draw(t, "owner"),
			id:    id.Draw(t, "id"),
			facet: facets().Draw(t, "facet"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		seen := map[string]activity{}
		for _, a := range rapid.SliceOfN(draw, 2, 40).Draw(t, "activities") {
			k := Key(a.kind, a.owner, a.facet, a.id)
			if other, ok := seen[k]; ok && other != a {
				t.Fatalf("%+v and %+v share the key %q", a, other, k)
			}
			seen[k] = a
		}
	})
}

// A key has the same hash as a whole and in two parts.
func TestHashOfKeys(t *testing.T) {
	id := rapid.StringOfN(rapid.SampledFrom([]rune("_%5FUP2:-a\u00e9")), 1, 40, -1)
	rapid.Check(t, func(t *rapid.T) {
		seed, kind := rapid.Uint64().Draw(t, "seed"), rapid.SampledFrom([]string{"block", "blocked-by", "hide"}).Draw(t, "kind")
		owner, target := id.Draw(t, "owner"), id.Draw(t, "id")
		facet := facets().Draw(t, "facet")
		want := KeyStart(seed, kind, owner, facet).With(favfilter.HashKey(seed, target))
		if got := hashOf(seed, Key(kind, owner, facet, target), 0); got != want {
			t.Fatalf("%s: %x, from its parts %x", Key(kind, owner, facet, target), got, want)
		}
	})
}
