package pagefile

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
)

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
		f.err = f.round(ctx)
		f.report(ctx)
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
	f.log.ErrorContext(ctx, "page file is damaged, starting a new one", "file", f.name, "set_aside", aside, "error", err)
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

// report logs when writing starts to fail, and when it works again.
func (f *File) report(ctx context.Context) {
	switch failing := f.err != nil; {
	case failing == f.failing:
	case failing:
		f.log.ErrorContext(ctx, "page file cannot be written: what changes is lost if the process ends",
			"file", f.name, "error", f.err)
	default:
		f.log.InfoContext(ctx, "page file is written again", "file", f.name)
	}
	f.failing = f.err != nil
}
