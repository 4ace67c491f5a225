package ledger

import (
	"context"
	"fmt"
	"time"
)

// pageCache is set in the number of a process of version 0.1 with a page cache. It relies on
// other processes to acknowledge writes late, which later versions do not.
const pageCache = 1 << 31

// settingsNumber returns the settings as the key of a lock. A minute takes 26 bits.
func settingsNumber(bound time.Duration) uint32 { return uint32(bound.Microseconds()) }

// describe returns the settings that a number stands for.
func describe(number uint32) string {
	text := fmt.Sprintf("a staleness bound of %v", time.Duration(number&^pageCache)*time.Microsecond)
	if number&pageCache != 0 {
		text += " and a page cache"
	}
	return text
}

// Agree declares the staleness bound of this process, until Close or the next Agree: from 0 to 1
// min, in microseconds. All processes of one ledger must have the same, because each relies on
// that of the others. The error wraps [ErrSettingsDiffer] and names both bounds if a connected
// process has declared another one. After a lost connection, Changed returns that error if
// another process declared another bound before the reconnect. For a ledger that is not
// [Ledger.Shared], Agree is a no-op.
func (l *Ledger) Agree(ctx context.Context, bound time.Duration) error {
	return run(ctx, l, "agree", "ledger "+l.name, func(ctx context.Context) error { return l.db.agree(ctx, bound) })
}
