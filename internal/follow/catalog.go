package follow

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// The stream of a source has the changes of rows, and nothing of the catalog: a table that leaves
// the publication, is replaced by another or is rewritten falls silent. So the catalog is compared
// with that of the moment in which the tables were read. A position counts only once a look that
// began after it was received has found the same.
//
// The server gives xmin and relfilenode another value with each change. So they tell that something
// was changed and changed back between two looks. What is not listed may change: indexes, columns
// that the file does not map, rights, statistics.

// catalogSQL reads the tables, their partitions and the publication, a line for each, in order. $1
// to $3 are the mapped columns with the schemas and names of their tables, and $4 the publication.
//
// relfilenode is the oid at first. It changes when rows are rewritten: by ALTER TYPE, VACUUM FULL,
// or TRUNCATE of a partition, which is not in the stream of its root. xmin of pg_inherits changes
// with DETACH and ATTACH. If it is that of the row type, which nothing changes, then the partition
// was made as one, and all its rows are in the stream.
//
// A line for each type that matters has its oid and the column. A column has its own type and those
// that this is made of: a domain and an array are made of another. The values of enums may be
// renamed.
const (
	catalogSQL        = catalogTypes + catalogTables + catalogEnd
	catalogSchemasSQL = catalogTypes + catalogTables + catalogSchemas + catalogEnd
)

const catalogTypes = `WITH RECURSIVE
	mapped AS (SELECT m.nspname, m.relname, m.attname
		FROM unnest($1::text[], $2::text[], $3::text[]) AS m (nspname, relname, attname)),
	roots AS (SELECT DISTINCT c.oid AS root, n.nspname, c.relname
		FROM mapped m JOIN pg_namespace n USING (nspname)
			JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = m.relname),
	trees AS (SELECT root, root AS oid FROM roots
		UNION SELECT root, relid FROM roots, pg_partition_tree(root::regclass)),
	types AS (SELECT json_build_array(nspname || '.' || relname, a.attname)::text AS of,
			a.atttypid AS oid
		FROM mapped m JOIN roots USING (nspname, relname)
				JOIN pg_attribute a ON a.attrelid = root AND a.attname = m.attname AND NOT a.attisdropped
		UNION SELECT types.of, CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.typelem END
			FROM types JOIN pg_type t USING (oid)
			WHERE t.typtype = 'd' OR t.typelem <> 0 AND t.typlen = -1)`

const catalogTables = `
SELECT c.oid, r.root = c.oid, n.nspname || '.' || c.relname,
		c.relispartition AND c.relfilenode IN (0, c.oid)
			AND i.xmin = (SELECT y.xmin FROM pg_type y WHERE y.oid = c.reltype),
		concat_ws(' ', c.oid, c.relkind, c.relpersistence, c.relfilenode, c.relreplident,
			'secured', row_security_active(c.oid), 'of', i.inhparent, i.xmin,
			(SELECT string_agg(
					concat_ws(':', a.attnum, a.attname, a.atttypid, a.atttypmod, a.attgenerated),
					' ' ORDER BY a.attnum)
				FROM pg_attribute a
					JOIN mapped m ON m.attname = a.attname AND m.nspname = r.nspname
						AND m.relname = r.relname
				WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
			(SELECT concat_ws(':', 'identity', x.indexrelid, x.indkey, x.indimmediate, x.indisvalid)
				FROM pg_index x WHERE x.indrelid = c.oid
					AND (c.relreplident = 'd' AND x.indisprimary
						OR c.relreplident = 'i' AND x.indisreplident)))
	FROM trees t JOIN roots r USING (root) JOIN pg_class c ON c.oid = t.oid
		JOIN pg_namespace n ON n.oid = c.relnamespace
		LEFT JOIN pg_inherits i ON i.inhrelid = c.oid AND c.relispartition
UNION ALL
SELECT 0, false, 'publication', false, concat_ws(' ', p.oid, p.xmin,
		(SELECT string_agg(concat_ws(':', e.oid, e.prrelid, e.xmin), ' ' ORDER BY e.prrelid)
			FROM pg_publication_rel e WHERE e.prpubid = p.oid AND e.prrelid IN (SELECT oid FROM trees))`

