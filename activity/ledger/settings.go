package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrSettingsDiffer means that another process uses the ledger with other Settings.
var ErrSettingsDiffer = errors.New("settings differ between processes of one ledger")

// Settings are the settings that all processes of one ledger must share, because each process
// relies on those of the others.
type Settings struct {
	StalenessBound time.Duration // 0 to 1 min, in microseconds
}

// pageCache is set in the number of a process of version 0.1 with a page cache. It relies on
// other processes to acknowledge writes late, which later versions do not.
const pageCache = 1 << 31

// number returns the settings as the key of a lock. A minute takes 26 bits.
func (s Settings) number() uint32 { return uint32(s.StalenessBound.Microseconds()) }

// describe returns the settings that a number stands for.
func describe(number uint32) string {
	text := fmt.Sprintf("a staleness bound of %v", time.Duration(number&^pageCache)*time.Microsecond)
	if number&pageCache != 0 {
		text += " and a page cache"
	}
	return text
}

// Agree declares the settings of this process, until Close or the next Agree. The error wraps
// [ErrSettingsDiffer] and names both settings if a connected process has declared others. After
// a lost connection, Changed returns that error if another process declared other settings
// before the reconnect. For a ledger that is not [Ledger.Shared], Agree is a no-op.
func (l *Ledger) Agree(ctx context.Context, s Settings) error {
	err := l.read(ctx, &Call{Operation: "agree"}, func(ctx context.Context) error { return l.db.agree(ctx, s) })
	if err != nil {
		return fmt.Errorf("ledger %s: %w", l.name, err)
	}
	return nil
}
