// Package activityfile reads activities from CSV and NDJSON files, in batches, and continues at
// checkpoints. It also reads lists: files of what one user has of one kind.
package activityfile

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Formats of a file of activities.
const (
	CSV    = "csv"
	NDJSON = "ndjson"
	Text   = "text" // of lists alone
)

// FormatOf returns the format for a file's extension; "" if there is none.
func FormatOf(name string) string {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".csv":
		return CSV
	case ".ndjson", ".jsonl":
		return NDJSON
	case ".txt":
		return Text
	default:
		return ""
	}
}

// File is an open file of activities.
type File struct {
	Name   string
	Format string
	Size   int64  // in bytes; -1: unknown
	ID     string // of its checkpoint; "": it has none, because the file can be read only once

	file *os.File
}

// Open opens the named file, or standard input for "-". If format is empty, the extension decides.
func Open(name, format string, stdin *os.File) (*File, error) {
	if format == "" {
		format = FormatOf(name)
	}
	if name == "-" {
		return &File{Name: "stdin", Format: format, Size: -1, file: stdin}, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	f := &File{Name: name, Format: format, Size: -1, file: file}
	if err := f.identify(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return f, nil
}

// identify fills in Size and ID. The ID is the path, so that it stays the same when the file grows.
// The checkpoint tells whether the content is unchanged.
func (f *File) identify() error {
	info, err := f.file.Stat()
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a directory", f.Name)
	case !info.Mode().IsRegular():
		return nil
	}
	path, err := filepath.Abs(f.Name)
	if err != nil {
		return err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return err
	}
	f.Size, f.ID = info.Size(), "import "+path
	return nil
}

// Close closes the file.
func (f *File) Close() { _ = f.file.Close() } // it was only read

// Checkpoint is a position between two lines of a file. Its hash shows whether the part before it
// has changed.
type Checkpoint struct {
	Position Position `json:"position"`
	SHA256   []byte   `json:"sha256"` // of the file up to Position
	Format   string   `json:"format"`
	Columns  []string `json:"columns"` // of a CSV file
}

// Position is a position between two lines of a file.
type Position struct {
	Offset int64 `json:"offset"` // in bytes
	Line   int64 `json:"line"`   // number of the next line, from 1
}

// pass reads up to the checkpoint and returns the hash of what it read. It refuses a file that has
// changed before the checkpoint, because it is unknown which of its lines are recorded. The rest
// may have changed.
func (c Checkpoint) pass(in io.Reader, format string) (hash.Hash, error) {
	sum := sha256.New()
	if c.Position.Offset == 0 {
		return sum, nil
	}
	if c.Format != format {
		return nil, fmt.Errorf(
			"an earlier import read the file as %s up to line %d: "+
				"--restart reads it from the start as %s",
			c.Format, c.Position.Line, format,
		)
	}
	_, err := io.CopyN(sum, in, c.Position.Offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err != nil || !bytes.Equal(sum.Sum(nil), c.SHA256) {
		return nil, fmt.Errorf(
			"the file has changed before line %d, where an earlier import stopped: "+
				"--restart reads it from the start",
			c.Position.Line,
		)
	}
	return sum, nil
}
