-- How many bits a key of the kind sets in a page besides those that all keys set. It never changes.
-- -1: no process that knows of weights has declared the kind.
ALTER TABLE kinds ADD COLUMN weight INTEGER NOT NULL DEFAULT -1;
-- 1: the targets are phrases in canonical form, of which pages keep marks.
ALTER TABLE kinds ADD COLUMN phrases INTEGER NOT NULL DEFAULT 0;
