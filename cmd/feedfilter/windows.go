package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/feedfilter/feedfilter/activity/seen"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/pagefile"
)

// keepPages stores pages that no ledger can rebuild in a file of the data directory, if the pages
// are in the process. It first restores the pages of an existing file. d must not yet be in use.
func (f *dataFlags) keepPages(ctx context.Context, d *data, log *slog.Logger) error {
	memory, ok := d.store.(*favfilter.Memory)
	if !ok {
		return nil
	}
	// If the ledger is elsewhere, the directory may not exist.
	if err := os.MkdirAll(f.DataDir, 0o700); err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	if err := f.checkSort(); err != nil {
		return err
	}
	file, keep := "windows.db", favfilter.PageID.IsValue
	if f.Ledger == noLedger {
		file, keep = filterFile, func(favfilter.PageID) bool { return true }
	}
	var err error
	d.windows, err = pagefile.Open(ctx, filepath.Join(f.DataDir, file), memory, keep, seen.Check, log)
	if errors.Is(err, pagefile.ErrInUse) {
		return fmt.Errorf("%w: another feedfilter uses this --data-dir: give each process its own", err)
	}
	if err != nil || f.Ledger != noLedger {
		return err
	}
	// A lost window costs little. Without a ledger these pages are all the data, so refuse to start
	// once.
	switch r := d.windows.Restored(); {
	case r.SetAside != "":
		return fmt.Errorf(
			"the filter is unreadable and was renamed to %s: start again to continue without it: %w",
			r.SetAside, r.Damage,
		)
	case r.Damaged > 0:
		return fmt.Errorf(
			"%d pages of the filter are damaged: start again to continue without them: %w",
			r.Damaged, r.Damage,
		)
	}
	return nil
}

// filterFile holds the whole filter when there is no ledger.
const filterFile = "filter.db"

// checkSort refuses --ledger none in a data directory with a ledger. It also refuses a ledger in
// the data directory of a service without one. In both cases, the service would not find the
// existing data.
func (f *dataFlags) checkSort() error {
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(f.DataDir, name))
		return err == nil
	}
	switch {
	case f.Ledger == noLedger && has(ledgerFile):
		return fmt.Errorf(
			"%s has a ledger (%s), which --ledger none does not use: give another --data-dir",
			f.DataDir, ledgerFile,
		)
	case f.Ledger != noLedger && has(filterFile):
		return fmt.Errorf(
			"%s has a filter without a ledger (%s): give --ledger none, or another --data-dir",
			f.DataDir, filterFile,
		)
	}
	return nil
}

// logDamage logs windows that could not be restored.
func logDamage(ctx context.Context, log *slog.Logger, d *data) {
	if d.windows == nil {
		return
	}
	switch r := d.windows.Restored(); {
	case r.SetAside != "":
		log.ErrorContext(ctx, "windows file unreadable, renamed", "file", r.SetAside, "error", r.Damage)
	case r.Damaged > 0:
		log.WarnContext(ctx, "damaged windows lost", "pages", r.Damaged, "error", r.Damage)
	}
}
