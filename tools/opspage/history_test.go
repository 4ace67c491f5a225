package opspage_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// past returns a history of n steps of step seconds. All columns are constant but the given ones.
func past(n, step int, columns object) object {
	h := object{"window_seconds": n * step, "step_seconds": step}
	now := time.Now().Unix()
	times := make([]int64, n)
	for i := range times {
		times[i] = now - int64((n-1-i)*step)
	}
	h["time"] = times
	for name := range strings.FieldsSeq("feeds candidates writes confirmed false_positives rebuilds degraded errors shed p50_ms p99_ms poll_age_ms heap_bytes page_bytes keys in_progress") {
		h[name] = constant(n, 0)
	}
	h["dropped"] = object{"block": constant(n, 0)}
	maps.Copy(h, columns)
	return h
}

// testLooks checks that lines can be told apart, and that a series has one unit. Live names sources
// while all is well, too. Search begins with the search. A phone shows the charts within a few
// screens.
func testLooks(b *chromium) func(*testing.T) {
	return func(t *testing.T) {
		f := newFake(t)
		dropped := object{}
		for kind := range strings.FieldsSeq("a b c d e f g h i j k l m") {
			dropped[kind] = constant(180, 2)
		}
		f.history = past(180, 5, object{
			"dropped": dropped, "errors": slices.Concat(constant(178, 0), []float64{2.6, 0.96}), "degraded": slices.Concat(constant(178, 0), []float64{0.8, 0.2}),
		})
		f.health = with(healthy(), "sources", sources(object{"name": "app", "followed": true, "behind_bytes": 0, "behind_seconds": 0}, object{"name": "other", "followed": true, "proved_at": "2025-11-20T09:30:00Z"}))
		tab := open(t, b, f.URL, "#/live", look{})
		tab.settled()
		looks := value[[]string](tab, "[...document.querySelectorAll(\"[aria-label='Dropped posts'] .legend path\")].map((p) => getComputedStyle(p).stroke + p.getAttribute('stroke-dasharray'))")
		slices.Sort(looks)
		if len(looks) != 13 || len(slices.Compact(slices.Clone(looks))) != 13 {
			t.Errorf("lines look alike: %q", looks)
		}
		tab.want("[aria-label='Problems'] .legend", "degraded feeds 1 in 5 s peak 4 in 5 s errors 0.96 peak 2.6 refused 0")
		tab.want("#view", "Source app: followed. The ledger lacks nothing that this instance knows of.")
		tab.want("#view", "Source other: followed by another process, which knows how far the ledger has it. Source and ledger were the same, last proved at 20 Nov 2025, 09:30:00 UTC.")
		tab.visit("#/search")
		if first := value[string](tab, "document.querySelector('main input, main textarea, main button').name"); first != "viewer" {
			t.Errorf("Search begins with %q", first)
		}
		tab = open(t, b, f.URL, "#/live", look{width: 390})
		tab.settled()
		if high := value[int](tab, "Math.round(document.querySelector('.two').getBoundingClientRect().height)"); high > 2200 {
			t.Errorf("the charts take %d pixels of a phone", high)
		}
		tab.click("[aria-label='Poll age'] summary")
		tab.until("getComputedStyle(document.querySelector(\"[aria-label='Poll age'] > .meaning\")).display !== 'none'")
	}
}

