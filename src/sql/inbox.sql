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

CREATE FUNCTION inbox_reap(
	queue text = NULL,
	OUT queue text, OUT expired bigint, OUT buried bigint, OUT purged bigint, OUT set_aside bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION inbox_reap(text) IS 'bury spent messages whose lease has ended and purge finished ones past their retention, in one queue or in all';
