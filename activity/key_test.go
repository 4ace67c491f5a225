package activity

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
)

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
		k := pages.Key("hide", id, ledger.Post, id)
		if start, end, found := strings.Cut(k, "_P"); ok && (!found || strings.Contains(end, "_") || "hide:U"+end != start) {
			t.Errorf("key %q of %q", k, id)
		}
	})
}

func TestKindsAreChecked(t *testing.T) {
	good := Kind{Name: "mute", Plural: "mutes", Target: User, Effect: Drop}
	for name, change := range map[string]func(k *Kind){
		"name of a field":   func(k *Kind) { k.Name = "id" },
		"name of a request": func(k *Kind) { k.Name = "lists" },
		"name of a route":   func(k *Kind) { k.Plural = "preview" },
		"route as a name":   func(k *Kind) { k.Name = "export" },
		"lists as a plural": func(k *Kind) { k.Plural = Lists },
		"id as a plural":    func(k *Kind) { k.Plural = "id" },
		"empty name":        func(k *Kind) { k.Name = "" },
		"capital":           func(k *Kind) { k.Name = "Mute" },
		"colon":             func(k *Kind) { k.Name = "mu:te" },
		"long":              func(k *Kind) { k.Name = strings.Repeat("m", 33) },
		"empty plural":      func(k *Kind) { k.Plural = "" },
		"slash":             func(k *Kind) { k.Plural = "mutes/x" },
		"no target":         func(k *Kind) { k.Target = "" },
		"capital facet":     func(k *Kind) { k.Target = "Tag" },
		"colon in facet":    func(k *Kind) { k.Target = "a:b" },
		"long facet":        func(k *Kind) { k.Target = Facet(strings.Repeat("m", 33)) },
		"almost user":       func(k *Kind) { k.Target = "author" },
		"almost post":       func(k *Kind) { k.Target = "posts" },
		"two-way facet":     func(k *Kind) { k.Target, k.Reverse = "tag", "muted-by" },
		"window of users":   func(k *Kind) { k.Window = time.Hour },
		"no effect":         func(k *Kind) { k.Effect = 0 },
		"two-way post":      func(k *Kind) { k.Target, k.Reverse = Post, "muted-by" },
		"two-way window":    func(k *Kind) { k.Window, k.Reverse = 1, "muted-by" },
		"negative window":   func(k *Kind) { k.Window = -1 },
		"its own reverse":   func(k *Kind) { k.Reverse = "mute" },
		"a taken name":      func(k *Kind) { k.Name = "block" },
		"a taken reverse":   func(k *Kind) { k.Reverse = "block" },
		"a taken plural":    func(k *Kind) { k.Plural = "blocks" },
		"a plural as name":  func(k *Kind) { k.Name = "blocks" },
		"a name as plural":  func(k *Kind) { k.Plural = "like" },
		"reverse as plural": func(k *Kind) { k.Plural = "blocked-by" },
		"reverse of other":  func(k *Kind) { k.Name = "blocked-by" },

		"two-way fan-out":     func(k *Kind) { k.Reverse, k.Fanout = "muted-by", true },
		"roles of a post":     func(k *Kind) { k.Target, k.Roles = Post, []string{"repost"} },
		"no roles":            func(k *Kind) { k.Roles = []string{} },
		"too many roles":      func(k *Kind) { k.Roles = strings.Split("abcdefghijklmnopq", "") },
		"a role twice":        func(k *Kind) { k.Roles = []string{"repost", "repost"} },
		"capital role":        func(k *Kind) { k.Roles = []string{"Repost"} },
		"unknown effect":      func(k *Kind) { k.Effect = Keep + 1 },
		"over of a drop":      func(k *Kind) { k.Over = []string{"hide"} },
		"keeps over nothing":  func(k *Kind) { k.Effect = Keep },
		"keeps over unknown":  func(k *Kind) { k.Effect, k.Over = Keep, []string{"report"} },
		"keeps over itself":   func(k *Kind) { k.Effect, k.Over = Keep, []string{"mute"} },
		"keeps over a like":   func(k *Kind) { k.Effect, k.Over = Keep, []string{"like"} },
		"keeps over two ways": func(k *Kind) { k.Effect, k.Over = Keep, []string{"hide", "block"} },
		"keeps lists twice":   func(k *Kind) { k.Effect, k.Over = Keep, []string{Lists, Lists} },
		"keeps over twice":    func(k *Kind) { k.Effect, k.Over = Keep, []string{"hide", "hide"} },
		"keeps over plural":   func(k *Kind) { k.Effect, k.Over = Keep, []string{"hide", "hides"} },
		"two-way keep":        func(k *Kind) { k.Effect, k.Over, k.Reverse = Keep, []string{"hide"}, "muted-by" },
		"keep with a window":  func(k *Kind) { k.Effect, k.Over, k.Target, k.Window = Keep, []string{"hide"}, Post, time.Hour },
	} {
		k := good
		change(&k)
		if _, err := NewKinds(append(builtinKinds(), k)...); err == nil {
			t.Errorf("%s: %+v was accepted", name, k)
		}
	}
	of := good
	of.Target = "tag"
	windowed := Kind{Name: "skip", Plural: "skips", Target: "thread", Effect: Drop, Window: time.Hour}
	restricted := Kind{Name: "a", Plural: "as", Target: User, Effect: Drop, Roles: []string{Author, "repost"}}
	keep := Kind{Name: "follow", Plural: "follows", Target: User, Effect: Keep, Over: []string{"hide", Lists, "seen"}}
	for _, k := range []Kind{good, of, windowed, restricted, keep} {
		if _, err := NewKinds(append(builtinKinds(), k)...); err != nil {
			t.Error(err)
		}
	}
}
