package ledger

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrSettingsDiffer means that another process uses the ledger with other Settings.
var ErrSettingsDiffer = errors.New("settings differ between processes of one ledger")

// Settings are the settings that all processes of one ledger must share, because each process
// relies on those of the others.
type Settings struct {
	StalenessBound time.Duration // 0 to 1 min, in microseconds
	HoldsPages     bool          // readers answer from pages that the process holds
}

const holdsPages = 1 << 31

// number returns the settings as the key of a lock. A minute takes 26 bits.
func (s Settings) number() uint32 {
	n := uint32(s.StalenessBound.Microseconds())
	if s.HoldsPages {
		n |= holdsPages
	}
	return n
}

func settingsOf(number uint32) Settings {
	return Settings{
		StalenessBound: time.Duration(number&^holdsPages) * time.Microsecond,
		HoldsPages:     number&holdsPages != 0,
	}
}

func (s Settings) String() string {
	held := "no page cache"
	if s.HoldsPages {
		held = "a page cache"
	}
	return fmt.Sprintf("a staleness bound of %v and %s", s.StalenessBound, held)
}

// Agree declares the settings of this process, until Close or the next Agree. The error wraps
// [ErrSettingsDiffer] and names both settings if a connected process has declared others. After
// a lost connection, Changed returns that error if another process declared other settings
// before the reconnect. For a ledger that is not [Ledger.Shared], Agree is a no-op.
func (l *Ledger) Agree(ctx context.Context, s Settings) error {
	err := l.read(ctx, &Call{Operation: "agree"}, func(ctx context.Context) error {
		if db, ok := l.db.(*postgresDatabase); ok {
			return db.agree(ctx, s)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("ledger %s: %w", l.name, err)
	}
	return nil
}

func (d *postgresDatabase) agree(ctx context.Context, s Settings) error {
	before := d.settings.Swap(&s)
	err := d.attempt(ctx, d.polls, d.lockSettings)
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
	b := &pgx.Batch{}
	b.Queue(unlockSettingsSQL)
	b.Queue(lockSettingsSQL, d.settingsKey, int32(own.number()))
	b.Queue(otherSettingsSQL, d.settingsKey, int64(own.number())).QueryRow(func(row pgx.Row) error {
		return row.Scan(&other)
	})
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("declare settings: %w", err)
	}
	if other == nil {
		return nil
	}
	if _, err := conn.Exec(ctx, unlockSettingsSQL); err != nil {
		return fmt.Errorf("withdraw settings: %w", err)
	}
	return fmt.Errorf("%w: this process has %v, another one has %v: stop all processes, then start them with the same settings",
		ErrSettingsDiffer, own, settingsOf(uint32(*other)))
}

// settingsKey returns the first half of the lock keys of a schema.
func settingsKey(schema string) int32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte("feedfilter settings " + schema)) // never fails
	return int32(h.Sum32())
}