// catalogSchemas are the schemas of the tables in the publication, for PostgreSQL 15 and later. An
// entry that is dropped and added again gets another oid.
const catalogSchemas = `,
		(SELECT string_agg(concat_ws(':', s.oid, s.pnnspid), ' ' ORDER BY s.pnnspid)
			FROM pg_publication_namespace s WHERE s.pnpubid = p.oid
				AND s.pnnspid IN (SELECT x.relnamespace FROM roots JOIN pg_class x ON x.oid = root))`

const catalogEnd = `)
	FROM pg_publication p WHERE p.pubname = $4
UNION ALL SELECT 0, false, 'timeline', false, left(pg_walfile_name(pg_current_wal_lsn()), 8)
UNION ALL SELECT 0, false, 'enums', false,
		coalesce(string_agg(concat_ws('=', e.oid, e.enumlabel), ',' ORDER BY e.oid), '')
	FROM pg_enum e WHERE e.enumtypid IN (SELECT oid FROM types)
UNION ALL SELECT t.oid, false, 'type', false, types.of FROM types JOIN pg_type t USING (oid)
	WHERE t.typtype = 'e' OR t.oid IN ('bpchar'::regtype, 'boolean'::regtype)
ORDER BY 1`

// changingSQL reports whether a transaction may have changed the catalog, and is not visible yet.
// $1 are the tables and partitions, $2 is the publication, $3 are the enums.
//
// The log has a commit before others see it: until a synchronous standby has confirmed it, for one.
// A transaction that changes a table or its place in a publication holds such a lock until others
// see it. VACUUM has one too, but no transaction id. A change of the publication alone locks
// nothing, and leaves its id in xmax. So does one of an enum, or of the schemas of a publication,
// and one that was rolled back: it is older than all that run.
const changingSQL = `WITH locks AS MATERIALIZED (
		SELECT locktype, relation, mode, virtualtransaction, database FROM pg_locks WHERE granted)
SELECT EXISTS (SELECT FROM locks l
		WHERE l.relation = ANY($1::oid[])
			AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND l.mode IN ('ShareUpdateExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock',
				'AccessExclusiveLock')
			AND EXISTS (SELECT FROM locks x
				WHERE x.locktype = 'transactionid' AND x.mode = 'ExclusiveLock'
					AND x.virtualtransaction = l.virtualtransaction))
	OR EXISTS (SELECT FROM pg_publication p WHERE p.pubname = $2 AND p.xmax <> '0'::xid
		AND p.xmax::text::bigint >= pg_snapshot_xmin(pg_current_snapshot())::text::bigint % 4294967296)
	OR EXISTS (SELECT FROM pg_enum e WHERE e.enumtypid = ANY($3::oid[]) AND e.xmax <> '0'::xid
		AND e.xmax::text::bigint >= pg_snapshot_xmin(pg_current_snapshot())::text::bigint % 4294967296)`

// changingSchemasSQL is the same for PostgreSQL 15 and later.
const changingSchemasSQL = changingSQL + `
	OR EXISTS (SELECT FROM pg_publication p JOIN pg_publication_namespace s ON s.pnpubid = p.oid
		WHERE p.pubname = $2 AND s.xmax <> '0'::xid AND s.xmax::text::bigint
			>= pg_snapshot_xmin(pg_current_snapshot())::text::bigint % 4294967296)`

// hasSchemas returns an expression of SQL: whether the publication p publishes schemas.
func hasSchemas(conn *pgx.Conn) string {
	if !publishesSchemas(conn) {
		return "false"
	}
	return "EXISTS (SELECT FROM pg_publication_namespace s WHERE s.pnpubid = p.oid)"
}

// publishesSchemas reports whether a server can publish schemas: PostgreSQL 15 and later.
func publishesSchemas(conn *pgx.Conn) bool {
	var major int
	_, err := fmt.Sscan(conn.PgConn().ParameterStatus("server_version"), &major)
	return err == nil && major >= 15
}

// versionsSQL reads a hash of the versions of all rows that catalogSQL compares: of their xmin,
// which each change replaces. While it is the same, so is the catalog, and it takes less than half
// of the time to read. Some changes of what is not compared give it another value, too, such as a
// new column. Statistics are written in place, and do not. Row-level security also depends on the
// rights of the role, so the hash has the outcome.
//
// It also reads the timeline, and the end of the log. That is the end of what is written, which may
// not be on disk yet: with synchronous_commit off, others see a commit before that. $1 to $3 are as
// in changingSQL.
const (
	versionsSQL        = versionsTables + versionsEnd
	versionsSchemasSQL = versionsTables + versionsSchemas + versionsEnd
)

