-- The numbers of pages that users share: the current layout, and the next or the previous one.
-- Writers lock the table in a shared mode. A change of the layouts excludes all of them.
CREATE TABLE layouts (
    pages bigint PRIMARY KEY,
    state text   NOT NULL UNIQUE CHECK (state IN ('building', 'current', 'leaving'))
);

-- The current layout is the greater one of the first number of pages and the number that was
-- requested last. If it is not the first, the first is leaving: its pages in the store are not
-- closed yet.
INSERT INTO layouts (pages, state)
    SELECT greatest(p.value::bigint, coalesce((SELECT value::bigint FROM meta WHERE name = 'cut'), 0)), 'current'
    FROM meta p WHERE p.name = 'pages';
INSERT INTO layouts (pages, state)
    SELECT p.value::bigint, 'leaving' FROM meta p, layouts l WHERE p.name = 'pages' AND l.pages > p.value::bigint;

-- The sequence with which a user last left the page.
ALTER TABLE pages ADD COLUMN left_at bigint NOT NULL DEFAULT 0;

-- Users with a dedicated page. The hash is stored as in entries. All rows of the hash are on that
-- page. For changed see the table pages. A writer of a row must hold the lock on the row of the
-- user's shared page in pages.
ALTER TABLE owners DROP CONSTRAINT owners_page_check;
ALTER TABLE owners ADD COLUMN changed bigint NOT NULL DEFAULT 0;
UPDATE pages SET page = page - 16777216 + 2147483648 WHERE page IN (SELECT page FROM owners);
UPDATE owners SET page = page - 16777216 + 2147483648;
ALTER TABLE owners ADD CONSTRAINT owners_page_check CHECK (page BETWEEN 2147483648 AND 4294967295);
CREATE INDEX owners_changed ON owners (changed);

-- Pages of ranges of hashes are removed. In a layout other than the first, the number of pages is
-- added to the number of a page. Such a page begins with the sequence of its ancestor.
DELETE FROM pages WHERE page BETWEEN 16777216 AND 2147483647;
INSERT INTO pages (page, sequence, changed)
    SELECT l.pages + p.page * (l.pages / f.pages) + n, p.sequence, p.changed
    FROM layouts l, (SELECT value::bigint AS pages FROM meta WHERE name = 'pages') AS f, pages p,
        LATERAL generate_series(0, l.pages / f.pages - 1) AS part (n)
    WHERE l.pages > f.pages AND p.page < f.pages;
DELETE FROM pages USING layouts l, meta m
    WHERE m.name = 'pages' AND l.pages > m.value::bigint AND pages.page < m.value::bigint;

DROP TABLE ranges;
DROP TABLE homes;
DROP INDEX pages_moved;
ALTER TABLE pages DROP COLUMN moves, DROP COLUMN least;
DELETE FROM meta WHERE name IN ('cut', 'numbers');

-- A new incarnation: pages in the store hold other keys, so all of them must be rebuilt.
UPDATE meta SET value = (('x' || substr(md5(random()::text || clock_timestamp()::text || value), 1, 15))::bit(60)::bigint + 1)::text
    WHERE name = 'incarnation';
