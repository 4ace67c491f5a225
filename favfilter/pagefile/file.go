// Package pagefile keeps pages of a [favfilter.Memory] in a SQLite file, so that they
// outlive the process: those that no ledger can make anew.
//
// The file follows the memory. Every second the pages that changed meanwhile are
// written, and no others, so a process that is killed loses at most the changes of the
// last two seconds or so, unless more change than the disk takes in that time. The
// write-ahead log is synced at its checkpoints only, each some thousand of SQLite's pages
// apart: a power cut, or a crash of the system, may lose more than that, but leaves a
// file that can be read.
package pagefile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/feedfilter/feedfilter/favfilter"
)

// ErrInUse is wrapped by the error of [Open] if another process has the file open.
var ErrInUse = errors.New("in use by another process")

const (
	// interval is how long changes gather before they are written.
	interval = time.Second
	// A transaction is of at most so many pages, and ends with the one that takes it
	// past so many bytes.
	maxRows  = 512
	maxBytes = 4 << 20
)

// File is an open file, which follows its memory until it is closed. Nothing waits for
// it but Close.
type File struct {
	name     string
	lock     *flock.Flock
	memory   *favfilter.Memory
	keep     func(favfilter.PageID) bool
	log      *slog.Logger
	restored Restored

	closing chan struct{}
	flushes chan chan<- error
	done    chan struct{} // the loop has ended

	// Of the loop, once it runs.
	db      *database                     // nil: could not be made anew
	pending map[favfilter.PageID]struct{} // changed, and not yet written
	failing bool                          // what was logged last
	shrink  bool                          // the file may hold more free space than it should
	err     error                         // of the last round
}

// Restored says what [Open] found in a file.
type Restored struct {
	Pages    int    // put into the memory
	Damaged  int    // left out, and removed from the file
	Damage   error  // of the first of those, or of the whole file
	SetAside string // where the file is now if it could not be read; "" if it could
}

// Open puts the pages in the file into memory, those that have not expired, and from
// then on keeps in the file every page of memory that keep is true for; see
// [favfilter.Memory.Track] for what keep may do. Others that it has are removed from it.
// The file is made if there is none; its directory has to be there.
//
// What is damaged counts as lost and is no error: a page is left out, and a file that
// cannot be read is renamed, to end in ".damaged" and in place of an earlier one, and
// begun anew. A file that another version of this package has written, with pages of another format
// version, cannot be read either. Only one process may have a file open: further ones get
// [ErrInUse].
//
// Writing failures are logged when they begin and when they end. What could not be
// written is tried again every second, and takes memory for its page's id alone.
func Open(
	ctx context.Context, file string, memory *favfilter.Memory, keep func(favfilter.PageID) bool, log *slog.Logger,
) (*File, error) {
	f := &File{
		memory:  memory,
		keep:    keep,
		log:     log,
		closing: make(chan struct{}),
		flushes: make(chan chan<- error),
		done:    make(chan struct{}),
		pending: make(map[favfilter.PageID]struct{}),
	}
	if err := f.open(ctx, file); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("open page file %s: %w", file, err)
	}
	go f.run(context.WithoutCancel(ctx))
	return f, nil
}

// Restored says what Open found.
func (f *File) Restored() Restored { return f.restored }

// Close writes what has changed, and closes the file. To be called once, when nobody
// changes the memory any more. The error is about changes that the file does not have.
func (f *File) Close() error {
	close(f.closing)
	<-f.done
	if err := errors.Join(f.err, f.release()); err != nil {
		return fmt.Errorf("close page file %s: %w", f.name, err)
	}
	return nil
}

func (f *File) open(ctx context.Context, file string) (err error) {
	if f.name, err = filepath.Abs(file); err != nil {
		return err
	}
	f.lock = flock.New(f.name + ".lock")
	switch locked, err := f.lock.TryLock(); {
	case err != nil:
		return fmt.Errorf("lock: %w", err)
	case !locked:
		return fmt.Errorf("%w: %s is locked", ErrInUse, f.lock.Path())
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.release())
		}
	}()
	f.memory.Track(f.keep)
	if f.db, err = openDatabase(ctx, f.name); err == nil {
		err = f.load(ctx)
	}
	if isDamage(err) && ctx.Err() == nil {
		f.restored.Damage = err
		f.restored.SetAside, err = f.startAnew(ctx)
	}
	return err
}

func (f *File) release() error {
	var err error
	if f.db != nil {
		err = f.db.close()
	}
	return errors.Join(err, f.lock.Unlock())
}

// load puts what the file holds into the memory. Rows without use are left to be
// removed as pages that have gone.
func (f *File) load(ctx context.Context) error {
	return f.db.each(ctx, func(r row) {
		page, err := favfilter.DecodePage(r.bits, r.marks)
		switch {
		case err != nil:
			f.restored.Damaged++
			if f.restored.Damage == nil {
				f.restored.Damage = fmt.Errorf("page %v: %w", r.id, err)
			}
			f.pending[r.id] = struct{}{}
		case f.keep(r.id) && f.memory.Restore(r.id, page, r.expires):
			f.restored.Pages++
		default:
			f.pending[r.id] = struct{}{}
		}
	})
}

// startAnew sets the file aside and makes another one, for all that the memory holds.
func (f *File) startAnew(ctx context.Context) (aside string, err error) {
	if f.db != nil {
		_ = f.db.close() // it is damaged anyway
		f.db = nil
	}
	if aside, err = setAside(f.name); err != nil {
		return "", fmt.Errorf("set aside the damaged file: %w", err)
	}
	clear(f.pending)
	f.memory.Track(f.keep)
	f.db, err = openDatabase(ctx, f.name)
	return aside, err
}
