package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	inspectServerSQL = `SELECT current_setting('server_version'), pg_is_in_recovery(),
		current_setting('transaction_read_only') = 'on', current_setting('fsync') = 'on',
		current_setting('full_page_writes') = 'on', current_setting('synchronous_commit'),
		clock_timestamp()`

	// inspectRightsSQL reads whether the user may use schema $1 and may create it with its tables,
	// whether the tables exist, and whether the user may not change them.
	inspectRightsSQL = `SELECT
		(SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = $1),
		coalesce((SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = $1),
			has_database_privilege(current_database(), 'CREATE')),
		to_regclass('ledger_version') IS NOT NULL,
		NOT coalesce((SELECT bool_and(has_table_privilege(oid, 'INSERT')
				AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE'))
			FROM pg_class
			WHERE oid IN (to_regclass('entries'), to_regclass('pages'), to_regclass('owners'),
				to_regclass('layouts'))), false)`
)

func (u postgresURL) inspect(ctx context.Context, i *Inspection) error {
	i.Engine = "PostgreSQL"
	if err := i.support("postgres"); err != nil {
		return err
	}
	conn, err := connectAny(ctx, u.config.ConnConfig)
	if err != nil {
		return err
	}
	defer closeConn(ctx, conn)
	if err := u.checkServer(ctx, conn); err != nil {
		return err
	}
	err = conn.QueryRow(ctx, inspectServerSQL).Scan(
		&i.Version, &i.Standby, &i.ReadOnly, &i.Fsync, &i.FullPageWrites, &i.SynchronousCommit,
		&i.Clock,
	)
	if err != nil {
		return err
	}
	var may *bool // nil: there is no such schema
	var made, mayMake bool
	err = conn.QueryRow(ctx, inspectRightsSQL, u.schema).Scan(&may, &mayMake, &made, &i.Denied)
	switch user := u.config.ConnConfig.User; {
	case err != nil:
		return fmt.Errorf("read the rights of the user: %w", err)
	case may != nil && !*may:
		return fmt.Errorf("user %s may not use schema %s", user, u.schema)
	case !made && !mayMake:
		return fmt.Errorf(
			"user %s may not create the schema %s and its tables, which do not exist yet", user, u.schema,
		)
	case !made:
		return errNoLedger
	}
	if err := conn.QueryRow(ctx, `SELECT version FROM ledger_version`).Scan(&i.Schema); err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	return i.read(ctx, postgresSession{conn})
}

// connectAny connects to the server that Open would use. If Open would refuse each server, it
// connects to a refused one, to report why.
func connectAny(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	config = config.Copy()
	refused := false
	validate := config.ValidateConnect
	config.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		err := validate(ctx, conn)
		refused = refused || err != nil
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil && refused {
		config.ValidateConnect = nil
		return pgx.ConnectConfig(ctx, config)
	}
	return conn, err
}
