-- Sources are databases of apps, whose tables a follower keeps in the ledger.
CREATE TABLE sources (
    name     text COLLATE "C" PRIMARY KEY,
    position text NOT NULL,   -- up to where the ledger has what the source committed; '': not read whole
    fence    bigint NOT NULL, -- raised each time the lease changes hands
    holder   text NOT NULL,   -- of the lease
    until    bigint NOT NULL  -- end of the lease, in microseconds
);

-- The source that alone writes a kind; '': there is none.
ALTER TABLE kinds ADD COLUMN source text COLLATE "C" NOT NULL DEFAULT '';

-- Activities that more than one row of a source gives, with the times of all those rows.
CREATE TABLE repeats (
    hash   bigint NOT NULL,
    owner  text COLLATE "C" NOT NULL,
    kind   text COLLATE "C" NOT NULL,
    target text COLLATE "C" NOT NULL,
    times  text NOT NULL,
    PRIMARY KEY (hash, owner, kind, target)
);
