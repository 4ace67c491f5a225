package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/feedfilter/feedfilter/internal/pause"
)

// failure tells whether an error allows a retry.
type failure int

const (
	lasting  failure = iota // a retry would fail in the same way
	conflict                // with another transaction, which has ended by now
	unusable                // the connection is broken, or the server is unavailable for now
)

// The longest pauses between tries add up to about 5 s for conflicts, which end when other
// transactions do. They add up to 0.3 s for a server that refuses connections.
const (
	firstPause      = 10 * time.Millisecond
	longestPause    = 500 * time.Millisecond
	conflictTries   = 16
	connectionTries = 5
	rollbackTimeout = time.Second
)

// Error codes of PostgreSQL.
const (
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeIdle          = "25P03" // idle in a transaction for too long: the server read no commit
)

// classify returns the failure of a call that changed nothing.
func classify(err error) failure {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch refused.Code {
		case codeSerialization, codeDeadlock,
			"55P03": // lock not available
			return conflict
		case "57P01", "57P02", "57P03", // the server stops, has crashed, or starts
			codeIdle,
			"53300", // too many connections
			"25006", // read-only: the former primary is a replica now
			"0A000": // a prepared statement belongs to another version of the schema
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

// again waits before another try, and reports whether there is one.
func again(ctx context.Context, f failure, try int) bool {
	tries := map[failure]int{lasting: 1, conflict: conflictTries, unusable: connectionTries}[f]
	return try+1 < tries &&
		pause.Sleep(ctx, pause.About(pause.Doubled(firstPause, longestPause, try+1)))
}

// attempt runs do on a connection of the pool. It retries failures that may be temporary, on
// another connection. If do fails, it must have changed nothing, or return an undecidedError. The
// whole call ends within the limit; 0: none. attempt does not call do once ctx has ended.
func (d *postgresDatabase) attempt(
	ctx context.Context, pool *pgxpool.Pool, limit time.Duration,
	do func(ctx context.Context, conn *pgx.Conn) error,
) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if limit > 0 {
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		ctx = limited
	}
	for try := 0; ; try++ {
		f, err := once(ctx, pool, do)
		d.cancels.note(err)
		if _, replaced := errors.AsType[*replacedError](err); replaced {
			d.reset()
		}
		if err == nil || ctx.Err() != nil || !again(ctx, f, try) {
			return err
		}
	}
}

// rowsToGoOn is the number of rows after which a stream gets another callTimeout.
const rowsToGoOn = 4096

// errStalled is the cause when a stream made no progress. The time that it had follows its text.
var errStalled = errors.New("no answer within")

// stream is attempt for a call that reads many rows. It may take longer than callTimeout while it
// makes progress. do calls progress for each row.
func (d *postgresDatabase) stream(
	ctx context.Context, pool *pgxpool.Pool,
	do func(ctx context.Context, conn *pgx.Conn, progress func()) error,
) error {
	return d.attempt(ctx, pool, 0, func(ctx context.Context, conn *pgx.Conn) error {
		ctx, end := context.WithCancelCause(ctx)
		defer end(nil)
		stalled := time.AfterFunc(d.callTimeout, func() {
			end(fmt.Errorf("%w %v", errStalled, d.callTimeout))
		})
		defer stalled.Stop()
		read := 0
		err := do(ctx, conn, func() {
			read++
			if read%rowsToGoOn == 0 {
				stalled.Reset(d.callTimeout)
			}
		})
		if cause := context.Cause(ctx); err != nil && errors.Is(cause, errStalled) {
			return cause
		}
		return err
	})
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
		pool.Reset() // the other connections are likely broken, too
	}
	if undecided, ok := errors.AsType[*undecidedError](err); ok && !undecided.rolledBack() {
		f = lasting
	}
	return f, err
}

// rollBack ends a failed transaction, so that the connection can be reused. If it fails, the
// pool closes the connection on release.
func rollBack(ctx context.Context, conn *pgx.Conn) {
	if conn.IsClosed() || conn.PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_, _ = conn.Exec(ctx, `ROLLBACK`) // if it fails, release closes the connection
}

// rolledBack reports whether the transaction certainly had no effect, so that a retry is safe
// and useful.
func (e *undecidedError) rolledBack() bool {
	refused, ok := errors.AsType[*pgconn.PgError](e.cause)
	return ok && slices.Contains([]string{codeSerialization, codeDeadlock, codeIdle}, refused.Code)
}
