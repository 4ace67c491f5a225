package activity

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/favfilter"
)

func key(kind, owner string, target Target, id string) string {
	return string(appendEscaped(appendKeyStart(nil, kind, owner, target), id))
}

func TestKeys(t *testing.T) {
	for want, got := range map[string]string{
		"hide:U1_P2":              key("hide", "1", Post, "2"),
		"block:U1_U2":             key("block", "1", User, "2"),
		"hide:Ua%5Fb_Pc":          key("hide", "a_b", Post, "c"),
		"hide:U1_P%5FP2":          key("hide", "1", Post, "_P2"),
		"hide:U%255F_P%25":        key("hide", "%5F", Post, "%"),
		"like:U:/_P\u00e9\u4e16":  key("like", ":/", Post, "\u00e9\u4e16"),
		"blocked-by:U%5F%5F_U%5F": key("blocked-by", "__", User, "_"),
	} {
		if got != want {
			t.Errorf("key %q, want %q", got, want)
		}
	}
}

// TestKeysAreInjective draws ids from the characters that could confuse keys.
func TestKeysAreInjective(t *testing.T) {
	type activity struct {
		kind, owner, id string
		target          Target
	}
	id := rapid.StringOfN(rapid.SampledFrom([]rune("_%5FUP2:-a")), 1, 8, -1)
	draw := rapid.Custom(func(t *rapid.T) activity {
		return activity{
			kind:   rapid.SampledFrom([]string{"block", "blocked-by", "hide", "u"}).Draw(t, "kind"),
			owner:  id.Draw(t, "owner"),
			id:     id.Draw(t, "id"),
			target: rapid.SampledFrom([]Target{User, Post}).Draw(t, "target"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		seen := map[string]activity{}
		for _, a := range rapid.SliceOfN(draw, 2, 40).Draw(t, "activities") {
			k := key(a.kind, a.owner, a.target, a.id)
			if other, ok := seen[k]; ok && other != a {
				t.Fatalf("%+v and %+v share the key %q", a, other, k)
			}
			seen[k] = a
		}
	})
}

func FuzzCheckID(f *testing.F) {
	for _, s := range []string{"", "1", "a_b", "\x00", "\u0085", "\xff", strings.Repeat("x", 256), strings.Repeat("x", 257)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, id string) {
		ok := id != "" && len(id) <= 256 && utf8.ValidString(id)
		for _, r := range id {
			ok = ok && r >= 0x20 && (r < 0x7f || r > 0x9f)
		}
		if (CheckID(id, "id") == nil) != ok {
			t.Errorf("%q: accepted %v", id, !ok)
		}
		k := key("hide", id, Post, id)
		if start, end, found := strings.Cut(k, "_P"); ok && (!found || strings.Contains(end, "_") || "hide:U"+end != start) {
			t.Errorf("key %q of %q", k, id)
		}
	})
}

func TestKindsAreChecked(t *testing.T) {
	good := Kind{Name: "mute", Plural: "mutes", Target: User, Effect: Drop}
	for name, change := range map[string]func(k *Kind){
		"name of a field":  func(k *Kind) { k.Name = "id" },
		"name of a route":  func(k *Kind) { k.Plural = "preview" },
		"empty name":       func(k *Kind) { k.Name = "" },
		"capital":          func(k *Kind) { k.Name = "Mute" },
		"colon":            func(k *Kind) { k.Name = "mu:te" },
		"long":             func(k *Kind) { k.Name = strings.Repeat("m", 33) },
		"empty plural":     func(k *Kind) { k.Plural = "" },
		"slash":            func(k *Kind) { k.Plural = "mutes/x" },
		"no target":        func(k *Kind) { k.Target = 0 },
		"no effect":        func(k *Kind) { k.Effect = 0 },
		"two-way post":     func(k *Kind) { k.Target, k.Reverse = Post, "muted-by" },
		"two-way window":   func(k *Kind) { k.Window, k.Reverse = 1, "muted-by" },
		"negative window":  func(k *Kind) { k.Window = -1 },
		"its own reverse":  func(k *Kind) { k.Reverse = "mute" },
		"a taken name":     func(k *Kind) { k.Name = "block" },
		"a taken reverse":  func(k *Kind) { k.Reverse = "block" },
		"a taken plural":   func(k *Kind) { k.Plural = "blocks" },
		"reverse of other": func(k *Kind) { k.Name = "blocked-by" },
	} {
		k := good
		change(&k)
		block, _ := BuiltinKinds().Named("block")
		if _, err := NewKinds(block, k); err == nil {
			t.Errorf("%s: %+v was accepted", name, k)
		}
	}
	if _, err := NewKinds(good); err != nil {
		t.Error(err)
	}
}

// A key that is hashed as one text is hashed like its two parts.
func TestHashOfKeys(t *testing.T) {
	id := rapid.StringOfN(rapid.SampledFrom([]rune("_%5FUP2:-a\u00e9")), 1, 40, -1)
	rapid.Check(t, func(t *rapid.T) {
		seed, kind := rapid.Uint64().Draw(t, "seed"), rapid.SampledFrom([]string{"block", "blocked-by", "hide"}).Draw(t, "kind")
		owner, target := id.Draw(t, "owner"), id.Draw(t, "id")
		sort := rapid.SampledFrom([]Target{User, Post}).Draw(t, "target")
		want := startHash(seed, kind, owner, sort).With(favfilter.HashKey(seed, target))
		if got := hashOf(seed, key(kind, owner, sort, target)); got != want {
			t.Fatalf("%s: %x, its parts %x", key(kind, owner, sort, target), got, want)
		}
	})
}
