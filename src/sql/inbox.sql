-- complain if the script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION inbox" to load this file. \quit

CREATE TYPE inbox_delivery AS (
	id text,
	receipt text,
	attempt int,
	max_attempts int,
	payload jsonb,
	headers jsonb,
	priority int,
	due_at timestamptz,
	enqueued_at timestamptz,
	group_key text,
	partition_key text,
	locked_until timestamptz
);
COMMENT ON TYPE inbox_delivery IS 'one claimed row as its holder sees it';
