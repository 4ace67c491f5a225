-- The kinds of rows that were declared last. Rows of others may be there.
CREATE TABLE kinds (
    name    text COLLATE "C" PRIMARY KEY,
    reverse text COLLATE "C" NOT NULL, -- the kind of the rows in the target's page; '': there are none
    users   boolean NOT NULL           -- whether targets are users
);

-- What was built in when a ledger was made that is older than this table.
INSERT INTO kinds (name, reverse, users)
    SELECT name, reverse, users
    FROM (VALUES ('block', 'blocked-by', true), ('hide', '', false), ('like', '', false)) AS built_in (name, reverse, users)
    WHERE EXISTS (SELECT FROM meta);
