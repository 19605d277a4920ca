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

-- Set up

CREATE FUNCTION inbox_create(queue text, lease interval = '30 s',
	max_attempts int = NULL, dead_letter text = NULL,
	backoff interval = '1 s', backoff_max interval = '1 h',
	retention interval = NULL, dead_group text = NULL,
	fifo boolean = false, fifo_retry text = 'hold',
	if_not_exists boolean = false)
RETURNS text LANGUAGE C AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION inbox_create IS 'make a new queue; returns its qualified name';
