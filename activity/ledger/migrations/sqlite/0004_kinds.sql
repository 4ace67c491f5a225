-- The kinds of rows that were declared last. Rows of others may be there.
CREATE TABLE kinds (
    name    TEXT    PRIMARY KEY,
    reverse TEXT    NOT NULL, -- the kind of the rows in the target's page; '': there are none
    users   INTEGER NOT NULL  -- 1 if targets are users
) STRICT, WITHOUT ROWID;

-- What was built in when a ledger was made that is older than this table.
WITH built_in (name, reverse, users) AS (VALUES ('block', 'blocked-by', 1), ('hide', '', 0), ('like', '', 0))
INSERT INTO kinds (name, reverse, users)
    SELECT name, reverse, users FROM built_in WHERE EXISTS (SELECT 1 FROM meta);
