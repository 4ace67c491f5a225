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
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	minVersion     = 130000 // the oldest PostgreSQL that publishes partitions as their root
	freeEvery      = 20 * time.Millisecond
	connectTimeout = 10 * time.Second

	// Codes of errors, SQLSTATEs.
	noPrivilege        = "42501"
	tooManyConnections = "53300"
	syntaxError        = "42601"
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
	Notes    []string // what does not keep it from being followed

	unpublished bool // the stream may lack rows
	lacksRole   bool // which replicates

	Counted []Counted // rows of the tables of the file: see [Follower.Check]
	Invalid int       // rows that are not valid
	Rows    []string  // the first of them
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
	for _, note := range r.Notes {
		fmt.Fprintln(&text, note)
	}
	for i := range r.Counted {
		fmt.Fprintln(&text, &r.Counted[i])
	}
	if r.Invalid > 0 {
		some := strings.Join(r.Rows, "\n- ")
		fmt.Fprintf(&text, "%d rows are not valid, such as:\n- %s\n", r.Invalid, some)
	}
	_, err := io.WriteString(to, text.String())
	return err
}

// source is an app's database.
type source struct {
	tables Tables

	url         string
	name        string // of the replication slot
	publication string
	// others says that the publication belongs to somebody else, who may have other uses of it: it
	// is not dropped.
	others bool
	// ledger tells the ledger that uses the slot from those of other deployments.
	ledger string
}

func newSource(o Options) *source {
	name := "feedfilter_" + strings.ToLower(o.Name)
	return &source{
		tables:      o.Tables,
		url:         o.URL,
		name:        name,
		publication: cmp.Or(o.Publication, name),
		others:      o.Publication != "",
	}
}

// connect opens a connection whose values have the form that parseTime reads.
func (s *source) connect(ctx context.Context, replication bool) (*pgx.Conn, error) {
	c, err := pgx.ParseConfig(s.url)
	if err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, connectTimeout)
	maps.Copy(c.RuntimeParams, map[string]string{
		"datestyle":         "ISO",
		"timezone":          "UTC",
		"application_name":  s.name + usedBy + s.ledger,
		"statement_timeout": "0",
		"client_encoding":   "UTF8", // ids are UTF-8, whatever the database has
	})
	if replication {
		c.RuntimeParams["replication"] = "database"
		c.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	} else {
		// A query fails rather than leave out rows that a policy hides from the role.
		c.RuntimeParams["row_security"] = "off"
		// Two queries in a batch see what is committed when each begins. Planning and
		// compiling a look at the catalog takes longer than the look.
		c.RuntimeParams["default_transaction_isolation"] = "read committed"
		c.RuntimeParams["plan_cache_mode"] = "force_generic_plan"
		c.RuntimeParams["jit"] = "off"
	}
	conn, err := pgx.ConnectConfig(ctx, c)
	refused, is := errors.AsType[*pgconn.PgError](err)
	switch {
	case is && strings.HasPrefix(refused.Message, "unsupported startup parameter"):
		return nil, errPooler()
	case err != nil:
		mend := "GRANT CONNECT ON DATABASE " + quote(c.Database) + " TO " + quote(c.User)
		if replication {
			mend = "ALTER ROLE " + quote(c.User) + " REPLICATION"
		}
		return nil, fmt.Errorf("source: %w", denied(err, c.User, "a superuser", mend))
	case replication:
		return conn, nil
	}
	var secured string
	err = conn.QueryRow(ctx, "SHOW row_security", pgx.QueryExecModeSimpleProtocol).Scan(&secured)
	if err == nil && secured != "off" { // a pooler has ignored the parameters
		err = errPooler()
	}
	if err != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
		return nil, err
	}
	return conn, nil
}

// errPooler returns the error of a URL that does not lead to a server.
func errPooler() error {
	return &StopError{errors.New("--source leads to a connection pooler such as PgBouncer, " +
		"which does not pass on what following needs: give the address of PostgreSQL itself")}
}

// inspection reads what a source lacks.
type inspection struct {
	*source

	conn *pgx.Conn
	Report
	oids []uint32 // of the tables
}

// inspect reports what a source looks like.
func (s *source) inspect(ctx context.Context, conn *pgx.Conn) (Report, error) {
	c := &inspection{source: s, conn: conn}
	err := c.readAll(ctx)
	return c.Report, err
}

