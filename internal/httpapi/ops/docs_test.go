package ops

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

// TestPageHeaders: a page may do only what it needs.
func TestPageHeaders(t *testing.T) {
	e := echo.New()
	show := page(func(k *wire.Call) error { return k.HTML(http.StatusOK, "<p>") })
	e.GET("/", func(c echo.Context) error { return show(&wire.Call{Context: c}) })
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
			"font-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
		"Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := w.Header().Get("Permissions-Policy"); !strings.Contains(got, "camera=()") {
		t.Errorf("Permissions-Policy: %q", got)
	}
}