const versionsTables = `SELECT hashtextextended(concat_ws('/',
		(SELECT string_agg(concat_ws(':', c.oid, c.xmin, n.xmin, row_security_active(c.oid)),
				' ' ORDER BY c.oid)
			FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE c.oid = ANY ($1::oid[])),
		(SELECT string_agg(concat_ws(':', attrelid, attnum, xmin), ' ' ORDER BY attrelid, attnum)
			FROM pg_attribute WHERE attrelid = ANY ($1::oid[]) AND attnum > 0),
		(SELECT string_agg(concat_ws(':', indexrelid, xmin), ' ' ORDER BY indexrelid)
			FROM pg_index WHERE indrelid = ANY ($1::oid[])),
		(SELECT string_agg(concat_ws(':', inhrelid, xmin), ' ' ORDER BY inhrelid, inhparent)
			FROM pg_inherits WHERE inhparent = ANY ($1::oid[])),
		(SELECT string_agg(concat_ws(':', oid, xmin), ' ' ORDER BY oid)
			FROM pg_enum WHERE enumtypid = ANY ($3::oid[])),
		(SELECT concat_ws(':', p.oid, p.xmin,
				(SELECT string_agg(concat_ws(':', e.oid, e.xmin), ' ' ORDER BY e.oid)
					FROM pg_publication_rel e WHERE e.prpubid = p.oid)`

// versionsSchemas is for PostgreSQL 15 and later.
const versionsSchemas = `,
				(SELECT string_agg(concat_ws(':', s.oid, s.xmin), ' ' ORDER BY s.oid)
					FROM pg_publication_namespace s WHERE s.pnpubid = p.oid)`

const versionsEnd = `)
			FROM pg_publication p WHERE p.pubname = $2)), 0)::text,
	left(pg_walfile_name(pg_current_wal_lsn()), 8),
	concat_ws(' ', pg_current_wal_insert_lsn(), current_setting('wal_block_size'),
		pg_current_wal_flush_lsn())`

// timelineLine and typeLine are the names of lines of the catalog. A standby, which has no
// timeline, refuses the query.
const (
	timelineLine = "timeline"
	typeLine     = "type"
)

// errAltered means that the catalog is not that of the moment in which the tables were read. The
// stream may lack changes.
var errAltered = fmt.Errorf("%w: the catalog of the source has changed", errLacks)

// catalog is what the mapping of rows depends on, beside the rows.
type catalog struct {
	oids  []uint32          // of the tables and their partitions
	lines map[string]string // what there is to know of each table and of the publication, by name
	// timeline is that of the server, in hexadecimal digits. It is not part of the sum: a
	// failover changes no table.
	timeline string

	roots map[uint32]string      // "schema.name" of the tables of the file, by oid
	types map[string]columnTypes // of the tables of the file, by "schema.name"
	enums []uint32               // that mapped columns have
	// made are the partitions that were made as such, and not rewritten since, in order of oid.
	made []string
}

// catalogOf reads the catalog as conn sees it.
func (s *source) catalogOf(ctx context.Context, conn *pgx.Conn) (*catalog, error) {
	look := catalogSQL
	if publishesSchemas(conn) {
		look = catalogSchemasSQL
	}
	rows, err := conn.Query(ctx, look, s.catalogArgs()...)
	if err != nil {
		return nil, fmt.Errorf("look at the catalog of the source: %w", err)
	}
	return readCatalog(rows)
}

// catalogArgs are the arguments of catalogSQL.
func (s *source) catalogArgs() []any {
	var schemas, tables, columns []string
	for i := range s.tables {
		schema, table := s.tables[i].name()
		for _, column := range s.tables[i].columns() {
			schemas = append(schemas, schema)
			tables = append(tables, table)
			columns = append(columns, column)
		}
	}
	return []any{schemas, tables, columns, s.publication}
}

