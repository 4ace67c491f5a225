package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// output is the output of a command. A regular file gets its name only when it is complete, and
// then replaces an older one. Other files, such as pipes, are written directly.
type output struct {
	file *os.File
	name string // of the complete file; "": file is written directly
	keep bool   // do not close file
}

// createOutput creates a temporary file for name, readable only by its owner. "-" is standard
// output.
func createOutput(name string, std stdio) (*output, error) {
	if name == "-" {
		return &output{file: std.out, keep: true}, nil
	}
	if path, err := filepath.EvalSymlinks(name); err == nil {
		name = path // replace the file behind a link, not the link
	}
	info, err := os.Stat(name)
	switch {
	case err == nil && !info.Mode().IsRegular():
		file, err := os.OpenFile(name, os.O_WRONLY, 0)
		return &output{file: file}, err
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	return &output{file: file, name: name}, err
}

// end commits the file if err is nil. Otherwise, or if that fails, it discards the file.
func (o *output) end(err error) error {
	if err == nil {
		err = o.commit()
	}
	if err != nil {
		err = errors.Join(err, o.discard())
	}
	return err
}

// commit syncs the file and renames it to its name.
func (o *output) commit() error {
	switch {
	case o.keep:
		return nil
	case o.name == "":
		return o.file.Close()
	}
	if err := errors.Join(o.file.Sync(), o.file.Close()); err != nil {
		return err
	}
	if err := os.Rename(o.file.Name(), o.name); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(o.name))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// discard removes the file after a failure.
func (o *output) discard() error {
	if o.keep {
		return nil
	}
	_ = o.file.Close() // may be closed already
	if o.name == "" {
		return nil
	}
	if err := os.Remove(o.file.Name()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
