package ledger

import (
	"context"
	"errors"
	"fmt"
)

// Checkpoint returns a note that SetCheckpoint left, such as how far an import
// has come. Its id is any non-empty text.
func (l *Ledger) Checkpoint(ctx context.Context, id string) (value string, found bool, err error) {
	err = l.use(func() error {
		value, found, err = l.db.checkpoint(ctx, id)
		return err
	})
	if err != nil {
		return "", false, fmt.Errorf("ledger: read checkpoint %q: %w", id, interrupted(ctx, err))
	}
	return value, found, nil
}

// SetCheckpoint leaves a note, durable when it returns, in place of an earlier
// one of the same id. An empty value removes it. For errors see Record.
func (l *Ledger) SetCheckpoint(ctx context.Context, id, value string) error {
	if id == "" {
		return errors.New("ledger: set checkpoint: empty id")
	}
	if err := l.use(func() error { return l.db.setCheckpoint(ctx, id, value) }); err != nil {
		return fmt.Errorf("ledger: set checkpoint %q: %w", id, err)
	}
	return nil
}
