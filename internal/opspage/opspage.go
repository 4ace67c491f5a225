// Package opspage serves the operations page for on-call. The page is static: the browser asks the
// service's API for all data, with the token that the user enters.
//
// The files in assets are embedded without a build step, and load nothing from elsewhere.
// assets/vendor has third-party code with its license; scripts/uplot updates it.
package opspage

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"net/http"
	"path"
	"strings"
	"time"
)

// Path is where to mount the handler. It serves this path and the paths below.
const Path = "/ops"

//go:embed assets
var assets embed.FS

// New returns the handler for GET and HEAD of [Path] and of the files below it. The caller sets
// security headers. The page needs only scripts, styles, images and answers from its own origin.
func New() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, below := strings.CutPrefix(r.URL.Path, Path+"/")
		switch {
		case !below:
			name = "index.html"
		case name == "": // links of the page are relative to its path
			w.Header().Set("Location", ".."+Path)
			w.WriteHeader(http.StatusPermanentRedirect)
			return
		}
		content, err := assets.ReadFile("assets/" + name)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		tag := sha256.Sum256(content)
		w.Header().Set("Content-Type", kind(name))
		// An upgrade changes files under the same path. Browsers must not mix old and new ones.
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", `"`+base64.RawURLEncoding.EncodeToString(tag[:12])+`"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	})
}

// kind returns the media type of a file. The system's table differs between machines.
func kind(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	default: // licenses and sums
		return "text/plain; charset=utf-8"
	}
}
