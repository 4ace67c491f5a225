-- An app of your own: blocks, hides that can be taken back, and shared block lists.

CREATE TABLE blocks (
	blocker_id bigint NOT NULL,
	blocked_id bigint NOT NULL,
	created_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (blocker_id, blocked_id)
);

CREATE TABLE hides (
	id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
	user_id bigint NOT NULL,
	post_id bigint NOT NULL,
	hidden_at timestamptz NOT NULL DEFAULT now(),
	expires_at timestamptz,
	deleted_at timestamptz
);

CREATE TABLE list_members (
	list_id bigint NOT NULL,
	member_id bigint NOT NULL,
	state text NOT NULL DEFAULT 'proposed',
	PRIMARY KEY (list_id, member_id)
);

-- What following needs. feedfilter follow --check prints it for your tables.

ALTER TABLE blocks REPLICA IDENTITY FULL;
ALTER TABLE hides REPLICA IDENTITY FULL;
ALTER TABLE list_members REPLICA IDENTITY FULL;
CREATE PUBLICATION feedfilter_app FOR TABLE ONLY blocks, ONLY hides, ONLY list_members
	WITH (publish_via_partition_root = true);
