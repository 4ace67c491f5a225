-- The tables of Lemmy 1.0 that say what a feed leaves out. Each row holds all that a person did
-- about another one, a community or an instance.

CREATE TABLE person_actions (
	person_id int NOT NULL,
	target_id int NOT NULL,
	followed_at timestamptz,
	follow_pending boolean,
	blocked_at timestamptz,
	PRIMARY KEY (person_id, target_id)
);

CREATE TABLE community_actions (
	person_id int NOT NULL,
	community_id int NOT NULL,
	followed_at timestamptz,
	blocked_at timestamptz,
	PRIMARY KEY (person_id, community_id)
);

CREATE TABLE instance_actions (
	person_id int NOT NULL,
	instance_id int NOT NULL,
	blocked_communities_at timestamptz,
	blocked_persons_at timestamptz,
	PRIMARY KEY (person_id, instance_id)
);

-- What following needs. feedfilter follow --check prints it for your tables.

ALTER TABLE person_actions REPLICA IDENTITY FULL;
ALTER TABLE community_actions REPLICA IDENTITY FULL;
ALTER TABLE instance_actions REPLICA IDENTITY FULL;
CREATE PUBLICATION feedfilter_app
	FOR TABLE ONLY person_actions, ONLY community_actions, ONLY instance_actions
	WITH (publish_via_partition_root = true);