// readAll reads what following needs of a source.
func (c *inspection) readAll(ctx context.Context) error {
	all := []func(context.Context) error{
		c.readServer, c.readSchemas, c.readTables, c.readPublication, c.readSlot, c.readRoom,
	}
	for _, read := range all {
		if err := read(ctx); err != nil {
			return fmt.Errorf("inspect the source: %w", err)
		}
	}
	return nil
}

// wantAll returns an error that wraps errAltered if the source lacks something. Inspect after the
// catalog was read: what lacks something at that moment either does so still, or has another
// catalog now, which the next look finds. The other way round, what was altered in between is never
// found.
func (s *source) wantAll(ctx context.Context, conn *pgx.Conn) error {
	report, err := s.inspect(ctx, conn)
	if err == nil && len(report.Problems) > 0 {
		err = fmt.Errorf("%w: %s", errAltered, report.Problems[0].What)
	}
	return err
}

func (c *inspection) lacksf(mend, format string, args ...any) {
	c.Problems = append(c.Problems, Problem{What: fmt.Sprintf(format, args...), Mend: mend})
}

func (c *inspection) readServer(ctx context.Context) error {
	var version int
	var level string
	var standby, may bool
	err := c.conn.QueryRow(ctx, `SELECT current_setting('server_version'),
			current_setting('server_version_num')::int, current_setting('wal_level'),
			pg_is_in_recovery(), rolreplication OR rolsuper OR EXISTS (SELECT 1 FROM pg_roles r
				WHERE r.rolname = 'rds_replication' AND pg_has_role(r.oid, 'member'))
		FROM pg_roles WHERE rolname = current_user`).Scan(&c.Server, &version, &level, &standby, &may)
	if err != nil {
		return err
	}
	if version < minVersion {
		c.lacksf("", "PostgreSQL %s is too old: 13 or later is needed", c.Server)
	}
	if standby {
		c.lacksf("", "the server is a standby: use the primary")
	}
	if level != "logical" {
		what := fmt.Sprintf("wal_level is %s, not logical", level)
		c.Problems = append(c.Problems, Problem{what, "ALTER SYSTEM SET wal_level = 'logical'", true})
	}
	if !may {
		c.lacksReplication()
	}
	return nil
}

func (c *inspection) lacksReplication() {
	user := c.conn.Config().User
	c.lacksRole = true
	c.lacksf("ALTER ROLE "+quote(user)+" REPLICATION", "the role %q may not replicate", user)
}

// tableSQL reads table $2 in schema $1. unknown is true if the server has not counted its rows yet.
const tableSQL = `SELECT c.oid, c.relkind::text, format('%I.%I', n.nspname, c.relname),
		c.relpersistence = 'p', row_security_active(c.oid), p.rows, p.unknown
	FROM pg_class c CROSS JOIN LATERAL (
			SELECT coalesce(sum(greatest(p.reltuples, 0)), 0) AS rows,
				coalesce(bool_or(p.relkind = 'r' AND p.reltuples <= 0
					AND pg_relation_size(p.oid) > 0), false) AS unknown
			FROM pg_class p
			WHERE p.oid = c.oid
				OR p.oid IN (SELECT relid FROM pg_partition_tree(c.oid) WHERE isleaf)) p
		JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE n.nspname = $1 AND c.relname = $2`

func (c *inspection) readTables(ctx context.Context) error {
	seen := make(map[string]bool)
	for i := range c.tables {
		t := &c.tables[i]
		schema, table := t.name()
		var oid uint32
		var kind, name string
		var lasting, secured bool
		var rows float64
		var unknown bool // the server has not counted them yet
		err := c.conn.QueryRow(ctx, tableSQL, schema, table).
			Scan(&oid, &kind, &name, &lasting, &secured, &rows, &unknown)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			c.lacksf("", "there is no table %s", t.quoted())
			continue
		case err != nil:
			return err
		case kind != "r" && kind != "p":
			c.lacksf("", "%s is not a table", name)
			continue
		case !lasting:
			c.lacksf("", "%s is unlogged or temporary: its changes are not in the stream", name)
		case secured:
			role := c.conn.Config().User
			c.lacksf(
				"ALTER ROLE "+quote(role)+" BYPASSRLS",
				"policies of %s hide rows from the role %q", name, role,
			)
		}
		if t.partitioned != (kind == "p") { // a look at the catalog may run beside a read
			t.partitioned = kind == "p"
		}
		c.oids = append(c.oids, oid)
		if err := c.readColumns(ctx, t, oid, name); err != nil {
			return err
		}
		if !seen[name] {
			size := fmt.Sprintf("some %.0f rows", rows)
			if unknown {
				size = "its rows were never counted: run ANALYZE"
			}
			c.Tables = append(c.Tables, name+": "+size)
		}
		seen[name] = true
	}
	return nil
}

