package opspage_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// with returns o with some fields set. "outer.inner" is a field of an object within o.
func with(o object, pairs ...any) object {
	for i := 0; i < len(pairs); i += 2 {
		in, name := o, pairs[i].(string)
		if outer, inner, nested := strings.Cut(name, "."); nested {
			in, name = o[outer].(object), inner
		}
		in[name] = pairs[i+1]
	}
	return o
}

// testVerdicts checks that the sentence on top names the most urgent problem of the service.
func testVerdicts(b *chromium) func(*testing.T) {
	return func(t *testing.T) {
		f := newFake(t)
		tab := open(t, b, f.URL, "#/live", look{})
		tab.settled()
		down := func(dependencies ...string) (all []object) {
			for _, d := range dependencies {
				all = append(all, object{"dependency": d, "reason": "it does not answer in time"})
			}
			return all
		}
		for _, c := range []struct {
			name, state, sentence, note string
			health                      object
			history                     func(object)
		}{
			{name: "well", state: "ok", sentence: "Answering feeds. No problems found.", health: healthy()},
			{
				name: "redis", state: "bad", sentence: "Redis cannot be reached: feeds are answered from the ledger; seen is not checked.", note: "Redis: it does not answer in time.",
				health: with(healthy(), "status", "degraded", "down", down("pages")),
			},
			{
				name: "ledger", state: "bad", sentence: "The ledger cannot be reached: feeds are answered from the pages; writes are refused.", note: "The ledger: it does not answer in time.",
				health: with(healthy(), "status", "degraded", "down", down("ledger")),
			},
			{
				name: "both", state: "bad", sentence: "Feeds cannot be answered: neither Redis nor the ledger can be reached.",
				health: with(healthy(), "status", "unavailable", "down", down("pages", "ledger")),
			},
			{
				name: "plain", state: "bad", sentence: "Feeds cannot be answered: Redis cannot be reached.",
				health: with(healthy(), "status", "unavailable", "down", down("pages"), "ledger", "none", "reshape", nil),
			},
			{
				name: "missed", state: "bad", sentence: "A feed showed a post that its viewer must not see.", note: "2 posts of 512,000 compared with the ledger since the start were shown, or not annotated, although the ledger has the activity.",
				health: with(healthy(), "sampling.misses", 2, "sampling.repaired", 1),
			},
			{
				name: "not followed", state: "bad", sentence: "Nobody follows the source app: feeds lack what the app has written since.",
				note:   `This instance cannot follow the source app: there is no publication "feedfilter_app".`,
				health: with(healthy(), "sources", sources(object{"name": "app", "followed": false, "trouble": `there is no publication "feedfilter_app"`, "behind_bytes": 0, "behind_seconds": 0})),
			},
			{
				name: "behind", state: "warn", sentence: "One problem needs attention.", note: "The ledger lacks 20 MiB of the log of app, of the last 40 s.",
				health: with(healthy(), "sources", sources(object{"name": "app", "followed": true, "behind_bytes": 20 << 20, "behind_seconds": 40.2})),
			},
			{
				name: "unproved", state: "warn", sentence: "One problem needs attention.",
				note:   "The ledger was last proved to be the same as the source app at 20 Nov 2025, 09:30:00 UTC, more than two days ago",
				health: with(healthy(), "sources", sources(object{"name": "app", "followed": true, "proved_at": "2025-11-20T09:30:00Z"})),
			},
			{
				name: "faulty", state: "warn", sentence: "Answering feeds. One problem needs attention.", note: "3 pages were faulty at the last check (scrub of 20 Nov 2025, 09:30:00 UTC).",
				health: with(healthy(), "pages.faulty", 3, "pages.counted_at", "2025-11-20T09:30:00Z"),
			},
			{
				name: "due", state: "warn", sentence: "One problem needs attention.", note: ", more than 4,096. \"feedfilter reshape --pages 8192\"",
				health: with(healthy(), "pages.due", 8192, "pages.keys_per_page", 5000.0),
			},
			{
				name: "late and full", state: "warn", sentence: "2 problems need attention.", note: "The last poll of the ledger was 9 s ago; the limit is 1 s",
				health: with(healthy(), "poll_age_ms", 9000, "requests.in_progress", 500),
			},
			{
				name: "reshape", state: "ok", sentence: "No problems found.", note: "A reshape to 8,192 pages is running: 34 of them are built.",
				health: with(healthy(), "reshape.running", true, "reshape.pages", 8192, "reshape.reshaped", 17),
			},
			{
				name: "rare", state: "warn", sentence: "2 problems need attention.", note: "In the last minute 1 request failed with an error", health: healthy(),
				history: func(h object) { h["errors"], h["shed"] = append(constant(179, 0), 0.2), constant(180, 0.4) },
			},
			{
				name: "due and running", state: "ok", sentence: "No problems found.", note: "A reshape to 8,192 pages is running",
				health: with(healthy(), "pages.due", 8192, "reshape.running", true, "reshape.pages", 8192, "reshape.reshaped", 17),
			},
			{
				name: "stuck", state: "warn", sentence: "One problem needs attention.", note: "The reshape to 4,096 pages is stalled: what this call needs is unavailable: pages.",
				health: with(healthy(), "reshape.trouble", "what this call needs is unavailable: pages"),
			},
			{
				name: "errors", state: "warn", sentence: "One problem needs attention.", note: "In the last minute 2 requests per second failed with an error",
				health: healthy(), history: func(h object) { h["errors"] = constant(180, 2) },
			},
		} {
			t.Run(c.name, func(t *testing.T) {
				tab.t = t
				f.change(func() {
					f.health, f.history = c.health, busy(180, 5)
					if c.history != nil {
						c.history(f.history)
					}
				})
				tab.refresh()
				tab.want(".sentence", c.sentence)
				tab.want("#verdict-words", c.note)
				if state := value[string](tab, "document.getElementById('verdict').dataset.state"); state != c.state {
					t.Errorf("the state is %q, want %q", state, c.state)
				}
				tab.legible(c.name)
				tab.shoot("verdict-" + strings.ReplaceAll(c.name, " ", "-"))
			})
		}
		tab.t = t
	}
}

