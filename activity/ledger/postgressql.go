package ledger

// All SQL of a running PostgreSQL ledger is in this file. Names are without the
// schema, which is the session's search_path.
const (
	// beginSQL says what the statements of a transaction see, whatever the
	// server's or the database's default is.
	beginSQL = `BEGIN ISOLATION LEVEL READ COMMITTED`

	// createPagesSQL sees to it that there are rows to lock. They are made in
	// order of page, as they are locked, so that writers cannot wait for each
	// other in a circle.
	createPagesSQL = `INSERT INTO pages (page, sequence, changed)
		SELECT page, 0, 0 FROM unnest($1::bigint[]) AS wanted (page) ORDER BY page
		ON CONFLICT DO NOTHING`

	lockPagesSQL = `SELECT page, sequence, moves FROM pages WHERE page = ANY($1::bigint[]) ORDER BY page FOR UPDATE`

	incarnationSQL = `SELECT value FROM meta WHERE name = 'incarnation'`

	// lookupRowsSQL finds which of the rows exist. OFFSET keeps the inner SELECT
	// what it is: one seek a row, in the row's partition alone.
	lookupRowsSQL = `SELECT wanted.hash, wanted.owner, wanted.kind, wanted.target, found.since, found.until
		FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) AS wanted (hash, owner, kind, target),
		LATERAL (SELECT e.since, e.until FROM entries e
			WHERE e.hash = wanted.hash AND e.owner = wanted.owner AND e.kind = wanted.kind AND e.target = wanted.target
			OFFSET 0) AS found`

	// tallyRowsSQL counts rows of each owner and kind that have not ended, no further
	// than it is asked to.
	tallyRowsSQL = `SELECT wanted.number, (SELECT count(*) FROM (SELECT FROM entries e
			WHERE e.hash = wanted.hash AND e.owner = wanted.owner AND e.kind = wanted.kind AND e.kind <> ''
				AND (e.until IS NULL OR e.until > $5)
			LIMIT wanted.most) AS counted)
		FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[]) WITH ORDINALITY
			AS wanted (hash, owner, kind, most, number)`

	// upsertRowsSQL records rows; one that exists gets the new times.
	// The last array may be empty: unnest fills up with NULL.
	upsertRowsSQL = `INSERT INTO entries (hash, owner, kind, target, since, until, target_hash)
		SELECT hash, owner, kind, target, since, until, target_hash
		FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[])
			AS rows (hash, owner, kind, target, since, until, target_hash)
		ON CONFLICT (hash, owner, kind, target)
		DO UPDATE SET since = excluded.since, until = excluded.until, target_hash = excluded.target_hash`

	deleteRowsSQL = `DELETE FROM entries e
		USING unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) AS gone (hash, owner, kind, target)
		WHERE e.hash = gone.hash AND e.owner = gone.owner AND e.kind = gone.kind AND e.target = gone.target`

	raisePagesSQL = `UPDATE pages SET sequence = raised.sequence, changed = pg_current_xact_id()::text::bigint
		FROM unnest($1::bigint[], $2::bigint[]) AS raised (page, sequence) WHERE pages.page = raised.page`

	// lockHomesSQL finds which of the users have a page of their own, and locks these
	// pages in order. Their shared pages are locked before.
	lockHomesSQL = `SELECT wanted.hash, o.page, p.sequence FROM unnest($1::bigint[]) AS wanted (hash),
		LATERAL (SELECT page FROM owners WHERE owners.hash = wanted.hash OFFSET 0) AS o JOIN pages p ON p.page = o.page
		ORDER BY p.page FOR UPDATE OF p`

	// lockNumbersSQL has moves take turns: two at once would take the same number. It
	// is the last lock of all that one takes.
	lockNumbersSQL = `SELECT FROM meta WHERE name = 'pages' FOR UPDATE`

	greatestPageSQL = `SELECT max(page) FROM pages`

	movePagesSQL = `UPDATE pages SET sequence = sequence + 1, moves = moves + 1, changed = pg_current_xact_id()::text::bigint
		WHERE page = ANY($1::bigint[])`

	newPageSQL = `INSERT INTO pages (page, sequence, changed) VALUES ($1, $2, pg_current_xact_id()::text::bigint)`

	putOwnerSQL    = `INSERT INTO owners (hash, page) VALUES ($1, $2)`
	deleteOwnerSQL = `DELETE FROM owners WHERE hash = $1`

	// allOwnersSQL and ownersOfSQL read the moves of shared pages, without a hash, and users
	// with pages of their own: in one statement, and so as of one moment.
	allOwnersSQL = `SELECT NULL::bigint, page, moves FROM pages WHERE moves > 0 AND page < 16777216
		UNION ALL (SELECT hash, page, 0 FROM owners ORDER BY hash)`

	ownersOfSQL = `SELECT NULL::bigint, page, moves FROM pages WHERE moves > 0 AND page = ANY($1::bigint[])
		UNION ALL SELECT o.hash, o.page, 0
		FROM unnest($2::bigint[], $3::bigint[]) AS shared (least, greatest),
			LATERAL (SELECT hash, page FROM owners WHERE hash BETWEEN shared.least AND shared.greatest OFFSET 0) AS o`

	// pageSQL reads where a page stands and its rows in one statement, and so as of one
	// moment. A page without rows gives one row without an owner, and so does one that
	// somebody moved out of: sharedPageSQL is for those.
	pageSQL = `SELECT s.sequence, s.moves, coalesce(e.hash, 0),
			coalesce(e.owner, ''), coalesce(e.kind, ''), coalesce(e.target, ''), coalesce(e.since, 0), e.until
		FROM (SELECT coalesce(max(sequence), 0) AS sequence, coalesce(max(moves), 0) AS moves FROM pages WHERE page = $1) AS s
			LEFT JOIN LATERAL (SELECT hash, owner, kind, target, since, until FROM entries
				WHERE s.moves = 0 AND hash BETWEEN $2 AND $3 OFFSET 0) AS e ON true`

	// sharedPageSQL does so for any shared page: the rows that it has are those in the gaps
	// between the hashes of users who have a page of their own. (No sum leaves the
	// range of a bigint: the gap before the least hash, and behind the greatest, is NULL.)
	sharedPageSQL = `WITH moved AS (SELECT hash FROM owners WHERE hash BETWEEN $2 AND $3),
		gaps (least, greatest) AS (
			SELECT $2::bigint, CASE WHEN min(hash) IS NULL THEN $3 ELSE nullif(min(hash), $2) - 1 END FROM moved
			UNION ALL
			SELECT nullif(hash, $3) + 1, coalesce(lead(hash) OVER (ORDER BY hash) - 1, $3) FROM moved)
		SELECT coalesce((SELECT sequence FROM pages WHERE page = $1), 0),
			coalesce((SELECT moves FROM pages WHERE page = $1), 0), coalesce(e.hash, 0),
			coalesce(e.owner, ''), coalesce(e.kind, ''), coalesce(e.target, ''), coalesce(e.since, 0), e.until
		FROM (SELECT) AS once LEFT JOIN (gaps CROSS JOIN
			LATERAL (SELECT hash, owner, kind, target, since, until FROM entries
				WHERE hash BETWEEN gaps.least AND gaps.greatest OFFSET 0) AS e) ON true`

	// ownPageSQL does so for a page of one user. Without one that ever was there is no row.
	ownPageSQL = `SELECT p.sequence, p.moves, coalesce(e.hash, 0),
			coalesce(e.owner, ''), coalesce(e.kind, ''), coalesce(e.target, ''), coalesce(e.since, 0), e.until
		FROM pages p LEFT JOIN LATERAL (SELECT hash, owner, kind, target, since, until FROM entries
			WHERE hash = (SELECT hash FROM owners WHERE page = $1) OFFSET 0) AS e ON true
		WHERE p.page = $1`

	pageSequenceSQL = `SELECT sequence FROM pages WHERE page = $1`

	// changedPagesSQL reads Next, the clock and pages as of one moment. Every
	// transaction that is not visible to it either runs, and is not below xmin,
	// the first that runs, or has not begun, and will be above. (Transactions of
	// other databases of the server hold xmin back, too: then pages are reported
	// again, but none is missed.) In order of page, and not of changed, as a page
	// goes back in that when the older of two transactions commits last.
	changedPagesSQL = `SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
			(extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
			(SELECT value FROM meta WHERE name = 'incarnation'), p.page, p.sequence, p.moves, p.changed
		FROM (SELECT) AS once LEFT JOIN (
			SELECT page, sequence, moves, changed FROM pages
			WHERE changed >= $1 AND page > $2 AND sequence > 0 ORDER BY page LIMIT $3) AS p ON true
		ORDER BY p.page`

	// endedRowsSQL, listNewestRowsSQL and listBeforeRowsSQL: see sqlitesql.go. For
	// kind <> '' see entries_newest.
	endedRowsSQL = `SELECT hash, owner, kind, target, since, until FROM entries
		WHERE until <= $1 ORDER BY until, hash, owner, kind, target LIMIT $2`

	listNewestRowsSQL = `SELECT target, since, until FROM entries
		WHERE hash = $1 AND owner = $2 AND kind = $3 AND kind <> '' AND (until IS NULL OR until > $4)
		ORDER BY since DESC, target LIMIT $5`

	listBeforeRowsSQL = `(SELECT target, since, until FROM entries
			WHERE hash = $1 AND owner = $2 AND kind = $3 AND kind <> '' AND since = $6 AND target > $7
				AND (until IS NULL OR until > $4)
			ORDER BY target LIMIT $5)
		UNION ALL
		(SELECT target, since, until FROM entries
			WHERE hash = $1 AND owner = $2 AND kind = $3 AND kind <> '' AND since < $6
				AND (until IS NULL OR until > $4)
			ORDER BY since DESC, target LIMIT $5)
		ORDER BY since DESC, target LIMIT $5`

	countRowsSQL = `SELECT count(*) FROM entries
		WHERE hash = $1 AND owner = $2 AND kind = $3 AND kind <> '' AND (until IS NULL OR until > $4)`

	countKindsSQL = `SELECT kind, count(*) FROM entries
		WHERE hash = $1 AND owner = $2 AND kind <> '' AND (until IS NULL OR until > $3) GROUP BY kind`

	ownedRowsSQL = `SELECT hash, owner, kind, target, since, until FROM entries
		WHERE hash = $1 AND owner = $2 AND (kind, target) > ($3, $4) ORDER BY kind, target LIMIT $5`

	namingRowsSQL = `SELECT hash, owner, kind, target, since, until FROM entries
		WHERE target_hash = $1 AND target = $2 ORDER BY hash, owner, kind LIMIT $3`

	// patientSQL takes the limits off a transaction that may have a table to read,
	// by the plan that is best for that.
	patientSQL = `SELECT set_config('statement_timeout', '0', true), set_config('lock_timeout', '0', true),
		set_config('enable_seqscan', 'on', true)`

	lockKindsSQL  = `LOCK TABLE kinds IN SHARE ROW EXCLUSIVE MODE`
	allKindsSQL   = `SELECT name, reverse, users FROM kinds ORDER BY name`
	insertKindSQL = `INSERT INTO kinds (name, reverse, users) VALUES ($1, $2, $3)`
	deleteKindSQL = `DELETE FROM kinds WHERE name = $1`
	anyOfKindsSQL = `SELECT EXISTS (SELECT FROM entries WHERE kind = ANY($1::text[]) AND kind <> '')`

	getCheckpointSQL = `SELECT value FROM checkpoints WHERE id = $1`

	putCheckpointSQL = `INSERT INTO checkpoints (id, value) VALUES ($1, $2)
		ON CONFLICT (id) DO UPDATE SET value = excluded.value`

	deleteCheckpointSQL = `DELETE FROM checkpoints WHERE id = $1`

	allMetaSQL = `SELECT name, value FROM meta`

	putMetaSQL = `INSERT INTO meta (name, value) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value`

	// forgetFutureSQL is for a ledger that was restored on another server, whose
	// count of transactions is behind the one before.
	forgetFutureSQL = `UPDATE pages SET changed = 0 WHERE changed >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint`
)
