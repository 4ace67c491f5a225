-- The tables of release 0.1.0. Each later file leads from the version before it to its own.

-- "favl": tells a ledger from any other SQLite database.
PRAGMA application_id = 0x6661766c;

-- Who this ledger is: incarnation, seed and pages, as decimal text.
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The numbers of pages that users share: the current layout, and the next or the previous one.
CREATE TABLE layouts (
    pages INTEGER PRIMARY KEY,
    state TEXT    NOT NULL UNIQUE CHECK (state IN ('building', 'current', 'leaving'))
) STRICT;

-- Where each page has to stand. A page that never changed has no row. Transactions that changed
-- pages are counted.
CREATE TABLE pages (
    page     INTEGER PRIMARY KEY,
    sequence INTEGER NOT NULL,
    changed  INTEGER NOT NULL DEFAULT 0, -- the count of the last transaction that changed the page
    left_at  INTEGER NOT NULL DEFAULT 0  -- the sequence with which a user last left the page
) STRICT;
CREATE INDEX pages_changed ON pages (changed);

-- Users with a dedicated page. The hash is stored as in entries. All rows of the hash are on that
-- page. For changed see the table pages.
CREATE TABLE owners (
    hash    INTEGER PRIMARY KEY,
    page    INTEGER NOT NULL UNIQUE CHECK (page BETWEEN 2147483648 AND 4294967295),
    changed INTEGER NOT NULL
) STRICT;
CREATE INDEX owners_changed ON owners (changed);

-- The kinds of rows that were declared last. Rows of others may be there.
CREATE TABLE kinds (
    name    TEXT    PRIMARY KEY,
    reverse TEXT    NOT NULL, -- the kind of the rows in the target's page; '': there are none
    users   INTEGER NOT NULL  -- 1 if targets are users
) STRICT, WITHOUT ROWID;

-- One row a key. hash is the owner's 64-bit hash with the top bit flipped, so
-- that signed order is the hash's unsigned order. The rows of a page are one
-- range of the primary key.
CREATE TABLE entries (
    hash        INTEGER NOT NULL,
    owner       TEXT    NOT NULL,
    kind        TEXT    NOT NULL,
    target      TEXT    NOT NULL,
    since       INTEGER NOT NULL, -- microseconds since 1970, UTC
    until       INTEGER,          -- the same; NULL: it does not end
    -- The hash of the target, stored like hash, if the target is a user
    -- whose page has no row that stands for this one; NULL otherwise.
    target_hash INTEGER,
    PRIMARY KEY (hash, owner, kind, target)
) STRICT, WITHOUT ROWID;

-- Lists of one owner and kind, newest first, without a sort. With until, so that a list can leave
-- out what has ended without looking at the rows themselves.
CREATE INDEX entries_newest ON entries (hash, owner, kind, since DESC, target, until);

-- Rows that have ended, those that ended first first.
CREATE INDEX entries_until ON entries (until, hash, owner, kind, target) WHERE until IS NOT NULL;

-- Rows that name a user. The others are not in it.
CREATE INDEX entries_naming ON entries (target_hash, target, hash, owner, kind) WHERE target_hash IS NOT NULL;

-- How far resumable imports have come.
CREATE TABLE checkpoints (
    id    TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
