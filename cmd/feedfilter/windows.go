package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/pagefile"
)

// keepPages keeps what no ledger has in a file of the data directory, if the pages are
// held in the process, and first brings back what is there. d is not yet in use.
func (f *dataFlags) keepPages(ctx context.Context, d *data, log *slog.Logger) error {
	memory, ok := d.store.(*favfilter.Memory)
	if !ok {
		return nil
	}
	if err := os.MkdirAll(f.DataDir, 0o700); err != nil { // a ledger elsewhere has not made it
		return fmt.Errorf("--data-dir: %w", err)
	}
	if err := f.checkSort(); err != nil {
		return err
	}
	file, keep := "windows.db", favfilter.PageID.IsWindow
	if f.Ledger == noLedger {
		file, keep = filterFile, func(favfilter.PageID) bool { return true }
	}
	var err error
	d.windows, err = pagefile.Open(ctx, filepath.Join(f.DataDir, file), memory, keep, log)
	if errors.Is(err, pagefile.ErrInUse) {
		return fmt.Errorf("%w: another feedfilter keeps its pages there; give each a --data-dir of its own", err)
	}
	if err != nil || f.Ledger != noLedger {
		return err
	}
	// Of windows little is lost. Here it is all there is, so somebody should know.
	switch r := d.windows.Restored(); {
	case r.SetAside != "":
		return fmt.Errorf("the filter cannot be read, and is set aside as %s: start again to go on without what it held: %w",
			r.SetAside, r.Damage)
	case r.Damaged > 0:
		return fmt.Errorf("%d pages of the filter were damaged: start again to go on without what they held: %w", r.Damaged, r.Damage)
	}
	return nil
}

// filterFile is where the whole filter is kept where there is no ledger.
const filterFile = "filter.db"

// checkSort refuses a data directory with what a service with a ledger left, for one without, and the other way
// round: it would not find what that has.
func (f *dataFlags) checkSort() error {
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(f.DataDir, name))
		return err == nil
	}
	switch {
	case f.Ledger == noLedger && has(ledgerFile):
		return fmt.Errorf("%s has a ledger, %s, and --ledger none does without: give another --data-dir", f.DataDir, ledgerFile)
	case f.Ledger != noLedger && has(filterFile):
		return fmt.Errorf("%s has a filter that was made with --ledger none, %s: give that, or another --data-dir", f.DataDir, filterFile)
	}
	return nil
}

// logDamage says what of the windows could not be brought back.
func logDamage(ctx context.Context, log *slog.Logger, d *data) {
	if d.windows == nil {
		return
	}
	switch r := d.windows.Restored(); {
	case r.SetAside != "":
		log.ErrorContext(ctx, "the file of windows cannot be read, and is set aside", "file", r.SetAside, "error", r.Damage)
	case r.Damaged > 0:
		log.WarnContext(ctx, "windows were damaged, and are lost", "pages", r.Damaged, "error", r.Damage)
	}
}