func sources(all ...object) []object { return all }

func constant(n int, v float64) []float64 {
	column := make([]float64, n)
	for i := range column {
		column[i] = v
	}
	return column
}

// refresh asks again, and waits for the answer.
func (b *tab) refresh() {
	b.t.Helper()
	// Click at once. Otherwise the answer to an earlier request may count.
	before := value[string](b, "(() => { const before = document.getElementById('view').dataset.shown; document.getElementById('refresh').click(); return before })()")
	b.until(fmt.Sprintf("document.getElementById('view').dataset.shown !== %q", before))
}

// quick makes timers of a second or longer fire at once, and records their delays. Shorter timers
// do not change.
const quick = `window.waits = [];
window.timers = new Set(); // that have not gone off
window.asks = 0;
const ask = window.fetch;
window.fetch = (...call) => { window.asks++; return ask(...call); };
const [set, clear] = [window.setTimeout, window.clearTimeout];
window.setTimeout = (call, wait) => {
	if (!(wait >= 1000)) return set(call, wait);
	window.waits.push(wait);
	const timer = set(() => { window.timers.delete(timer); call(); }, 5);
	window.timers.add(timer);
	return timer;
};
window.clearTimeout = (timer) => { window.timers.delete(timer); clear(timer); };`

// testPolling checks that the page asks every five seconds, less and less often while that fails,
// and not at all while it is hidden. Figures stay on the page, which says how old they are.
func testPolling(b *chromium) func(*testing.T) {
	return func(t *testing.T) {
		f := newFake(t)
		tab := open(t, b, f.URL, "#/live", look{})
		call(tab, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: quick})
		call(tab, page.Reload, page.ReloadParams{})
		tab.until("window.waits?.length > 2")
		if waits := value[[]int](tab, "window.waits.slice(0, 3)"); fmt.Sprint(waits) != "[5000 5000 5000]" {
			t.Errorf("while all is well, it waits %v ms", waits)
		}
		f.change(func() { f.status = http.StatusInternalServerError })
		tab.until("window.waits.at(-1) === 60000")
		if rising := value[string](tab, "[...new Set(window.waits)].join(' ')"); rising != "5000 10000 20000 40000 60000" {
			t.Errorf("while the service fails, it waits %s ms", rising)
		}
		tab.want(".sentence", "Something went wrong inside the service. The figures below are from ")
		tab.want(".figures", "Feeds")
		// The age is visible once the clock has moved on.
		value[bool](tab, "(() => { const now = Date.now; Date.now = () => now() + 40000; return true })()")
		tab.until("document.getElementById('age').innerText.endsWith(' old')")
		f.change(func() { f.status = 0 })
		tab.until("document.querySelector('.sentence').innerText.includes('No problems found')")
		tab.until("window.waits.at(-1) === 5000")

		// No request may be in flight, and no timer pending.
		asked := tab.hide(true)
		do(tab, chromedp.Evaluate[bool]("fetch('ops/icon.svg').then((icon) => icon.ok)", chromedp.EvalAwaitPromise)) // waits for them
		if more, left := value[int](tab, "window.asks")-asked-1, value[int](tab, "window.timers.size"); more > 0 || left > 0 {
			t.Errorf("the hidden page asked %d more times, and has %d pending timers", more, left)
		}
		tab.refresh() // asks exactly once
		if left := value[int](tab, "window.timers.size"); left > 0 {
			t.Errorf("after Refresh, the hidden page has %d pending timers", left)
		}
		asked = tab.hide(false)
		if value[int](tab, "window.asks") == asked {
			t.Error("the page does not ask when it is visible again")
		}
	}
}

