-- The facet that targets of a kind belong to: 'user', 'post', or one that the kind declares.
ALTER TABLE kinds ADD COLUMN target text COLLATE "C";
UPDATE kinds SET target = CASE WHEN users THEN 'user' ELSE 'post' END;
ALTER TABLE kinds ALTER COLUMN target SET NOT NULL, DROP COLUMN users;
