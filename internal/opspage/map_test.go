package opspage_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// scales returns the colours that the page must draw for 0, the middle and the end of a scale.
func scales() map[bool]map[string][3]int {
	return map[bool]map[string][3]int{
		false: {"least": {244, 241, 216}, "half": {95, 180, 190}, "most": {18, 58, 120}},
		true:  {"least": {28, 40, 54}, "half": {50, 145, 167}, "most": {242, 239, 182}},
	}
}

// pixel returns the red, green and blue in the middle of a cell of the n-th map.
func (b *tab) pixel(n, cell int) [3]int { return b.pixelAt(n, cell, 0.5) }

// pixelAt is pixel for another place, 0 to 1, on the cell's diagonal.
func (b *tab) pixelAt(n, cell int, at float64) [3]int {
	b.t.Helper()
	return [3]int(value[[]int](b, fmt.Sprintf(`(() => {
		const map = document.querySelectorAll('canvas.map')[%[1]d];
		const [size, columns] = [Number(map.dataset.size), Number(map.dataset.columns)];
		const [x, y] = [(%[2]d %% columns + %[3]f) * size, (Math.floor(%[2]d / columns) + %[3]f) * size];
		return [...map.getContext('2d').getImageData(x, y, 1, 1).data].slice(0, 3);
	})()`, n, cell, at)))
}

func near(a, b [3]int) bool {
	for i := range a {
		if math.Abs(float64(a[i]-b[i])) > 1 {
			return false
		}
	}
	return true
}

// testMap checks that cells have the colours of their figures, and that faulty pages are marked.
func testMap(b *chromium) func(*testing.T) {
	return func(t *testing.T) {
		f := newFake(t)
		f.cells = []object{cell(0, 0, false, 0, 0.5, 10), cell(1, 1, false, 0.25, 0.25, 20), cell(2, 2, false, 0.5, 0, 30), cell(3, 3, false, 0.3, 0.1, 40), cell(4, 4, false, 0.3, 0.1, 50), cell(5, 9, true, 0.5, 0.5, 50)}
		f.cells[3]["damaged"], f.cells[4]["behind"] = 1, 1
		alarm := map[bool][3]int{false: {0xb0, 0x23, 0x1c}, true: {0xff, 0x90, 0x86}}
		for _, dark := range []bool{false, true} {
			colours := scales()[dark]
			tab := open(t, b, f.URL, "#/pages", look{dark: dark})
			tab.settled()
			check := func(by string, want ...string) {
				t.Helper()
				for i, share := range want {
					if got := tab.pixel(0, i); !near(got, colours[share]) {
						t.Errorf("dark %v: %s of page %d is drawn as %v, want %v", dark, by, i, got, colours[share])
					}
				}
			}
			check("fill", "least", "half", "most")
			if got := tab.pixel(1, 0); !near(got, colours["most"]) {
				t.Errorf("dark %v: the dedicated page is drawn as %v, want %v", dark, got, colours["most"])
			}
			// Faulty pages are marked for every choice of colours.
			for _, i := range []int{3, 4} {
				if got := tab.pixelAt(0, i, 0.1); !near(got, alarm[dark]) {
					t.Errorf("dark %v: page %d, which is faulty, is marked in %v, want %v", dark, i, got, alarm[dark])
				}
				if cross := tab.pixel(0, i); near(cross, alarm[dark]) {
					t.Errorf("dark %v: the mark of page %d is a colour, want a shape", dark, i)
				}
			}
			tab.click("input[name=by][value=collided]")
			check("collided", "most", "half", "least")
			tab.want(".scale", "50 %")
			tab.click("input[name=by][value=keys]")
			tab.want(".scale", "0 50 (keys per page")
			tab.want(".head", "5 pages that users share, 1 dedicated. 2 pages faulty.")
			if hash := value[string](tab, "location.hash"); hash != "#/pages?by=keys" {
				t.Errorf("the address is %s", hash)
			}
			tab.click("details summary")
			tab.until("document.querySelector('table')")
			tab.want("table", "Page 3 – 40 damaged") // faulty pages come first
		}
	}
}

