package opspage_test

import (
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// testReasons checks the words for what a feed does with a post, for every certainty.
func testReasons(b *chromium) func(*testing.T) {
	return func(t *testing.T) {
		f := newFake(t)
		tab := open(t, b, f.URL, "#/search", look{})
		tab.settled()
		reason := func(pairs ...any) object {
			return with(object{"kind": "block", "effect": "drop", "actor": "2", "direction": "by_viewer", "certainty": "certain", "since": "2026-11-20T09:30:00Z"}, pairs...)
		}
		answer := func(dropped bool, reasons ...object) object {
			return object{"dropped": dropped, "reasons": reasons, "page": explained()["page"], "degraded": []any{}}
		}
		for _, c := range []struct {
			name   string
			answer object
			want   []string
		}{
			{"kept", answer(false, []object{}...), []string{"A feed keeps this post.", "page 4,711 at sequence 17"}},
			{"blocked", answer(true, reason()), []string{"The reason is certain", "1 has blocked 2, the author.", "since 20 Nov 2026", "DELETE /v1/users/1/blocks/2"}},
			{"blocked by", answer(true, reason("direction", "by_actor")), []string{"2, the author, has blocked 1.", "DELETE /v1/users/2/blocks/1"}},
			{"ends", answer(true, reason("until", "2027-01-01T00:00:00Z")), []string{"until 1 Jan 2027"}},
			{"hidden", answer(true, reason("kind", "hide", "actor", "")), []string{"1 has hidden p/8.", "DELETE /v1/users/1/hides/p%2F8"}},
			{"false", answer(true, reason("certainty", "false", "since", nil)), []string{"because of a false positive. An exact feed does not.", "the ledger does not have it", `"exact": true asks the ledger and keeps the post`}},
			{
				"seen", answer(true, reason("kind", "seen", "actor", "", "certainty", "unconfirmed", "until", "2026-12-21T00:00:00Z", "parts", []string{"a", "b"})),
				[]string{"The reason cannot be confirmed", "Seen no earlier than 20 Nov 2026", "forgotten by 21 Dec 2026", "2 parts"},
			},
			{"liked", answer(false, reason("kind", "like", "actor", "", "effect", "annotate")), []string{"A feed keeps this post.", "1 has liked p/8. This annotates the post, and does not drop it."}},
			{"other", answer(true, reason("kind", "mute")), []string{"“mute” by 1 of 2, the author."}},
			{
				"list", answer(true, reason("list", "spammers")),
				[]string{"The reason is certain", "“block” by the list spammers of 2, the author.", "DELETE /v1/users/spammers/blocks/2"},
			},
			{"facet", answer(true, reason("kind", "domain-mute", "actor", "", "target", "x.example")), []string{"“domain-mute” by 1 of x.example."}},
			{
				"overruled", answer(false, reason("kind", "mute", "overruled_by", "follow"), reason("kind", "follow", "effect", "keep")),
				[]string{"A feed keeps this post.", "“follow” overrules it, and keeps the post.", "This keeps the post in spite of kinds that it overrules."},
			},
			{
				"overruled and false", answer(true, reason("overruled_by", "follow"), reason("certainty", "false")),
				[]string{"because of a false positive"},
			},
			{
				"unchecked", with(answer(false, []object{}...), "degraded", []object{{"kind": "seen", "reason": "the page store is unavailable"}}),
				[]string{"some kinds could not be checked", "Not checked: seen, since the page store is unavailable."},
			},
		} {
			t.Run(c.name, func(t *testing.T) {
				tab.t = t
				f.change(func() { f.explain = c.answer })
				value[bool](tab, "(document.querySelector('form + .stack').replaceChildren(), true)")
				tab.search("1", "p/8", "2")
				for _, want := range c.want {
					tab.want("form + .stack", want)
				}
			})
		}
		tab.t = t
		f.change(func() { f.status = 503 })
		value[bool](tab, "(document.querySelector('form + .stack').replaceChildren(), true)")
		tab.search("1", "p8", "2")
		tab.want(".notice", "Something went wrong inside the service.")
		f.change(func() { f.status, f.explain = 0, answer(false, []object{}...) })
		tab.search("1", "p8", "2 ")
		tab.until("document.querySelector('form + .stack').innerText.includes('begins or ends with a space. The space is part of the id.')")
		f.change(func() {
			f.explain = with(answer(false, []object{}...), "degraded", []object{{"kind": "seen", "reason": "the page store is unavailable"}})
		})
		tab.search("1", "p8", "2")
		tab.until("document.querySelector('form + .stack .notice').dataset.state === 'warn'")
		if strings.Contains(tab.text("form + .stack"), "with a space") {
			t.Error("the page warns of spaces in ids without spaces")
		}
	}
}

// testFields checks that the form sends all that a post has, and says what it did not send.
func testFields(b *chromium) func(*testing.T) {
	return func(t *testing.T) {
		f := newFake(t)
		kind := func(name, target string) object { return object{"name": name, "plural": name + "s", "target": target} }
		f.kinds = object{"kinds": []object{kind("block", "user"), kind("hide", "post"), kind("tag-mute", "tag"), kind("domain-mute", "domain"), kind("domain-like", "domain")}}
		tab := open(t, b, f.URL, "#/search", look{width: 390})
		tab.settled()
		for _, c := range []struct {
			fields map[string]string
			body   object
			want   string
		}{
			{
				nil, object{"viewer": "1", "post": object{"id": "p8", "author": "2"}},
				"Not checked, since the form has none: related posts, others on the post, domain (domain-mute, domain-like), tag (tag-mute), lists.",
			},
			{
				map[string]string{"related": "p3\np4\n", "actors": "5 as repost\n6\n7 as x as quote", "lists": "spammers", "facet-tag": "go", "facet-domain": "a.example\nb.example"},
				object{
					"viewer": "1", "lists": []any{"spammers"},
					"post": object{
						"id": "p8", "author": "2", "related": []any{"p3", "p4"}, "actors": []any{object{"id": "5", "role": "repost"}, "6", object{"id": "7 as x", "role": "quote"}},
						"facets": object{"domain": []any{"a.example", "b.example"}, "tag": []any{"go"}},
					},
				}, "",
			},
			{
				map[string]string{"related": "", "actors": " 5", "post": ""},
				object{
					"viewer": "1", "lists": []any{"spammers"},
					"post": object{"author": "2", "actors": []any{" 5"}, "facets": object{"domain": []any{"a.example", "b.example"}, "tag": []any{"go"}}},
				}, "A feed drops posts by this author. The reason is certain. block: certain 2, the author, has blocked 1.",
			},
		} {
			tab.fill("#search-viewer", "1")
			tab.fill("#search-post", "p8")
			tab.fill("#search-author", "2")
			for name, text := range c.fields {
				tab.fill("#search-"+name, text)
			}
			value[bool](tab, "(document.querySelector('form + .stack').replaceChildren(), true)")
			tab.click("form .main")
			tab.until("document.querySelector('.notice')")
			f.change(func() {
				if !reflect.DeepEqual(f.asked, c.body) {
					t.Errorf("the form sent %v, want %v", f.asked, c.body)
				}
			})
			tab.want("form + .stack", c.want)
			if said := tab.text("form + .stack"); c.want == "" && strings.Contains(said, "Not checked") {
				t.Errorf("with all fields set: %s", said)
			}
			tab.legible("search")
			tab.shoot("search-fields-" + strconv.Itoa(len(c.fields)))
		}
		tab.want("form + .stack", "with a space")
		tab.want("form + .stack", "Not checked, since the form has none: posts (hide), related posts.")
	}
}

// testHostile checks that ids with markup are shown as text.
func testHostile(b *chromium) func(*testing.T) {
	return func(t *testing.T) {
		f := newFake(t)
		const evil = `<img src=x onerror="document.title='taken'"><script>document.title='taken'</script>`
		f.explain = with(explained(), "reasons", []object{
			{"kind": evil, "effect": "drop", "actor": evil, "direction": "by_actor", "certainty": "certain", "since": evil},
			{"kind": "seen", "effect": "drop", "direction": "by_viewer", "certainty": "unconfirmed", "since": evil, "until": evil, "parts": []string{evil}},
		}, "degraded", []object{{"kind": evil, "reason": evil}})
		f.page = with(onePage(), "damage", evil, "page.build", evil, "ledger.kinds", object{evil: 5}, "ledger.largest", []object{{"user": evil, "keys": 5}}, "lacks", object{evil: 1})
		f.health = with(healthy(), "version", evil, "status", "degraded", "down", []object{{"dependency": evil, "reason": evil}}, "reshape.trouble", evil)
		f.history = with(busy(180, 5), "dropped", object{evil: constant(180, 1)})
		tab := open(t, b, f.URL, "#/search", look{width: 390})
		tab.settled()
		tab.search(evil, evil, evil)
		for _, view := range []string{"#/search", "#/live", "#/page/" + strings.ReplaceAll(evil, "/", ""), "#/page/1", "#/growth?range=" + evil} {
			if view != "#/search" {
				tab.visit(view)
			}
			if n := value[int](tab, "document.querySelectorAll('main img, main script, header img, section img').length"); n > 0 {
				t.Errorf("%s: an id became %d elements", view, n)
			}
			if title := value[string](tab, "document.title"); title == "taken" {
				t.Errorf("%s: a script in an id ran", view)
			}
			if view != "#/live" { // the fake accepts any number
				tab.want("#verdict", evil)
			}
			if wide := value[int](tab, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
				t.Errorf("%s: scrolls sideways, by %d pixels", view, wide)
			}
		}
		tab.visit("#/page/1")
		tab.want("[aria-label='Users on this page']", evil)
	}
}

// testReversed checks that an id that changes the direction of writing changes no other text.
func testReversed(b *chromium) func(*testing.T) {
	return func(t *testing.T) {
		f := newFake(t)
		f.explain = with(explained(), "reasons", []object{
			{"kind": "block", "effect": "drop", "actor": "2", "direction": "by_viewer", "certainty": "certain", "since": "2026-11-20T09:30:00Z"},
		})
		tab := open(t, b, f.URL, "#/search", look{})
		tab.settled()
		tab.search("1\u202e", "p8", "2")
		tab.want(".reason p", "1\u202e has blocked 2, the author.")
		if ends := value[[]float64](tab, `(() => {
			const words = [...document.querySelector('.reason p').childNodes].find((n) => n.data === ' has blocked ');
			const at = (i) => { const r = document.createRange(); r.setStart(words, i); r.setEnd(words, i + 1); return r.getBoundingClientRect().left; };
			return [at(1), at(11)];
		})()`); ends[0] >= ends[1] {
			t.Errorf("\"has blocked\" begins at %v and ends at %v", ends[0], ends[1])
		}
	}
}

// testAddresses checks that every address shows a view from which the user can continue.
func testAddresses(b *chromium) func(*testing.T) {
	return func(t *testing.T) {
		f := newFake(t)
		tab := open(t, b, f.URL, "#/live", look{})
		for hash, title := range map[string]string{
			"#/constructor": "Live", "#/__proto__": "Live", "#/nowhere/1?a=b": "Live", "#/%E0%A4%A": "Live", "#/page/%E0%A4%A": "Page %E0%A4%A", "#/pages?by=constructor": "Live",
		} {
			tab.visit(hash)
			tab.want("h1", title)
		}
		tab.visit("#/growth")
		tab.want("h1", "Memory and growth")
	}
}
