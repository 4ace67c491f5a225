-- The hash of the target, stored like hash, if the target is a user
-- whose page has no row that stands for this one; NULL otherwise.
ALTER TABLE entries ADD COLUMN target_hash INTEGER;

-- Rows that name a user. The others are not in it.
CREATE INDEX entries_naming ON entries (target_hash, target, hash, owner, kind) WHERE target_hash IS NOT NULL;
