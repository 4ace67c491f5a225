-- Sources are databases of apps, whose tables a follower keeps in the ledger.
CREATE TABLE sources (
    name     TEXT PRIMARY KEY,
    position TEXT NOT NULL,    -- up to where the ledger has what the source committed; '': not read whole
    fence    INTEGER NOT NULL, -- raised each time the lease changes hands
    holder   TEXT NOT NULL,    -- of the lease
    until    INTEGER NOT NULL  -- end of the lease, in microseconds
) STRICT, WITHOUT ROWID;

-- The source that alone writes a kind; '': there is none.
ALTER TABLE kinds ADD COLUMN source TEXT NOT NULL DEFAULT '';

-- Activities that more than one row of a source gives, with the times of all those rows.
CREATE TABLE repeats (
    hash   INTEGER NOT NULL,
    owner  TEXT NOT NULL,
    kind   TEXT NOT NULL,
    target TEXT NOT NULL,
    times  TEXT NOT NULL,
    PRIMARY KEY (hash, owner, kind, target)
) STRICT, WITHOUT ROWID;