// hide makes the page believe that it is hidden or visible. It returns how often the page had asked
// before.
func (b *tab) hide(hidden bool) int {
	b.t.Helper()
	return value[int](b, fmt.Sprintf(`(() => {
		const asked = window.asks;
		Object.defineProperty(document, 'hidden', { value: %v, configurable: true });
		document.dispatchEvent(new Event('visibilitychange'));
		return asked;
	})()`, hidden))
}

// testToken checks that the page asks for the token that a service needs, and sends it. The token
// stays in this tab.
func testToken(b *chromium) func(*testing.T) {
	return func(t *testing.T) {
		f := newFake(t)
		f.token, f.scopes = "ff_secret", "ops:read"
		tab := open(t, b, f.URL, "#/live", look{})
		tab.until("document.getElementById('token').open")
		tab.want("#token-why", "This service needs a token.")
		tab.legible("the question for a token")
		tab.shoot("token")
		tab.fill("#token-value", "wrong")
		tab.click("#token-form .main")
		tab.until("document.getElementById('token').open && document.getElementById('token-why').innerText.includes('does not know this token')")
		tab.fill("#token-value", " ff_secret ")
		tab.press("\r")
		tab.until("!document.getElementById('token').open")
		tab.settled()
		tab.want(".sentence", "Answering feeds.")
		if kept := value[string](tab, "JSON.stringify([Object.values(sessionStorage), Object.values(localStorage), document.cookie, location.href.includes('secret')])"); kept != `[["ff_secret"],[],"",false]` {
			t.Errorf("the token is kept as %s", kept)
		}
		tab.mu.Lock()
		for _, r := range tab.asked {
			if strings.Contains(r.URL, "secret") {
				t.Errorf("the token is in the URL %s", r.URL)
			}
		}
		tab.mu.Unlock()
		tab.click("#forget")
		tab.until("document.getElementById('token').open")
		if left := value[int](tab, "sessionStorage.length"); left != 0 {
			t.Errorf("%d tokens are left", left)
		}
	}
}

// testDeclined checks that the page does not ask again for a token that the user refused to give,
// until the user presses Refresh.
func testDeclined(b *chromium) func(*testing.T) {
	return func(t *testing.T) {
		f := newFake(t)
		f.token, f.scopes = "ff_secret", "ops:read"
		tab := open(t, b, f.URL, "#/live", look{})
		call(tab, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: quick})
		call(tab, page.Reload, page.ReloadParams{})
		tab.until("document.getElementById('token').open")
		tab.press(kb.Escape)
		tab.until("document.querySelector('.sentence').innerText.includes('Press Refresh to enter a token.')")
		tab.until("window.asks > 8")
		if value[bool](tab, "document.getElementById('token').open") {
			t.Error("the page asks for the token again without a press of Refresh")
		}
		tab.click("#refresh")
		tab.until("document.getElementById('token').open")
	}
}

// testSpoken checks that a text is read out once, however often the numbers beside it change.
func testSpoken(b *chromium) func(*testing.T) {
	return func(t *testing.T) {
		f := newFake(t)
		tab := open(t, b, f.URL, "#/live", look{})
		tab.settled()
		errors := func(rate float64) {
			f.change(func() { f.history = with(busy(180, 5), "errors", constant(180, rate)) })
			tab.refresh()
			tab.want("#notes", fmt.Sprintf("In the last minute %v requests failed with an error", 60*rate))
		}
		errors(0.2)
		value[bool](tab, `(() => {
			window.spoken = [];
			new MutationObserver((changes) => changes.forEach(({ target }) => {
				const region = target.parentElement.closest('[aria-live]') ?? target;
				if (region.getAttribute('aria-live') === 'polite') window.spoken.push(region.textContent);
			})).observe(document.body, { subtree: true, childList: true, characterData: true });
			return true;
		})()`)
		errors(0.3)
		if spoken := value[[]string](tab, "window.spoken"); len(spoken) > 0 {
			t.Errorf("read out again: %q", spoken)
		}
		f.change(func() { f.history = nil })
		tab.refresh()
		if spoken := value[[]string](tab, "window.spoken"); !slices.Contains(spoken, "Answering feeds. No problems found.") {
			t.Errorf("read out: %q", spoken)
		}
	}
}

