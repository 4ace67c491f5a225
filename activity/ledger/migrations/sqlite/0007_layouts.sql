-- The numbers of pages that users share: the current layout, and the next or the previous one.
CREATE TABLE layouts (
    pages INTEGER PRIMARY KEY,
    state TEXT    NOT NULL UNIQUE CHECK (state IN ('building', 'current', 'leaving'))
) STRICT;

-- The current layout is the greater one of the first number of pages and the number that was
-- requested last. If it is not the first, the first is leaving: its pages in the store are not
-- closed yet.
INSERT INTO layouts (pages, state)
    SELECT max(CAST(p.value AS INTEGER), coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'cut'), 0)), 'current'
    FROM meta p WHERE p.name = 'pages';
INSERT INTO layouts (pages, state)
    SELECT CAST(p.value AS INTEGER), 'leaving' FROM meta p, layouts l
    WHERE p.name = 'pages' AND l.pages > CAST(p.value AS INTEGER);

-- The sequence with which a user last left the page.
ALTER TABLE pages ADD COLUMN left_at INTEGER NOT NULL DEFAULT 0;

-- Users with a dedicated page. The hash is stored as in entries. All rows of the hash are on that
-- page. For changed see the table pages.
CREATE TABLE dedicated (
    hash    INTEGER PRIMARY KEY,
    page    INTEGER NOT NULL UNIQUE CHECK (page BETWEEN 2147483648 AND 4294967295),
    changed INTEGER NOT NULL
) STRICT;
INSERT INTO dedicated (hash, page, changed)
    SELECT o.hash, o.page - 16777216 + 2147483648, p.changed FROM owners o JOIN pages p ON p.page = o.page;
UPDATE pages SET page = page - 16777216 + 2147483648 WHERE page IN (SELECT page FROM owners);
DROP TABLE owners;
ALTER TABLE dedicated RENAME TO owners;
CREATE INDEX owners_changed ON owners (changed);

-- Pages of ranges of hashes are removed. In a layout other than the first, the number of pages is
-- added to the number of a page. Such a page begins with the sequence of its ancestor.
DELETE FROM pages WHERE page BETWEEN 16777216 AND 2147483647;
INSERT INTO pages (page, sequence, changed)
    WITH RECURSIVE first (pages) AS (SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'pages'),
        grown (pages, ratio) AS (SELECT l.pages, l.pages / first.pages FROM layouts l, first WHERE l.pages > first.pages),
        part (n) AS (SELECT 0 FROM grown UNION ALL SELECT n + 1 FROM part, grown WHERE n + 1 < ratio)
    SELECT grown.pages + p.page * grown.ratio + part.n, p.sequence, p.changed
    FROM pages p, grown, part WHERE p.page < (SELECT pages FROM first);
DELETE FROM pages WHERE page < (SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'pages')
    AND EXISTS (SELECT 1 FROM layouts, meta WHERE name = 'pages' AND pages > CAST(value AS INTEGER));

DROP TABLE ranges;
DROP TABLE homes;
DROP INDEX pages_moved;
ALTER TABLE pages DROP COLUMN moves;
ALTER TABLE pages DROP COLUMN least;
DELETE FROM meta WHERE name IN ('cut', 'numbers');

-- A new incarnation: pages in the store hold other keys, so all of them must be rebuilt.
UPDATE meta SET value = CAST(abs(random() % 9223372036854775807) + 1 AS TEXT) WHERE name = 'incarnation';
