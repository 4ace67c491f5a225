package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// All SQL of the running ledger is in this file. It is SQLite's: "?" for
// placeholders, and no row locks, since a writer's transaction excludes all
// other writers from its beginning.

// batchSizes are how many items one prepared statement takes. Twenty thousand
// single-row statements take twice as long as some hundred long ones.
func batchSizes() [3]int { return [...]int{64, 8, 1} }

const (
	snapshotSQL = `SELECT hash, owner, kind, target, since FROM entries
		WHERE hash BETWEEN ? AND ? ORDER BY hash, owner, kind, target`

	sequenceSQL = `SELECT sequence FROM pages WHERE page = ?`

	sequencesSQL = `SELECT page, sequence FROM pages WHERE page > ? ORDER BY page LIMIT ?`

	listNewestSQL = `SELECT target, since FROM entries
		WHERE hash = ?1 AND owner = ?2 AND kind = ?3
		ORDER BY since DESC, target LIMIT ?4`

	// What is left of the position's own microsecond, then what is older:
	// each half is one seek, where a single condition over both columns
	// would read all rows of that microsecond (an import may have made
	// millions). At most twice the limit is sorted.
	listBeforeSQL = `SELECT target, since FROM (
			SELECT target, since FROM entries
			WHERE hash = ?1 AND owner = ?2 AND kind = ?3 AND since = ?5 AND target > ?6
			ORDER BY target LIMIT ?4)
		UNION ALL
		SELECT target, since FROM (
			SELECT target, since FROM entries
			WHERE hash = ?1 AND owner = ?2 AND kind = ?3 AND since < ?5
			ORDER BY since DESC, target LIMIT ?4)
		ORDER BY since DESC, target LIMIT ?4`

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
	return `SELECT hash, owner, kind, target, since FROM entries
		WHERE (hash, owner, kind, target) IN (VALUES ` + tuples(n, 4) + `)`
}

// insertSQL records n rows; one that exists gets the new time.
func insertSQL(n int) string {
	return `INSERT INTO entries (hash, owner, kind, target, since) VALUES ` + tuples(n, 5) +
		` ON CONFLICT (hash, owner, kind, target) DO UPDATE SET since = excluded.since`
}

// deleteSQL removes n rows.
func deleteSQL(n int) string {
	return `DELETE FROM entries WHERE (hash, owner, kind, target) IN (VALUES ` + tuples(n, 4) + `)`
}

// standingSQL reads the sequences of n pages.
func standingSQL(n int) string {
	return `SELECT page, sequence FROM pages WHERE page IN ` + tuples(1, n)
}

// raiseSQL sets the sequences of n pages.
func raiseSQL(n int) string {
	return `INSERT INTO pages (page, sequence, changed_at) VALUES ` + tuples(n, 3) +
		` ON CONFLICT (page) DO UPDATE SET sequence = excluded.sequence, changed_at = excluded.changed_at`
}

// tuples returns n comma-separated tuples of placeholders.
func tuples(n, width int) string {
	tuple := "(" + strings.TrimSuffix(strings.Repeat("?,", width), ",") + ")"
	return strings.TrimSuffix(strings.Repeat(tuple+",", n), ",")
}

// batched is one statement prepared for each of the batch sizes.
type batched map[int]*sql.Stmt

// writeStatements are prepared on the writer's connection.
type writeStatements struct {
	lookup, insert, remove, standing, raise batched
	setCheckpoint, removeCheckpoint         *sql.Stmt
}

// readStatements are prepared on the readers' connections.
type readStatements struct {
	snapshot, sequence, sequences, listNewest, listBefore, checkpoint, pages *sql.Stmt
}

// prepare fills in l.write and l.read. Closing the databases closes the
// statements.
func (l *Ledger) prepare(ctx context.Context) error {
	w, r := &l.write, &l.read
	for _, s := range []struct {
		db  *sql.DB
		sql string
		at  **sql.Stmt
	}{
		{l.writer, setCheckpointSQL, &w.setCheckpoint},
		{l.writer, removeCheckpointSQL, &w.removeCheckpoint},
		{l.readers, snapshotSQL, &r.snapshot},
		{l.readers, sequenceSQL, &r.sequence},
		{l.readers, sequencesSQL, &r.sequences},
		{l.readers, listNewestSQL, &r.listNewest},
		{l.readers, listBeforeSQL, &r.listBefore},
		{l.readers, checkpointSQL, &r.checkpoint},
		{l.readers, pagesSQL, &r.pages},
	} {
		stmt, err := s.db.PrepareContext(ctx, s.sql)
		if err != nil {
			return fmt.Errorf("prepare %q: %w", s.sql, err)
		}
		*s.at = stmt
	}
	return l.prepareBatches(ctx)
}

func (l *Ledger) prepareBatches(ctx context.Context) error {
	w := &l.write
	for _, s := range []struct {
		sql func(n int) string
		at  *batched
	}{
		{lookupSQL, &w.lookup},
		{insertSQL, &w.insert},
		{deleteSQL, &w.remove},
		{standingSQL, &w.standing},
		{raiseSQL, &w.raise},
	} {
		*s.at = make(batched)
		for _, n := range batchSizes() {
			stmt, err := l.writer.PrepareContext(ctx, s.sql(n))
			if err != nil {
				return fmt.Errorf("prepare %q: %w", s.sql(n), err)
			}
			(*s.at)[n] = stmt
		}
	}
	return nil
}

// inBatches cuts items into runs of the batch sizes and calls do with the
// arguments of each, until ctx ends or do fails.
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
