package ledger

// All SQL of a running PostgreSQL ledger is in this file. Names are without the
// schema, which is the session's search_path.
const (
	// beginSQL says what the statements of a transaction see, whatever the
	// server's or the database's default is.
	beginSQL = `BEGIN ISOLATION LEVEL READ COMMITTED`

	// beginSnapshotSQL begins a transaction whose statements all see the same.
	beginSnapshotSQL = `BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY`

	// declareSQL, with a query, makes the cursor that fetchSQL reads.
	declareSQL = `DECLARE held NO SCROLL CURSOR FOR `
	fetchSQL   = `FETCH FORWARD 10000 FROM held` // rowsAtOnce

	pageStandingSQL = `SELECT sequence, moves FROM pages WHERE page = $1`

	// atMostSQL ends a query of a page: one row more than LargePage says that there are more.
	atMostSQL = ` LIMIT 50001`

	// createPagesSQL sees to it that there are rows to lock. They are made in
	// order of page, as they are locked, so that writers cannot wait for each
	// other in a circle.
	createPagesSQL = `INSERT INTO pages (page, sequence, changed)
		SELECT page, 0, 0 FROM unnest($1::bigint[]) AS wanted (page) ORDER BY page
		ON CONFLICT DO NOTHING`

	lockPagesSQL = `SELECT page, sequence, moves, coalesce(least, 0) FROM pages WHERE page = ANY($1::bigint[]) ORDER BY page FOR UPDATE`

	incarnationSQL = `SELECT value FROM meta WHERE name = 'incarnation'`

	clockSQL = `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`

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

	// placedCTE finds out which pages have to do with users, whose homes' least hashes are given. The homes' pages are
	// locked before, so nobody moves them meanwhile.
	placedCTE = `WITH placed AS (
		SELECT wanted.hash, o.page AS own, r.page, r.left_page
		FROM unnest($1::bigint[], $2::bigint[]) AS wanted (hash, least)
			LEFT JOIN LATERAL (SELECT page FROM owners WHERE owners.hash = wanted.hash OFFSET 0) AS o ON true
			LEFT JOIN LATERAL (SELECT page, left_page FROM ranges
				WHERE ranges.least BETWEEN wanted.least AND wanted.hash ORDER BY ranges.least DESC LIMIT 1) AS r ON true)`

	placedSQL = placedCTE + ` SELECT hash, own, page, left_page FROM placed WHERE own IS NOT NULL OR page IS NOT NULL`

	// lockPlacedSQL locks these pages in order. (Home pages are among them at most where their homes are locked.)
	lockPlacedSQL = placedCTE + ` SELECT p.page, p.sequence, p.moves, coalesce(p.least, 0)
		FROM (SELECT own AS page FROM placed UNION SELECT page FROM placed UNION SELECT left_page FROM placed) AS wanted
			JOIN pages p ON p.page = wanted.page
		ORDER BY p.page FOR UPDATE OF p`

	// lockNumbersSQL has those take turns who give out numbers: two at once would take the same. It
	// is the last lock of all that one takes.
	lockNumbersSQL = `SELECT FROM meta WHERE name = 'pages' FOR UPDATE`

	// greatestPageSQL reads the greatest number that a page has or is reserved.
	greatestPageSQL = `SELECT greatest((SELECT max(page) FROM pages), (SELECT value::bigint FROM meta WHERE name = 'numbers'), 0)`

	movePagesSQL = `UPDATE pages SET sequence = sequence + 1, moves = moves + 1, changed = pg_current_xact_id()::text::bigint
		WHERE page = ANY($1::bigint[])`

	newPageSQL = `INSERT INTO pages (page, sequence, changed) VALUES ($1, $2, pg_current_xact_id()::text::bigint)`

	makePagesSQL = `INSERT INTO pages (page, sequence, changed, least)
		SELECT page, 1, pg_current_xact_id()::text::bigint, least FROM unnest($1::bigint[], $2::bigint[]) AS made (page, least)`

	putOwnerSQL    = `INSERT INTO owners (hash, page) VALUES ($1, $2)`
	deleteOwnerSQL = `DELETE FROM owners WHERE hash = $1`

	// allPlacementsSQL and placementsSQL read the moves of home pages, with neither hash nor slot; users
	// with pages of their own, without a slot; and ranges: in one statement, and so as of one moment.
	allPlacementsSQL = `SELECT NULL::bigint, page, moves, NULL::bigint FROM pages WHERE moves > 0 AND page < 16777216
		UNION ALL SELECT hash, page, 0, NULL FROM owners
		UNION ALL SELECT r.least, r.page, coalesce(p.moves, 0), coalesce(p.least, 0) FROM ranges r LEFT JOIN pages p ON p.page = r.page`

	placementsSQL = `WITH asked AS (
			SELECT home, least, greatest FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS wanted (home, least, greatest)
			WHERE EXISTS (SELECT FROM pages WHERE page = wanted.home AND moves > 0 OFFSET 0))
		SELECT NULL::bigint, page, moves, NULL::bigint FROM pages WHERE moves > 0 AND page = ANY($1::bigint[])
		UNION ALL SELECT o.hash, o.page, 0, NULL
		FROM asked, LATERAL (SELECT hash, page FROM owners WHERE hash BETWEEN asked.least AND asked.greatest OFFSET 0) AS o
		UNION ALL SELECT r.least, r.page, coalesce(p.moves, 0), coalesce(p.least, 0)
		FROM asked, LATERAL (SELECT least, page FROM ranges WHERE least BETWEEN asked.least AND asked.greatest OFFSET 0) AS r
			LEFT JOIN LATERAL (SELECT moves, least FROM pages WHERE pages.page = r.page OFFSET 0) AS p ON true`

	shapeRangesSQL = `SELECT least, page, left_page FROM ranges WHERE least BETWEEN $1 AND $2 ORDER BY least`

	// shapeHomesSQL reads the clock with the homes: one row without a home, if there is none.
	shapeHomesSQL = `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, h.home, h.pages, h.reshaped_at
		FROM (SELECT) AS once LEFT JOIN (SELECT home, pages, reshaped_at FROM homes WHERE home BETWEEN $1 AND $2) AS h ON true`

	deleteRangesSQL = `DELETE FROM ranges WHERE least BETWEEN $1 AND $2`

	putRangesSQL = `INSERT INTO ranges (least, page, left_page)
		SELECT least, page, left_page FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS rows (least, page, left_page)`

	// putHomesSQL is the last statement before the commit, for the time to be next to that.
	putHomesSQL = `INSERT INTO homes (home, pages, reshaped_at)
		SELECT home, $2::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
		FROM generate_series($1::bigint, $3::bigint) AS span (home)
		ON CONFLICT (home) DO UPDATE SET pages = excluded.pages, reshaped_at = excluded.reshaped_at`

	// lockCutSQL reads what is asked for, and locks it first of all locks of a reshape: a reshape for an earlier number
	// commits before SetCut does, or not at all. Reshapes take turns, so that SetCut waits for few of them.
	lockCutSQL = `SELECT value FROM meta WHERE name = 'cut' FOR UPDATE`

	// readCutSQL reads what is asked for, how many homes were ever reshaped, and how many of them are so cut.
	readCutSQL = `SELECT coalesce((SELECT value FROM meta WHERE name = 'cut'), ''), (SELECT count(*) FROM homes),
		(SELECT count(*) FROM homes WHERE pages = coalesce((SELECT value::bigint FROM meta WHERE name = 'cut'), $1::bigint))`

	// pageSQL reads where a page stands and its rows in one statement, and so as of one
	// moment. A page without rows gives one row without an owner, and so does a home page that
	// somebody was moved out of: movedPageSQL is for those.
	pageSQL = `SELECT s.sequence, s.moves, coalesce(e.hash, 0),
			coalesce(e.owner, ''), coalesce(e.kind, ''), coalesce(e.target, ''), coalesce(e.since, 0), e.until
		FROM (SELECT coalesce(max(sequence), 0) AS sequence, coalesce(max(moves), 0) AS moves FROM pages WHERE page = $1) AS s
			LEFT JOIN LATERAL (SELECT hash, owner, kind, target, since, until FROM entries
				WHERE s.moves = 0 AND hash BETWEEN $2 AND $3 OFFSET 0) AS e ON true`

	// movedPageSQL does so for any home page: its hashes end where the first row of ranges begins that is of another page; at the
	// home's least hash there are none, which is NULL.
	movedPageSQL = `WITH other AS (SELECT least FROM ranges WHERE least BETWEEN $2 AND $3 AND page <> $1 ORDER BY least LIMIT 1),
		bounds (least, greatest) AS (SELECT $2::bigint, CASE WHEN EXISTS (SELECT FROM other)
			THEN (SELECT nullif(least, $2) - 1 FROM other) ELSE $3::bigint END)` + gapsCTE + heldSQL

	// rangePageSQL does so for a page from OwnPages on: of a user, or of ranges, of which the last one ends where the next row
	// begins or its home ends, whose bits below the home's number are given. Without a page that ever was there is no row.
	rangePageSQL = `WITH ends (least, last) AS (SELECT min(least), max(least) FROM ranges WHERE page = $1),
		home (greatest) AS (SELECT CASE $2::bigint WHEN -1 THEN 9223372036854775807 ELSE last | $2 END FROM ends),
		bounds (least, greatest) AS (SELECT ends.least,
			coalesce((SELECT min(r.least) - 1 FROM ranges r WHERE r.least > ends.last AND r.least <= home.greatest), home.greatest)
			FROM ends, home)` + gapsCTE + `,
		own (least, greatest) AS (SELECT hash, hash FROM owners WHERE page = $1 UNION ALL SELECT least, greatest FROM gaps)
		SELECT p.sequence, p.moves, coalesce(e.hash, 0),
			coalesce(e.owner, ''), coalesce(e.kind, ''), coalesce(e.target, ''), coalesce(e.since, 0), e.until
		FROM pages p LEFT JOIN (own CROSS JOIN
			LATERAL (SELECT hash, owner, kind, target, since, until FROM entries
				WHERE hash BETWEEN own.least AND own.greatest OFFSET 0) AS e) ON true
		WHERE p.page = $1`

	// gapsCTE are the gaps between the hashes of users who have a page of their own. (No sum leaves the
	// range of a bigint: the gap before the least hash, and behind the greatest, is NULL.)
	gapsCTE = `, moved AS (SELECT o.hash FROM bounds, LATERAL (SELECT hash FROM owners
			WHERE hash BETWEEN bounds.least AND bounds.greatest OFFSET 0) AS o),
		gaps (least, greatest) AS (
			SELECT bounds.least, CASE WHEN (SELECT min(hash) FROM moved) IS NULL THEN bounds.greatest
				ELSE nullif((SELECT min(hash) FROM moved), bounds.least) - 1 END FROM bounds
			UNION ALL
			SELECT nullif(moved.hash, bounds.greatest) + 1, coalesce(lead(moved.hash) OVER (ORDER BY moved.hash) - 1, bounds.greatest)
			FROM moved, bounds)`

	heldSQL = `
		SELECT coalesce((SELECT sequence FROM pages WHERE page = $1), 0),
			coalesce((SELECT moves FROM pages WHERE page = $1), 0), coalesce(e.hash, 0),
			coalesce(e.owner, ''), coalesce(e.kind, ''), coalesce(e.target, ''), coalesce(e.since, 0), e.until
		FROM (SELECT) AS once LEFT JOIN (gaps CROSS JOIN
			LATERAL (SELECT hash, owner, kind, target, since, until FROM entries
				WHERE hash BETWEEN gaps.least AND gaps.greatest OFFSET 0) AS e) ON true`

	pageSequenceSQL = `SELECT sequence FROM pages WHERE page = $1`

	// changedPagesSQL reads the snapshot, the clock and pages as of one moment. Every transaction
	// that a snapshot does not see is either in its list of those that ran, or at its xmax or
	// above. $3 and $4 are these two of the snapshot to go on from: what it saw is not read again,
	// however long some transaction of the server stays open. Pages come in order of page, and
	// not of changed: a page goes back in that order when the older of two transactions commits
	// last.
	changedPagesSQL = pollBegin + `
				SELECT page, sequence, moves, changed FROM (
					(SELECT page, sequence, moves, changed FROM pages
						WHERE changed >= $3 AND page > $1 AND sequence > 0 ORDER BY page LIMIT $2)
					UNION ALL
					(SELECT p.page, p.sequence, p.moves, p.changed FROM unnest($4::bigint[]) AS ran (transaction),
						LATERAL (SELECT page, sequence, moves, changed FROM pages
							WHERE changed = ran.transaction AND page > $1 AND sequence > 0 OFFSET 0) AS p)
				) AS found ORDER BY page LIMIT $2` + pollEnd

	// everyPageSQL is changedPagesSQL for the first poll of a connection. A condition that all
	// pages meet would have a planner without statistics sort all of them for each part.
	everyPageSQL = pollBegin + `
				SELECT page, sequence, moves, changed FROM pages
				WHERE page > $1 AND sequence > 0 ORDER BY page LIMIT $2` + pollEnd

	pollBegin = `SELECT pg_current_snapshot()::text, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
				(SELECT value FROM meta WHERE name = 'incarnation'), p.page, p.sequence, p.moves, p.changed
			FROM (SELECT) AS once LEFT JOIN (`
	pollEnd = `) AS p ON true ORDER BY p.page`

	// endedRowsSQL, listNewestRowsSQL and listBeforeRowsSQL: see sqlitesql.go. For
	// kind <> '' see entries_newest.
	endedRowsSQL = `SELECT hash, owner, kind, target, since, until FROM entries
		WHERE until <= least($1, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)
		ORDER BY until, hash, owner, kind, target LIMIT $2`

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

	hashRowsSQL = `SELECT hash, owner, kind, target, since, until FROM entries
		WHERE hash = $1 AND (owner, kind, target) > ($2, $3, $4) ORDER BY owner, kind, target LIMIT $5`

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

	unlockSettingsSQL = `SELECT pg_advisory_unlock_all()`
	lockSettingsSQL   = `SELECT pg_advisory_lock_shared($1, $2)`

	// otherSettingsSQL reads one of the settings that others hold a lock for. Locks with two keys
	// have objsubid 2.
	otherSettingsSQL = `SELECT (SELECT objid::bigint FROM pg_locks
		WHERE locktype = 'advisory' AND granted AND objsubid = 2 AND classid = $1::int4::oid AND objid <> $2::bigint::oid
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) LIMIT 1)`

	allMetaSQL = `SELECT name, value FROM meta`

	putMetaSQL = `INSERT INTO meta (name, value) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value`

	// forgetFutureSQL is for a ledger that was restored on another server, whose
	// count of transactions is behind the one before.
	forgetFutureSQL = `UPDATE pages SET changed = 0 WHERE changed >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint`
)
