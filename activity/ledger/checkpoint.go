package ledger

import (
	"context"
	"errors"
	"fmt"
)

// Checkpoint returns the note that SetCheckpoint stored under id, such as the progress of an
// import. id is any text but "".
func (l *Ledger) Checkpoint(ctx context.Context, id string) (value string, found bool, err error) {
	c, what := &Call{Operation: "checkpoint"}, fmt.Sprintf("ledger: read checkpoint %q", id)
	value, err = ask(ctx, l, c, what, func(ctx context.Context) (value string, err error) {
		err = l.db.query(ctx, statement{sql: getCheckpointSQL, args: []any{id}, into: []any{&value}})
		return value, err
	})
	return value, value != "", err
}

// SetCheckpoint stores a note under id, and replaces an earlier one. An empty value removes the
// note. The note is durable when SetCheckpoint returns. For errors see Record.
func (l *Ledger) SetCheckpoint(ctx context.Context, id, value string) error {
	if id == "" {
		return errors.New("ledger: set checkpoint: empty id")
	}
	what := fmt.Sprintf("ledger: set checkpoint %q", id)
	return run(ctx, l, "set_checkpoint", what, func(ctx context.Context) error {
		if value == "" {
			return update(ctx, l.db, statement{sql: deleteCheckpointSQL, args: []any{id}})
		}
		return update(ctx, l.db, statement{sql: putCheckpointSQL, args: []any{id, value}})
	})
}
