package ledger

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5"
)

func (d *postgresDatabase) agree(ctx context.Context, bound time.Duration) error {
	number := settingsNumber(bound)
	before := d.settings.Swap(&number)
	err := d.attempt(ctx, d.polls, callTimeout, d.lockSettings)
	if err != nil {
		d.settings.Store(before)
	}
	return err
}

// lockSettings holds a lock for the settings of this process on the connection of polls, and
// looks for locks of other settings. The server releases a lock with its connection, so a killed
// process leaves no lock behind. If two processes start at once with different settings, both
// may be refused.
func (d *postgresDatabase) lockSettings(ctx context.Context, conn *pgx.Conn) error {
	own := d.settings.Load()
	if own == nil {
		return nil
	}
	var other *int64
	err := send(ctx, conn, statement{sql: unlockSettingsSQL},
		statement{sql: lockSettingsSQL, args: []any{d.settingsKey, int32(*own)}},
		statement{sql: otherSettingsSQL, args: []any{d.settingsKey, int64(*own)}, into: []any{&other}})
	if err != nil {
		return fmt.Errorf("declare settings: %w", err)
	}
	if other == nil {
		return nil
	}
	if _, err := conn.Exec(ctx, unlockSettingsSQL); err != nil {
		return fmt.Errorf("withdraw settings: %w", err)
	}
	return fmt.Errorf("%w: this process has %v, another one has %v: stop all processes, then start them with the same settings",
		ErrSettingsDiffer, describe(*own), describe(uint32(*other)))
}

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

// settingsKey returns the first half of the lock keys of a schema.
func settingsKey(schema string) int32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte("feedfilter settings " + schema)) // never fails
	return int32(h.Sum32())
}
