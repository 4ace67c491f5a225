package opspage_test

import "testing"

// TestScreens opens every view, light and dark, on a wide screen and on a phone.
func TestScreens(t *testing.T) {
	t.Parallel()
	b := browser(t)
	f := newFake(t)
	for _, view := range []string{"live", "pages", "page/4711", "search", "growth"} {
		for name, l := range map[string]look{
			"wide-light": {}, "wide-dark": {dark: true}, "narrow-light": {width: 390}, "narrow-dark": {width: 390, dark: true},
		} {
			t.Run(view+"/"+name, func(t *testing.T) {
				tab := open(t, b, f.URL, "#/"+view, l)
				tab.settled()
				if view == "search" {
					tab.search("1", "p8", "2")
				}
				if wide := value[int](tab, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
					t.Errorf("the page scrolls sideways, by %d pixels", wide)
				}
				tab.shoot(view[:4] + "-" + name)
			})
		}
	}
}
