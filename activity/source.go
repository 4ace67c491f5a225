package activity

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/pages"
)

// Source records what the tables of an app say. The kinds of its rows are written by nobody else.
// It is for one goroutine, but for Renew. Position is that of [ledger.Source].
type Source struct {
	*ledger.Lease

	// Followed is what the next Record says of the source: see [ledger.Source].
	Followed time.Time

	r    *Recorder
	bulk *pages.Bulk // of [Source.RecordBulk]; nil: none has begun
}

// SourceChange is what a transaction of a source did to one activity. Target is recorded as it is:
// see [Kinds.Canonical]. For the other fields see [ledger.SourceChange].
type SourceChange struct {
	User, Kind, Target string
	At                 time.Time // when the source committed
	Added, Removed     []ledger.Span
	Whole, Reading     bool
}

// Follow takes the lease of a source for the process holder, as [ledger.Ledger.Lease] does.
func (r *Recorder) Follow(
	ctx context.Context, source, holder string, kinds []string, lasts time.Duration, force bool,
) (*Source, error) {
	names := make([]string, len(kinds))
	for i, name := range kinds {
		k, ok := r.kinds.Named(name)
		if !ok || !k.InLedger() {
			return nil, fmt.Errorf("follow source %q: the ledger keeps no kind %q", source, name)
		}
		names[i] = k.Name
	}
	lease, err := r.ledger.Lease(ctx, source, holder, names, lasts, force)
	if err != nil {
		return nil, err
	}
	return &Source{Lease: lease, r: r}, nil
}

// LedgerID returns a short text that tells the ledger from others. It stays the same for the life
// of the ledger, restores included.
func (r *Recorder) LedgerID() string {
	hash := sha256.Sum256(binary.BigEndian.AppendUint64(nil, r.ledger.Identity().Seed))
	return hex.EncodeToString(hash[:4])
}

// Release makes a kind of a source ordinary again. See [ledger.Ledger.Unfollow].
func (r *Recorder) Release(ctx context.Context, kind string) error {
	if k, ok := r.kinds.Named(kind); ok { // the kind of a source may have left the file of kinds
		kind = k.Name
	}
	return r.ledger.Unfollow(ctx, kind)
}

// Reach waits until every View that begins afterwards has what was recorded up to Position.
func (s *Source) Reach(ctx context.Context) error {
	// Others may have moved the position. The third answer is of a poll that began after this call.
	answers := 0
	return s.r.pages.Reach(ctx, func(sources []ledger.Source) (bool, error) {
		answers++
		return answers > 2 || slices.ContainsFunc(sources, func(o ledger.Source) bool {
			return o.Name == s.Lease.Source && o.Position == s.Position
		}), nil
	})
}

// HashOf returns the hash of a user. [Recorder.Export] has all activities in order of this hash.
func (s *Source) HashOf(user string) uint64 { return s.r.userHash(user) }

// Mirrored reports whether the ledger has an activity of the kind twice: with its user, and with
// its target.
func (s *Source) Mirrored(kind string) bool {
	k, _ := s.r.kinds.Named(kind)
	return k.Mirror() != ""
}

// Export calls each with every activity of the ledger that has not ended. A mirror is one that the
// ledger has with the target. They are in order of the hash of the user whom the ledger has them
// with, and begin at the hash from.
func (s *Source) Export(
	ctx context.Context, from uint64, each func(a Activity, mirror bool) error,
) error {
	for last := (&ledger.Row{Hash: from}); ; { // no row is before one without an owner
		rows, err := ask(s.r, func() ([]ledger.Row, error) {
			return s.r.ledger.All(ctx, last, exportBatch)
		})
		if err != nil {
			return fmt.Errorf("export: %w", err)
		}
		kinds, err := s.r.pages.RowKinds(ctx, rows)
		if err != nil {
			return fmt.Errorf("export: %w", pages.Unavailable("ledger", err))
		}
		now := s.r.pages.Now()
		for i := range rows {
			row := &rows[i]
			last = row
			if !row.Until.IsZero() && !row.Until.After(now) {
				continue
			}
			a := Activity{
				User:   row.Owner,
				Kind:   row.Kind,
				Target: row.Target,
				Since:  row.Since,
				Until:  row.Until,
			}
			k := kinds[row.Kind]
			mirror := k.Of != "" && k.Of != row.Kind
			if mirror {
				a.User, a.Kind, a.Target = row.Target, k.Of, row.Owner
			}
			if err := each(a, mirror); err != nil {
				return err
			}
		}
		if len(rows) < exportBatch {
			return nil
		}
	}
}

// Record records changes of valid activities, and the position after them. When it returns nil, the
// ledger has them, and every View that begins after [Recorder.Await] has them too.
//
// An error that wraps ledger.ErrFenced means that another process follows the source now, and one
// that wraps ledger.ErrStrayRow that the source has to be read whole. After any other error, try
// again with a new lease: the changes may be in the ledger.
func (s *Source) Record(ctx context.Context, to ledger.Position, changes []SourceChange) error {
	step := ledger.Step{Lease: *s.Lease, From: s.Position, To: to, Followed: s.Followed}
	if err := s.r.pages.Follow(ctx, step, s.changes(changes)); err != nil {
		return fmt.Errorf("record %d changes of source %q: %w", len(changes), s.Lease.Source, err)
	}
	s.Position = to
	return nil
}

// RecordBulk records very many changes faster than Record, some 10,000 at a time. It leaves the
// position as it is, and Views may not have the changes before FinishBulk. Errors are as those of
// Record.
func (s *Source) RecordBulk(ctx context.Context, changes []SourceChange) error {
	if s.bulk == nil {
		s.bulk = s.r.pages.NewBulk()
	}
	step := ledger.Step{Lease: *s.Lease, From: s.Position, To: s.Position}
	if err := s.bulk.Follow(ctx, step, s.changes(changes)); err != nil {
		err = errors.Join(err, s.bulk.Finish(ctx)) // of what the ledger has
		s.bulk = nil
		return fmt.Errorf("record %d changes of source %q: %w", len(changes), s.Lease.Source, err)
	}
	return nil
}

// FinishBulk ends the calls of RecordBulk, and moves the position.
func (s *Source) FinishBulk(ctx context.Context, to ledger.Position) error {
	if bulk := s.bulk; bulk != nil {
		s.bulk = nil
		if err := bulk.Finish(ctx); err != nil {
			return fmt.Errorf("finish the changes of source %q: %w", s.Lease.Source, err)
		}
	}
	return s.Record(ctx, to, nil)
}

// changes returns changes as those of rows.
func (s *Source) changes(of []SourceChange) []ledger.SourceChange {
	all := make([]ledger.SourceChange, len(of))
	for i, c := range of {
		k, _ := s.r.kinds.Named(c.Kind)
		all[i] = ledger.SourceChange{
			Rows: s.r.appendRows(nil, k, Activity{User: c.User, Target: c.Target}),
			At:   c.At, Added: c.Added, Removed: c.Removed, Whole: c.Whole, Reading: c.Reading,
		}
	}
	return all
}

// Clock returns a time of this process by the ledger's clock, or one that is a little earlier.
func (s *Source) Clock(at time.Time) time.Time {
	earliest, _ := s.r.pages.Bounds()
	return earliest.Add(-time.Since(at))
}

// Sources returns the ledger's sources. See [pages.Pages.Sources].
func (r *Recorder) Sources() []ledger.Source { return r.pages.Sources() }