// column is a mapped column of a table or of one of its partitions.
type column struct {
	root  bool   // of the table itself
	table string // in SQL
	// name is nil if the table has no mapped column at all.
	name      *string
	kind      string // its type, or what a domain or an array is made of
	list      bool   // an array
	generated bool
	denied    bool // the role may not read it
	old       bool // the stream has old values
}

// columnsSQL reads the mapped columns, $2, of a table, $1, and of its partitions. A table without
// any of them is read, too: once it is published, the app's UPDATE fails without an identity.
const columnsSQL = `SELECT c.oid = $1, format('%I.%I', n.nspname, c.relname), a.attname,
		coalesce(base.kind, ''), coalesce(base.list, false), coalesce(a.attgenerated <> '', false),
		NOT coalesce(has_column_privilege(c.oid, a.attnum, 'SELECT'), true),
		c.relreplident = 'f' OR EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid
			AND (a.attnum IS NULL OR a.attnum = ANY (i.indkey)) AND i.indimmediate AND i.indisvalid
			AND (c.relreplident = 'd' AND i.indisprimary OR c.relreplident = 'i' AND i.indisreplident))
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
			AND a.attname = ANY ($2)
		LEFT JOIN LATERAL (
			WITH RECURSIVE chain AS (SELECT a.atttypid AS oid, a.atttypmod AS mod, false AS list
				UNION ALL SELECT CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.typelem END,
						CASE t.typtype WHEN 'd' THEN t.typtypmod ELSE h.mod END, h.list OR t.typtype <> 'd'
					FROM chain h JOIN pg_type t ON t.oid = h.oid
					WHERE t.typtype = 'd' OR t.typelem <> 0 AND t.typlen = -1)
			SELECT CASE WHEN t.typtype = 'e' THEN 'enum'
					WHEN t.oid = 'numeric'::regtype AND h.mod >= 4 AND (h.mod - 4) & 65535 = 0
						THEN 'numeric without fraction'
					ELSE format_type(t.oid, NULL) END AS kind, h.list
				FROM chain h JOIN pg_type t ON t.oid = h.oid
				WHERE t.typtype <> 'd' AND NOT (t.typelem <> 0 AND t.typlen = -1)) base ON true
	WHERE c.oid IN (SELECT $1::oid UNION SELECT relid FROM pg_partition_tree($1::oid::regclass))
	ORDER BY 1 DESC, 2, 3`

// readColumns checks the columns that a table maps, and that the stream has their old values, for
// each partition.
func (c *inspection) readColumns(ctx context.Context, t *Table, oid uint32, name string) error {
	rows, err := c.conn.Query(ctx, columnsSQL, oid, t.columns())
	if err != nil {
		return err
	}
	missing, changed := t.columns(), ""
	var denied []string
	var of column
	_, err = pgx.ForEachRow(rows, []any{
		&of.root, &of.table, &of.name, &of.kind, &of.list, &of.generated, &of.denied, &of.old,
	}, func() error {
		if of.root && of.name != nil {
			c.readColumn(t, name, of)
			missing = slices.DeleteFunc(missing, func(m string) bool { return m == *of.name })
			if of.denied {
				denied = append(denied, *of.name)
			}
		}
		if !of.old && changed != of.table {
			changed = of.table
			what := "the old row"
			if of.name != nil {
				what = fmt.Sprintf("the old value of %q", *of.name)
			}
			c.lacksf(
				"ALTER TABLE "+of.table+" REPLICA IDENTITY FULL",
				"%s: %s is not in the stream", of.table, what,
			)
		}
		return nil
	})
	for _, column := range missing {
		c.lacksf("", "%s has no column %q", name, column)
	}
	if len(denied) > 0 {
		c.lacksRead(t, name, denied)
	}
	return err
}

