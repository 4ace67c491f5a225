package ledger

import (
	"context"
	"errors"
	"fmt"
)

// Checkpoint returns the note that SetCheckpoint stored under id, such as the progress of an
// import. id is any text but "".
func (l *Ledger) Checkpoint(ctx context.Context, id string) (value string, found bool, err error) {
	err = l.read(ctx, &Call{Operation: "checkpoint"}, func(ctx context.Context) error {
		value, found, err = l.db.checkpoint(ctx, id)
		return err
	})
	if err != nil {
		return "", false, fmt.Errorf("ledger: read checkpoint %q: %w", id, err)
	}
	return value, found, nil
}

// SetCheckpoint stores a note under id, and replaces an earlier one. An empty value removes the
// note. The note is durable when SetCheckpoint returns. For errors see Record.
func (l *Ledger) SetCheckpoint(ctx context.Context, id, value string) error {
	if id == "" {
		return errors.New("ledger: set checkpoint: empty id")
	}
	err := l.call(ctx, &Call{Operation: "set_checkpoint"}, func(ctx context.Context) error {
		return l.db.setCheckpoint(ctx, id, value)
	})
	if err != nil {
		return fmt.Errorf("ledger: set checkpoint %q: %w", id, err)
	}
	return nil
}
