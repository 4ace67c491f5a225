// Package faulttest makes the calls of a ledger and of a store fail, one after another. Call i
// fails once, before or after it takes effect. A test goes through all i until a run has no fault.
package faulttest

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"sync/atomic"
	"testing"

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
	Every bool // every call fails

	calls atomic.Int64
}

// shortEach is how many calls there are to each one that fails under -short.
const shortEach = 8

// EachCall returns 1, 2, 3 and so on: the calls that fail in one run after another. Under -short it
// returns each eighth, and begins with a random one.
func EachCall() iter.Seq[int64] {
	first, each := int64(1), int64(1)
	if testing.Short() {
		first, each = 1+rand.Int64N(shortEach), shortEach //nolint:gosec // no secret
	}
	return func(yield func(int64) bool) {
		at := first
		for yield(at) {
			at += each
		}
	}
}

// Calls is the number of calls so far.
func (f *Faults) Calls() int64 { return f.calls.Load() }

// Do runs call with the fault injected, if it is its turn.
//
//nolint:ireturn // whatever call returns
func Do[T any](f *Faults, call func() (T, error)) (T, error) {
	var zero T
	fails := f.calls.Add(1) == f.At || f.Every
	if fails && !f.After {
		return zero, ErrInjected
	}
	v, err := call()
	if fails && err == nil {
		return zero, ErrInjected
	}
	return v, err
}

// Around makes calls of a ledger fail: see [ledger.Ledger.Around]. Every call counts but Ping.
func (f *Faults) Around(
	ctx context.Context, c *ledger.Call, next func(ctx context.Context) error,
) error {
	if c.Operation == "ping" {
		return next(ctx)
	}
	_, err := Do(f, func() (struct{}, error) { return struct{}{}, next(ctx) })
	return err
}

// Store is a store with faults.
type Store struct {
	favfilter.Store
	*Faults
}

// Down returns a store that cannot be reached: each of its calls fails.
func Down() Store { return Store{Faults: &Faults{Every: true}} }

// Load counts, and may fail.
func (s Store) Load(
	ctx context.Context, ids []favfilter.PageID, held ...favfilter.PageID,
) ([]favfilter.Loaded, []favfilter.Version, error) {
	var versions []favfilter.Version
	loaded, err := Do(s.Faults, func() (l []favfilter.Loaded, err error) {
		l, versions, err = s.Store.Load(ctx, ids, held...)
		return l, err
	})
	if err != nil {
		return nil, nil, err
	}
	return loaded, versions, nil
}

// LoadWhole counts, and may fail.
func (s Store) LoadWhole(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	return Do(s.Faults, func() ([]favfilter.Loaded, error) { return s.Store.LoadWhole(ctx, ids) })
}

// Peek counts, and may fail.
func (s Store) Peek(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Status, error) {
	return Do(s.Faults, func() ([]favfilter.Status, error) { return s.Store.Peek(ctx, ids) })
}

// Replace counts, and may fail.
func (s Store) Replace(ctx context.Context, r favfilter.Replacement) (bool, error) {
	return Do(s.Faults, func() (bool, error) { return s.Store.Replace(ctx, r) })
}

// Apply counts, and may fail for all of its batches.
func (s Store) Apply(ctx context.Context, batches []favfilter.Batch) []favfilter.Result {
	apply := func() ([]favfilter.Result, error) { return s.Store.Apply(ctx, batches), nil }
	results, err := Do(s.Faults, apply)
	if err != nil {
		results = make([]favfilter.Result, len(batches))
		for i := range results {
			results[i].Err = err
		}
	}
	return results
}
