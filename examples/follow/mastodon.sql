-- The tables of Mastodon that say what a home feed leaves out, without their indexes.

CREATE TABLE blocks (
	id bigserial PRIMARY KEY,
	created_at timestamp NOT NULL,
	updated_at timestamp NOT NULL,
	account_id bigint NOT NULL,
	target_account_id bigint NOT NULL,
	uri varchar
);

CREATE TABLE mutes (
	id bigserial PRIMARY KEY,
	created_at timestamp NOT NULL,
	updated_at timestamp NOT NULL,
	hide_notifications boolean NOT NULL DEFAULT true,
	account_id bigint NOT NULL,
	target_account_id bigint NOT NULL,
	expires_at timestamp
);

CREATE TABLE account_domain_blocks (
	id bigserial PRIMARY KEY,
	domain varchar,
	created_at timestamp NOT NULL,
	updated_at timestamp NOT NULL,
	account_id bigint
);

-- What following needs. feedfilter follow --check prints it for your tables.

ALTER TABLE blocks REPLICA IDENTITY FULL;
ALTER TABLE mutes REPLICA IDENTITY FULL;
ALTER TABLE account_domain_blocks REPLICA IDENTITY FULL;
CREATE PUBLICATION feedfilter_app FOR TABLE ONLY blocks, ONLY mutes, ONLY account_domain_blocks
	WITH (publish_via_partition_root = true);
