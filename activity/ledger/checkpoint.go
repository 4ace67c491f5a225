package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Checkpoint returns a note that SetCheckpoint left, such as how far an import
// has come. Its id is any non-empty text.
func (l *Ledger) Checkpoint(ctx context.Context, id string) (value string, found bool, err error) {
	err = l.use(func() error {
		return l.read.checkpoint.QueryRowContext(ctx, id).Scan(&value)
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("ledger: read checkpoint %q: %w", id, ended(ctx, err))
	}
	return value, true, nil
}

// SetCheckpoint leaves a note, durable when it returns, in place of an earlier
// one of the same id. An empty value removes it. For errors see Record.
func (l *Ledger) SetCheckpoint(ctx context.Context, id, value string) error {
	if id == "" {
		return errors.New("ledger: set checkpoint: empty id")
	}
	stmt, args := l.write.setCheckpoint, []any{id, value}
	if value == "" {
		stmt, args = l.write.removeCheckpoint, []any{id}
	}
	err := l.transact(ctx, func(t transaction) error {
		ctx := context.WithoutCancel(ctx)
		_, err := t.StmtContext(ctx, stmt).ExecContext(ctx, args...)
		return err
	})
	if err != nil {
		return fmt.Errorf("ledger: set checkpoint %q: %w", id, err)
	}
	return nil
}