// testNothing checks that a service without activities shows no problem.
func testNothing(b *chromium) func(*testing.T) {
	return func(t *testing.T) {
		f := newFake(t)
		f.page = with(onePage(), "state", "unused", "page", nil, "ledger", object{"sequence": 0, "left": 0, "keys": 0, "kinds": object{}, "users": 0, "largest": []object{}})
		f.health = with(healthy(), "pages.keys", 0, "pages.keys_per_page", 0)
		tab := open(t, b, f.URL, "#/page/4711", look{width: 320})
		tab.settled()
		tab.want(".notice", "No user of this page has any activity yet")
		if marks := value[int](tab, "document.querySelectorAll('td.same .mark').length"); marks > 0 {
			t.Errorf("%d figures of a missing page are compared with the ledger", marks)
		}
		if tables := value[int](tab, "document.querySelectorAll('table.bars').length"); tables > 0 {
			t.Errorf("%d empty tables", tables)
		}
		tab.visit("#/growth")
		tab.want("[aria-label='Keys per page']", "0 keys")
		tab.apart(".meter text")
		f.change(func() { f.health["pages"].(object)["counted_at"] = nil })
		tab.refresh()
		tab.want("[aria-label='Keys per page']", "not counted yet")
		tab.apart(".meter text")
	}
}

// testHeld checks that a selection stays when the page asks again, and the way there from a search.
func testHeld(b *chromium) func(*testing.T) {
	return func(t *testing.T) {
		f := newFake(t)
		tab := open(t, b, f.URL, "#/search", look{})
		tab.settled()
		tab.fill("#jump", "4711")
		tab.click("#jump ~ button")
		tab.until("location.hash === '#/page/4711'")
		tab.settled()
		if focus := value[string](tab, "document.activeElement.tagName"); focus != "H1" {
			t.Errorf("after a change of the view, the focus is on %s, want its heading", focus)
		}
		value[bool](tab, "(getSelection().selectAllChildren(document.querySelector('.bars .id')), true)")
		f.change(func() { f.health = with(healthy(), "pages.looked_at", 4, "pages.counted_at", nil) })
		tab.refresh()
		tab.want("#verdict-facts", "8,123,450 keys on the 4 checked so far")
		if selected := value[string](tab, "String(getSelection())"); selected != "h:5b1f0a9c77e2" {
			t.Errorf("after the same was answered again, %q is selected", selected)
		}
	}
}

// apart checks that no two elements that match the selector overlap.
func (b *tab) apart(selector string) {
	b.t.Helper()
	if over := value[bool](b, fmt.Sprintf(`(() => {
		const boxes = [...document.querySelectorAll(%q)].map((n) => n.getBoundingClientRect());
		return boxes.some((a, i) => boxes.some((b, j) => i < j && a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom));
	})()`, selector)); over {
		b.t.Errorf("elements of %s overlap", selector)
	}
}

// testScope checks that the page names what the token does not allow.
func testScope(b *chromium) func(*testing.T) {
	return func(t *testing.T) {
		f := newFake(t)
		f.token, f.scopes = "ff_secret", "feed:read"
		tab := open(t, b, f.URL, "#/live", look{})
		tab.until("document.getElementById('token').open")
		tab.fill("#token-value", "ff_secret")
		tab.click("#token-form .main")
		tab.until("document.querySelector('.sentence').innerText.includes('does not have the scope ops:read')")
	}
}

// testRebuild checks that a page is rebuilt only after confirmation, and that the page says so.
func testRebuild(b *chromium) func(*testing.T) {
	return func(t *testing.T) {
		f := newFake(t)
		f.page = with(onePage(), "state", "behind", "agrees", false, "behind", 2, "lacks", object{"block": 2}, "ledger.sequence", 19)
		tab := open(t, b, f.URL, "#/page/4711", look{})
		tab.settled()
		tab.want(".notice", "2 keys of the ledger are not on this page.")
		tab.want("[aria-label='Page and ledger']", "Sequence changes 17 19 no")
		tab.want("[aria-label='Page and ledger']", "Not on the page: block 2.")
		tab.click(".head button")
		tab.legible("the question whether to rebuild the page")
		tab.shoot("confirm")
		tab.click("dialog[open] button:not(.main)")
		tab.until("!document.querySelector('dialog[open]')")
		if len(f.posted) != 0 {
			t.Fatalf("without confirmation, %v were posted", f.posted)
		}
		tab.click(".head button")
		tab.click("dialog[open] .main")
		tab.until("document.body.innerText.includes('Rebuilt in 3.1 ms')")
		f.change(func() {
			if fmt.Sprint(f.posted) != "[/v1/ops/pages/4711/rebuild]" {
				t.Errorf("posted %v", f.posted)
			}
		})
		tab.click(".head button")
		value[bool](tab, "(location.hash = '#/search', true)")
		tab.until("!document.querySelector('dialog[open]')")
		tab.visit("#/page/4711")
		f.change(func() { f.token, f.scopes = "t", "ops:read" })
		value[bool](tab, "(sessionStorage.setItem('feedfilter.token', 't'), true)")
		tab.click(".head button")
		tab.click("dialog[open] .main")
		tab.until("document.body.innerText.includes('does not have the scope ops:write')")
	}
}
