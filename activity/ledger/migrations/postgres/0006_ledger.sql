-- The tables of release 0.1.0. Each later file leads from the version before it to its own.

-- The version of these tables: the number of the last file that was run.
CREATE TABLE ledger_version (version bigint NOT NULL);
INSERT INTO ledger_version VALUES (0);

-- Who this ledger is: incarnation, seed and pages, as decimal text.
CREATE TABLE meta (
    name  text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);

-- The numbers of pages that users share: the current layout, and the next or the previous one.
-- Writers lock the table in a shared mode. A change of the layouts excludes all of them.
CREATE TABLE layouts (
    pages bigint PRIMARY KEY,
    state text   NOT NULL UNIQUE CHECK (state IN ('building', 'current', 'leaving'))
);

-- Where each page has to stand. A page that never changed has no row, or one
-- of sequence 0. Writers lock the rows of their pages, in order of page.
CREATE TABLE pages (
    page     bigint PRIMARY KEY,
    sequence bigint NOT NULL,
    changed  bigint NOT NULL,          -- the transaction that set the sequence: pg_current_xact_id()
    left_at  bigint NOT NULL DEFAULT 0 -- the sequence with which a user last left the page
);
CREATE INDEX pages_changed ON pages (changed);

-- Users with a dedicated page. The hash is stored as in entries. All rows of the hash are on that
-- page. For changed see the table pages. A writer of a row must hold the lock on the row of the
-- user's shared page in pages.
CREATE TABLE owners (
    hash    bigint PRIMARY KEY,
    page    bigint NOT NULL UNIQUE CHECK (page BETWEEN 2147483648 AND 4294967295),
    changed bigint NOT NULL DEFAULT 0
);
CREATE INDEX owners_changed ON owners (changed);

-- The kinds of rows that were declared last. Rows of others may be there.
CREATE TABLE kinds (
    name    text COLLATE "C" PRIMARY KEY,
    reverse text COLLATE "C" NOT NULL, -- the kind of the rows in the target's page; '': there are none
    users   boolean NOT NULL           -- whether targets are users
);

-- One row a key. hash is the owner's 64-bit hash with the top bit flipped, so
-- that signed order is the hash's unsigned order. The rows of a page are one
-- range of the primary key. With 16 pages or more, a page is in one
-- partition. Text is told apart and ordered byte by byte.
CREATE TABLE entries (
    hash        bigint NOT NULL,
    owner       text COLLATE "C" NOT NULL,
    kind        text COLLATE "C" NOT NULL,
    target      text COLLATE "C" NOT NULL,
    since       bigint NOT NULL, -- microseconds since 1970, UTC
    until       bigint,          -- the same; NULL: it does not end
    -- The hash of the target, stored like hash, if the target is a user
    -- whose page has no row that stands for this one; NULL otherwise.
    target_hash bigint,
    PRIMARY KEY (hash, owner, kind, target)
) PARTITION BY RANGE (hash);
CREATE TABLE entries_00 PARTITION OF entries FOR VALUES FROM (MINVALUE) TO (-8070450532247928832);
CREATE TABLE entries_01 PARTITION OF entries FOR VALUES FROM (-8070450532247928832) TO (-6917529027641081856);
CREATE TABLE entries_02 PARTITION OF entries FOR VALUES FROM (-6917529027641081856) TO (-5764607523034234880);
CREATE TABLE entries_03 PARTITION OF entries FOR VALUES FROM (-5764607523034234880) TO (-4611686018427387904);
CREATE TABLE entries_04 PARTITION OF entries FOR VALUES FROM (-4611686018427387904) TO (-3458764513820540928);
CREATE TABLE entries_05 PARTITION OF entries FOR VALUES FROM (-3458764513820540928) TO (-2305843009213693952);
CREATE TABLE entries_06 PARTITION OF entries FOR VALUES FROM (-2305843009213693952) TO (-1152921504606846976);
CREATE TABLE entries_07 PARTITION OF entries FOR VALUES FROM (-1152921504606846976) TO (0);
CREATE TABLE entries_08 PARTITION OF entries FOR VALUES FROM (0) TO (1152921504606846976);
CREATE TABLE entries_09 PARTITION OF entries FOR VALUES FROM (1152921504606846976) TO (2305843009213693952);
CREATE TABLE entries_10 PARTITION OF entries FOR VALUES FROM (2305843009213693952) TO (3458764513820540928);
CREATE TABLE entries_11 PARTITION OF entries FOR VALUES FROM (3458764513820540928) TO (4611686018427387904);
CREATE TABLE entries_12 PARTITION OF entries FOR VALUES FROM (4611686018427387904) TO (5764607523034234880);
CREATE TABLE entries_13 PARTITION OF entries FOR VALUES FROM (5764607523034234880) TO (6917529027641081856);
CREATE TABLE entries_14 PARTITION OF entries FOR VALUES FROM (6917529027641081856) TO (8070450532247928832);
CREATE TABLE entries_15 PARTITION OF entries FOR VALUES FROM (8070450532247928832) TO (MAXVALUE);

-- Lists of one owner and kind, newest first, without a sort. All rows meet the
-- condition, but queries must state it. So the planner cannot use this index
-- to find a single row, for which it would read all rows of the owner.
CREATE INDEX entries_newest ON entries (hash, owner, kind, since DESC, target) INCLUDE (until)
    WHERE kind <> '';

-- Rows that have ended, those that ended first first.
CREATE INDEX entries_until ON entries (until, hash, owner, kind, target) WHERE until IS NOT NULL;

-- Rows that name a user. The others are not in it.
CREATE INDEX entries_naming ON entries (target_hash, target, hash, owner, kind) WHERE target_hash IS NOT NULL;

-- How far resumable imports have come.
CREATE TABLE checkpoints (
    id    text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);
