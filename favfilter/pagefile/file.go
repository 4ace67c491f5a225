// Package pagefile saves pages of a [favfilter.Memory] in a SQLite file, so that they outlive the
// process. It is for pages that cannot be rebuilt from a ledger.
//
// The file follows the memory: once a second, a File writes the pages that have changed, and no
// others. A killed process loses at most the changes of about the last two seconds, or more if the
// disk cannot keep up with the changes. SQLite syncs the write-ahead log at its checkpoints only,
// about a thousand of its pages apart. A power cut or a system crash may therefore lose more, but
// leaves a readable file.
package pagefile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/feedfilter/feedfilter/favfilter"
)

// ErrInUse is wrapped by the error of [Open] if another process has the file open.
var ErrInUse = errors.New("in use by another process")

const (
	// interval is the time between two writes of the collected changes.
	interval = time.Second
	// A transaction has at most maxRows pages, and ends with the page that brings it to maxBytes
	// bytes or more.
	maxRows  = 512
	maxBytes = 4 << 20
)

// File is an open file. It follows its memory until Close is called. Flush and Close wait for the
// disk. Changes of the memory never do.
type File struct {
	name     string
	lock     *flock.Flock
	memory   *favfilter.Memory
	keep     func(favfilter.PageID) bool
	check    func(value []byte) error
	log      *slog.Logger
	restored Restored

	closing chan struct{}
	flushes chan chan<- error
	done    chan struct{} // the loop has ended

	// The following fields belong to the loop once it runs.
	db      *database                     // nil: could not be created again
	pending map[favfilter.PageID]struct{} // changed pages that are not yet written
	err     error                         // error of the last round
}

// Restored reports what [Open] found in a file.
type Restored struct {
	Pages    int    // pages restored into the memory
	Damaged  int    // damaged pages, which are skipped and removed from the file
	Damage   error  // damage of the first such page, or of the whole file
	SetAside string // new name of the file if it was unreadable; "" otherwise
}

// Open restores into memory the pages in the file that have not expired. From then on it keeps in
// the file every page of memory for which keep returns true; see [favfilter.Memory.Track] for what
// keep may do. It removes other pages from the file. check returns why a value is damaged, see
// [favfilter.PageID.IsValue]; nil: it is sound. Open creates the file if there is none; its
// directory must exist.
//
// Damaged data counts as lost and is not an error:
//
//   - Open skips a damaged page.
//   - Open renames an unreadable file and starts a new one. The new name ends in ".damaged" and
//     replaces an earlier file of that name. A file written by another version of this package,
//     with pages of another format version, counts as unreadable too.
//
// Only one process may have a file open: Open fails with [ErrInUse] in any other.
//
// A File logs when writing starts to fail and when it works again. It retries failed writes every
// second. Until it succeeds, a failed write takes memory only for the ID of its page.
func Open(
	ctx context.Context, file string, memory *favfilter.Memory,
	keep func(favfilter.PageID) bool, check func(value []byte) error, log *slog.Logger,
) (*File, error) {
	f := &File{
		memory: memory, keep: keep, check: check, log: log,
		closing: make(chan struct{}), flushes: make(chan chan<- error), done: make(chan struct{}),
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

// Restored reports what Open found in the file.
func (f *File) Restored() Restored { return f.restored }

// Close writes the remaining changes and closes the file. It must be called once, when the memory
// no longer changes. The error is about changes that are not in the file.
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
	failed, ok := errors.AsType[*sqlite.Error](err)
	if ok && failed.Code() == sqlite3.SQLITE_IOERR_SHMSIZE {
		return fmt.Errorf("no space left on the disk: free some: %w", err)
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

// load restores the pages in the file into the memory. It adds rows that are not needed to
// f.pending, so that they are removed like those of deleted pages.
func (f *File) load(ctx context.Context) error {
	return f.db.each(ctx, func(r row) {
		stored := favfilter.Decode(r.id, r.bits, r.collisions)
		if r.id.IsValue() {
			stored.Damage = f.check(stored.Value)
		}
		switch {
		case stored.Damage != nil:
			f.restored.Damaged++
			if f.restored.Damage == nil {
				f.restored.Damage = fmt.Errorf("page %v: %w", r.id, stored.Damage)
			}
			f.pending[r.id] = struct{}{}
		case f.keep(r.id) && f.memory.Restore(r.id, stored, r.expires):
			f.restored.Pages++
		default:
			f.pending[r.id] = struct{}{}
		}
	})
}

// startAnew sets the file aside and creates a new one for everything that the memory holds.
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

// run writes the changes every interval, and once more at the end.
func (f *File) run(ctx context.Context) {
	defer close(f.done)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for closing := false; !closing; {
		var asked chan<- error
		select {
		case <-ticker.C:
		case asked = <-f.flushes:
		case <-f.closing:
			closing = true
		}
		before := f.err
		f.err = f.round(ctx)
		f.report(ctx, before)
		if asked != nil {
			asked <- f.err
		}
	}
}

// Flush writes all changes made so far, without waiting for the next interval. When it returns nil,
// killing the process loses none of them. It must not be called after Close.
func (f *File) Flush(ctx context.Context) (err error) {
	written := make(chan error, 1)
	select {
	case f.flushes <- written:
		select {
		case err = <-written:
		case <-ctx.Done():
			err = ctx.Err()
		}
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("flush page file %s: %w", f.name, err)
	}
	return nil
}

// round brings the file up to date. If the file turns out to be damaged, round sets it aside and
// writes everything in memory to a new one.
func (f *File) round(ctx context.Context) error {
	err := f.follow(ctx)
	if !isDamage(err) {
		return err
	}
	aside, failed := f.startAnew(ctx)
	f.log.ErrorContext(
		ctx, "page file is damaged, starting a new one",
		"file", f.name, "set_aside", aside, "error", err,
	)
	if failed != nil {
		return failed
	}
	return f.follow(ctx)
}

func (f *File) follow(ctx context.Context) (err error) {
	maps.Copy(f.pending, f.memory.Changed())
	if f.db == nil {
		if f.db, err = openDatabase(ctx, f.name); err != nil {
			return err
		}
	}
	if err := f.writePending(ctx); err != nil {
		return err
	}
	f.pending = make(map[favfilter.PageID]struct{}) // a map never shrinks
	return nil
}

// writePending writes the current state of the pending pages, a limited number per transaction,
// each page at most once.
func (f *File) writePending(ctx context.Context) error {
	var rows []row
	bytes := 0
	write := func() error {
		if err := f.db.write(ctx, rows); err != nil {
			return fmt.Errorf("write %d of %d pages: %w", len(rows), len(f.pending), err)
		}
		for _, r := range rows {
			delete(f.pending, r.id)
		}
		rows, bytes = rows[:0], 0
		return nil
	}
	for id := range f.pending {
		stored, expires := f.memory.Get(id)
		r := row{id: id, expires: expires}
		r.bits, r.collisions = stored.Encode()
		rows = append(rows, r)
		bytes += len(r.bits) + len(r.collisions)
		if len(rows) == maxRows || bytes >= maxBytes {
			if err := write(); err != nil {
				return err
			}
		}
	}
	return write()
}

// report logs when writing starts to fail, and when it works again. before is the error of the
// round before the last one.
func (f *File) report(ctx context.Context, before error) {
	switch {
	case (f.err == nil) == (before == nil):
	case before == nil:
		f.log.ErrorContext(ctx, "page file cannot be written: what changes is lost if the process ends",
			"file", f.name, "error", f.err)
	default:
		f.log.InfoContext(ctx, "page file is written again", "file", f.name)
	}
}
