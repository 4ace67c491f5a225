package pages

import (
	"context"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

const (
	// formatInterval is how often a process looks whether pages may have a later format version,
	// until they have.
	formatInterval = 10 * time.Second
	// formatLooks is how many times in a row no process may be connected that cannot read the later
	// version. One that lost its connection is back after one poll.
	formatLooks = 6
)

// pageFormat decides in which format version this process builds pages. Processes of this version
// read and change pages of every version, so they need not agree. But one of an earlier version
// takes a page of the later version for a foreign one, and rebuilds it.
type pageFormat struct {
	core

	looks int // in a row that found no such process
}

// learn asks the ledger for the format version. Unless the Pages are passive, a ledger that one
// process alone has open gets the latest.
func (f *pageFormat) learn(ctx context.Context, passive bool) error {
	now, err := f.ledger.PageFormats(ctx)
	if err == nil && now.Built < ledger.PageFormat && !f.ledger.Shared() && !passive {
		now.Built, err = ledger.PageFormat, f.ledger.RaisePageFormat(ctx)
	}
	f.storage.uniform.Store(now.Built < ledger.PageFormat)
	return err
}

// raise raises the format version once nobody has been connected for a while who cannot read the
// latest. It ends when pages are built in the latest version.
func (f *pageFormat) raise() {
	for f.storage.uniform.Load() {
		if f.life.Rest(f.life.Open, formatInterval) != nil {
			return // closed
		}
		ctx, cancel := context.WithTimeout(f.life.Base, pageTimeout)
		f.look(ctx)
		cancel()
	}
	f.storage.log.InfoContext(f.life.Open, "pages get a later format", "version", ledger.PageFormat)
}

// look is one step of raise.
func (f *pageFormat) look(ctx context.Context) {
	now, err := f.ledger.PageFormats(ctx)
	switch {
	case err != nil || now.Older:
		f.looks = 0
		return
	case now.Built < ledger.PageFormat:
		f.looks++
		if f.looks < formatLooks || f.ledger.RaisePageFormat(ctx) != nil {
			return
		}
	}
	f.storage.uniform.Store(false)
}
