package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
)

// minVersion is the oldest PostgreSQL that publishes partitions as their root.
const minVersion = 130000

const (
	freeEvery      = 20 * time.Millisecond
	connectTimeout = 10 * time.Second
)

// Problem is what keeps a source from being followed.
type Problem struct {
	What string
	Mend string // SQL that mends it; "": none can
	// restart is set if the server has to be restarted after the SQL.
	restart bool
}

func (p Problem) String() string {
	switch {
	case p.Mend == "":
		return p.What
	case p.restart:
		return p.What + "; run, and restart the server:\n  " + p.Mend + ";"
	default:
		return p.What + "; run:\n  " + p.Mend + ";"
	}
}

// Report is what a source looks like.
type Report struct {
	Server   string // version
	Problems []Problem
	Tables   []string // "schema.name", an estimate of the rows
	Slot     string   // state of the replication slot

	unpublished bool     // the stream may lack rows
	Invalid     int      // rows that are not valid: see [Follower.ReadInvalid]
	Rows        []string // the first of them
}

// Print prints the report for people.
func (r Report) Print(to io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "PostgreSQL %s\nreplication slot: %s\n", r.Server, r.Slot)
	for _, table := range r.Tables {
		fmt.Fprintln(&text, table)
	}
	for _, p := range r.Problems {
		fmt.Fprintln(&text, p)
	}
	if r.Invalid > 0 {
		fmt.Fprintf(&text, "%d rows are not valid, such as:\n- %s\n", r.Invalid, strings.Join(r.Rows, "\n- "))
	}
	_, err := io.WriteString(to, text.String())
	return err
}

// source is an app's database.
type source struct {
	mapper

	url  string
	name string // of the publication and the replication slot
}

// connect opens a connection whose values have the form that parseTime reads.
func (s *source) connect(ctx context.Context, replication bool) (*pgx.Conn, error) {
	c, err := pgx.ParseConfig(s.url)
	if err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, connectTimeout)
	maps.Copy(c.RuntimeParams, map[string]string{
		"datestyle": "ISO", "timezone": "UTC", "application_name": s.name, "statement_timeout": "0",
	})
	if replication {
		c.RuntimeParams["replication"] = "database"
		c.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	}
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	return conn, nil
}

// catalog reads what a source lacks.
type catalog struct {
	*source

	conn *pgx.Conn
	Report
	oids []uint32 // of the tables
}

// inspect reports what a source looks like.
func (s *source) inspect(ctx context.Context, conn *pgx.Conn) (Report, error) {
	c := &catalog{source: s, conn: conn}
	for _, read := range []func(context.Context) error{c.readServer, c.readTables, c.readPublication, c.readSlot} {
		if err := read(ctx); err != nil {
			return c.Report, fmt.Errorf("inspect the source: %w", err)
		}
	}
	return c.Report, nil
}

func (c *catalog) lacks(mend, format string, args ...any) {
	c.Problems = append(c.Problems, Problem{What: fmt.Sprintf(format, args...), Mend: mend})
}

