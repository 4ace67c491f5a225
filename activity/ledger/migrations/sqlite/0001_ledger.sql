-- "favl": tells a ledger from any other SQLite database.
PRAGMA application_id = 0x6661766c;

-- Who this ledger is: incarnation, seed and pages, as decimal text.
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Where each page has to stand. A page that never changed has no row.
CREATE TABLE pages (
    page       INTEGER PRIMARY KEY,
    sequence   INTEGER NOT NULL,
    changed_at INTEGER NOT NULL -- microseconds since 1970, UTC
) STRICT;

-- One row a key. hash is the owner's 64-bit hash with the top bit flipped, so
-- that signed order is the hash's unsigned order. The rows of a page are one
-- range of the primary key.
CREATE TABLE entries (
    hash   INTEGER NOT NULL,
    owner  TEXT    NOT NULL,
    kind   TEXT    NOT NULL,
    target TEXT    NOT NULL,
    since  INTEGER NOT NULL, -- microseconds since 1970, UTC
    PRIMARY KEY (hash, owner, kind, target)
) STRICT, WITHOUT ROWID;

-- Lists of one owner and kind, newest first, without a sort.
CREATE INDEX entries_newest ON entries (hash, owner, kind, since DESC, target);

-- How far resumable imports have come.
CREATE TABLE checkpoints (
    id    TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
