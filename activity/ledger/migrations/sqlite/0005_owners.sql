-- How often users moved out of a page to one of their own, or back. Pages from
-- 16777216 (2^24) on are of one user alone; those that nobody has any more stay.
ALTER TABLE pages ADD COLUMN moves INTEGER NOT NULL DEFAULT 0;
CREATE INDEX pages_moved ON pages (page, moves) WHERE moves > 0;

-- Users who have a dedicated page, by their hash, stored like that of entries: all
-- rows of the hash are in that page.
CREATE TABLE owners (
    hash INTEGER PRIMARY KEY,
    page INTEGER NOT NULL UNIQUE CHECK (page BETWEEN 16777216 AND 4294967295)
) STRICT;
