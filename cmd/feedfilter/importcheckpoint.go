package main

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/feedfilter/feedfilter/internal/activityfile"
)

// checkpoints is where an import notes how far it has come: a ledger. It is an
// interface so that tests can end the process at each of its calls.
type checkpoints interface {
	Checkpoint(ctx context.Context, id string) (value string, found bool, err error)
	SetCheckpoint(ctx context.Context, id, value string) error
}

// checkpoint says how far an import of a file has come. All before it is recorded. What follows may
// be recorded too, up to the end of a batch, when the process died between the two:
// then it is recorded again. That ends in the same state, because a batch is recorded
// whole and in order, so what it does last to an activity stands in either case.
type checkpoint struct {
	activityfile.Checkpoint

	Imported int64 `json:"imported"` // activities
	Changed  int64 `json:"changed"`  // of them; less by up to a batch after a crash
	Skipped  int64 `json:"skipped"`  // bad lines

	Ended     int64 `json:"ended"`      // lines that were over when they were read
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
