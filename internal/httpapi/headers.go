package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// secure sets the headers that every answer has. No cache may store an answer, because it shows
// what a user does and sees.
func secure(h http.Header, r *http.Request) {
	h.Set(echo.HeaderXContentTypeOptions, "nosniff")
	h.Set(echo.HeaderCacheControl, "no-store")
	if r.TLS != nil {
		h.Set(echo.HeaderStrictTransportSecurity, "max-age=31536000")
	}
}

// page adds the headers for browsers to HTML pages and to the files that they load. A page may load
// files only from this service. It may not contain inline scripts or styles, and no other page may
// show it in a frame.
func page(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		h := c.Response().Header()
		h.Set(echo.HeaderContentSecurityPolicy, "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "+
			"connect-src 'self'; font-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		h.Set(echo.HeaderReferrerPolicy, "no-referrer")
		h.Set(echo.HeaderXFrameOptions, "DENY")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		return next(c)
	}
}
