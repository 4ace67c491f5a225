package openapi

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"path"
)

// page has the files of the page. page/swagger-ui is the work of others, with its licences;
// scripts/swagger-ui puts it there.
//
//go:embed page
var page embed.FS

// File is a file of the page.
type File struct {
	Type     string // media type
	Encoding string // "gzip", or "" for none
	Content  []byte
}

// PageFile returns the file of the page with the name, relative to where the page's files are
// mounted; the page itself is "index.html". Large files come compressed to a reader of gzip.
func PageFile(name string, readsGzip bool) (File, error) {
	f := File{Type: mediaType(name)}
	var err error
	if f.Content, err = page.ReadFile(path.Join("page", name)); err == nil {
		return f, nil
	}
	if f.Content, err = page.ReadFile(path.Join("page", name+".gz")); err != nil {
		return File{}, fmt.Errorf("read a file of the page: %w", err)
	}
	if readsGzip {
		f.Encoding = "gzip"
		return f, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(f.Content))
	if err != nil {
		return File{}, fmt.Errorf("decompress %s: %w", name, err)
	}
	if f.Content, err = io.ReadAll(z); err != nil {
		return File{}, fmt.Errorf("decompress %s: %w", name, err)
	}
	return f, nil
}

// mediaType returns the media type of a file. The tables of systems differ.
func mediaType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	default: // licences and sums
		return "text/plain; charset=utf-8"
	}
}
