package importer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/activityfile"
)

// Share is how many activities a [Sync] may remove: a number, or a percentage of those that the
// user has.
type Share struct {
	n       int
	percent bool
}

// UnmarshalText parses a number such as 500, or 0% to 100%.
func (s *Share) UnmarshalText(text []byte) error {
	number, percent := strings.CutSuffix(string(text), "%")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || percent && n > 100 {
		return fmt.Errorf("%.300q is neither a number such as 500 nor 0%% to 100%%", text)
	}
	*s = Share{n, percent}
	return nil
}

// String returns the share as UnmarshalText reads it.
func (s Share) String() string {
	if s.percent {
		return strconv.Itoa(s.n) + "%"
	}
	return strconv.Itoa(s.n)
}

// everything reports whether all activities may be removed, however many there are.
func (s Share) everything() bool { return s.percent && s.n == 100 }

// of returns how many of n activities may be removed.
func (s Share) of(n int) int {
	if s.percent {
		return int(int64(n) * int64(s.n) / 100)
	}
	return s.n
}

// Target is what a [Sync] changes: what a user has of a kind.
type Target interface {
	// All calls each for every activity that has not ended, in any order. What others change
	// meanwhile may or may not be included.
	All(ctx context.Context, each func(target string, until time.Time) error) error
	// Record records activities in order, and returns the outcome of each; with an error, of those
	// before it. It refuses a since that is in the future.
	Record(ctx context.Context, activities []activity.Activity) ([]activity.Outcome, error)
	// Finish makes everything recorded visible to feeds, also after an error of Record.
	Finish(ctx context.Context) error
}

// Sync makes what a user has of a kind equal to a file. It reads the file once, and lists the
// activities of the user once. Then it writes what differs: an interrupted Sync that begins again
// has less to write.
//
// It holds the ids and times of the file in memory, and the ids to remove.
type Sync struct {
	Source *activityfile.File
	List   activityfile.List // Kind is one of Kinds, which the ledger keeps
	Kinds  *activity.Kinds
	To     Target
	Now    func() time.Time // by which activities have ended
	Most   Share            // of the user's activities that Run may remove
	Batch  int              // activities recorded at a time

	Advance func(done, all int) // called after each batch, with numbers of changes

	Planned Synced // set by Begin: what Run will do if nobody else writes
	Done    Synced // what Run did

	listed  int              // activities that the user has
	entries map[string]entry // of the file, by folded id
	removed []string         // targets, in order
	written []string         // keys of entries that differ, in order
}

// Synced is the result of a Sync. Each activity of the file counts once.
type Synced struct {
	Added     int `json:"added"`
	Updated   int `json:"updated"` // their end was another
	Removed   int `json:"removed"`
	Unchanged int `json:"unchanged"`
	Ended     int `json:"ended"`      // lines whose until has passed; they count as missing
	OverLimit int `json:"over_limit"` // activities that a limit refused
}

// entry is an activity of the file. Its times are in microseconds of Unix time, to save memory;
// those of time.Time{} stand for none.
type entry struct {
	since, until int64
	has          has
}

// has is what the user has in place of an entry.
type has uint8

const (
	nothing has = iota
	same
	otherEnd
)

// Begin reads the file and the user's activities, and sets Planned. It writes nothing.
func (s *Sync) Begin(ctx context.Context) error {
	if err := s.read(ctx); err != nil {
		return err
	}
	err := s.To.All(ctx, func(target string, until time.Time) error {
		s.compare(target, until)
		return context.Cause(ctx)
	})
	if err != nil {
		return err
	}
	for target, e := range s.entries {
		switch e.has {
		case same:
			s.Planned.Unchanged++
			continue
		case otherEnd:
			s.Planned.Updated++
		case nothing:
			s.Planned.Added++
		}
		s.written = append(s.written, target)
	}
	// The order of ids is that of the ledger's index: batches share fewer of its pages.
	slices.Sort(s.written)
	slices.Sort(s.removed)
	s.Planned.Removed = len(s.removed)
	return nil
}

