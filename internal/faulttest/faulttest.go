// Package faulttest makes the calls of a ledger and of a store fail, one after another. Call i
// fails once, before or after it takes effect. A test goes through all i until a run has no fault.
package faulttest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
)

// ErrInjected is the error of a call that was made to fail.
var ErrInjected = errors.New("injected")

// Faults makes one call fail: the one numbered At, from 1 on, of all that count
// on it. The zero value lets all pass. It is safe for concurrent use.
type Faults struct {
	At    int64
	After bool // the call takes effect, and nobody hears of it

	calls atomic.Int64
}

// Calls is the number of calls so far.
func (f *Faults) Calls() int64 { return f.calls.Load() }

// Do runs call with the fault injected, if it is its turn.
func Do[T any](f *Faults, call func() (T, error)) (T, error) { //nolint:ireturn // whatever call returns
	var zero T
	fails := f.calls.Add(1) == f.At
	if fails && !f.After {
		return zero, ErrInjected
	}
	v, err := call()
	if fails && err == nil {
		return zero, ErrInjected
	}
	return v, err
}

// Ledger is a ledger with faults. Every call counts but Identity, Shared and Ping.
type Ledger struct {
	*ledger.Ledger
	*Faults
}

// Record counts, and may fail.
func (l Ledger) Record(ctx context.Context, now time.Time, changes []ledger.Change) (ledger.Receipt, error) {
	return Do(l.Faults, func() (ledger.Receipt, error) { return l.Ledger.Record(ctx, now, changes) })
}

// Keys counts, and may fail.
func (l Ledger) Keys(ctx context.Context, page uint32) ([]ledger.Row, ledger.PageState, error) {
	return l.rows(func() ([]ledger.Row, ledger.PageState, error) { return l.Ledger.Keys(ctx, page) })
}

// EachRow counts, and may fail.
func (l Ledger) EachRow(ctx context.Context, page uint32, each func(rows []ledger.Row) error) (ledger.PageState, error) {
	return Do(l.Faults, func() (ledger.PageState, error) { return l.Ledger.EachRow(ctx, page, each) })
}

func (l Ledger) rows(read func() ([]ledger.Row, ledger.PageState, error)) ([]ledger.Row, ledger.PageState, error) {
	type page struct {
		rows     []ledger.Row
		standing ledger.PageState
	}
	p, err := Do(l.Faults, func() (page, error) {
		rows, standing, err := read()
		return page{rows, standing}, err
	})
	return p.rows, p.standing, err
}

// Sequence counts, and may fail.
func (l Ledger) Sequence(ctx context.Context, page uint32) (uint64, error) {
	return Do(l.Faults, func() (uint64, error) { return l.Ledger.Sequence(ctx, page) })
}

// Changed counts, and may fail.
func (l Ledger) Changed(
	ctx context.Context, since ledger.Cursor, each func(page uint32, s ledger.PageState) error,
) (ledger.Progress, error) {
	return Do(l.Faults, func() (ledger.Progress, error) { return l.Ledger.Changed(ctx, since, each) })
}

// Place counts, and may fail.
func (l Ledger) Place(ctx context.Context, hash uint64) (ledger.Place, error) {
	return Do(l.Faults, func() (ledger.Place, error) { return l.Ledger.Place(ctx, hash) })
}

// Layouts counts, and may fail.
func (l Ledger) Layouts(ctx context.Context) (ledger.Layouts, error) {
	return Do(l.Faults, func() (ledger.Layouts, error) { return l.Ledger.Layouts(ctx) })
}

// BeginLayout counts, and may fail.
func (l Ledger) BeginLayout(ctx context.Context, pages uint32) error {
	return l.layout(ctx, pages, l.Ledger.BeginLayout)
}

// SwitchLayout counts, and may fail.
func (l Ledger) SwitchLayout(ctx context.Context, pages uint32) error {
	return l.layout(ctx, pages, l.Ledger.SwitchLayout)
}

// LeaveLayout counts, and may fail.
func (l Ledger) LeaveLayout(ctx context.Context, pages uint32) error {
	return l.layout(ctx, pages, l.Ledger.LeaveLayout)
}

func (l Ledger) layout(ctx context.Context, pages uint32, change func(context.Context, uint32) error) error {
	_, err := Do(l.Faults, func() (struct{}, error) { return struct{}{}, change(ctx, pages) })
	return err
}

// Dedicate counts, and may fail.
func (l Ledger) Dedicate(ctx context.Context, hash uint64) (ledger.Receipt, error) {
	return Do(l.Faults, func() (ledger.Receipt, error) { return l.Ledger.Dedicate(ctx, hash) })
}

// Release counts, and may fail.
func (l Ledger) Release(ctx context.Context, hash uint64) (ledger.Receipt, error) {
	return Do(l.Faults, func() (ledger.Receipt, error) { return l.Ledger.Release(ctx, hash) })
}

// Ended counts, and may fail.
func (l Ledger) Ended(ctx context.Context, now time.Time, limit int) ([]ledger.Row, error) {
	return Do(l.Faults, func() ([]ledger.Row, error) { return l.Ledger.Ended(ctx, now, limit) })
}

// List counts, and may fail.
func (l Ledger) List(ctx context.Context, q ledger.ListQuery) ([]ledger.Row, error) {
	return Do(l.Faults, func() ([]ledger.Row, error) { return l.Ledger.List(ctx, q) })
}

