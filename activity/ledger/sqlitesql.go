package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// All SQL of a running SQLite ledger is in this file.

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

	layoutsSQL       = `SELECT pages, state FROM layouts`
	addLayoutSQL     = `INSERT INTO layouts (pages, state) VALUES (?, ?)`
	removeLayoutsSQL = `DELETE FROM layouts`

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

	listNewestSQL = `SELECT target, since, until FROM entries
		WHERE hash = ?1 AND owner = ?2 AND kind = ?3 AND (until IS NULL OR until > ?4)
		ORDER BY since DESC, target LIMIT ?5`

	// The first half reads the rest of the position's own microsecond, the second half older
	// rows. Each half is one seek. A single condition over both columns would read all rows of
	// that microsecond, and an import may have created millions. The query sorts at most twice
	// the limit.
	listBeforeSQL = `SELECT target, since, until FROM (
			SELECT target, since, until FROM entries
			WHERE hash = ?1 AND owner = ?2 AND kind = ?3 AND since = ?6 AND target > ?7
				AND (until IS NULL OR until > ?4)
			ORDER BY target LIMIT ?5)
		UNION ALL
		SELECT target, since, until FROM (
			SELECT target, since, until FROM entries
			WHERE hash = ?1 AND owner = ?2 AND kind = ?3 AND since < ?6
				AND (until IS NULL OR until > ?4)
			ORDER BY since DESC, target LIMIT ?5)
		ORDER BY since DESC, target LIMIT ?5`

	countSQL = `SELECT count(*) FROM entries
		WHERE hash = ? AND owner = ? AND kind = ? AND (until IS NULL OR until > ?)`

	countsSQL = `SELECT kind, count(*) FROM entries
		WHERE hash = ? AND owner = ? AND (until IS NULL OR until > ?) GROUP BY kind`

	ownedSQL = `SELECT hash, owner, kind, target, since, until FROM entries
		WHERE hash = ? AND owner = ? AND (kind, target) > (?, ?) ORDER BY kind, target LIMIT ?`

	allSQL = `SELECT hash, owner, kind, target, since, until FROM entries
		WHERE (hash, owner, kind, target) > (?, ?, ?, ?) ORDER BY hash, owner, kind, target LIMIT ?`

	// countRangeSQL counts rows in a range of hashes, up to a limit.
	countRangeSQL = `SELECT count(*) FROM (SELECT 1 FROM entries WHERE hash BETWEEN ? AND ? LIMIT ?)`

	namingSQL = `SELECT hash, owner, kind, target, since, until FROM entries
		WHERE target_hash = ? AND target = ? ORDER BY hash, owner, kind LIMIT ?`

	kindsSQL      = `SELECT name, reverse, target FROM kinds ORDER BY name`
	addKindSQL    = `INSERT INTO kinds (name, reverse, target) VALUES (?, ?, ?)`
	removeKindSQL = `DELETE FROM kinds WHERE name = ?`
	kindRowsSQL   = `SELECT EXISTS (SELECT 1 FROM entries WHERE kind IN (?, ?))`

	ownersSQL = `SELECT hash, page FROM owners WHERE hash BETWEEN ? AND ? ORDER BY hash`

	ownerSQL = `SELECT hash FROM owners WHERE page = ?`

	// greatestSQL reads the greatest number that a page ever had.
	greatestSQL = `SELECT coalesce(max(page), 0) FROM pages`

	addOwnerSQL    = `INSERT INTO owners (hash, page, changed) VALUES (?, ?, ?)`
	removeOwnerSQL = `DELETE FROM owners WHERE hash = ?`

	checkpointSQL = `SELECT value FROM checkpoints WHERE id = ?`

	setCheckpointSQL = `INSERT INTO checkpoints (id, value) VALUES (?, ?)
		ON CONFLICT (id) DO UPDATE SET value = excluded.value`

	removeCheckpointSQL = `DELETE FROM checkpoints WHERE id = ?`

	metaSQL = `SELECT name, value FROM meta`

	setMetaSQL = `INSERT INTO meta (name, value) VALUES (?, ?)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value`

	pagesSQL = `SELECT value FROM meta WHERE name = 'pages'`
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

