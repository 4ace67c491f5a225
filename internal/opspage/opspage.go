// Package opspage serves the operations page for on-call. The page is static: the browser asks the
// service's API for all data, with the token that the user enters.
//
// The files in assets are embedded without a build step, and load nothing from elsewhere.
// assets/vendor has third-party code with its license; scripts/uplot updates it.
package opspage

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

// Path is where to mount the handler. It serves this path and the paths below.
const Path = "/ops"

//go:embed assets
var assets embed.FS

// file is one file of the page, ready to be sent.
type file struct {
	kind        string // media type
	tag         string // ETag of the content
	raw, zipped []byte
}

// New returns the handler for GET and HEAD of [Path] and of the files below it. The caller sets
// security headers. The page needs only scripts, styles, images and answers from its own origin.
// The handler is safe for concurrent use. After its first request it holds about 200 KB.
func New() http.Handler {
	files := sync.OnceValues(load)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all, err := files()
		if err != nil { // the binary was built wrong
			http.Error(w, "the operations page cannot be read", http.StatusInternalServerError)
			return
		}
		name, below := strings.CutPrefix(r.URL.Path, Path+"/")
		switch {
		case !below:
			name = "index.html"
		case name == "": // links of the page are relative to its path
			w.Header().Set("Location", ".."+Path)
			w.WriteHeader(http.StatusPermanentRedirect)
			return
		}
		f, found := all[name]
		if !found {
			http.NotFound(w, r)
			return
		}
		f.serve(w, r)
	})
}

func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	// An upgrade changes files under the same path. Browsers must not mix old and new ones.
	h.Set("Cache-Control", "no-cache")
	h.Set("Vary", "Accept-Encoding")
	content, tag := f.raw, f.tag
	if takesGzip(r) {
		content, tag = f.zipped, f.tag+"-gzip"
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", `"`+tag+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// takesGzip reports whether the client accepts gzip. An encoding with any weight counts as refused,
// because weights are rare and a weight of 0 is a refusal.
func takesGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		if strings.TrimSpace(coding) == "gzip" {
			return true
		}
	}
	return false
}

// load returns all files by their path below assets.
func load() (map[string]*file, error) {
	all := make(map[string]*file)
	err := fs.WalkDir(assets, "assets", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		f, err := read(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all[strings.TrimPrefix(name, "assets/")] = f
		return nil
	})
	return all, err
}

func read(name string) (*file, error) {
	raw, err := assets.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(raw); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(raw)
	return &file{
		kind: kind(name), tag: base64.RawURLEncoding.EncodeToString(sum[:12]), raw: raw, zipped: zipped.Bytes(),
	}, nil
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
