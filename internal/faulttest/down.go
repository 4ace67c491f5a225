package faulttest

import (
	"context"

	"github.com/feedfilter/feedfilter/favfilter"
)

// Down is a store that cannot be reached: each of its calls fails with [ErrInjected].
type Down struct{}

// Load fails.
func (Down) Load(context.Context, []favfilter.PageID) ([]favfilter.Loaded, error) {
	return nil, ErrInjected
}

// LoadWhole fails.
func (Down) LoadWhole(context.Context, []favfilter.PageID) ([]favfilter.Loaded, error) {
	return nil, ErrInjected
}

// Apply fails, for each batch.
func (Down) Apply(_ context.Context, batches []favfilter.Batch) []favfilter.Result {
	results := make([]favfilter.Result, len(batches))
	for i := range results {
		results[i].Err = ErrInjected
	}
	return results
}

// Replace fails.
func (Down) Replace(context.Context, favfilter.Replacement) (bool, error) {
	return false, ErrInjected
}

// Peek fails.
func (Down) Peek(context.Context, []favfilter.PageID) ([]favfilter.Status, error) {
	return nil, ErrInjected
}

// LoadAndCompare fails.
func (Down) LoadAndCompare(
	context.Context, []favfilter.PageID, []favfilter.PageID,
) ([]favfilter.Loaded, []favfilter.Version, error) {
	return nil, nil, ErrInjected
}
