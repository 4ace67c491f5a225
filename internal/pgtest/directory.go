package pgtest

import (
	"errors"
	"os"
)

const directoryPrefix = "feedfilter-pgtest-"

// makeDirectory makes a directory that belongs to the account. It does not use the directories of
// package testing, because the account cannot enter them.
//
// The directory stays locked until remove is called or the process dies. Other test processes can
// see from the lock whether it is in use.
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

// dataDirectory is the name of a server's data directory within its directory.
const dataDirectory = "data"
