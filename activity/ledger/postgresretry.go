package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// failure is what an error says about trying again.
type failure int

const (
	lasting  failure = iota // it would be the same again
	conflict                // with another transaction, which is over by now
	unusable                // the connection, or the server for the moment
)

// The longest pauses between tries add up to some 5 s for conflicts, which the
// others' progress ends, and to 0.3 s for a server that does not let us in.
const (
	firstPause      = 10 * time.Millisecond
	longestPause    = 500 * time.Millisecond
	conflictTries   = 16
	connectionTries = 5
	rollbackTimeout = time.Second
)

// Codes of PostgreSQL's errors.
const (
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
)

// classify says what the error of a call that changed nothing is.
func classify(err error) failure {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch refused.Code {
		case codeSerialization, codeDeadlock,
			"55P03": // lock not available
			return conflict
		case "57P01", "57P02", "57P03", // the server stops, has crashed, or starts
			"25P03", // idle in transaction for too long
			"53300", // too many connections
			"25006", // read-only: what was the primary is a replica now
			"0A000": // a prepared statement is of another version of the schema
			return unusable
		default:
			return lasting
		}
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok || pgconn.SafeToRetry(err) {
		return unusable
	}
	return lasting
}

// pause waits before another try, if there is to be one.
func pause(ctx context.Context, f failure, try int) bool {
	tries := map[failure]int{lasting: 1, conflict: conflictTries, unusable: connectionTries}[f]
	if try+1 >= tries {
		return false
	}
	long := min(firstPause<<try, longestPause)
	timer := time.NewTimer(long/2 + rand.N(long)) //nolint:gosec // any will do that differs between processes
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// attempt runs do on a connection of the pool, and again on another one where that may
// help: do must have changed nothing when it fails, unless it says so by an
// undecidedError. All of it takes no longer than callTimeout; do is not begun
// once ctx has ended.
func (d *postgresDatabase) attempt(
	ctx context.Context, pool *pgxpool.Pool, do func(ctx context.Context, conn *pgx.Conn) error,
) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return d.retry(limited, pool, do)
}

// retry is attempt with no other end than ctx's.
func (d *postgresDatabase) retry(
	ctx context.Context, pool *pgxpool.Pool, do func(ctx context.Context, conn *pgx.Conn) error,
) error {
	for try := 0; ; try++ {
		f, err := once(ctx, pool, do)
		if _, replaced := errors.AsType[*replacedError](err); replaced {
			d.reset()
		}
		if err == nil || ctx.Err() != nil || !pause(ctx, f, try) {
			return err
		}
	}
}

// once is one try of attempt.
func once(
	ctx context.Context, pool *pgxpool.Pool, do func(ctx context.Context, conn *pgx.Conn) error,
) (failure, error) {
	pooled, err := pool.Acquire(ctx)
	if err != nil {
		return classify(err), fmt.Errorf("connect: %w", err)
	}
	defer pooled.Release()
	conn := pooled.Conn()
	if err = do(ctx, conn); err == nil {
		return lasting, nil
	}
	rollBack(ctx, conn)
	f := classify(err)
	if conn.IsClosed() {
		f = unusable
	}
	if ctx.Err() == nil && f == unusable {
		pool.Reset() // the others were made before, and are no better
	}
	if undecided, ok := errors.AsType[*undecidedError](err); ok && !undecided.rolledBack() {
		f = lasting
	}
	return f, err
}

// rollBack ends a transaction that has failed, so that the connection can be used
// again. One that it cannot be ended on is closed when it is released.
func rollBack(ctx context.Context, conn *pgx.Conn) {
	if conn.IsClosed() || conn.PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_, _ = conn.Exec(ctx, `ROLLBACK`) // see above
}

// undecidedError is an error of a commit: whether it happened is not known,
// unless the server says that it did not. It never wraps a context's error,
// which would say that nothing was changed.
type undecidedError struct{ cause error }

func (e *undecidedError) Error() string { return "commit: " + e.cause.Error() }

// Unwrap returns what the server says, if it says anything.
func (e *undecidedError) Unwrap() error {
	if refused, ok := errors.AsType[*pgconn.PgError](e.cause); ok {
		return refused
	}
	return nil
}

// rolledBack reports whether the transaction certainly had no effect, and may
// have one if it is tried again.
func (e *undecidedError) rolledBack() bool {
	refused, ok := errors.AsType[*pgconn.PgError](e.cause)
	return ok && (refused.Code == codeSerialization || refused.Code == codeDeadlock)
}
