package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// output is where a command writes to. A file appears under its name when it is whole, in place of an older
// one. Of what is no regular file, such as a pipe, there is no telling whole from half.
type output struct {
	file *os.File
	name string // of the whole file; "": file is written to as it is
	keep bool   // file is not the command's to close
}

// createOutput begins the named file, readable by its owner alone, or stands for standard output, "-".
func createOutput(name string, std stdio) (*output, error) {
	if name == "-" {
		return &output{file: std.out, keep: true}, nil
	}
	if path, err := filepath.EvalSymlinks(name); err == nil {
		name = path // the file behind a link is replaced, not the link
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

// commit makes what was written durable and gives it its name.
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

// discard removes what was written, after a failure.
func (o *output) discard() error {
	if o.keep {
		return nil
	}
	_ = o.file.Close() // again, if that was what failed
	if o.name == "" {
		return nil
	}
	if err := os.Remove(o.file.Name()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