// lacksRead notes that the role may not read columns of a table. It only needs those of the file.
func (c *inspection) lacksRead(t *Table, name string, denied []string) {
	to := " ON " + name + " TO " + quote(c.conn.Config().User)
	if len(denied) == len(t.columns()) {
		c.lacksf("GRANT SELECT"+to, "%s may not be read", name)
		return
	}
	quoted := make([]string, len(denied))
	for i, column := range denied {
		quoted[i] = quote(column)
	}
	of := strings.Join(quoted, ", ")
	c.lacksf("GRANT SELECT ("+of+")"+to, "%s: %s may not be read", name, of)
}

// readColumn checks the type of a column of a table itself.
func (c *inspection) readColumn(t *Table, name string, of column) {
	ids := []string{
		"smallint", "integer", "bigint", "numeric without fraction", "uuid", "text",
		"character varying", "character", "citext", "enum",
	}
	fits := slices.Contains(ids, of.kind) // an id, or an element of an array of ids
	kind := of.kind
	if of.list {
		kind += listMark
	}
	want, conditional := t.Where[*of.name]
	_, truth := truthOf(want)
	switch isList := t.isList(*of.name); {
	case of.generated:
		c.lacksf("", "%s: column %q is generated, and is not in the stream", name, *of.name)
	case isList && !(of.list && fits) && kind != "jsonb" && kind != "json":
		c.lacksf("", "%s: column %q has the type %s: an array of ids is jsonb, or has elements of %s",
			name, *of.name, kind, strings.Join(ids, ", "))
	case !isList && t.isID(*of.name) && of.list && fits:
		c.lacksf("", "%s: column %q is an array: write %q", name, *of.name, *of.name+listMark)
	case !isList && t.isID(*of.name) && !slices.Contains(ids, kind):
		c.lacksf("", "%s: column %q has the type %s: an id has one of %s",
			name, *of.name, kind, strings.Join(ids, ", "))
	case conditional && kind == "boolean" && !truth:
		c.lacksf("", "%s: column %q is a boolean, and never %q: where takes true or false",
			name, *of.name, want)
	}
	for _, at := range []*timeColumn{&t.Since, &t.Until} {
		if at.Column == *of.name && !slices.Contains(at.types(), kind) {
			c.lacksf("", "%s: %s has the type %s: a time has one of %s",
				name, at, kind, strings.Join(at.types(), ", "))
		}
	}
}

// readPublication checks that the publication has the tables as they are, with all changes. One of
// all tables, or of the tables of schemas, may do so, too.
func (c *inspection) readPublication(ctx context.Context) error {
	var there, wide bool
	query := `SELECT NOT EXISTS (SELECT 1 FROM pg_publication p
			WHERE pubname = $1 AND pubinsert AND pubupdate AND pubdelete AND pubtruncate
				AND (pubviaroot
					OR NOT EXISTS (SELECT FROM pg_class WHERE oid = ANY ($2) AND relkind = 'p'))
				AND $2::oid[] <@ ARRAY(SELECT relid FROM pg_get_publication_tables(p.pubname))
				AND NOT EXISTS (SELECT FROM pg_publication_rel r
					WHERE prpubid = p.oid AND prrelid = ANY ($2)
						AND coalesce(to_jsonb(r) ->> 'prqual', to_jsonb(r) ->> 'prattrs', '') <> '')),
		EXISTS (SELECT FROM pg_publication p WHERE pubname = $1),
		EXISTS (SELECT FROM pg_publication p
			WHERE pubname = $1 AND (puballtables OR ` + hasSchemas(c.conn) + `))`
	err := c.conn.QueryRow(ctx, query, c.publication, c.oids).Scan(&c.unpublished, &there, &wide)
	switch {
	case err != nil:
		return err
	case c.unpublished && (wide || there && c.others):
		c.lacksf("", "the publication %q lacks some of these tables, or changes. "+
			"Add the tables or their schemas, and run ALTER PUBLICATION %s "+
			"SET (publish = 'insert, update, delete, truncate', publish_via_partition_root = true). "+
			"Or use another --source-publication", c.publication, quote(c.publication))
	case c.unpublished:
		names := make([]string, len(c.tables))
		for i := range c.tables {
			names[i] = c.tables[i].only()
		}
		slices.Sort(names)
		mend := "CREATE PUBLICATION " + quote(c.publication) + " FOR TABLE " +
			strings.Join(slices.Compact(names), ", ") + " WITH (publish_via_partition_root = true)"
		if !c.others {
			mend = "DROP PUBLICATION IF EXISTS " + quote(c.publication) + "; " + mend
		}
		c.lacksf(mend,
			"there is no publication %q of these tables with all changes", c.publication)
	}
	return nil
}

