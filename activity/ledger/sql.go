package ledger

// dialect is the SQL that differs between databases. A database needs no SQL for some purposes.
type dialect struct {
	locks

	noTimeLimit   string // for a transaction that may read a whole table
	clock         string // reads the clock of a database server
	oldestRunning string // reads the id of the oldest running transaction
	lookupRows    string // finds which of the rows exist
	tallyRows     string // counts rows of owners and kinds that have not ended, each up to a limit
	endedRows     string
	// places reads, for each number with a user and a page, the state of the user's dedicated page,
	// or else of that page. It returns each state once for each layout, with the layout.
	places string

	upsertRows string // records rows; one that exists gets the new times
	deleteRows string
	raisePages string // stores the states of pages
	putOwner   string

	lookupRepeats, upsertRepeats, deleteRepeats string // see Ledger.Follow

	// seedPages together seed the n-th pages, from $4 to $5, of a layout whose first page is $2.
	// Each gets the sequence of its ancestor in the layout whose first page is $1. Each ancestor
	// has $3 such pages.
	seedPages   []string
	deletePages string
}

// locks is the SQL that excludes other transactions. A writing transaction of SQLite excludes all
// others from its beginning.
type locks struct {
	share       string // lets writers run concurrently, while lockLayouts excludes all of them
	lockLayouts string
	// lockKinds serializes transactions that change kinds; excludeWriters excludes all writers, too.
	lockKinds, excludeWriters string

	createPages string // creates missing rows of pages, so that they can be locked
	// lockPages locks pages, and lockDedicated the dedicated pages of users whose shared pages are
	// locked. Both read the states.
	lockPages, lockDedicated string
	lockNumbers              string // serializes transactions that assign page numbers
	lockSource               string // locks and reads a source
}

