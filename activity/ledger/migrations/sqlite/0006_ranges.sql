-- Each row places the users whose hashes lie between it and the home's next row, or
-- behind it if it is the last. They are on page since the home was last reshaped, and
-- were on left_page before. The two are the same if the reshape did not move them. least is stored
-- like the hash of entries. Users before the first row are on the home page, as are all users of a
-- home without rows.
CREATE TABLE ranges (
    least     INTEGER PRIMARY KEY,
    page      INTEGER NOT NULL,
    left_page INTEGER NOT NULL
) STRICT;
CREATE INDEX ranges_page ON ranges (page);

-- Into pages of how many the homes are cut, of those that were ever reshaped.
CREATE TABLE homes (
    home        INTEGER PRIMARY KEY,
    pages       INTEGER NOT NULL,
    reshaped_at INTEGER NOT NULL -- microseconds since 1970, UTC
) STRICT;
CREATE INDEX homes_pages ON homes (pages);

-- The least hash of the users whom a page of ranges is made for: it stands where that one's
-- home does. NULL for home pages, and those of one user.
ALTER TABLE pages ADD COLUMN least INTEGER;
