package openapi

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// page has the files of the page. page/swagger-ui is the work of others, with its licences;
// scripts/swagger-ui puts it there.
//
//go:embed page
var page embed.FS

// File is a file of the page.
type File struct {
	Type    string // media type
	Content []byte
	Zipped  []byte // Content compressed with gzip; nil for small files
}

// Page returns the files of the page by their names, relative to where the files are mounted; the
// page itself is "index.html". They take about 2 MB.
func Page() (map[string]File, error) {
	files := make(map[string]File)
	err := fs.WalkDir(page, "page", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		var f File
		if f.Content, err = page.ReadFile(name); err != nil {
			return err
		}
		plain, zipped := strings.CutSuffix(strings.TrimPrefix(name, "page/"), ".gz")
		if zipped {
			f.Zipped = f.Content
			z, err := gzip.NewReader(bytes.NewReader(f.Zipped))
			if err != nil {
				return fmt.Errorf("decompress %s: %w", name, err)
			}
			if f.Content, err = io.ReadAll(z); err != nil {
				return fmt.Errorf("decompress %s: %w", name, err)
			}
		}
		f.Type = mediaType(plain)
		files[plain] = f
		return nil
	})
	return files, err
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
