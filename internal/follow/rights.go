package follow

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// denied returns a StopError if the source has refused something for lack of a right. It says who
// has to run which SQL. Other errors it returns as they are.
func denied(err error, role, who, mend string) error {
	refused, is := errors.AsType[*pgconn.PgError](err)
	if !is || refused.Code != noPrivilege {
		return err
	}
	// err itself may have the address of the server.
	err = fmt.Errorf("the role %q lacks a right (%w); as %s, run:\n  %s;", role, refused, who, mend)
	return &StopError{err}
}

// mayReplicate is denied for what a role that replicates may do.
func (s *source) mayReplicate(conn *pgx.Conn, err error) error {
	role := conn.Config().User
	return denied(err, role, "a superuser", "ALTER ROLE "+quote(role)+" REPLICATION")
}

// readSchemas checks that the role may look into the schemas of the tables.
func (c *inspection) readSchemas(ctx context.Context) error {
	schemas := make([]string, len(c.tables))
	for i := range c.tables {
		schemas[i], _ = c.tables[i].name()
	}
	rows, err := c.conn.Query(ctx, `SELECT quote_ident(nspname) FROM pg_namespace
		WHERE nspname = ANY ($1) AND NOT has_schema_privilege(oid, 'USAGE') ORDER BY 1`, schemas)
	if err != nil {
		return err
	}
	var name string
	_, err = pgx.ForEachRow(rows, []any{&name}, func() error {
		role := c.conn.Config().User
		c.lacksf(
			"GRANT USAGE ON SCHEMA "+name+" TO "+quote(role),
			"the role %q may not use the schema %s", role, name,
		)
		return nil
	})
	return err
}