// SQL that both kinds of database understand. Queries that exclude the empty kind, which no row
// has, can use the index entries_newest of PostgreSQL, see migrations/.
const (
	allMetaSQL     = `SELECT name, value FROM meta`
	incarnationSQL = `SELECT (SELECT value FROM meta WHERE name = 'incarnation')`
	putMetaSQL     = `INSERT INTO meta (name, value) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value`

	allLayoutsSQL    = `SELECT pages, state FROM layouts`
	putLayoutSQL     = `INSERT INTO layouts (pages, state) VALUES ($1, $2)`
	deleteLayoutsSQL = `DELETE FROM layouts`

	allSourcesSQL = `SELECT s.name, s.position, s.holder, s.until, s.followed, coalesce(k.name, '')
		FROM sources s LEFT JOIN kinds k ON k.source = s.name ORDER BY s.name, k.name`
	followKindSQL   = `UPDATE kinds SET source = $1 WHERE name = $2`
	releaseKindsSQL = `UPDATE kinds SET source = '' WHERE source = $1`
	putSourceSQL    = `INSERT INTO sources (name, position, fence, holder, until)
		VALUES ($1, '', 0, '', 0) ON CONFLICT DO NOTHING`
	takeLeaseSQL = `UPDATE sources SET position = $1, fence = $2, holder = $3, until = $4
		WHERE name = $5`
	newSourceSQL  = `UPDATE sources SET followed = 0 WHERE name = $1`
	renewLeaseSQL = `UPDATE sources SET until = $1, ` + followedSQL + `
		WHERE name = $3 AND fence = $4 RETURNING fence`
	moveSourceSQL = `UPDATE sources SET position = $1, ` + followedSQL + `
		WHERE name = $3 AND fence = $4 AND position = $5 RETURNING fence`
	followedSQL  = `followed = CASE WHEN followed < $2 THEN $2 ELSE followed END`
	startOverSQL = `UPDATE sources SET position = ''
		WHERE name = $1 AND fence = $2 RETURNING fence`
	endLeaseSQL = `UPDATE sources SET fence = fence + 1, until = 0
		WHERE name = (SELECT source FROM kinds WHERE name = $1)`
	deleteRepeatsSQL       = `DELETE FROM repeats WHERE kind = $1`
	deleteSourceRepeatsSQL = `DELETE FROM repeats
		WHERE (hash, owner, kind, target) IN (` + sourceRepeatsSQL + `) RETURNING hash`
	deleteSourcesSQL = `DELETE FROM sources
		WHERE NOT EXISTS (SELECT 1 FROM kinds WHERE kinds.source = sources.name)`

	sourceRepeatsSQL = `SELECT hash, owner, kind, target FROM repeats
		WHERE kind IN (SELECT name FROM kinds WHERE source = $1) AND times NOT LIKE $2 LIMIT $3`

	allKindsSQL   = `SELECT name, reverse, target, source, weight, phrases FROM kinds ORDER BY name`
	insertKindSQL = `INSERT INTO kinds (name, reverse, target, weight, phrases)
		VALUES ($1, $2, $3, $4, $5)`
	weighKindSQL  = `UPDATE kinds SET weight = $1 WHERE name = $2`
	deleteKindSQL = `DELETE FROM kinds WHERE name = $1`

	getCheckpointSQL = `SELECT value FROM checkpoints WHERE id = $1`
	putCheckpointSQL = `INSERT INTO checkpoints (id, value) VALUES ($1, $2)
		ON CONFLICT (id) DO UPDATE SET value = excluded.value`
	deleteCheckpointSQL = `DELETE FROM checkpoints WHERE id = $1`

	// sharedStateSQL and dedicatedStateSQL read the state of a page. They return no row for a page
	// that is no longer in use. A subquery seeks to its row.
	sharedStateSQL = `SELECT coalesce((SELECT sequence FROM pages WHERE page = $1), 0),
			coalesce((SELECT left_at FROM pages WHERE page = $1), 0)
		FROM layouts WHERE pages = $2 AND state <> 'leaving'`
	dedicatedStateSQL = `SELECT p.sequence, p.left_at
		FROM owners o JOIN pages p ON p.page = o.page WHERE o.page = $1`

	// rangesSQL reads the ranges of hashes of the users on a shared page, given its first and last
	// hash. ownerRangeSQL does so for a dedicated page.
	rangesSQL = `WITH bounds (least, greatest) AS
			(SELECT CAST($1 AS bigint), CAST($2 AS bigint))` + gapsCTE + `
		SELECT least, greatest FROM gaps WHERE least <= greatest ORDER BY least`
	ownerRangeSQL = `SELECT hash, hash FROM owners WHERE page = $1`

	// gapsCTE reads the gaps between the hashes of users with a dedicated page. No sum exceeds the
	// range of a bigint: the gap before the lowest hash, and after the highest, is NULL.
	gapsCTE = `, moved AS (SELECT hash FROM owners
			WHERE hash BETWEEN (SELECT least FROM bounds) AND (SELECT greatest FROM bounds)),
		gaps (least, greatest) AS (
			SELECT bounds.least, CASE WHEN (SELECT min(hash) FROM moved) IS NULL THEN bounds.greatest
				ELSE nullif((SELECT min(hash) FROM moved), bounds.least) - 1 END FROM bounds
			UNION ALL
			SELECT nullif(moved.hash, bounds.greatest) + 1,
				coalesce(lead(moved.hash) OVER (ORDER BY moved.hash) - 1, bounds.greatest)
			FROM moved, bounds)`

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

	ownedRowsSQL = `SELECT hash, owner, kind, target, since, until FROM entries
		WHERE hash = $1 AND owner = $2 AND (kind, target) > ($3, $4) ORDER BY kind, target LIMIT $5`

	allRowsSQL = `SELECT hash, owner, kind, target, since, until FROM entries
		WHERE (hash, owner, kind, target) > ($1, $2, $3, $4)
		ORDER BY hash, owner, kind, target LIMIT $5`

	namingRowsSQL = `SELECT hash, owner, kind, target, since, until FROM entries
		WHERE target_hash = $1 AND target = $2 AND (hash, owner, kind) > ($3, $4, $5)
		ORDER BY hash, owner, kind LIMIT $6`

	// namingEndSQL reads the row after which listNamingRowsSQL stops, $5 rows after the first one. It
	// reads the index alone, and so does listNamingRowsSQL, but for the rows that it returns.
	namingEndSQL = `SELECT hash, owner FROM entries
		WHERE target_hash = $1 AND target = $2 AND (hash, owner) > ($3, $4)
		ORDER BY hash, owner LIMIT 1 OFFSET $5`

	listNamingRowsSQL = `SELECT hash, owner, kind, target, since, until FROM entries
		WHERE target_hash = $1 AND target = $2
			AND (hash, owner) > ($3, $4) AND (hash, owner) <= ($5, $6)
			AND kind = $7 AND (until IS NULL OR until > $8)
		ORDER BY hash, owner LIMIT $9`

	// emptySQL tells whether no page of the ledger ever changed.
	emptySQL = `SELECT NOT EXISTS (SELECT 1 FROM pages WHERE sequence > 0)`
)
