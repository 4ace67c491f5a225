package main

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// writeArchive writes a compressed tar of files, each given as <from>=<to>, sorted by <to>. A file
// that its owner may execute has mode 0755, another one 0644.
func writeArchive(name string, at time.Time, files []string) error {
	slices.SortFunc(files, func(a, b string) int {
		_, a, _ = strings.Cut(a, "=")
		_, b, _ = strings.Cut(b, "=")
		return strings.Compare(a, b)
	})
	out, err := os.Create(name) //nolint:gosec // the caller names the file
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // no effect after the Close below
	zipped, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tree{Writer: tar.NewWriter(zipped), at: at}
	for _, file := range files {
		from, to, ok := strings.Cut(file, "=")
		if !ok {
			return fmt.Errorf("%q: not <from>=<to>", file)
		}
		if err := w.copy(from, to); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := zipped.Close(); err != nil {
		return err
	}
	return out.Close()
}

// tree is a tar in which every entry has the same time. The owner is root unless an entry names
// another.
type tree struct {
	*tar.Writer

	at    time.Time
	known map[string]bool // directories that the tar has already
}

// copy adds a file.
func (t *tree) copy(from, to string) error {
	text, err := os.ReadFile(from) //nolint:gosec // the caller names the file
	if err != nil {
		return err
	}
	info, err := os.Stat(from) //nolint:gosec // the same
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if info.Mode()&0o100 != 0 {
		mode = 0o755
	}
	return t.file(to, mode, text)
}

// file adds a file, after the directories above it that the tar lacks.
func (t *tree) file(name string, mode fs.FileMode, text []byte) error {
	if err := t.directory(path.Dir(name), 0o755, 0); err != nil {
		return err
	}
	header := tar.Header{
		Typeflag: tar.TypeReg,
		Name:     name,
		Mode:     int64(mode),
		Size:     int64(len(text)),
		ModTime:  t.at,
	}
	if err := t.WriteHeader(&header); err != nil {
		return err
	}
	_, err := t.Write(text)
	return err
}

// directory adds a directory with this user and group, after those above it that the tar lacks.
func (t *tree) directory(name string, mode fs.FileMode, owner int) error {
	if name == "." || t.known[name] {
		return nil
	}
	if err := t.directory(path.Dir(name), 0o755, 0); err != nil {
		return err
	}
	if t.known == nil {
		t.known = make(map[string]bool)
	}
	t.known[name] = true
	return t.WriteHeader(&tar.Header{
		Typeflag: tar.TypeDir,
		Name:     name + "/",
		Mode:     int64(mode),
		Uid:      owner,
		Gid:      owner,
		ModTime:  t.at,
	})
}