func readCatalog(rows pgx.Rows) (*catalog, error) {
	c := &catalog{
		lines: make(map[string]string), roots: make(map[uint32]string),
		types: make(map[string]columnTypes),
	}
	var oid uint32
	var root, made bool
	var name, line string
	_, err := pgx.ForEachRow(rows, []any{&oid, &root, &name, &made, &line}, func() error {
		switch name {
		case timelineLine:
			c.timeline = line
			return nil
		case typeLine:
			return c.addType(oid, line)
		}
		c.lines[name] = line
		if oid != 0 {
			c.oids = append(c.oids, oid)
		}
		if root {
			c.roots[oid] = name
		}
		if made {
			c.made = append(c.made, name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look at the catalog of the source: %w", err)
	}
	return c, nil
}

// addType adds a type that a column has, or is made of. The column is such as ["public.t","v"].
func (c *catalog) addType(oid uint32, column string) error {
	var of [2]string
	if err := json.Unmarshal([]byte(column), &of); err != nil {
		return err
	}
	types := c.types[of[0]]
	switch oid {
	case pgtype.BPCharOID:
		types.padded = append(types.padded, of[1])
	case pgtype.BoolOID:
		types.boolean = append(types.boolean, of[1])
	default:
		c.enums = append(c.enums, oid)
	}
	c.types[of[0]] = types
	return nil
}

// pageHeader is the most that the header of a page of the log takes, in bytes.
const pageHeader = 40

// endOfLog parses the place up to which a server has written its log, the size of a page, and the
// place up to which the log is on disk. Where a page begins, the place is the one behind its
// header. No record ends there, so the stream would not come that far before the next record.
func endOfLog(line string) (end pglogrepl.LSN, onDisk bool, err error) {
	var page uint64
	fields := strings.Fields(line)
	if len(fields) == 3 {
		page, err = strconv.ParseUint(fields[1], 10, 64)
	}
	if err != nil || page == 0 {
		return 0, false, fmt.Errorf("the end of the log of the source is %q", line)
	}
	end, err1 := pglogrepl.ParseLSN(fields[0])
	disk, err2 := pglogrepl.ParseLSN(fields[2])
	if in := uint64(end) % page; in <= pageHeader {
		end -= pglogrepl.LSN(in)
	}
	return end, end <= disk, errors.Join(err1, err2)
}

// glance is what each look reads. It is enough if the catalog is the known one.
type glance struct {
	changing bool // a transaction may have changed the known catalog, and was not visible
	versions string
	timeline string
	end      pglogrepl.LSN // of the log of the server
	onDisk   bool          // all of that log was on disk
}

// glance reads what there is to know of the known catalog. Both queries go out at once. Each sees
// what is committed when it begins, which is the isolation level of the connection: so what the
// first sees as ended is visible to the second.
func (s *source) glance(
	ctx context.Context, conn *pgx.Conn, known *catalog,
) (now glance, err error) {
	changes, versions := changingSQL, versionsSQL
	if publishesSchemas(conn) {
		changes, versions = changingSchemasSQL, versionsSchemasSQL
	}
	var both pgx.Batch
	args := []any{known.oids, s.publication, known.enums}
	both.Queue(changes, args...).QueryRow(func(row pgx.Row) error { return row.Scan(&now.changing) })
	both.Queue(versions, args...).QueryRow(func(row pgx.Row) (err error) {
		var end string
		if err = row.Scan(&now.versions, &now.timeline, &end); err == nil {
			now.end, now.onDisk, err = endOfLog(end)
		}
		return err
	})
	if err := conn.SendBatch(ctx, &both).Close(); err != nil {
		return glance{}, fmt.Errorf("look at the catalog of the source: %w", err)
	}
	return now, nil
}

// sum returns a number that differs for another catalog.
func (c *catalog) sum() (all uint64) {
	for name, line := range c.lines {
		all += sumOf(name, line)
	}
	return all
}

func sumOf(name, line string) uint64 {
	hash := sha256.Sum256([]byte(name + "\x00" + line))
	return binary.BigEndian.Uint64(hash[:])
}

// grewFrom reports whether the catalog is the one with the sum, but for partitions that were made
// since. These were empty, and all their rows are in the stream.
func (c *catalog) grewFrom(sum uint64) bool {
	all := c.sum()
	for _, name := range slices.Backward(c.made) { // the latest first
		if all == sum {
			return true
		}
		all -= sumOf(name, c.lines[name])
	}
	return all == sum
}

// difference names what differs from a later catalog, other than partitions that were made since;
// "": nothing does.
func (c *catalog) difference(now *catalog) string {
	var all []string
	for name, line := range c.lines {
		switch is, found := now.lines[name]; {
		case !found:
			all = append(all, name+" is gone")
		case is != line:
			all = append(all, name+" was altered")
		}
	}
	for name := range now.lines {
		if _, found := c.lines[name]; !found && !slices.Contains(now.made, name) {
			all = append(all, name+" is new")
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
