package ledger

// The SQL of a running PostgreSQL ledger is in this file and in sql.go. Names have no schema: the
// session's search_path sets it.
const (
	// beginSQL sets the isolation level, whatever the default of the server or database is.
	beginSQL = `BEGIN ISOLATION LEVEL READ COMMITTED`

	// beginSnapshotSQL begins a transaction whose statements share one snapshot.
	beginSnapshotSQL = `BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY`

	// atMostSQL ends a query for a page. It allows one row more than LargePage, to detect a
	// large page.
	atMostSQL = ` LIMIT 50001`

	// excludeWritersSQL excludes all writers while kinds change.
	excludeWritersSQL = `LOCK TABLE kinds IN EXCLUSIVE MODE`

	// sharedPageSQL reads the state and the rows of a page in one statement, and so in one
	// snapshot. It returns one row without an owner for a page without rows. It returns no row
	// for a page of a layout that is leaving or gone.
	sharedPageSQL = `WITH bounds (least, greatest) AS (VALUES ($2::bigint, $3::bigint))` + gapsCTE + `
		SELECT coalesce(p.sequence, 0), coalesce(p.left_at, 0), coalesce(e.hash, 0),
			coalesce(e.owner, ''), coalesce(e.kind, ''), coalesce(e.target, ''),
			coalesce(e.since, 0), e.until
		FROM layouts l
			LEFT JOIN LATERAL (SELECT sequence, left_at FROM pages
				WHERE page = $1 OFFSET 0) AS p ON true
			LEFT JOIN (gaps CROSS JOIN
				LATERAL (SELECT hash, owner, kind, target, since, until FROM entries
					WHERE hash BETWEEN gaps.least AND gaps.greatest OFFSET 0) AS e) ON true
		WHERE l.pages = $4 AND l.state <> 'leaving'`

	// dedicatedPageSQL does the same for a dedicated page. It returns no row for a page without
	// a user.
	dedicatedPageSQL = `SELECT p.sequence, p.left_at, coalesce(e.hash, 0),
			coalesce(e.owner, ''), coalesce(e.kind, ''), coalesce(e.target, ''),
			coalesce(e.since, 0), e.until
		FROM owners o JOIN pages p ON p.page = o.page
			LEFT JOIN LATERAL (SELECT hash, owner, kind, target, since, until FROM entries
				WHERE hash = o.hash OFFSET 0) AS e ON true
		WHERE o.page = $1`

	// pollSQL reads the snapshot, the clock, the identity of the ledger, and the id of the session's
	// server process.
	pollSQL = `SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
			ARRAY(SELECT id::text::bigint FROM pg_snapshot_xip(pg_current_snapshot()) AS id),
			(extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
			(SELECT value FROM meta WHERE name = 'incarnation'), pg_backend_pid()`

	// historySQL reads what stays the same while transaction ids are not assigned again: the
	// server's identity and timeline. A standby has no current timeline.
	historySQL = `SELECT coalesce((SELECT system_identifier FROM pg_control_system()) || '/' ||
		CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END, '')`

	// planForValuesSQL undoes the setting of sessionParameters.
	planForValuesSQL = `SET plan_cache_mode = auto`

	// changedPagesSQL reads pages, and changedOwnersSQL users with dedicated pages, in the
	// transaction of pollSQL. $1 is the greatest transaction that the poll to continue from has seen,
	// and $2 those before it that it saw running. So what it has seen is not read again, however
	// long a transaction of the server stays open.
	changedPagesSQL = `SELECT page, sequence, left_at, changed FROM pages
		WHERE changed > $1 AND sequence > 0
		UNION ALL
		SELECT p.page, p.sequence, p.left_at, p.changed FROM unnest($2::bigint[]) AS ran (transaction),
			LATERAL (SELECT page, sequence, left_at, changed FROM pages
				WHERE changed = ran.transaction AND sequence > 0 OFFSET 0) AS p`

	changedOwnersSQL = `SELECT hash, page FROM owners WHERE changed > $1
		UNION ALL
		SELECT o.hash, o.page FROM unnest($2::bigint[]) AS ran (transaction),
			LATERAL (SELECT hash, page FROM owners WHERE changed = ran.transaction OFFSET 0) AS o`

	// everyPageSQL and everyOwnerSQL serve the first poll of a history. If a condition met by all
	// rows were added, a planner without statistics would use the index of changes.
	everyPageSQL  = `SELECT page, sequence, left_at, changed FROM pages WHERE sequence > 0`
	everyOwnerSQL = `SELECT hash, page FROM owners`

	// unlimitedSQL removes the time limit of the statements of a transaction.
	unlimitedSQL = `SELECT set_config('statement_timeout', '0', true)`

	anyOfKindsSQL = `SELECT EXISTS (SELECT FROM entries WHERE kind = ANY($1::text[]) AND kind <> '')`

	// recentPagesSQL reads the pages that transaction $1 or a later one changed, with the hash of
	// the user of a dedicated page.
	recentPagesSQL = `SELECT p.page, coalesce(o.hash, 0)
		FROM pages p LEFT JOIN owners o ON o.page = p.page
		WHERE p.changed >= $1`

	// anyWithinSQL is anyOfKindsSQL for ranges of hashes.
	anyWithinSQL = `SELECT EXISTS (SELECT
		FROM unnest($2::bigint[], $3::bigint[]) AS page (least, greatest),
			LATERAL (SELECT FROM entries
				WHERE hash BETWEEN page.least AND page.greatest
					AND kind = ANY($1::text[]) AND kind <> '' OFFSET 0) AS found)`

	unlockSettingsSQL = `SELECT pg_advisory_unlock_all()`
	lockSettingsSQL   = `SELECT pg_advisory_lock_shared($1, $2)`

	// settingsSQL selects locks for settings. Locks with two keys have objsubid 2.
	settingsSQL = ` FROM pg_locks
		WHERE locktype = 'advisory' AND granted AND objsubid = 2 AND classid = $1::int4::oid
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
	// otherSettingsSQL reads one of the settings for which other processes hold a lock, and cachedSQL
	// reports whether one is of a process with a page cache.
	otherSettingsSQL = `SELECT (SELECT objid::bigint` + settingsSQL +
		` AND objid <> $2::bigint::oid LIMIT 1)`
	cachedSQL = `SELECT EXISTS (SELECT` + settingsSQL + ` AND objid::bigint & $2 <> 0)`
	// olderSQL reports whether a process holds a lock for settings, but none for a format of pages.
	// Processes lock the format first.
	olderSQL = `SELECT EXISTS (SELECT` + settingsSQL + ` AND pid NOT IN (
		SELECT pid FROM pg_locks f WHERE f.locktype = 'advisory' AND f.granted AND f.objsubid = 2
			AND f.classid = $2::int4::oid AND f.database = pg_locks.database))`

	// setSessionSQL sets parameters of the session, and readSessionSQL reads them. Both return the
	// id of the server process, and names and values in the server's own form.
	setSessionSQL = `SELECT pg_backend_pid(), name, set_config(name, value, false)
		FROM unnest($1::text[], $2::text[]) AS s (name, value)`
	readSessionSQL = `SELECT pg_backend_pid(), name, current_setting(name)
		FROM unnest($1::text[]) AS s (name)`

	// probeLockSQL takes a lock for its session, and probeHeldSQL tells whether a server process
	// has it.
	probeLockSQL = `SELECT pg_backend_pid() FROM pg_advisory_lock_shared(1717920100, 0)`
	probeHeldSQL = `SELECT EXISTS (SELECT FROM pg_locks
		WHERE locktype = 'advisory' AND classid = 1717920100 AND objid = 0 AND objsubid = 2
			AND pid = $1::int4)`

	// adoptSQL is for a ledger that another server wrote, whose transaction ids may be above those of
	// this one. It marks such rows as changed now. A poll would otherwise read them each time.
	adoptSQL = `WITH future (xmax) AS (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint),
			owned AS (UPDATE owners SET changed = pg_current_xact_id()::text::bigint
				WHERE changed >= (SELECT xmax FROM future))
		UPDATE pages SET changed = pg_current_xact_id()::text::bigint
			WHERE changed >= (SELECT xmax FROM future)`

	// adoptedSQL locks a row, so that the commit is logged. All ids of rows are then below one that
	// is never assigned again, whatever server assigned them.
	adoptedSQL = `SELECT FROM meta WHERE name = 'incarnation' FOR UPDATE`

	// writableSQL tells whether the transaction may change what adoptSQL changes.
	writableSQL = `SELECT current_setting('transaction_read_only') = 'off'
		AND (SELECT bool_and(has_table_privilege(name, 'UPDATE'))
			FROM unnest(ARRAY['pages', 'owners', 'meta']) AS t (name))`

	// localCommitSQL makes a commit durable on this server, without a wait for a standby.
	localCommitSQL = `SELECT set_config('synchronous_commit', 'local', true)`
)

// postgresLocks returns the SQL of locks. Writers create rows of pages, and lock them, in order of
// page, so they cannot deadlock. Dedicated pages have greater numbers than shared ones. lockNumbers
// is the last lock. A statement after a lock sees everything that was committed before the lock was
// granted.
func postgresLocks() locks {
	return locks{
		share:       `LOCK TABLE layouts, kinds IN ROW SHARE MODE`,
		lockLayouts: `LOCK TABLE layouts IN EXCLUSIVE MODE`,
		lockKinds:   `LOCK TABLE kinds IN SHARE ROW EXCLUSIVE MODE`,

		excludeWriters: excludeWritersSQL,
		createPages: `INSERT INTO pages (page, sequence, changed)
			SELECT page, 0, 0 FROM unnest($1::bigint[]) AS wanted (page) ORDER BY page
			ON CONFLICT DO NOTHING`,
		lockPages: `SELECT page, sequence, left_at FROM pages
			WHERE page = ANY($1::bigint[]) ORDER BY page FOR UPDATE`,
		lockDedicated: `SELECT o.hash, p.page, p.sequence, p.left_at
			FROM unnest($1::bigint[]) AS wanted (hash),
				LATERAL (SELECT hash, page FROM owners WHERE owners.hash = wanted.hash OFFSET 0) AS o,
					pages p
				WHERE p.page = o.page ORDER BY p.page FOR UPDATE OF p`,
		lockNumbers: `SELECT FROM meta WHERE name = 'pages' FOR UPDATE`,
		lockSource:  `SELECT position, fence, holder, until FROM sources WHERE name = $1 FOR UPDATE`,
	}
}

// postgresDialect returns the SQL that has its counterpart in [sqliteDialect]. OFFSET keeps an
// inner SELECT separate: one seek for each row, in the row's partition alone.
func postgresDialect() dialect { //nolint:funlen // a list
	return dialect{
		locks: postgresLocks(),
		// Allows the best plan for reading a whole table, too.
		noTimeLimit: `SELECT set_config('statement_timeout', '0', true),
			set_config('lock_timeout', '0', true), set_config('enable_seqscan', 'on', true)`,
		clock: `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`,
		// Every transaction that a later statement does not see has at least this id.
		oldestRunning: `SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint`,
		lookupRows: `SELECT wanted.hash, wanted.owner, wanted.kind, wanted.target,
				found.since, found.until
			FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[])
					AS wanted (hash, owner, kind, target),
				LATERAL (SELECT e.since, e.until FROM entries e
					WHERE e.hash = wanted.hash AND e.owner = wanted.owner
						AND e.kind = wanted.kind AND e.target = wanted.target
					OFFSET 0) AS found`,
		tallyRows: `SELECT wanted.number, (SELECT count(*) FROM (SELECT FROM entries e
					WHERE e.hash = wanted.hash AND e.owner = wanted.owner
						AND e.kind = wanted.kind AND e.kind <> ''
						AND (e.until IS NULL OR e.until > $5)
					LIMIT $6) AS counted)
			FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[])
				AS wanted (number, hash, owner, kind)`,
		places: `SELECT at.number, at.page,
				coalesce((SELECT sequence FROM pages WHERE pages.page = at.page), 0),
				coalesce((SELECT left_at FROM pages WHERE pages.page = at.page), 0),
				l.pages, l.state
			FROM layouts l,
				(SELECT wanted.number,
						coalesce((SELECT owners.page FROM owners WHERE owners.hash = wanted.hash),
							wanted.page) AS page
					FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS wanted (number, hash, page)
					OFFSET 0) AS at`,
		endedRows: `SELECT hash, owner, kind, target, since, until FROM entries
			WHERE until <= least($1, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)
			ORDER BY until, hash, owner, kind, target LIMIT $2`,

		// The last array may be empty: unnest fills it up with NULL.
		upsertRows: `INSERT INTO entries (hash, owner, kind, target, since, until, target_hash)
			SELECT hash, owner, kind, target, since, until, target_hash
			FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[],
					$5::bigint[], $6::bigint[], $7::bigint[])
				AS rows (hash, owner, kind, target, since, until, target_hash)
			ON CONFLICT (hash, owner, kind, target) DO UPDATE SET
				since = excluded.since, until = excluded.until, target_hash = excluded.target_hash`,
		deleteRows: `DELETE FROM entries e
				USING unnest($1::bigint[], $2::text[], $3::text[], $4::text[])
					AS gone (hash, owner, kind, target)
				WHERE e.hash = gone.hash AND e.owner = gone.owner
					AND e.kind = gone.kind AND e.target = gone.target`,
		raisePages: `UPDATE pages SET sequence = raised.sequence, left_at = raised.left_at,
					changed = pg_current_xact_id()::text::bigint
				FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS raised (page, sequence, left_at)
				WHERE pages.page = raised.page`,
		putOwner: `INSERT INTO owners (hash, page, changed)
				VALUES ($1, $2, pg_current_xact_id()::text::bigint)`,

		lookupRepeats: `SELECT wanted.hash, wanted.owner, wanted.kind, wanted.target, found.times
			FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[])
					AS wanted (hash, owner, kind, target),
				LATERAL (SELECT r.times FROM repeats r
					WHERE r.hash = wanted.hash AND r.owner = wanted.owner
						AND r.kind = wanted.kind AND r.target = wanted.target
					OFFSET 0) AS found`,
		upsertRepeats: `INSERT INTO repeats (hash, owner, kind, target, times)
			SELECT hash, owner, kind, target, times
			FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[])
				AS rows (hash, owner, kind, target, times)
			ON CONFLICT (hash, owner, kind, target) DO UPDATE SET times = excluded.times`,
		deleteRepeats: `DELETE FROM repeats r
			USING unnest($1::bigint[], $2::text[], $3::text[], $4::text[])
				AS gone (hash, owner, kind, target)
			WHERE r.hash = gone.hash AND r.owner = gone.owner
				AND r.kind = gone.kind AND r.target = gone.target`,

		// The first statement seeds pages without a row. The second one seeds pages whose row a
		// writer created without raising it. Two statements prevent deadlocks, because writers
		// also create rows before they lock any. They also avoid waiting for writers of existing
		// rows: an INSERT waits for these, whatever its conflict clause is.
		seedPages: []string{`INSERT INTO pages (page, sequence, changed)
			SELECT $2::bigint + n, p.sequence, pg_current_xact_id()::text::bigint
			FROM generate_series($4::bigint, $5::bigint) AS wanted (n),
				LATERAL (SELECT sequence FROM pages
					WHERE page = $1::bigint + n / $3::bigint AND sequence > 0 OFFSET 0) AS p
			WHERE NOT EXISTS (SELECT FROM pages AS there WHERE there.page = $2::bigint + n)
			ORDER BY n
			ON CONFLICT DO NOTHING`, `WITH rest AS MATERIALIZED (SELECT n.page, p.sequence
					FROM pages n,
						LATERAL (SELECT sequence FROM pages
							WHERE page = $1::bigint + (n.page - $2::bigint) / $3::bigint AND sequence > 0
							OFFSET 0) AS p
					WHERE n.page BETWEEN $2::bigint + $4::bigint AND $2::bigint + $5::bigint
						AND n.sequence = 0
					ORDER BY n.page FOR UPDATE OF n)
			UPDATE pages SET sequence = rest.sequence, changed = pg_current_xact_id()::text::bigint
			FROM rest WHERE pages.page = rest.page`},

		// Locks pages in order of number. So do writers that have not yet learned that the layout is
		// leaving.
		deletePages: `WITH gone AS MATERIALIZED (SELECT page FROM pages
				WHERE page BETWEEN $1 AND $2 ORDER BY page FOR UPDATE)
			DELETE FROM pages USING gone WHERE pages.page = gone.page`,
	}
}
