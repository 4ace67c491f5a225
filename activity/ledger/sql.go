package ledger

// SQL that both kinds of database understand. For kind <> ” see entries_newest in migrations/.
const (
	allMetaSQL     = `SELECT name, value FROM meta`
	incarnationSQL = `SELECT (SELECT value FROM meta WHERE name = 'incarnation')`
	putMetaSQL     = `INSERT INTO meta (name, value) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value`

	allLayoutsSQL    = `SELECT pages, state FROM layouts`
	putLayoutSQL     = `INSERT INTO layouts (pages, state) VALUES ($1, $2)`
	deleteLayoutsSQL = `DELETE FROM layouts`

	allKindsSQL   = `SELECT name, reverse, target FROM kinds ORDER BY name`
	insertKindSQL = `INSERT INTO kinds (name, reverse, target) VALUES ($1, $2, $3)`
	deleteKindSQL = `DELETE FROM kinds WHERE name = $1`

	getCheckpointSQL = `SELECT value FROM checkpoints WHERE id = $1`
	putCheckpointSQL = `INSERT INTO checkpoints (id, value) VALUES ($1, $2)
		ON CONFLICT (id) DO UPDATE SET value = excluded.value`
	deleteCheckpointSQL = `DELETE FROM checkpoints WHERE id = $1`

	// greatestPageSQL reads the greatest number that a page ever had.
	greatestPageSQL = `SELECT coalesce(max(page), 0) FROM pages`

	deleteOwnerSQL = `DELETE FROM owners WHERE hash = $1`

	listNewestRowsSQL = `SELECT target, since, until FROM entries
		WHERE hash = $1 AND owner = $2 AND kind = $3 AND kind <> '' AND (until IS NULL OR until > $4)
		ORDER BY since DESC, target LIMIT $5`

	// The first half reads the rest of the position's own microsecond, the second half older
	// rows. Each half is one seek. A single condition over both columns would read all rows of
	// that microsecond, and an import may have created millions. The query sorts at most twice
	// the limit.
	listBeforeRowsSQL = `SELECT target, since, until FROM (
			SELECT target, since, until FROM entries
			WHERE hash = $1 AND owner = $2 AND kind = $3 AND kind <> '' AND since = $6 AND target > $7
				AND (until IS NULL OR until > $4)
			ORDER BY target LIMIT $5) AS same
		UNION ALL
		SELECT target, since, until FROM (
			SELECT target, since, until FROM entries
			WHERE hash = $1 AND owner = $2 AND kind = $3 AND kind <> '' AND since < $6
				AND (until IS NULL OR until > $4)
			ORDER BY since DESC, target LIMIT $5) AS older
		ORDER BY since DESC, target LIMIT $5`

	countRowsSQL = `SELECT count(*) FROM entries
		WHERE hash = $1 AND owner = $2 AND kind = $3 AND kind <> '' AND (until IS NULL OR until > $4)`

	countKindsSQL = `SELECT kind, count(*) FROM entries
		WHERE hash = $1 AND owner = $2 AND kind <> '' AND (until IS NULL OR until > $3) GROUP BY kind`

	ownedRowsSQL = `SELECT hash, owner, kind, target, since, until FROM entries
		WHERE hash = $1 AND owner = $2 AND (kind, target) > ($3, $4) ORDER BY kind, target LIMIT $5`

	allRowsSQL = `SELECT hash, owner, kind, target, since, until FROM entries
		WHERE (hash, owner, kind, target) > ($1, $2, $3, $4) ORDER BY hash, owner, kind, target LIMIT $5`

	namingRowsSQL = `SELECT hash, owner, kind, target, since, until FROM entries
		WHERE target_hash = $1 AND target = $2 ORDER BY hash, owner, kind LIMIT $3`

	// emptySQL tells whether no page of the ledger ever changed.
	emptySQL = `SELECT NOT EXISTS (SELECT 1 FROM pages WHERE sequence > 0)`
)
