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

CREATE FUNCTION inbox_adopt(queue text, id text = 'id',
	locked_until text = 'locked_until', claimed_at text = NULL,
	attempt text = NULL, payload text = NULL, headers text = NULL,
	due_at text = NULL, priority text = NULL, group_key text = NULL,
	partition_key text = NULL, enqueued_at text = NULL,
	processed_at text = NULL, last_error text = NULL, dedup_key text = NULL,
	lease interval = '30 s', max_attempts int = NULL,
	dead_letter text = NULL, backoff interval = '1 s',
	backoff_max interval = '1 h', retention interval = NULL,
	dead_group text = NULL, fifo boolean = false, fifo_retry text = 'hold',
	triggers boolean = true)
RETURNS text LANGUAGE C AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION inbox_adopt IS 'turn an existing table into a queue, telling what its columns are for; returns its qualified name';

CREATE FUNCTION inbox_alter(queue text, lease interval = NULL,
	max_attempts int = NULL, dead_letter text = NULL,
	backoff interval = NULL, backoff_max interval = NULL,
	retention interval = NULL, dead_group text = NULL,
	fifo boolean = NULL, fifo_retry text = NULL, reset text[] = NULL)
RETURNS text LANGUAGE C AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION inbox_alter IS 'change settings of a queue; NULL leaves one as it is, reset names those to unset';

CREATE FUNCTION inbox_drop(queue text)
RETURNS void LANGUAGE C AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION inbox_drop IS 'drop a queue with its table, and with the dead-letter table that was made for it';

CREATE FUNCTION inbox_forget(queue text)
RETURNS void LANGUAGE C AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION inbox_forget IS 'make a queue an ordinary table again';

CREATE FUNCTION inbox_pause(queue text)
RETURNS void LANGUAGE C AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION inbox_pause IS 'hand out no more messages of a queue; sends go on';

CREATE FUNCTION inbox_resume(queue text)
RETURNS void LANGUAGE C AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION inbox_resume IS 'undo inbox_pause';
