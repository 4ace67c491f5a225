package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/go-json-experiment/json"
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
	Position position `json:"position"`
	SHA256   []byte   `json:"sha256"` // of the file up to Position
	Format   string   `json:"format"`
	Columns  []string `json:"columns"` // of a CSV file

	Imported int64 `json:"imported"` // activities
	Changed  int64 `json:"changed"`  // of them; less by up to a batch after a crash
	Skipped  int64 `json:"skipped"`  // bad lines

	Ended     int64 `json:"ended"`      // lines that were over when they were read
	OverLimit int64 `json:"over_limit"` // activities that a limit refused
}

// position is a place between two lines of a file.
type position struct {
	Offset int64 `json:"offset"` // bytes
	Line   int64 `json:"line"`   // of what follows, from 1
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

// pass reads in up to the checkpoint and returns the hash of what it read. A file
// that is not what it was up to there is refused: nobody knows what of it is
// recorded. What follows may have changed.
func (c checkpoint) pass(ctx context.Context, in io.Reader, format string) (hash.Hash, error) {
	sum := sha256.New()
	if c.Position.Offset == 0 {
		return sum, nil
	}
	if c.Format != format {
		return nil, fmt.Errorf("an earlier import read it as %s up to line %d: --restart begins at its start, as %s",
			c.Format, c.Position.Line, format)
	}
	_, err := io.CopyN(sum, contextReader{ctx, in}, c.Position.Offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err != nil || !bytes.Equal(sum.Sum(nil), c.SHA256) {
		return nil, fmt.Errorf("the file was changed before line %d, where an earlier import stopped: --restart begins at its start",
			c.Position.Line)
	}
	return sum, nil
}

// contextReader reads until ctx ends.
type contextReader struct {
	ctx context.Context //nolint:containedctx // of one call
	in  io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.in.Read(p)
}
