// Package opspage is the operations page: how the service is, for whoever looks after it. It is static, and has no data of its
// own: the browser asks the service's API for all it shows, with the token that it was given.
//
// The page's files are embedded as they stand in assets, and nothing builds them. They load nothing from elsewhere. What is
// in assets/vendor is others' work, with its license; scripts/uplot puts it there.
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

// Path is where the handler is to be mounted: it answers this path, and those below it.
const Path = "/ops"

//go:embed assets
var assets embed.FS

// file is one of the page's, ready to be sent.
type file struct {
	kind        string // media type
	tag         string // ETag, of what is in it
	raw, zipped []byte
}

// New returns the handler of GET and HEAD of [Path] and of the files below it. What a browser is to keep the page from, its caller
// has to say in headers: the page needs no more than scripts, styles, images and answers from its own origin. It is safe
// for concurrent use, and holds some 200 KB once it was asked for the first time.
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
		case name == "": // what the page names is relative to where it stands
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
	// The same path has another file after an upgrade, and must not be mixed with those of before.
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

// takesGzip says whether the client takes gzip. Whoever refuses it in so many words, with a weight of 0, is rare enough to be given what is
// not compressed for any weight.
func takesGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		if strings.TrimSpace(coding) == "gzip" {
			return true
		}
	}
	return false
}

// load reads all files, by their paths below assets.
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

// kind returns the media type of a file: those of the system's table differ from machine to machine.
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