// batched is one statement, prepared for each of the batch sizes.
type batched map[int]*sql.Stmt

// writeStatements are prepared on the writer's connection.
type writeStatements struct {
	lookup, tally, insert, remove, states, owners, raise batched
	setCheckpoint, removeCheckpoint                      *sql.Stmt
	progress                                             *sql.Stmt
}

// readStatements are prepared on the readers' connections.
type readStatements struct {
	snapshot, keys, sequence, progress, changed, ended, listNewest, listBefore, checkpoint, pages *sql.Stmt
	count, counts, owned, all, countRange, naming, kinds                                          *sql.Stmt
	owners, newOwners                                                                             *sql.Stmt
	lookup                                                                                        batched
}

// prepare sets d.write and d.read. Closing the databases closes the statements.
func (d *sqliteDatabase) prepare(ctx context.Context) error {
	w, r := &d.write, &d.read
	for _, s := range []struct {
		db  *sql.DB
		sql string
		at  **sql.Stmt
	}{
		{d.writer, setCheckpointSQL, &w.setCheckpoint},
		{d.writer, removeCheckpointSQL, &w.removeCheckpoint},
		{d.writer, progressSQL, &w.progress},
		{d.readers, snapshotSQL, &r.snapshot},
		{d.readers, keysSQL, &r.keys},
		{d.readers, sequenceSQL, &r.sequence},
		{d.readers, progressSQL, &r.progress},
		{d.readers, changedSQL, &r.changed},
		{d.readers, endedSQL, &r.ended},
		{d.readers, listNewestSQL, &r.listNewest},
		{d.readers, listBeforeSQL, &r.listBefore},
		{d.readers, countSQL, &r.count},
		{d.readers, countsSQL, &r.counts},
		{d.readers, ownedSQL, &r.owned},
		{d.readers, allSQL, &r.all},
		{d.readers, countRangeSQL, &r.countRange},
		{d.readers, namingSQL, &r.naming},
		{d.readers, kindsSQL, &r.kinds},
		{d.readers, ownersSQL, &r.owners},
		{d.readers, newOwnersSQL, &r.newOwners},
		{d.readers, checkpointSQL, &r.checkpoint},
		{d.readers, pagesSQL, &r.pages},
	} {
		stmt, err := s.db.PrepareContext(ctx, s.sql)
		if err != nil {
			return fmt.Errorf("prepare %q: %w", s.sql, err)
		}
		*s.at = stmt
	}
	return d.prepareBatches(ctx)
}

func (d *sqliteDatabase) prepareBatches(ctx context.Context) error {
	w, r := &d.write, &d.read
	for _, s := range []struct {
		db  *sql.DB
		sql func(n int) string
		at  *batched
	}{
		{d.writer, lookupSQL, &w.lookup},
		{d.writer, tallySQL, &w.tally},
		{d.writer, insertSQL, &w.insert},
		{d.writer, deleteSQL, &w.remove},
		{d.writer, pageStatesSQL, &w.states},
		{d.writer, ownedPagesSQL, &w.owners},
		{d.writer, raiseSQL, &w.raise},
		{d.readers, lookupSQL, &r.lookup},
	} {
		*s.at = make(batched)
		for _, n := range batchSizes() {
			stmt, err := s.db.PrepareContext(ctx, s.sql(n))
			if err != nil {
				return fmt.Errorf("prepare %q: %w", s.sql(n), err)
			}
			(*s.at)[n] = stmt
		}
	}
	return nil
}

// inBatches splits items into batches and calls do with the arguments of each, until ctx ends or
// do fails.
func inBatches[T any](ctx context.Context, items []T, args func(T) []any, do func(n int, args []any) error) error {
	for _, size := range batchSizes() {
		for len(items) >= size {
			if err := ctx.Err(); err != nil {
				return err
			}
			var all []any
			for _, item := range items[:size] {
				all = append(all, args(item)...)
			}
			if err := do(size, all); err != nil {
				return err
			}
			items = items[size:]
		}
	}
	return nil
}
