package main

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/feedfilter/feedfilter/internal/activityfile"
)

// checkpoints stores the checkpoints of imports. The ledger implements it. Tests use the interface
// to end the process at each call.
type checkpoints interface {
	Checkpoint(ctx context.Context, id string) (value string, found bool, err error)
	SetCheckpoint(ctx context.Context, id, value string) error
}

// checkpoint is the progress of an import. Everything before it is recorded. If the process died
// before it could save a checkpoint, the batch after the last one may be recorded as well, and is
// recorded again. The result is the same: a batch is recorded whole and in order, so the last
// operation on an activity counts in either case.
type checkpoint struct {
	activityfile.Checkpoint

	Imported int64 `json:"imported"` // number of activities
	Changed  int64 `json:"changed"`  // of these, the changed ones; after a crash, too low by up to a batch
	Skipped  int64 `json:"skipped"`  // bad lines

	Ended     int64 `json:"ended"`      // lines whose until had passed when they were read
	OverLimit int64 `json:"over_limit"` // activities that a limit refused
}

// loadCheckpoint returns the zero checkpoint if there is none.
func loadCheckpoint(ctx context.Context, notes checkpoints, id string) (checkpoint, error) {
	var c checkpoint
	value, found, err := notes.Checkpoint(ctx, id)
	if err != nil || !found {
		return c, err
	}
	if err := json.Unmarshal([]byte(value), &c); err != nil {
		return checkpoint{}, fmt.Errorf("read checkpoint %q: %w", id, err)
	}
	return c, nil
}

func saveCheckpoint(ctx context.Context, notes checkpoints, id string, c checkpoint) error {
	value, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("write checkpoint %q: %w", id, err)
	}
	return notes.SetCheckpoint(ctx, id, string(value))
}
