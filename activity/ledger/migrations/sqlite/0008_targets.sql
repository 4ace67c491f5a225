-- The facet that targets of a kind belong to: 'user', 'post', or one that the kind declares.
CREATE TABLE kinds_with_targets (
    name    TEXT PRIMARY KEY,
    reverse TEXT NOT NULL, -- the kind of the rows in the target's page; '': there are none
    target  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO kinds_with_targets (name, reverse, target)
    SELECT name, reverse, CASE users WHEN 1 THEN 'user' ELSE 'post' END FROM kinds;
DROP TABLE kinds;
ALTER TABLE kinds_with_targets RENAME TO kinds;
