package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// The SQL of a running SQLite ledger is in this file and in sql.go.

const (
	snapshotSQL = `SELECT hash, owner, kind, target, since, until FROM entries
		WHERE hash BETWEEN ? AND ? ORDER BY hash, owner, kind, target`

	// keysSQL returns all targets of an owner and kind in one value. No target contains a
	// control character.
	keysSQL = `SELECT hash, owner, kind, group_concat(target, char(31)) FROM entries
		WHERE hash BETWEEN ? AND ? GROUP BY hash, owner, kind ORDER BY hash, owner, kind`
	targetsEnd = "\x1f"

	// progressSQL reads the number of the next transaction.
	progressSQL = `SELECT coalesce(max(changed), 0) + 1 FROM pages`

	changedSQL = `SELECT page, sequence, left_at FROM pages WHERE changed >= ? ORDER BY changed, page`

	newOwnersSQL = `SELECT hash, page FROM owners WHERE changed >= ?`

	// countRangeSQL counts rows in a range of hashes, up to a limit.
	countRangeSQL = `SELECT count(*) FROM (SELECT 1 FROM entries WHERE hash BETWEEN ? AND ? LIMIT ?)`

	kindRowsSQL = `SELECT EXISTS (SELECT 1 FROM entries WHERE kind IN (?, ?))`
)

// sqliteDialect returns the SQL that has its counterpart in [postgresDialect]. VALUES takes one
// row: see rowsSQL.
func sqliteDialect() dialect {
	return dialect{
		locks: locks{
			lockPages: `SELECT page, sequence, left_at FROM pages WHERE page IN (VALUES (?))`,
			lockDedicated: `SELECT o.hash, p.page, p.sequence, p.left_at
				FROM owners o JOIN pages p ON p.page = o.page
				WHERE o.hash IN (VALUES (?))`,
			lockSource: `SELECT position, fence, holder, until FROM sources WHERE name = ?`,
		},
		lookupRows: `SELECT hash, owner, kind, target, since, until FROM entries
			WHERE (hash, owner, kind, target) IN (VALUES (?, ?, ?, ?))`,
		tallyRows: `WITH wanted (number, hash, owner, kind) AS (VALUES (?, ?, ?, ?))
			SELECT number, (SELECT count(*) FROM (SELECT 1 FROM entries e
				WHERE e.hash = wanted.hash AND e.owner = wanted.owner AND e.kind = wanted.kind
					AND (e.until IS NULL OR e.until > ?)
				LIMIT ?))
			FROM wanted`,
		places: `WITH wanted (number, hash, page) AS (VALUES (?, ?, ?)),
				at (number, page) AS MATERIALIZED (SELECT wanted.number,
						coalesce((SELECT owners.page FROM owners WHERE owners.hash = wanted.hash), wanted.page)
					FROM wanted)
			SELECT at.number, at.page,
				coalesce((SELECT sequence FROM pages WHERE pages.page = at.page), 0),
				coalesce((SELECT left_at FROM pages WHERE pages.page = at.page), 0),
				l.pages, l.state
			FROM layouts l, at`,
		endedRows: `SELECT hash, owner, kind, target, since, until FROM entries
			WHERE until <= ? ORDER BY until, hash, owner, kind, target LIMIT ?`,

		upsertRows: `INSERT INTO entries (hash, owner, kind, target, since, until, target_hash)
			VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (hash, owner, kind, target) DO UPDATE SET
				since = excluded.since, until = excluded.until, target_hash = excluded.target_hash`,
		deleteRows: `DELETE FROM entries WHERE (hash, owner, kind, target) IN (VALUES (?, ?, ?, ?))`,
		raisePages: `INSERT INTO pages (page, sequence, left_at, changed)
			SELECT column1, column2, column3, (` + progressSQL + `) FROM (VALUES (?, ?, ?)) WHERE true
			ON CONFLICT (page) DO UPDATE SET
				sequence = excluded.sequence, left_at = excluded.left_at, changed = excluded.changed`,
		putOwner: `INSERT INTO owners (hash, page, changed) VALUES (?, ?, (` + progressSQL + `))`,

		lookupRepeats: `SELECT hash, owner, kind, target, times FROM repeats
			WHERE (hash, owner, kind, target) IN (VALUES (?, ?, ?, ?))`,
		upsertRepeats: `INSERT INTO repeats (hash, owner, kind, target, times) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (hash, owner, kind, target) DO UPDATE SET times = excluded.times`,
		deleteRepeats: `DELETE FROM repeats WHERE (hash, owner, kind, target) IN (VALUES (?, ?, ?, ?))`,

		seedPages: []string{`INSERT INTO pages (page, sequence, changed)
			WITH RECURSIVE wanted (n) AS (SELECT ?4 UNION ALL SELECT n + 1 FROM wanted WHERE n < ?5)
			SELECT ?2 + n, p.sequence, (` + progressSQL + `)
			FROM wanted JOIN pages p ON p.page = ?1 + n / ?3 WHERE p.sequence > 0
			ON CONFLICT (page) DO UPDATE SET
				sequence = excluded.sequence, changed = excluded.changed
			WHERE pages.sequence = 0`},
		deletePages: `DELETE FROM pages WHERE page BETWEEN ? AND ?`,
	}
}

// maxBatch is the most rows that a prepared statement takes. There are statements for 64, 16, 4 and
// 1 rows. The last takes twice as long per row as the first.
const maxBatch = 64

// rowsSQL returns the SQL for n rows in place of one: it repeats the first tuple of placeholders.
func rowsSQL(sql string, n int) string {
	first := strings.Index(sql, "(?")
	end := first + strings.Index(sql[first:], ")") + 1
	return sql[:first] + strings.Repeat(sql[first:end]+", ", n-1) + sql[first:]
}

// prepare prepares the SQL that runs often. Closing the databases closes the statements.
func (d *sqliteDatabase) prepare(ctx context.Context) (err error) {
	all := sqliteDialect()
	write := []string{allLayoutsSQL, allKindsSQL, putCheckpointSQL, moveSourceSQL}
	read := []string{
		snapshotSQL, keysSQL, progressSQL, changedSQL, all.endedRows, listNewestRowsSQL,
		listBeforeRowsSQL, listNamingRowsSQL, namingEndSQL, ownedRowsSQL, allRowsSQL, countRangeSQL,
		namingRowsSQL, allKindsSQL, rangesSQL, newOwnersSQL, ownerRangeSQL, allLayoutsSQL,
		allSourcesSQL, getCheckpointSQL, incarnationSQL, sharedStateSQL, dedicatedStateSQL,
	}
	for n := maxBatch; n > 0; n /= 4 {
		for _, sql := range []string{
			all.lockPages, all.lockDedicated, all.lookupRows, all.tallyRows, all.upsertRows,
			all.deleteRows, all.raisePages, all.lookupRepeats, all.upsertRepeats, all.deleteRepeats,
		} {
			write = append(write, rowsSQL(sql, n))
		}
		for _, sql := range []string{all.lookupRows, all.tallyRows, all.places} {
			read = append(read, rowsSQL(sql, n))
		}
	}
	if d.writes, err = prepared(ctx, d.writer, write); err != nil {
		return err
	}
	d.writes.whole = true
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
