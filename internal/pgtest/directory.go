package pgtest

import (
	"errors"
	"os"
)

const directoryPrefix = "feedfilter-pgtest-"

// makeDirectory makes a directory that belongs to the account, and to this
// process until remove is called. Those that package testing makes are closed to
// the account that a server may have to run as.
//
// While it is used it is locked: the kernel alone knows of all test processes,
// and takes a lock from one that dies.
func makeDirectory(a *account) (dir string, remove func() error, err error) {
	dir, err = os.MkdirTemp("", directoryPrefix)
	if err != nil {
		return "", nil, err
	}
	unlock, err := lock(dir)
	if err == nil {
		err = a.own(dir)
	}
	if err != nil {
		return "", nil, errors.Join(err, os.Remove(dir))
	}
	return dir, func() error {
		defer unlock()
		return os.RemoveAll(dir)
	}, nil
}

// dataDirectory is what a server serves, within its directory.
const dataDirectory = "data"