// testLive checks that figures cover the last minute, and charts the chosen window. Tables have the
// values of the charts.
func testLive(b *chromium) func(*testing.T) {
	return func(t *testing.T) {
		f := newFake(t)
		feeds := slices.Concat(constant(168, 100), constant(12, 7)) // the last minute has 12 steps
		f.history = past(180, 5, object{
			"feeds": feeds, "candidates": constant(180, 40), "writes": constant(180, 3), "p50_ms": constant(180, 0.25), "p99_ms": append(constant(179, 4), 2),
			"dropped": object{"block": constant(180, 6), "hide": constant(180, 4)}, "errors": append(constant(179, 0), 0.2), "degraded": append(constant(179, 0), 0.01), "confirmed": constant(180, 8), "poll_age_ms": make([]any, 180),
		})
		f.health = with(healthy(), "poll_age_ms", 40)
		tab := open(t, b, f.URL, "#/live", look{})
		tab.settled()
		value[bool](tab, "(() => { const now = Date.now(); Date.now = () => now; return true })()") // stops the clock
		for figure, want := range map[string]string{
			"Feeds": "Feeds 7 per second Feeds answered. Posts checked: 40 per second.", "Typical feed": "250 µs", "Slow feeds": "4 ms",
			"Dropped posts": "10 per second 25 % of the posts checked: block 6, hide 4.", "Writes": "3 per second", "Errors": "1 in the last minute", "Degraded feeds": "1 in the last minute", "Rebuilds": "0 in the last minute", "Poll age": "40 ms",
			"In progress": "12 of 512", "Missed drops": "0 of 512,000", "False positives": "0.035 % of posts compared with the ledger since the start. Configured: 0.1 %. Of 7,200 positives of exact feeds checked in the last 15 min, 0 were false.",
		} {
			tab.want("[data-figure='"+figure+"']", want)
		}
		tab.want("[aria-label='Feeds and writes'] .legend", "feeds 7 peak 100 writes 3 peak 3")
		tab.want("[aria-label='Problems'] .legend", "errors 1 in 5 s peak 1 in 5 s")
		tab.want("[aria-label='Problems'] .legend", "refused 0 peak 0")
		tab.want("[aria-label='Poll age'] .plot", "There is no ledger to poll.")
		if ink := value[int](tab, `(() => {
			const canvas = document.querySelector("[aria-label='Feeds and writes'] canvas");
			const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
			let n = 0;
			for (let i = 0; i < data.length; i += 4) n += data[i] === 0x0f && data[i + 1] === 0x6b && data[i + 2] === 0xa3 ? 1 : 0;
			return n;
		})()`); ink < 100 {
			t.Errorf("%d pixels of the chart have the colour of its first series", ink)
		}
		tab.click("[aria-label='Feeds and writes'] summary")
		tab.until("document.querySelector('table')")
		tab.want("table caption", "Feeds and writes, per second; the latest 60 steps of 5 s")
		rows := value[[]string](tab, "[...document.querySelectorAll('table tbody tr')].map((row) => [...row.querySelectorAll('td')].map((cell) => cell.textContent).join(' '))")
		if len(rows) != 60 || rows[0] != "7 3" || rows[11] != "7 3" || rows[12] != "100 3" {
			t.Errorf("%d rows: %q", len(rows), rows)
		}

		f.change(func() { f.history = nil })
		tab.click("input[name=range][value='1h']")
		tab.until("location.hash === '#/live?range=1h'")
		tab.settled()
		tab.until("document.querySelectorAll('table tbody tr').length === 60 && document.querySelector('table tbody td').textContent !== '7'")
		tab.visit("#/growth?range=1h")
		tab.want("[aria-label=Keys] .legend", "keys")
		tab.mu.Lock()
		defer tab.mu.Unlock()
		asked := 0
		for _, r := range tab.asked {
			if strings.HasSuffix(r.URL, "/v1/ops/history?window=1h") {
				asked++
			}
		}
		if asked != 1 {
			t.Errorf("the last hour was asked for %d times, want once for two views", asked)
		}
	}
}

// testOutlook checks how far into the future the page continues the growth of keys.
func testOutlook(b *chromium) func(*testing.T) {
	return func(t *testing.T) {
		f := newFake(t)
		rising := func(n int, pace float64) object {
			keys := make([]float64, n)
			for i := range keys {
				keys[i] = 1e6 + pace*float64(i)
			}
			return past(n, 60, object{"keys": keys})
		}
		f.health = with(healthy(), "pages.keys_per_page", 1000.0)
		tab := open(t, b, f.URL, "#/growth", look{})
		tab.settled()
		for _, c := range []struct {
			name    string
			history object
			due     int
			want    string
		}{
			{"nothing", past(0, 60, nil), 0, "Too little history for a forecast: none of at least an hour."},
			{"half an hour", rising(31, 1000), 0, "Too little history for a forecast: 30 min of at least an hour."},
			{"flat", rising(1440, 0), 0, "keys did not grow"},
			{"shrinking", rising(1440, -100), 0, "keys did not grow (-143,900)"},
			{"soon", rising(1441, 10_000), 0, "Keys grew by 14.4 million in the last 24 h. At that pace a reshape is due in about 21 h 8 min, by linear extrapolation."},
			{"far", rising(1441, 100), 0, "Keys grew by 144,000 in the last 24 h. At that pace no reshape is due within 10 days."},
			{"due", rising(1440, 1000), 8192, `Raise the number of pages now: 8,192 pages: run "feedfilter reshape --pages 8192".`},
		} {
			t.Run(c.name, func(t *testing.T) {
				tab.t = t
				f.change(func() { f.history, f.health["pages"].(object)["due"] = c.history, c.due })
				tab.refresh()
				tab.want("[aria-label='Keys per page']", c.want)
			})
		}
		tab.t = t
	}
}
