package opspage_test

import (
	"strings"
	"testing"
)

// testScreens opens every view, light and dark, on a wide screen and on a phone. Nothing may be cut
// off or illegible, and everything must have a name.
func testScreens(b *chromium) func(*testing.T) {
	return func(t *testing.T) {
		f := newFake(t)
		for _, c := range []struct {
			name string
			look look
		}{
			{"wide-light", look{}}, {"wide-dark", look{dark: true}}, {"narrow-light", look{width: 390}}, {"narrow-dark", look{width: 390, dark: true}},
		} {
			t.Run(c.name, func(t *testing.T) {
				tab := open(t, b, f.URL, "", c.look)
				for _, view := range []string{"live", "page/4711", "search", "growth"} {
					tab.visit("#/" + view)
					if view == "search" {
						tab.search("1", "p8", "2")
					}
					tab.legible(view)
					tab.shoot(strings.ReplaceAll(view, "/", "-") + "-" + c.name)
				}
			})
		}
	}
}

// legible checks what holds for every view in every state.
func (b *tab) legible(what string) {
	b.t.Helper()
	if wide := value[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
		b.t.Errorf("%s: scrolls sideways, by %d pixels", what, wide)
	}
	for _, fault := range value[[]string](b, faults) {
		b.t.Errorf("%s: %s", what, fault)
	}
}

// faults is JavaScript that lists what a user cannot read or use. That is text that is cut off or
// has less contrast than WCAG 2.1 AA requires. It is also a control or picture without a name,
// and a missing landmark.
const faults = `(() => {
  const found = new Set();
  const channels = (colour) => colour.match(/[\d.]+/g).map(Number);
  const seen = (node) => node.getClientRects().length > 0 && getComputedStyle(node).visibility === 'visible';
  const luminance = (rgb) => rgb.slice(0, 3).map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (let n = node; n; n = n.parentElement) {
      const colour = channels(getComputedStyle(n).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (words.nextNode()) {
    const text = words.currentNode.textContent.trim();
    const node = words.currentNode.parentElement;
    if (text === '' || !seen(node) || node.closest('noscript, .uplot')) continue;
    const style = getComputedStyle(node);
    const colour = channels(node.closest('svg') ? style.fill : style.color);
    const [dim, bright] = [luminance(colour), luminance(behind(node))].sort((a, b) => a - b);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const contrast = (bright + 0.05) / (dim + 0.05);
    if (contrast < (large ? 3 : 4.5)) found.add('contrast ' + contrast.toFixed(2) + ' of "' + text.slice(0, 40) + '"');
  }
  for (const node of document.querySelectorAll('body *')) {
    if (seen(node) && getComputedStyle(node).overflowX === 'hidden' && node.scrollWidth > node.clientWidth + 1 && !node.closest('.uplot')) {
      found.add(node.outerHTML.slice(0, 80) + ' is cut off');
    }
  }
  const nameOf = (node) => node.getAttribute('aria-label') || document.getElementById(node.getAttribute('aria-labelledby'))?.textContent ||
    [...(node.labels ?? [])].map((l) => l.textContent).join('') || node.textContent;
  for (const node of document.querySelectorAll('button, a, input, textarea, [role], summary, section, dialog')) {
    if (seen(node) && !nameOf(node).trim()) found.add(node.outerHTML.slice(0, 80) + ' has no name');
  }
  for (const node of document.querySelectorAll('canvas, svg')) {
    if (seen(node) && !node.closest('[aria-hidden], [role]')) found.add(node.outerHTML.slice(0, 80) + ' is neither named nor hidden');
  }
  for (const [what, n] of [['h1', 1], ['main', 1], ['header.top', 1], ['nav[aria-label=Views]', 1], ['[aria-live=polite]', 1]]) {
    if (document.querySelectorAll(what).length < n) found.add('there is no ' + what);
  }
  if (document.querySelectorAll('h1').length > 1) found.add('there is more than one h1');
  const ids = [...document.querySelectorAll('[id]')].map((n) => n.id);
  ids.filter((id, i) => ids.indexOf(id) !== i).forEach((id) => found.add('duplicate id ' + id));
  return [...found];
})()`
