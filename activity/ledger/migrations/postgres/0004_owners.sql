-- How often users moved out of a page to one of their own, or back. Pages from
-- 16777216 (2^24) on are of one user alone; those that nobody has any more stay.
ALTER TABLE pages ADD COLUMN moves bigint NOT NULL DEFAULT 0;
CREATE INDEX pages_moved ON pages (page) INCLUDE (moves) WHERE moves > 0;

-- Users who have a dedicated page, by their hash, stored like that of entries: all
-- rows of the hash are in that page. Rows are written by those who have locked the
-- row of the user's shared page in pages.
CREATE TABLE owners (
    hash bigint PRIMARY KEY,
    page bigint NOT NULL UNIQUE CHECK (page BETWEEN 16777216 AND 4294967295)
);
