package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// The SQL of a running SQLite ledger is in this file and in sql.go.

// batchSizes are the numbers of items that one prepared statement takes. Statements for a single
// row take twice as long per row as those for 64 rows.
func batchSizes() [3]int { return [...]int{64, 8, 1} }

const (
	snapshotSQL = `SELECT hash, owner, kind, target, since, until FROM entries
		WHERE hash BETWEEN ? AND ? ORDER BY hash, owner, kind, target`

	// keysSQL returns all targets of an owner and kind in one value. No target contains a
	// control character.
	keysSQL = `SELECT hash, owner, kind, group_concat(target, char(31)) FROM entries
		WHERE hash BETWEEN ? AND ? GROUP BY hash, owner, kind ORDER BY hash, owner, kind`
	targetsEnd = "\x1f"

	sequenceSQL = `SELECT sequence, left_at FROM pages WHERE page = ?`

	progressSQL = `SELECT coalesce(max(changed), 0) + 1 FROM pages`

	changedSQL = `SELECT page, sequence, left_at FROM pages WHERE changed >= ? ORDER BY changed, page`

	newOwnersSQL = `SELECT hash, page FROM owners WHERE changed >= ?`

	// seedSQL seeds the n-th pages, from ?4 to ?5, of a layout whose first page is ?2. Each gets
	// the sequence of its ancestor in the layout whose first page is ?1. Each ancestor has ?3
	// such pages.
	seedSQL = `INSERT INTO pages (page, sequence, changed)
		WITH RECURSIVE wanted (n) AS (SELECT ?4 UNION ALL SELECT n + 1 FROM wanted WHERE n < ?5)
		SELECT ?2 + n, p.sequence, (SELECT coalesce(max(changed), 0) + 1 FROM pages)
		FROM wanted JOIN pages p ON p.page = ?1 + n / ?3 WHERE p.sequence > 0
		ON CONFLICT (page) DO UPDATE SET sequence = excluded.sequence, changed = excluded.changed WHERE pages.sequence = 0`

	removePagesSQL = `DELETE FROM pages WHERE page BETWEEN ? AND ?`

	endedSQL = `SELECT hash, owner, kind, target, since, until FROM entries
		WHERE until <= ? ORDER BY until, hash, owner, kind, target LIMIT ?`

	// countRangeSQL counts rows in a range of hashes, up to a limit.
	countRangeSQL = `SELECT count(*) FROM (SELECT 1 FROM entries WHERE hash BETWEEN ? AND ? LIMIT ?)`

	kindRowsSQL = `SELECT EXISTS (SELECT 1 FROM entries WHERE kind IN (?, ?))`

	ownersSQL = `SELECT hash, page FROM owners WHERE hash BETWEEN ? AND ? ORDER BY hash`

	ownerSQL = `SELECT hash, page FROM owners WHERE page = ?`

	addOwnerSQL = `INSERT INTO owners (hash, page, changed) VALUES (?, ?, ?)`
)

// lookupSQL finds which of n rows exist.
func lookupSQL(n int) string {
	return `SELECT hash, owner, kind, target, since, until FROM entries
		WHERE (hash, owner, kind, target) IN (VALUES ` + tuples(n, 4) + `)`
}

// tallySQL counts the rows of n owners and kinds that have not ended, each up to a limit.
func tallySQL(n int) string {
	return `WITH wanted (number, hash, owner, kind) AS (VALUES ` + tuples(n, 4) + `)
		SELECT number, (SELECT count(*) FROM (SELECT 1 FROM entries e
			WHERE e.hash = wanted.hash AND e.owner = wanted.owner AND e.kind = wanted.kind
				AND (e.until IS NULL OR e.until > ?)
			LIMIT ?))
		FROM wanted`
}

// insertSQL records n rows. A row that exists gets the new times.
func insertSQL(n int) string {
	return `INSERT INTO entries (hash, owner, kind, target, since, until, target_hash) VALUES ` + tuples(n, 7) +
		` ON CONFLICT (hash, owner, kind, target)
		DO UPDATE SET since = excluded.since, until = excluded.until, target_hash = excluded.target_hash`
}

// deleteSQL removes n rows.
func deleteSQL(n int) string {
	return `DELETE FROM entries WHERE (hash, owner, kind, target) IN (VALUES ` + tuples(n, 4) + `)`
}

// pageStatesSQL reads the states of n pages.
func pageStatesSQL(n int) string {
	return `SELECT page, sequence, left_at FROM pages WHERE page IN ` + tuples(1, n)
}

// ownedPagesSQL reads the dedicated pages of n users.
func ownedPagesSQL(n int) string {
	return `SELECT hash, page FROM owners WHERE hash IN ` + tuples(1, n)
}

// raiseSQL stores the states of n pages.
func raiseSQL(n int) string {
	return `INSERT INTO pages (page, sequence, left_at, changed) VALUES ` + tuples(n, 4) +
		` ON CONFLICT (page) DO UPDATE SET sequence = excluded.sequence, left_at = excluded.left_at, changed = excluded.changed`
}

// tuples returns n comma-separated tuples of placeholders.
func tuples(n, width int) string {
	tuple := "(" + strings.TrimSuffix(strings.Repeat("?,", width), ",") + ")"
	return strings.TrimSuffix(strings.Repeat(tuple+",", n), ",")
}

// prepare prepares the SQL that runs often. Closing the databases closes the statements.
func (d *sqliteDatabase) prepare(ctx context.Context) (err error) {
	//nolint:prealloc // once
	write := []string{allLayoutsSQL, allKindsSQL, progressSQL, putCheckpointSQL}
	//nolint:prealloc // once
	read := []string{
		snapshotSQL, keysSQL, sequenceSQL, progressSQL, changedSQL, endedSQL, listNewestRowsSQL, listBeforeRowsSQL,
		countRowsSQL, countKindsSQL, ownedRowsSQL, allRowsSQL, countRangeSQL, namingRowsSQL, allKindsSQL, ownersSQL,
		newOwnersSQL, allLayoutsSQL, getCheckpointSQL, incarnationSQL,
	}
	for _, n := range batchSizes() {
		write = append(write, lookupSQL(n), tallySQL(n), insertSQL(n), deleteSQL(n), pageStatesSQL(n), ownedPagesSQL(n), raiseSQL(n))
		read = append(read, lookupSQL(n))
	}
	if d.writes, err = prepared(ctx, d.writer, write); err != nil {
		return err
	}
	d.reads, err = prepared(ctx, d.readers, read)
	return err
}

func prepared(ctx context.Context, db *sql.DB, all []string) (sqliteQueries, error) {
	q := sqliteQueries{on: db, prepared: make(map[string]*sql.Stmt, len(all))}
	for _, sql := range all {
		stmt, err := db.PrepareContext(ctx, sql)
		if err != nil {
			return q, fmt.Errorf("prepare %q: %w", sql, err)
		}
		q.prepared[sql] = stmt
	}
	return q, nil
}