// testHeld checks that the focus and a selection stay when the page asks again.
func testHeld(b *chromium) func(*testing.T) {
	return func(t *testing.T) {
		f := newFake(t)
		f.cells = manyPages(64)
		tab := open(t, b, f.URL, "#/pages", look{})
		tab.settled()
		tab.click("details summary")
		tab.until("document.querySelector('table a')")
		value[bool](tab, "(document.querySelector(\"table a[href='#/page/16']\").focus(), true)")
		f.change(func() { f.cells[16]["keys"], f.cells[5]["damaged"] = 4321, 1 })
		tab.refresh()
		tab.want("table", "4,321")
		if at := value[string](tab, "document.activeElement.getAttribute('href') ?? document.activeElement.tagName"); at != "#/page/16" {
			t.Errorf("after the table was replaced, the focus is on %s", at)
		}
		tab.visit("#/page/4711")
		value[bool](tab, "(getSelection().selectAllChildren(document.querySelector('.bars .id')), true)")
		tab.refresh()
		if selected := value[string](tab, "String(getSelection())"); selected != "h:5b1f0a9c77e2" {
			t.Errorf("after the same was answered again, %q is selected", selected)
		}
	}
}

// testPartly checks that the figures of a group cover only those of its pages that were checked.
func testPartly(b *chromium) func(*testing.T) {
	return func(t *testing.T) {
		f := newFake(t)
		group := cell(0, 0, false, 0.3, 0.1, 400)
		group["to"], group["last"], group["pages"], group["looked_at"], group["unknown"], group["behind"] = 1000, 999, 1000, 4, 996, 1
		f.cells = []object{group}
		f.health = with(healthy(), "pages.looked_at", 4)
		tab := open(t, b, f.URL, "#/pages?by=behind", look{})
		tab.settled()
		value[bool](tab, "(document.querySelector('canvas.map').focus(), true)")
		tab.want(".under", "1 behind the ledger, 996 not checked yet; 100 keys per page")
		tab.click("details summary")
		tab.want("table", "25 %")
		tab.click("input[name=by][value=keys]")
		tab.want("table", "Pages 0 to 999 100 400")
		tab.want("#verdict-facts", "8,123,450 keys on the 4 checked so far")
	}
}

// testZoom opens a group into its pages, and a page into its inside, by mouse and by keyboard. Then
// it goes back.
func testZoom(b *chromium) func(*testing.T) {
	return func(t *testing.T) {
		f := newFake(t)
		f.cells = manyPages(8192)
		tab := open(t, b, f.URL, "#/pages", look{})
		tab.settled()
		value[bool](tab, "(document.querySelector('canvas.map').focus(), true)")
		tab.want(".under", "Pages 0 to 2")
		tab.press(kb.ArrowRight + kb.ArrowRight + kb.ArrowLeft)
		tab.want(".under", "Pages 3 to 5")
		columns := value[int](tab, "Number(document.querySelector('canvas.map').dataset.columns)")
		tab.press(kb.ArrowDown)
		tab.want(".under", fmt.Sprintf("Pages %d to %d", 3*(columns+1), 3*(columns+1)+2))
		tab.press(kb.ArrowUp + kb.Enter)
		tab.until("location.hash === '#/pages?by=fill&from=3&to=6'")
		tab.settled()
		tab.want(".trail", "positions 3 to 5")
		value[bool](tab, "(document.querySelector('canvas.map').focus(), true)")
		tab.want(".under", "Page 3")
		tab.press(kb.End)
		tab.want(".under", "Page 5")
		tab.press(kb.Escape)
		tab.until("location.hash === '#/pages?by=fill'")
		tab.settled()
		value[bool](tab, "(document.querySelectorAll('canvas.map')[1].focus(), true)")
		tab.press(kb.Enter) // three dedicated pages
		tab.until("location.hash === '#/pages?by=fill&from=8192&to=8195'")
		tab.settled()
		value[bool](tab, "(document.querySelectorAll('canvas.map')[1].focus(), true)")
		tab.press(kb.ArrowRight + kb.Enter)
		tab.until("location.hash === '#/page/2147483649'")
		tab.settled()
		if focus := value[string](tab, "document.activeElement.tagName"); focus != "H1" {
			t.Errorf("after a change of the view, the focus is on %s, want its heading", focus)
		}
		value[bool](tab, "(history.back(), true)")
		tab.until("location.hash === '#/pages?by=fill&from=8192&to=8195'")
	}
}
