package ledger

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// prepare migrates the schema and reads the ledger's identity, on its own connection. A lock makes
// concurrent processes do so one after another.
func (d *postgresDatabase) prepare(ctx context.Context, u postgresURL, o Options) error {
	config := u.config.ConnConfig.Copy()
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // no statement runs twice
	conn, err := connectWithRetry(ctx, config)
	if err != nil {
		return err
	}
	defer closeConn(ctx, conn)
	if err := u.checkServer(ctx, conn); err != nil {
		return err
	}
	// Waits for other processes and migrations have no time limit but ctx. A pause between two
	// statements may be longer than in other transactions: otherwise a migration would fail on a
	// machine that is short of processors.
	_, err = conn.Exec(ctx, `SELECT set_config('statement_timeout', '0', false),
		set_config('lock_timeout', '0', false),
		set_config('idle_in_transaction_session_timeout', '1min', false)`)
	if err != nil {
		return err
	}
	// The session holds the lock, and its end releases it.
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, migrationLock(u.schema)); err != nil {
		return fmt.Errorf("wait for other processes that open the ledger: %w", err)
	}
	var cached bool
	settings := lockKey(lockOfSettings, u.schema)
	err = conn.QueryRow(ctx, cachedSQL, settings, int64(pageCache)).Scan(&cached)
	if err != nil {
		return fmt.Errorf("look for processes with a page cache: %w", err)
	}
	if cached { // after a migration, it could not start again
		return fmt.Errorf(
			"%w: another process has a page cache: stop all with --page-cache first", ErrSettingsDiffer,
		)
	}
	migrations, err := migrationsOf("postgres")
	if err != nil {
		return err
	}
	if err := migratePostgres(ctx, conn, u.schema, migrations); err != nil {
		return err
	}
	committed := pgx.TxOptions{IsoLevel: pgx.ReadCommitted}
	err = pgx.BeginTxFunc(ctx, conn, committed, func(tx pgx.Tx) (err error) {
		t := postgresTransaction{d, conn, &pgx.Batch{}}
		if d.id, err = readIdentity(ctx, t, o); err != nil {
			return err
		}
		if t.rest.Len() == 0 || o.Restored { // the ledger is not new
			if err := t.adopt(ctx, o); err != nil {
				return err
			}
		}
		return tx.SendBatch(ctx, t.rest).Close()
	})
	if err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	return nil
}

// connectWithRetry connects to a server. It retries while the server starts.
func connectWithRetry(ctx context.Context, config *pgx.ConnConfig) (conn *pgx.Conn, err error) {
	for try := 0; ; try++ {
		if conn, err = pgx.ConnectConfig(ctx, config); err == nil {
			return conn, nil
		}
		_, answered := errors.AsType[*pgconn.PgError](err)
		if !answered || !again(ctx, classify(err), try) {
			return nil, err
		}
	}
}

func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = conn.Close(ctx) // nothing is left to do
}

// migrationLock returns the key of the lock for a schema of the database.
func migrationLock(schema string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte("feedfilter ledger " + schema)) // never fails
	return int64(h.Sum64())
}

// checkServer begins the session, and checks the server and the database.
func (u postgresURL) checkServer(ctx context.Context, conn *pgx.Conn) error {
	if err := u.beginSession(ctx, conn); err != nil {
		return err
	}
	var version int
	var text, encoding string
	err := conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int,
		current_setting('server_version'), current_setting('server_encoding')`).
		Scan(&version, &text, &encoding)
	switch {
	case err != nil:
		return err
	case version < leastServer:
		return fmt.Errorf("the server is PostgreSQL %s, 13 or later is required", text)
	case encoding != "UTF8":
		return fmt.Errorf(
			"the database's encoding is %s, UTF8 is required: "+
				"create it with CREATE DATABASE ... ENCODING 'UTF8'",
			encoding,
		)
	}
	return nil
}

// createSchema creates the schema if it does not exist. CREATE SCHEMA IF NOT EXISTS would
// require the right to create it even if it exists.
func createSchema(ctx context.Context, tx pgx.Tx, schema string) error {
	var found bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, schema).
		Scan(&found)
	if err == nil && !found {
		_, err = tx.Exec(ctx, `CREATE SCHEMA `+pgx.Identifier{schema}.Sanitize())
	}
	if err != nil {
		return fmt.Errorf("create schema: %w", err)
	}
	return nil
}

// migratePostgres brings the schema up to date. It creates the schema with its tables.
func migratePostgres(
	ctx context.Context, conn *pgx.Conn, schema string, migrations []migration,
) error {
	var version int
	var made bool
	err := conn.QueryRow(ctx, `SELECT to_regclass('ledger_version') IS NOT NULL`).Scan(&made)
	if err == nil && made {
		err = conn.QueryRow(ctx, `SELECT version FROM ledger_version`).Scan(&version)
	}
	if err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	return applyMigrations(migrations, version, func(all []migration) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if !made {
				if err := createSchema(ctx, tx, schema); err != nil {
					return err
				}
			}
			return applyEach(all, func(m migration) error {
				// Only the simple protocol runs several statements at once.
				if _, err := tx.Conn().PgConn().Exec(ctx, m.script).ReadAll(); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, `UPDATE ledger_version SET version = $1`, m.version)
				return err
			})
		})
	})
}

// adopt runs the statements of adoptSQL. A process that may only read leaves them out.
func (t postgresTransaction) adopt(ctx context.Context, o Options) error {
	var writable bool
	err := t.query(ctx, statement{sql: writableSQL, into: []any{&writable}})
	if err != nil || !writable {
		return err
	}
	if !o.Restored {
		t.rest.Queue(localCommitSQL) // a process starts without a standby
	}
	t.rest.Queue(adoptSQL)
	t.rest.Queue(adoptedSQL)
	return nil
}
