-- When a row ends by itself: microseconds since 1970, UTC; NULL: never.
ALTER TABLE entries ADD COLUMN until INTEGER;

-- Rows that have ended, those that ended first first.
CREATE INDEX entries_until ON entries (until, hash, owner, kind, target) WHERE until IS NOT NULL;

-- With until, so that a list can leave out what has ended without looking at
-- the rows themselves.
DROP INDEX entries_newest;
CREATE INDEX entries_newest ON entries (hash, owner, kind, since DESC, target, until);

-- Transactions that changed pages are counted; changed is the count of a
-- page's last. Pages from before are older than the first.
ALTER TABLE pages ADD COLUMN changed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE pages DROP COLUMN changed_at;
CREATE INDEX pages_changed ON pages (changed);