func (c *catalog) readServer(ctx context.Context) error {
	var version int
	var level string
	var standby, may bool
	err := c.conn.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('server_version_num')::int,
		current_setting('wal_level'), pg_is_in_recovery(), rolreplication OR rolsuper OR EXISTS (
			SELECT 1 FROM pg_roles r WHERE r.rolname = 'rds_replication' AND pg_has_role(r.oid, 'member'))
		FROM pg_roles WHERE rolname = current_user`).Scan(&c.Server, &version, &level, &standby, &may)
	if err != nil {
		return err
	}
	if version < minVersion {
		c.lacks("", "PostgreSQL %s is too old: 13 or later is needed", c.Server)
	}
	if standby {
		c.lacks("", "the server is a standby: use the primary")
	}
	if level != "logical" {
		c.Problems = append(c.Problems, Problem{
			fmt.Sprintf("wal_level is %s, not logical", level), "ALTER SYSTEM SET wal_level = 'logical'", true})
	}
	if !may {
		user := c.conn.Config().User
		c.lacks("ALTER ROLE "+quote(user)+" REPLICATION", "the role %q may not replicate", user)
	}
	return nil
}

// column is a column of a table of the source.
type column struct {
	kind      string // type
	generated bool
}

// idTypes are the types whose text is an id.
func idTypes() []string {
	return []string{"smallint", "integer", "bigint", "uuid", "text", "character varying", "citext"}
}

func timeTypes() []string {
	return []string{"timestamp with time zone", "timestamp without time zone", "date"}
}

func (c *catalog) readTables(ctx context.Context) error {
	seen := make(map[string]bool)
	for i := range c.tables {
		t := &c.tables[i]
		var oid uint32
		var kind, name string
		var may bool
		var rows float64
		err := c.conn.QueryRow(ctx, `SELECT c.oid, c.relkind::text, format('%I.%I', n.nspname, c.relname), has_table_privilege(c.oid, 'SELECT'),
				(SELECT coalesce(sum(greatest(p.reltuples, 0)), 0) FROM pg_class p WHERE p.oid = c.oid OR p.oid IN (
					SELECT relid FROM pg_partition_tree(c.oid) WHERE isleaf))
			FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2`,
			t.schema(), t.bare()).Scan(&oid, &kind, &name, &may, &rows)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			c.lacks("", "there is no table %s", t.quoted())
			continue
		case err != nil:
			return err
		case kind != "r" && kind != "p":
			c.lacks("", "%s is not a table", name)
			continue
		case !may:
			c.lacks("GRANT SELECT ON "+name+" TO "+quote(c.conn.Config().User), "%s may not be read", name)
		}
		t.partitioned = kind == "p"
		c.oids = append(c.oids, oid)
		if err := c.readColumns(ctx, t, oid, name); err != nil {
			return err
		}
		if err := c.readIdentity(ctx, t, oid); err != nil {
			return err
		}
		if !seen[name] {
			c.Tables = append(c.Tables, fmt.Sprintf("%s: some %.0f rows", name, rows))
		}
		seen[name] = true
	}
	return nil
}

// readColumns checks the columns that a table maps.
func (c *catalog) readColumns(ctx context.Context, t *Table, oid uint32, name string) error {
	rows, err := c.conn.Query(ctx, `SELECT attname, format_type(atttypid, NULL), attgenerated <> '' FROM pg_attribute
		WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped`, oid)
	if err != nil {
		return err
	}
	all := make(map[string]column)
	var one string
	var is column
	if _, err = pgx.ForEachRow(rows, []any{&one, &is.kind, &is.generated}, func() error { all[one] = is; return nil }); err != nil {
		return err
	}
	for _, column := range t.columns() {
		if is, found := all[column]; !found {
			c.lacks("", "%s has no column %q", name, column)
		} else if is.generated {
			c.lacks("", "%s: column %q is generated, and is not in the stream", name, column)
		}
	}
	for _, want := range []struct {
		columns, types []string
		what           string
	}{
		{slices.Concat(t.User.columns(), t.Target.columns()), idTypes(), "an id"},
		{slices.DeleteFunc([]string{t.Since, t.Until}, func(c string) bool { return c == "" }), timeTypes(), "a time"},
	} {
		for _, column := range want.columns {
			if is, found := all[column]; found && !slices.Contains(want.types, is.kind) {
				c.lacks("", "%s: column %q has the type %s: %s has one of %s", name, column, is.kind, want.what, strings.Join(want.types, ", "))
			}
		}
	}
	return nil
}

// readIdentity checks that the stream has the old values of the mapped columns, for each partition.
func (c *catalog) readIdentity(ctx context.Context, t *Table, oid uint32) error {
	rows, err := c.conn.Query(ctx, `SELECT format('%I.%I', n.nspname, c.relname), c.relreplident = 'f',
			coalesce((SELECT array_agg(a.attname::text) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
				WHERE i.indrelid = c.oid AND (c.relreplident = 'd' AND i.indisprimary OR c.relreplident = 'i' AND i.indisreplident)), '{}')
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.oid IN (SELECT $1::oid UNION SELECT relid FROM pg_partition_tree($1::oid::regclass))`, oid)
	if err != nil {
		return err
	}
	var name string
	var full bool
	var identity []string
	_, err = pgx.ForEachRow(rows, []any{&name, &full, &identity}, func() error {
		for _, column := range t.columns() {
			if !full && !slices.Contains(identity, column) {
				c.lacks("ALTER TABLE "+name+" REPLICA IDENTITY FULL", "%s: the old value of %q is not in the stream", name, column)
				break
			}
		}
		return nil
	})
	return err
}

// readPublication checks that the publication has the tables as they are, with all changes.
func (c *catalog) readPublication(ctx context.Context) error {
	err := c.conn.QueryRow(ctx, `SELECT NOT EXISTS (SELECT 1 FROM pg_publication p
		WHERE pubname = $1 AND pubinsert AND pubupdate AND pubdelete AND pubtruncate AND pubviaroot AND NOT puballtables
		AND $2::oid[] <@ ARRAY(SELECT prrelid FROM pg_publication_rel r
			WHERE prpubid = p.oid AND coalesce(to_jsonb(r) ->> 'prqual', to_jsonb(r) ->> 'prattrs', '') = ''))`,
		c.name, c.oids).Scan(&c.unpublished)
	if err == nil && c.unpublished {
		var names []string
		for i := range c.tables {
			names = append(names, c.tables[i].only())
		}
		slices.Sort(names)
		c.lacks("DROP PUBLICATION IF EXISTS "+quote(c.name)+"; CREATE PUBLICATION "+quote(c.name)+" FOR TABLE "+
			strings.Join(slices.Compact(names), ", ")+" WITH (publish_via_partition_root = true)",
			"there is no publication %q of these tables with all changes", c.name)
	}
	return err
}

func (c *catalog) readSlot(ctx context.Context) error {
	state, err := c.slotState(ctx, c.conn)
	if err != nil {
		return err
	}
	log, err := c.keptLog(ctx, c.conn)
	if err != nil {
		return err
	}
	c.Slot = fmt.Sprintf("%s, keeps %d MiB of WAL", state, log.Kept>>20)
	switch state {
	case slotMissing:
	case slotForeign:
		c.lacks("", "the replication slot %s is not one of follow, or that of another database: use another --source-name", c.name)
		return nil
	default:
		return nil
	}
	var used, slots, senders int
	err = c.conn.QueryRow(ctx, `SELECT count(*), current_setting('max_replication_slots')::int, current_setting('max_wal_senders')::int
		FROM pg_replication_slots`).Scan(&used, &slots, &senders)
	if err != nil {
		return err
	}
	for setting, has := range map[string]int{"max_replication_slots": slots, "max_wal_senders": senders} {
		if has <= used {
			c.Problems = append(c.Problems, Problem{
				fmt.Sprintf("%s is %d, and %d are in use", setting, has, used), fmt.Sprintf("ALTER SYSTEM SET %s = %d", setting, used+2), true})
		}
	}
	return nil
}

// slotState is the state of the replication slot.
type slotState string

const (
	slotMissing slotState = "missing"
	slotLost    slotState = "lost: the server no longer has what it needs"
	slotReady   slotState = "ready"
	slotActive  slotState = "in use"
	slotForeign slotState = "not one of follow"
)

func (s *source) slotState(ctx context.Context, conn *pgx.Conn) (slotState, error) {
	var mine, active, lost bool
	err := conn.QueryRow(ctx, `SELECT plugin = 'pgoutput' AND database = current_database() AND NOT temporary, active,
			coalesce(wal_status = 'lost', false) OR restart_lsn IS NULL
		FROM pg_replication_slots WHERE slot_name = $1`, s.name).Scan(&mine, &active, &lost)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return slotMissing, nil
	case err != nil:
		return "", err
	case !mine:
		return slotForeign, nil
	case lost:
		return slotLost, nil
	case active:
		return slotActive, nil
	default:
		return slotReady, nil
	}
}

// checkSlot returns an error that wraps errLacks if the slot does not have all that follows a
// position. Then ledger or source was restored, or another process used the slot or created it
// again.
func (s *source) checkSlot(ctx context.Context, conn *pgx.Conn, at pglogrepl.LSN) error {
	var apart bool
	err := conn.QueryRow(ctx, `SELECT confirmed_flush_lsn > $2::text::pg_lsn OR $2::text::pg_lsn > pg_current_wal_flush_lsn()
		FROM pg_replication_slots WHERE slot_name = $1`, s.name, at.String()).Scan(&apart)
	if err == nil && apart {
		err = fmt.Errorf("%w: the replication slot is not where the ledger is: one was restored", errLacks)
	}
	return err
}

// create runs the SQL that mends the problems, as far as a running server can be mended.
func (s *source) create(ctx context.Context, conn *pgx.Conn, all []Problem) error {
	for _, p := range all {
		if p.Mend == "" || p.restart {
			continue
		}
		if _, err := conn.Exec(ctx, p.Mend); err != nil {
			return fmt.Errorf("%s: %w", p.Mend, err)
		}
	}
	return nil
}

// dropSlot drops the slot, if there is one.
func (s *source) dropSlot(ctx context.Context, conn *pgx.Conn) error {
	err := s.freeSlot(ctx, conn)
	if err == nil {
		_, err = conn.Exec(ctx, `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1`, s.name)
	}
	if err != nil {
		return fmt.Errorf("drop replication slot %s: %w", s.name, err)
	}
	return nil
}

// freeSlot ends the connection that uses the slot: that of a process that lost the lease.
func (s *source) freeSlot(ctx context.Context, conn *pgx.Conn) error {
	for {
		var active bool
		err := conn.QueryRow(ctx, `SELECT coalesce(bool_or(pg_terminate_backend(active_pid)), false) FROM pg_replication_slots
			WHERE slot_name = $1 AND active_pid IS NOT NULL`, s.name).Scan(&active)
		if err != nil || !active {
			return err
		}
		if err := pause(ctx, freeEvery); err != nil {
			return err
		}
	}
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }
