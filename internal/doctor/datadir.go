package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// checkDataDir sees whether the data directory can be made, if it is not there, and written to.
func (d *Doctor) checkDataDir(context.Context) finding {
	return judgeDirectory(d.config.DataDir)
}

// judgeDirectory judges a directory that somebody wants to make, with its parents, and to write to.
func judgeDirectory(name string) finding {
	const todo = "Correct --data-dir, or have the directory belong to the user that the service runs as."
	name, err := filepath.Abs(name)
	if err != nil {
		return fail(words(err), "Correct --data-dir.")
	}
	existing, err := nearest(name)
	if err != nil {
		return fail(words(err), todo)
	}
	if err := writableDirectory(existing); err != nil {
		found := fmt.Sprintf("%s cannot be written to: %v", name, err)
		if existing != name {
			found = fmt.Sprintf("%s cannot be made: %s cannot be written to: %v", name, existing, err)
		}
		return fail(found, todo)
	}
	if existing != name {
		return okf("%s is not there yet, and can be made", name)
	}
	return okf("%s can be written to", name)
}

// nearest returns the nearest parent of name that is there, or name itself. It has to be a
// directory.
func nearest(name string) (string, error) {
	for {
		info, err := os.Stat(name)
		_, dangling := os.Lstat(name)
		switch {
		case err == nil && !info.IsDir():
			return "", fmt.Errorf("%s is not a directory", name)
		case err == nil:
			return name, nil
		case errors.Is(err, fs.ErrNotExist) && dangling == nil:
			return "", fmt.Errorf("%s is a link to nowhere", name)
		case errors.Is(err, fs.ErrNotExist), notDirectory(err):
		default:
			return "", err
		}
		parent := filepath.Dir(name)
		if parent == name {
			return "", err
		}
		name = parent
	}
}