// Lookup counts, and may fail.
func (l Ledger) Lookup(ctx context.Context, q ledger.LookupQuery) ([]ledger.Row, error) {
	return Do(l.Faults, func() ([]ledger.Row, error) { return l.Ledger.Lookup(ctx, q) })
}

// Count counts, and may fail.
func (l Ledger) Count(ctx context.Context, hash uint64, owner, kind string, now time.Time) (int, error) {
	return Do(l.Faults, func() (int, error) { return l.Ledger.Count(ctx, hash, owner, kind, now) })
}

// Counts counts, and may fail.
func (l Ledger) Counts(ctx context.Context, hash uint64, owner string, now time.Time) (map[string]int, error) {
	return Do(l.Faults, func() (map[string]int, error) { return l.Ledger.Counts(ctx, hash, owner, now) })
}

// Owned counts, and may fail.
func (l Ledger) Owned(ctx context.Context, hash uint64, owner string, after *ledger.Item, limit int) ([]ledger.Row, error) {
	return Do(l.Faults, func() ([]ledger.Row, error) { return l.Ledger.Owned(ctx, hash, owner, after, limit) })
}

// All counts, and may fail.
func (l Ledger) All(ctx context.Context, after *ledger.Row, limit int) ([]ledger.Row, error) {
	return Do(l.Faults, func() ([]ledger.Row, error) { return l.Ledger.All(ctx, after, limit) })
}

// Naming counts, and may fail.
func (l Ledger) Naming(ctx context.Context, targetHash uint64, target string, limit int) ([]ledger.Row, error) {
	return Do(l.Faults, func() ([]ledger.Row, error) { return l.Ledger.Naming(ctx, targetHash, target, limit) })
}

// Declare counts, and may fail.
func (l Ledger) Declare(ctx context.Context, kinds []ledger.Kind) error {
	_, err := Do(l.Faults, func() (struct{}, error) { return struct{}{}, l.Ledger.Declare(ctx, kinds) })
	return err
}

// Kinds counts, and may fail.
func (l Ledger) Kinds(ctx context.Context) ([]ledger.Kind, error) {
	return Do(l.Faults, func() ([]ledger.Kind, error) { return l.Ledger.Kinds(ctx) })
}

// Checkpoint counts, and may fail.
func (l Ledger) Checkpoint(ctx context.Context, id string) (value string, found bool, err error) {
	value, err = Do(l.Faults, func() (string, error) {
		value, found, err = l.Ledger.Checkpoint(ctx, id)
		return value, err
	})
	return value, found && err == nil, err
}

// SetCheckpoint counts, and may fail.
func (l Ledger) SetCheckpoint(ctx context.Context, id, value string) error {
	_, err := Do(l.Faults, func() (struct{}, error) { return struct{}{}, l.Ledger.SetCheckpoint(ctx, id, value) })
	return err
}

// Store is a store with faults.
type Store struct {
	favfilter.Store
	*Faults
}

// Load counts, and may fail.
func (s Store) Load(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	return Do(s.Faults, func() ([]favfilter.Loaded, error) { return s.Store.Load(ctx, ids) })
}

// LoadWhole counts, and may fail.
func (s Store) LoadWhole(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	return Do(s.Faults, func() ([]favfilter.Loaded, error) { return s.Store.LoadWhole(ctx, ids) })
}

// LoadAndCompare counts, and may fail.
func (s Store) LoadAndCompare(
	ctx context.Context, ids, held []favfilter.PageID,
) (loaded []favfilter.Loaded, versions []favfilter.Version, err error) {
	loaded, err = Do(s.Faults, func() (l []favfilter.Loaded, err error) {
		l, versions, err = s.Store.LoadAndCompare(ctx, ids, held)
		return l, err
	})
	if err != nil {
		return nil, nil, err
	}
	return loaded, versions, nil
}

// Peek counts, and may fail.
func (s Store) Peek(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Status, error) {
	return Do(s.Faults, func() ([]favfilter.Status, error) { return s.Store.Peek(ctx, ids) })
}

// Probe counts, and may fail.
func (s Store) Probe(
	ctx context.Context, id favfilter.PageID, known favfilter.Header, hashes []favfilter.Hash, found []bool,
) (sequence uint64, ok bool, err error) {
	sequence, err = Do(s.Faults, func() (uint64, error) {
		sequence, ok, err = s.Store.Probe(ctx, id, known, hashes, found)
		return sequence, err
	})
	return sequence, ok && err == nil, err
}

// Epoch counts, and may fail.
func (s Store) Epoch(ctx context.Context) (string, error) {
	return Do(s.Faults, func() (string, error) { return s.Store.Epoch(ctx) })
}

// Replace counts, and may fail.
func (s Store) Replace(ctx context.Context, r favfilter.Replacement) (bool, error) {
	return Do(s.Faults, func() (bool, error) { return s.Store.Replace(ctx, r) })
}

// Apply counts, and may fail for all of its batches.
func (s Store) Apply(ctx context.Context, batches []favfilter.Batch) []favfilter.Result {
	results, err := Do(s.Faults, func() ([]favfilter.Result, error) { return s.Store.Apply(ctx, batches), nil })
	if err != nil {
		results = make([]favfilter.Result, len(batches))
		for i := range results {
			results[i].Err = err
		}
	}
	return results
}