func (c *inspection) readSlot(ctx context.Context) error {
	state, err := c.slotState(ctx, c.conn)
	if err != nil {
		return err
	}
	log, err := c.keptLog(ctx, c.conn)
	c.Slot = fmt.Sprintf("%s, keeps %d MiB of WAL", state, log.Kept>>20)
	if state == slotForeign {
		c.lacksf("", "the replication slot %s is not one of follow, or that of another database: "+
			"use another --source-name", c.name)
	}
	if err != nil || state != slotMissing {
		return err
	}
	rows, err := c.conn.Query(ctx, `SELECT name, setting, used, (used + 2)::text FROM pg_settings,
			(SELECT count(*) AS used FROM pg_replication_slots) AS slots
		WHERE name IN ('max_replication_slots', 'max_wal_senders') AND setting::int <= used`)
	if err != nil {
		return err
	}
	var setting, has, want string
	var used int
	_, err = pgx.ForEachRow(rows, []any{&setting, &has, &used, &want}, func() error {
		what := fmt.Sprintf("%s is %s, and %d are in use", setting, has, used)
		mend := "ALTER SYSTEM SET " + setting + " = " + want
		c.Problems = append(c.Problems, Problem{what, mend, true})
		return nil
	})
	return err
}

// readRoom notes what an audit lacks: a second slot, and a second connection that replicates.
func (c *inspection) readRoom(ctx context.Context) error {
	rows, err := c.conn.Query(ctx, `WITH used AS (
			SELECT 'max_replication_slots' AS name,
					count(*) + (count(*) FILTER (WHERE slot_name = $1) = 0)::int AS n
				FROM pg_replication_slots WHERE NOT temporary
			UNION ALL
			SELECT 'max_wal_senders', count(*) + (count(*) FILTER (WHERE pid = (
					SELECT active_pid FROM pg_replication_slots WHERE slot_name = $1)) = 0)::int
				FROM pg_stat_replication)
		SELECT name, setting, n FROM used JOIN pg_settings USING (name)
		WHERE setting::int <= n ORDER BY name`, c.name)
	if err != nil {
		return err
	}
	var name, setting string
	var used int
	_, err = pgx.ForEachRow(rows, []any{&name, &setting, &used}, func() error {
		c.Notes = append(c.Notes, fmt.Sprintf(
			"%s is %s, and following takes %d with others: "+
				"none is free for the daily comparison with the ledger; raise it",
			name, setting, used,
		))
		return nil
	})
	if err != nil {
		return err
	}
	return c.readStandbys(ctx)
}

// readStandbys notes which standbys the stream waits for that do not follow the source. After a
// failover, this may be the setting of the old primary.
func (c *inspection) readStandbys(ctx context.Context) error {
	var away string // only PostgreSQL 17 and later has the setting
	err := c.conn.QueryRow(ctx, `SELECT coalesce(string_agg(name, ', ' ORDER BY name), '')
		FROM (SELECT btrim(unnest(string_to_array(
			current_setting('synchronized_standby_slots', true), ',')), ' "') AS name) AS named
		WHERE name <> '' AND NOT EXISTS (SELECT FROM pg_replication_slots
			WHERE slot_name = name AND slot_type = 'physical' AND active)`).Scan(&away)
	if err == nil && away != "" {
		c.Notes = append(c.Notes, "synchronized_standby_slots has slots that no standby uses: "+away+
			"; following waits until one does, or until the setting is without them")
	}
	return err
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
	var state slotState
	const query = `SELECT coalesce(max(CASE
			WHEN plugin IS DISTINCT FROM 'pgoutput' OR database IS DISTINCT FROM current_database()
				OR temporary THEN $2
			WHEN wal_status = 'lost' OR restart_lsn IS NULL THEN $3
			WHEN active THEN $4
			ELSE $5 END), $6)
		FROM pg_replication_slots WHERE slot_name = $1`
	err := conn.QueryRow(ctx, query,
		s.name, slotForeign, slotLost, slotActive, slotReady, slotMissing).Scan(&state)
	return state, err
}

