package ledger

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrSettingsDiffer says that another process uses the ledger with other Settings.
var ErrSettingsDiffer = errors.New("settings differ between processes of one ledger")

// Settings are what all processes of one ledger must have the same: each counts on what the
// others do by them.
type Settings struct {
	StalenessBound time.Duration // 0 to 1 min, in microseconds
	HoldsPages     bool          // readers answer from pages that they hold in process
}

const holdsPages = 1 << 31

// number is the settings as a lock has them. A minute takes 26 bits.
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

// Agree declares the settings of this process, until the ledger is closed or Agree is called
// again. It returns an error that wraps [ErrSettingsDiffer], and names both settings, if a process that
// is connected has declared others. Where a connection is lost meanwhile, and others were declared until there is a
// new one, Changed returns that error. A ledger that is not [Ledger.Shared] has nobody to
// agree with.
func (l *Ledger) Agree(ctx context.Context, s Settings) error {
	err := l.use(func() error {
		if db, ok := l.db.(*postgresDatabase); ok {
			return db.agree(ctx, s)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("ledger %s: %w", l.name, interrupted(ctx, err))
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
// looks for those of others. The server releases a lock with its connection, so nobody has to
// clean up after a process that was killed. Of two that start at once with different settings, each
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
	return fmt.Errorf("%w: this process has %v, another one has %v: stop every process, then start all with the same",
		ErrSettingsDiffer, own, settingsOf(uint32(*other)))
}

// settingsKey is the first half of the locks for a schema of the database.
func settingsKey(schema string) int32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte("feedfilter settings " + schema)) // never fails
	return int32(h.Sum32())
}
