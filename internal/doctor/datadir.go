package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// leastSpace is the free space, in bytes, that a database needs to be opened and written.
const leastSpace = 1 << 20

// checkDataDir checks that the data directory is writable, or that it can be created.
func (d *Doctor) checkDataDir(context.Context) finding {
	return judgeDirectory(d.config.DataDir)
}

// judgeDirectory judges whether a directory is writable, or can be created with its parents.
func judgeDirectory(name string) finding {
	const todo = "Correct --data-dir, or make the service's user the owner of the directory."
	name, err := filepath.Abs(name)
	if err != nil {
		return fail(words(err), "Correct --data-dir.")
	}
	existing, err := nearest(name)
	if err != nil {
		return fail(words(err), todo)
	}
	if err := writableDirectory(existing); err != nil {
		found := fmt.Sprintf("%s is not writable: %v", name, err)
		if existing != name {
			found = fmt.Sprintf("%s cannot be created: %s is not writable: %v", name, existing, err)
		}
		return fail(found, todo)
	}
	if free, err := freeSpace(existing); err == nil && free < leastSpace {
		return fail(fmt.Sprintf("%s has %d KiB of free space, needs at least %d", existing, free>>10, leastSpace>>10),
			"Free some space, or enlarge the disk.")
	}
	if existing != name {
		return okf("%s does not exist yet and can be created", name)
	}
	return okf("%s is writable", name)
}

// nearest returns name, or its nearest parent that exists. It fails if that is not a directory.
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
			return "", fmt.Errorf("%s is a broken symbolic link", name)
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