// read reads the file in another goroutine, because a read of standard input may block forever.
func (s *Sync) read(ctx context.Context) error {
	s.entries = make(map[string]entry)
	now, done := s.Now(), make(chan error, 1)
	go func() {
		done <- activityfile.ReadList(s.Source, s.List, func(a activity.Activity) error {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			return s.add(a, now)
		})
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// add adds an activity of the file. Of several with one id, the last counts, as in an import.
func (s *Sync) add(a activity.Activity, now time.Time) error {
	a, err := s.Kinds.Canonical(a)
	switch {
	case err != nil:
		return err
	case !a.Until.IsZero() && !a.Until.After(now):
		s.Planned.Ended++
	default:
		// The id may be a part of a long line, which must not stay in memory.
		s.entries[strings.Clone(a.Target)] = entry{
			since: a.Since.UnixMicro(),
			until: a.Until.UnixMicro(),
		}
	}
	return nil
}

// compare compares an activity of the user with the file.
func (s *Sync) compare(target string, until time.Time) {
	a := activity.Activity{User: s.List.User, Kind: s.List.Kind.Name, Target: target}
	a, err := s.Kinds.Canonical(a)
	folded := a.Target
	if err != nil || target != folded && target != s.List.Kind.Fold.Other(target) {
		// From before the facet had its fold, or a phrase of a later version: nothing that this
		// version records finds it or undoes it.
		return
	}
	s.listed++
	e, found := s.entries[folded]
	switch {
	case !found:
		s.removed = append(s.removed, target)
		return
	case target != folded:
		return // recorded by the other form of the fold, beside the entry or before it
	case e.until == until.UnixMicro():
		e.has = same
	default:
		e.has = otherEnd
	}
	s.entries[folded] = e
}

// Changes returns what makes the user's activities equal to the file, in order. Removals come
// first, so that a limit has room for what is added.
func (s *Sync) Changes() iter.Seq[activity.Activity] {
	return func(yield func(activity.Activity) bool) {
		a := activity.Activity{User: s.List.User, Kind: s.List.Kind.Name, Remove: true}
		for _, a.Target = range s.removed {
			if !yield(a) {
				return
			}
		}
		a.Remove = false
		for _, a.Target = range s.written {
			e := s.entries[a.Target]
			a.Since, a.Until = time.UnixMicro(e.since).UTC(), time.UnixMicro(e.until).UTC()
			if !yield(a) {
				return
			}
		}
	}
}

// Check returns an error if Run would remove more than it may. An empty file may be the rest of a
// failed download, so it needs 100%: a number allows it for short lists alone.
func (s *Sync) Check() error {
	lost, most := len(s.removed), s.Most.of(s.listed)
	switch {
	case s.Most.everything():
		return nil
	case len(s.entries) == 0:
		return fmt.Errorf("the file has no activities, and %s has %d: nothing was changed; "+
			"if the file is right, give --max-removed 100%%", s.List.User, s.listed)
	case lost > most:
		return fmt.Errorf("the file lacks %d of the %d activities of %s, "+
			"and --max-removed %s allows %d: "+
			"nothing was changed; if the file is right, give --max-removed %d",
			lost, s.listed, s.List.User, s.Most, most, lost)
	default:
		return nil
	}
}

// Run records the Changes, if Check allows them, and sets Done. It completes a batch before it ends
// with ctx.
func (s *Sync) Run(ctx context.Context) error {
	if err := s.Check(); err != nil {
		return err
	}
	s.Done = Synced{Unchanged: s.Planned.Unchanged, Ended: s.Planned.Ended}
	err := s.record(ctx)
	return errors.Join(err, s.To.Finish(context.WithoutCancel(ctx)))
}

func (s *Sync) record(ctx context.Context) error {
	all := len(s.removed) + len(s.written)
	batch, done := make([]activity.Activity, 0, min(s.Batch, all)), 0
	for a := range s.Changes() {
		if batch = append(batch, a); len(batch) < s.Batch && done+len(batch) < all {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		outcomes, err := s.To.Record(ctx, batch)
		s.count(batch[:len(outcomes)], outcomes)
		if err != nil {
			return err
		}
		done += len(batch)
		s.Advance(done, all)
		batch = batch[:0]
	}
	return nil
}

// count adds the outcomes of a batch to Done.
func (s *Sync) count(batch []activity.Activity, outcomes []activity.Outcome) {
	for i, a := range batch {
		switch o := outcomes[i]; {
		case o == activity.Changed && a.Remove:
			s.Done.Removed++
		case o == activity.Changed && s.entries[a.Target].has == otherEnd:
			s.Done.Updated++
		case o == activity.Changed:
			s.Done.Added++
		case o == activity.OverLimit:
			s.Done.OverLimit++
		case o == activity.Ended:
			s.Done.Ended++
		case !a.Remove:
			s.Done.Unchanged++ // somebody else has added it meanwhile
		}
	}
}