// checkSlot returns an error that wraps errLacks if the slot does not have all that follows a
// position. Then ledger or source was restored, or another process used the slot or created it
// again. Otherwise it returns from where the slot has all: what is before it, the source knows that
// the ledger has.
func (s *source) checkSlot(
	ctx context.Context, conn *pgx.Conn, at pglogrepl.LSN,
) (confirmed pglogrepl.LSN, err error) {
	var end pglogrepl.LSN
	err = conn.QueryRow(ctx, `SELECT confirmed_flush_lsn::text, pg_current_wal_flush_lsn()::text
		FROM pg_replication_slots WHERE slot_name = $1`, s.name).Scan(&confirmed, &end)
	if err == nil && (confirmed > at || at > end) {
		err = fmt.Errorf("%w: the replication slot is not where the ledger is: "+
			"one was restored", errLacks)
	}
	return confirmed, err
}

// lockTimeout bounds how long a change of a table waits for transactions that use it, because
// others that use the table wait behind it.
const lockTimeout = "SET lock_timeout = '1s'"

// create runs the SQL that mends the problems, as far as a running server can be mended. It runs
// nothing if some SQL would be missing: a table of which too little is known must not be published.
// Without the right to, it returns a StopError with all that is left to run.
func (s *source) create(ctx context.Context, conn *pgx.Conn, all []Problem) error {
	if slices.ContainsFunc(all, func(p Problem) bool { return p.Mend == "" }) {
		return nil
	}
	var run []string
	for _, p := range all {
		if !p.restart {
			run = append(run, p.Mend)
		}
	}
	if _, err := conn.Exec(ctx, lockTimeout); err != nil {
		return err
	}
	for i, mend := range run {
		if _, err := conn.Exec(ctx, mend); err != nil {
			const who = "the owner of the tables or a superuser"
			err = denied(err, conn.Config().User, who, strings.Join(run[i:], ";\n  "))
			if _, stop := errors.AsType[*StopError](err); !stop {
				err = fmt.Errorf("%s: %w", mend, err)
			}
			return fmt.Errorf("create what the source lacks: %w", err)
		}
	}
	_, err := conn.Exec(ctx, "RESET lock_timeout")
	return err
}

// dropSlot drops the slot, if there is one.
func (s *source) dropSlot(ctx context.Context, conn *pgx.Conn) error {
	err := s.freeSlot(ctx, conn)
	if err == nil {
		_, err = conn.Exec(ctx, `SELECT pg_drop_replication_slot(slot_name)
			FROM pg_replication_slots WHERE slot_name = $1`, s.name)
	}
	if err != nil {
		return fmt.Errorf("drop replication slot %s: %w", s.name, err)
	}
	return nil
}

// usedBy is between the name of the slot and the ledger in the application_name of a connection.
const usedBy = " of ledger "

// wantOwn returns a StopError if a follower of another ledger uses the slot.
func (s *source) wantOwn(ctx context.Context, conn *pgx.Conn) error {
	var by string
	err := conn.QueryRow(ctx, `SELECT coalesce(max(a.application_name), '')
		FROM pg_replication_slots s JOIN pg_stat_activity a ON a.pid = s.active_pid
		WHERE s.slot_name = $1`, s.name).Scan(&by)
	if err != nil {
		return fmt.Errorf("look at who uses replication slot %s: %w", s.name, err)
	}
	if _, ledger, found := strings.Cut(by, usedBy); found && ledger != s.ledger {
		return &StopError{fmt.Errorf("the replication slot %s is in use for another ledger: "+
			"give this one a --source-name of its own", s.name)}
	}
	return nil
}

// freeSlot ends the connection that uses the slot: that of a process that lost the lease. It
// refuses to end one of another ledger, whose follower would do the same in turn.
func (s *source) freeSlot(ctx context.Context, conn *pgx.Conn) error {
	for {
		if err := s.wantOwn(ctx, conn); err != nil {
			return err
		}
		var active bool
		err := conn.QueryRow(ctx, `SELECT coalesce(bool_or(pg_terminate_backend(active_pid)), false)
			FROM pg_replication_slots
			WHERE slot_name = $1 AND active_pid IS NOT NULL`, s.name).Scan(&active)
		if err != nil || !active {
			role := conn.Config().User
			return denied(err, role, "a superuser", "GRANT pg_signal_backend TO "+quote(role))
		}
		if err := pause(ctx, freeEvery); err != nil {
			return err
		}
	}
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }
