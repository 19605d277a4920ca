-- complain if the script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION inbox" to load this file. \quit

-- without shared_preload_libraries there is something to know
CREATE FUNCTION inbox_tell_preload() RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C;
SELECT inbox_tell_preload();
DROP FUNCTION inbox_tell_preload();

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
COMMENT ON FUNCTION inbox_create(text, interval, int, text, interval, interval, interval, text, boolean, text, boolean) IS 'make a new queue; returns its qualified name';

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
COMMENT ON FUNCTION inbox_adopt(text, text, text, text, text, text, text, text, text, text, text, text, text, text, text, interval, int, text, interval, interval, interval, text, boolean, text, boolean) IS 'turn an existing table into a queue, telling what its columns are for; returns its qualified name';

CREATE FUNCTION inbox_changed() RETURNS trigger
AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON FUNCTION inbox_changed() IS
'function of the triggers by which plain writes to a queue become known; not to be called';

-- Send

CREATE FUNCTION inbox_send(queue text, payload jsonb, headers jsonb = NULL,
	delay interval = NULL, due_at timestamptz = NULL, priority int = NULL,
	group_key text = NULL, partition_key text = NULL, dedup_key text = NULL,
	OUT id text)
LANGUAGE C AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION inbox_send(text, jsonb, jsonb, interval, timestamptz, int, text, text, text) IS 'add a message, in the caller''s transaction; returns its id';

CREATE FUNCTION inbox_send_batch(queue text, payloads jsonb[],
	headers jsonb[] = NULL, delay interval = NULL, due_at timestamptz = NULL,
	priority int = NULL, group_keys text[] = NULL,
	partition_keys text[] = NULL, dedup_keys text[] = NULL)
RETURNS SETOF text LANGUAGE C ROWS 100 AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION inbox_send_batch(text, jsonb[], jsonb[], interval, timestamptz, int, text[], text[], text[]) IS 'add a message for each payload; returns their ids in the order of the payloads';

-- Consume

CREATE FUNCTION inbox_claim(queue text, max_rows bigint DEFAULT 1,
	lease interval DEFAULT NULL, group_key text DEFAULT NULL,
	wait interval DEFAULT NULL)
RETURNS SETOF inbox_delivery
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE ROWS 10;
COMMENT ON FUNCTION inbox_claim(text, bigint, interval, text, interval) IS
'lease up to max_rows claimable rows, in claim order';

CREATE FUNCTION inbox_claim(queue anyelement, max_rows bigint DEFAULT 1,
	lease interval DEFAULT NULL, group_key text DEFAULT NULL,
	wait interval DEFAULT NULL)
RETURNS SETOF anyelement
AS 'MODULE_PATHNAME', 'inbox_claim_row' LANGUAGE C VOLATILE ROWS 10;
COMMENT ON FUNCTION inbox_claim(anyelement, bigint, interval, text, interval) IS
'the same as whole rows of the queue, named by a NULL of its row type';

CREATE FUNCTION inbox_claim_ids(queue text, max_rows bigint DEFAULT 1,
	lease interval DEFAULT NULL, group_key text DEFAULT NULL,
	wait interval DEFAULT NULL,
	OUT id text, OUT receipt text, OUT attempt int, OUT locked_until timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE ROWS 10;
COMMENT ON FUNCTION inbox_claim_ids(text, bigint, interval, text, interval) IS
'lease rows without reading their payload';

CREATE FUNCTION inbox_receipt(row_of_queue anyelement) RETURNS text
AS 'MODULE_PATHNAME' LANGUAGE C STABLE;
COMMENT ON FUNCTION inbox_receipt(anyelement) IS
'the receipt of a leased row of a queue';

CREATE FUNCTION inbox_stamp(queue text, ids text[], lease interval DEFAULT NULL)
RETURNS SETOF inbox_delivery
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE ROWS 10;
COMMENT ON FUNCTION inbox_stamp(text, text[], interval) IS
'lease the rows named, leaving out those that are not claimable';

CREATE FUNCTION inbox_next(queue text, receipts text[] DEFAULT '{}',
	max_rows bigint DEFAULT 1, lease interval DEFAULT NULL,
	group_key text DEFAULT NULL, wait interval DEFAULT NULL)
RETURNS SETOF inbox_delivery
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE ROWS 10;
COMMENT ON FUNCTION inbox_next(text, text[], bigint, interval, text, interval) IS
'settle these receipts as done, then claim';

CREATE PROCEDURE inbox_wait(queue text, wait interval)
AS 'MODULE_PATHNAME' LANGUAGE C;
COMMENT ON PROCEDURE inbox_wait(text, interval) IS
'wait until there may be something to claim, outside any transaction: no snapshot and no lock is held';

CREATE FUNCTION inbox_extend(queue text, receipt text,
	lease interval DEFAULT NULL,
	OUT verdict text, OUT new_receipt text, OUT locked_until timestamptz)
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION inbox_extend(text, text, interval) IS
'extend a lease from now, for a holder still at work';

CREATE FUNCTION inbox_extend_batch(queue text, receipts text[],
	lease interval DEFAULT NULL,
	OUT receipt text, OUT verdict text, OUT new_receipt text,
	OUT locked_until timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION inbox_extend_batch(text, text[], interval) IS
'extend leases, one verdict for each receipt';

CREATE FUNCTION inbox_settle(queue text, receipt text,
	outcome text DEFAULT 'done', delay interval DEFAULT NULL,
	error text DEFAULT NULL, strict boolean DEFAULT false, OUT verdict text)
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION inbox_settle(text, text, text, interval, text, boolean) IS
'end a delivery: done, drop, retry, release or dead';

CREATE FUNCTION inbox_settle_batch(queue text, receipts text[],
	outcomes text[] DEFAULT '{done}', delays interval[] DEFAULT NULL,
	errors text[] DEFAULT NULL, strict boolean DEFAULT false,
	OUT receipt text, OUT id text, OUT verdict text)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION inbox_settle_batch(text, text[], text[], interval[], text[], boolean) IS
'end deliveries, one verdict for each receipt';

CREATE FUNCTION inbox_alter(queue text, lease interval = NULL,
	max_attempts int = NULL, dead_letter text = NULL,
	backoff interval = NULL, backoff_max interval = NULL,
	retention interval = NULL, dead_group text = NULL,
	fifo boolean = NULL, fifo_retry text = NULL, reset text[] = NULL)
RETURNS text LANGUAGE C AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION inbox_alter(text, interval, int, text, interval, interval, interval, text, boolean, text, text[]) IS 'change settings of a queue; NULL leaves one as it is, reset names those to unset';

CREATE FUNCTION inbox_drop(queue text)
RETURNS void LANGUAGE C AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION inbox_drop(text) IS 'drop a queue with its table, and with the dead-letter table that was made for it';

CREATE FUNCTION inbox_forget(queue text)
RETURNS void LANGUAGE C AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION inbox_forget(text) IS 'make a queue an ordinary table again';

CREATE FUNCTION inbox_pause(queue text)
RETURNS void LANGUAGE C AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION inbox_pause(text) IS 'hand out no more messages of a queue; sends go on';

CREATE FUNCTION inbox_resume(queue text)
RETURNS void LANGUAGE C AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION inbox_resume(text) IS 'undo inbox_pause';

-- Subscribe

CREATE TABLE inbox_subscription (
	name text COLLATE "C" PRIMARY KEY,
	queue regclass NOT NULL,
	handler text NOT NULL,
	handler_oid oid NOT NULL,
	home text NOT NULL,
	owner regrole NOT NULL,
	workers int NOT NULL,
	by_key boolean NOT NULL,
	lease interval,
	on_error text NOT NULL,
	on_decode_error text NOT NULL,
	decode_delay interval,
	group_key text,
	time_limit interval,
	paused boolean NOT NULL
);
COMMENT ON TABLE inbox_subscription IS
'definitions of subscriptions, as dumps have them; look at view inbox_subscriptions, and change them by functions';
SELECT pg_catalog.pg_extension_config_dump('inbox_subscription'::regclass, ''::text);
REVOKE ALL ON inbox_subscription FROM PUBLIC;
GRANT SELECT ON inbox_subscription TO PUBLIC;

CREATE FUNCTION inbox_subscribe(name text, queue text, handler regprocedure,
	workers int DEFAULT 1, by_key boolean DEFAULT false,
	lease interval DEFAULT NULL, on_error text DEFAULT 'retry',
	on_decode_error text DEFAULT 'drop', decode_delay interval DEFAULT NULL,
	group_key text DEFAULT NULL, time_limit interval DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION inbox_subscribe(text, text, regprocedure, int, boolean, interval, text, text, interval, text, interval) IS
'have background workers claim the messages of a queue and call a function for each, as the current user';

CREATE FUNCTION inbox_alter_subscription(name text,
	handler regprocedure DEFAULT NULL, workers int DEFAULT NULL,
	by_key boolean DEFAULT NULL, lease interval DEFAULT NULL,
	on_error text DEFAULT NULL, on_decode_error text DEFAULT NULL,
	decode_delay interval DEFAULT NULL, group_key text DEFAULT NULL,
	time_limit interval DEFAULT NULL, reset text[] DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION inbox_alter_subscription(text, regprocedure, int, boolean, interval, text, text, interval, text, interval, text[]) IS
'change a subscription; NULL leaves a setting as it is, reset names those to unset';

CREATE FUNCTION inbox_unsubscribe(name text) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION inbox_unsubscribe(text) IS
'end a subscription; messages stay in the queue';

CREATE FUNCTION inbox_pause_subscription(name text) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION inbox_pause_subscription(text) IS
'stop the workers of a subscription; what they have in work is finished first';

CREATE FUNCTION inbox_resume_subscription(name text) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION inbox_resume_subscription(text) IS
'undo inbox_pause_subscription; also starts a subscription that a restored dump or a copied database brought';

-- Operate

CREATE FUNCTION inbox_reap(queue text DEFAULT NULL,
	OUT queue text, OUT expired bigint, OUT buried bigint, OUT purged bigint,
	OUT set_aside bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE ROWS 10;
COMMENT ON FUNCTION inbox_reap(text) IS
'bury spent messages whose lease has ended and purge finished ones past their retention, in one queue or in all';

CREATE FUNCTION inbox_redrive(queue text, max_rows bigint DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION inbox_redrive(text, bigint) IS
'bring dead letters back into their queue, all or the newest, with fresh attempts; returns how many';

CREATE FUNCTION inbox_purge(queue text) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION inbox_purge(text) IS
'delete every message without a live lease; returns how many';

-- Look

CREATE FUNCTION inbox_worker_status(
	OUT database text,
	OUT pid int,
	OUT state text,
	OUT started_at timestamptz,
	OUT last_tick timestamptz,
	OUT tick_duration interval,
	OUT ticks bigint,
	OUT queues int,
	OUT expired bigint,
	OUT buried bigint,
	OUT purged bigint,
	OUT set_aside bigint,
	OUT last_error text,
	OUT last_error_at timestamptz
) RETURNS SETOF record
LANGUAGE c STRICT VOLATILE PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'inbox_worker_status_0_1';
COMMENT ON FUNCTION inbox_worker_status() IS
'what view inbox_workers shows';

CREATE VIEW inbox_workers AS
	SELECT * FROM inbox_worker_status();
COMMENT ON VIEW inbox_workers IS
'the background worker of each database of this server: what it does, how its last tick went, its last error; empty without shared_preload_libraries';
GRANT SELECT ON inbox_workers TO PUBLIC;

CREATE FUNCTION inbox_dead_letters(
	OUT queue text, OUT dead_letter text, OUT id text, OUT cause text,
	OUT error text, OUT attempt bigint, OUT died_at timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION inbox_dead_letters() IS
'what view inbox_dead shows';

CREATE VIEW inbox_dead AS SELECT * FROM inbox_dead_letters();
COMMENT ON VIEW inbox_dead IS
'dead letters of all queues, as far as the current user may read them';
GRANT SELECT ON inbox_dead TO PUBLIC;

CREATE FUNCTION inbox_queue_status(
	OUT queue text,
	OUT lease interval,
	OUT max_attempts int,
	OUT dead_letter text,
	OUT dead_group text,
	OUT backoff interval,
	OUT backoff_max interval,
	OUT retention interval,
	OUT paused boolean,
	OUT fifo boolean,
	OUT ready bigint,
	OUT delayed bigint,
	OUT leased bigint,
	OUT expired bigint,
	OUT spent bigint,
	OUT finished bigint,
	OUT dead bigint,
	OUT estimated boolean,
	OUT oldest_ready_age interval,
	OUT table_bytes bigint,
	OUT dead_rows bigint,
	OUT oldest_snapshot_pid int,
	OUT oldest_snapshot_holder text,
	OUT oldest_snapshot_age interval,
	OUT oldest_snapshot_xids bigint,
	OUT sent bigint,
	OUT claimed bigint,
	OUT done bigint,
	OUT dropped bigint,
	OUT retried bigint,
	OUT released bigint,
	OUT settled_dead bigint,
	OUT extended bigint,
	OUT expired_leases bigint,
	OUT stale bigint,
	OUT buried bigint,
	OUT purged bigint,
	OUT redriven bigint,
	OUT waits bigint,
	OUT send_rate double precision,
	OUT claim_rate double precision,
	OUT settle_rate double precision,
	OUT stats_since timestamptz,
	OUT uses_hints boolean,
	OUT no_hints_because text,
	OUT position_priority bigint,
	OUT position_due_at timestamptz,
	OUT open_ranges int,
	OUT covers int,
	OUT position_falls bigint,
	OUT walks bigint,
	OUT walk_entries bigint,
	OUT walk_dead_entries bigint,
	OUT walk_taken bigint,
	OUT dead_rows_ahead bigint,
	OUT problem text
) RETURNS SETOF record
AS 'MODULE_PATHNAME', 'inbox_queue_status_0_1'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE ROWS 10;
COMMENT ON FUNCTION inbox_queue_status() IS
'what view inbox_queues shows; use the view';

CREATE VIEW inbox_queues AS
	SELECT * FROM inbox_queue_status();
COMMENT ON VIEW inbox_queues IS
'each queue of this database on which the current user has any privilege, all of them for pg_monitor: settings, counts, ages, who keeps dead rows from removal, what has happened since the server''s start, and how claims find their way; every message is in one of ready, delayed, leased, expired, spent, finished and dead';
COMMENT ON COLUMN inbox_queues.queue IS 'schema-qualified name, quoted where SQL needs it';
COMMENT ON COLUMN inbox_queues.lease IS 'how long a claim lasts when it does not say';
COMMENT ON COLUMN inbox_queues.max_attempts IS 'deliveries before a message is buried; NULL: no limit';
COMMENT ON COLUMN inbox_queues.dead_letter IS 'table or queue in which messages are buried';
COMMENT ON COLUMN inbox_queues.dead_group IS 'group_key under which dead letters stay in the queue''s own table';
COMMENT ON COLUMN inbox_queues.backoff IS 'pause before the first retry; doubles with each further one';
COMMENT ON COLUMN inbox_queues.backoff_max IS 'longest pause before a retry';
COMMENT ON COLUMN inbox_queues.retention IS 'how long finished messages are kept; NULL: they are not purged';
COMMENT ON COLUMN inbox_queues.paused IS 'whether claims get nothing; the counts do not change by it';
COMMENT ON COLUMN inbox_queues.fifo IS 'whether at most one message of a group is in work';
COMMENT ON COLUMN inbox_queues.ready IS 'claimable, and not by the end of a lease';
COMMENT ON COLUMN inbox_queues.delayed IS 'not due yet, or without a due time';
COMMENT ON COLUMN inbox_queues.leased IS 'under a lease that has not ended';
COMMENT ON COLUMN inbox_queues.expired IS 'claimable because a lease ended without being settled';
COMMENT ON COLUMN inbox_queues.spent IS 'delivered as often as allowed, not settled, lease over: waiting to be buried by the worker or inbox_reap';
COMMENT ON COLUMN inbox_queues.finished IS 'processed and kept';
COMMENT ON COLUMN inbox_queues.dead IS 'dead letters; NULL where there are none, or they go to another queue and are counted there';
COMMENT ON COLUMN inbox_queues.estimated IS 'true: the table is large and at least one count is extrapolated from a random sample of its pages; what few messages have in common may be missed';
COMMENT ON COLUMN inbox_queues.oldest_ready_age IS 'how long the message has been claimable that has been so longest: since it was sent, was due, and its last lease ended; with estimates, of the messages looked at';
COMMENT ON COLUMN inbox_queues.table_bytes IS 'size of the table with its partitions, without indexes and TOAST';
COMMENT ON COLUMN inbox_queues.dead_rows IS 'row versions waiting for VACUUM, as the statistics system has it';
COMMENT ON COLUMN inbox_queues.oldest_snapshot_pid IS 'process that holds the oldest snapshot which VACUUM must respect in this database; the same for all queues; NULL: nobody, or no process';
COMMENT ON COLUMN inbox_queues.oldest_snapshot_holder IS 'what that is: client backend, walsender, prepared transaction, replication slot or other process';
COMMENT ON COLUMN inbox_queues.oldest_snapshot_age IS 'time since its transaction began or was prepared; NULL where not known, as for a slot';
COMMENT ON COLUMN inbox_queues.oldest_snapshot_xids IS 'writing transactions begun since that snapshot, in the whole server';
COMMENT ON COLUMN inbox_queues.sent IS 'messages added since stats_since, by inbox_send, INSERT, COPY, or as dead letters of another queue; not redriven ones; counted when the transaction commits, as all up to redriven but stale; NULL here and below: inbox is not preloaded, or inbox.max_queues is too low';
COMMENT ON COLUMN inbox_queues.claimed IS 'messages handed out';
COMMENT ON COLUMN inbox_queues.done IS 'settlements as done';
COMMENT ON COLUMN inbox_queues.dropped IS 'settlements as drop';
COMMENT ON COLUMN inbox_queues.retried IS 'settlements as retry that did not bury';
COMMENT ON COLUMN inbox_queues.released IS 'settlements as release';
COMMENT ON COLUMN inbox_queues.settled_dead IS 'settlements that buried: as dead, or as retry with the attempts spent';
COMMENT ON COLUMN inbox_queues.extended IS 'leases extended';
COMMENT ON COLUMN inbox_queues.expired_leases IS 'leases that ended unsettled, counted when the message is claimed again or buried';
COMMENT ON COLUMN inbox_queues.stale IS 'settlements that came too late: another consumer had the message; counted at once, even if rolled back';
COMMENT ON COLUMN inbox_queues.buried IS 'messages buried, by settlements and by the worker or inbox_reap';
COMMENT ON COLUMN inbox_queues.purged IS 'messages deleted by inbox_purge, or after their retention';
COMMENT ON COLUMN inbox_queues.redriven IS 'dead letters that inbox_redrive has brought back';
COMMENT ON COLUMN inbox_queues.waits IS 'claims with wait, and calls of inbox_wait, that found nothing at first and went to sleep; counted at once';
COMMENT ON COLUMN inbox_queues.send_rate IS 'messages added a second, over the last 50 to 60 seconds';
COMMENT ON COLUMN inbox_queues.claim_rate IS 'messages handed out a second, likewise';
COMMENT ON COLUMN inbox_queues.settle_rate IS 'settlements a second, of whatever outcome, likewise';
COMMENT ON COLUMN inbox_queues.stats_since IS 'since when all this is counted: the first use of the queue since the servers start';
COMMENT ON COLUMN inbox_queues.uses_hints IS 'whether claims of yours begin where claimable messages may be, and not at the left end of the index; NULL: see problem';
COMMENT ON COLUMN inbox_queues.no_hints_because IS 'why not';
COMMENT ON COLUMN inbox_queues.position_priority IS 'where claims begin: the most urgent priority they have been on; NULL: not known, or without priority';
COMMENT ON COLUMN inbox_queues.position_due_at IS 'and the due time there; NULL: at its beginning, or not known';
COMMENT ON COLUMN inbox_queues.open_ranges IS 'stretches of the claim order that a claim looks into; at most 64';
COMMENT ON COLUMN inbox_queues.covers IS 'groups of outstanding leases, by the time they end';
COMMENT ON COLUMN inbox_queues.position_falls IS 'how often something the claims knew was given up: too many open stretches, too many changes during one claim, settings altered; each costs some claims a longer walk';
COMMENT ON COLUMN inbox_queues.walks IS 'claims that walked the index';
COMMENT ON COLUMN inbox_queues.walk_entries IS 'index entries they went to';
COMMENT ON COLUMN inbox_queues.walk_dead_entries IS 'of them, those of rows that are gone';
COMMENT ON COLUMN inbox_queues.walk_taken IS 'messages they found and took; (walk_entries / walk_taken) is near 1 when all is well';
COMMENT ON COLUMN inbox_queues.dead_rows_ahead IS 'index entries of rows that are gone, which the latest claim had to step over';
COMMENT ON COLUMN inbox_queues.problem IS 'why counts are missing: a table is locked, or the queue is broken';
GRANT SELECT ON inbox_queues TO PUBLIC;

CREATE FUNCTION inbox_lease_status(
	OUT queue text,
	OUT id text,
	OUT attempt int,
	OUT claimed_at timestamptz,
	OUT locked_until timestamptz,
	OUT remaining interval,
	OUT group_key text
) RETURNS SETOF record
AS 'MODULE_PATHNAME', 'inbox_lease_status_0_1'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION inbox_lease_status() IS
'what view inbox_leases shows; use the view';

CREATE VIEW inbox_leases AS
	SELECT * FROM inbox_lease_status();
COMMENT ON VIEW inbox_leases IS
'every live lease in the queues that the current user may read, by his own rights and row security; reads the tables whole';
COMMENT ON COLUMN inbox_leases.queue IS 'schema-qualified name, quoted where SQL needs it';
COMMENT ON COLUMN inbox_leases.id IS 'id of the message';
COMMENT ON COLUMN inbox_leases.attempt IS 'which delivery this is, from 1; NULL where the queue does not count';
COMMENT ON COLUMN inbox_leases.claimed_at IS 'when it was claimed; NULL where the queue does not keep it';
COMMENT ON COLUMN inbox_leases.locked_until IS 'when the lease ends';
COMMENT ON COLUMN inbox_leases.remaining IS 'time until then';
COMMENT ON COLUMN inbox_leases.group_key IS 'group of the message';
GRANT SELECT ON inbox_leases TO PUBLIC;

CREATE FUNCTION inbox_group_status(
	OUT queue text,
	OUT group_key text,
	OUT backlog bigint,
	OUT head text,
	OUT head_state text,
	OUT head_attempt int,
	OUT head_due_at timestamptz,
	OUT leased text,
	OUT locked_until timestamptz
) RETURNS SETOF record
AS 'MODULE_PATHNAME', 'inbox_group_status_0_1'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION inbox_group_status() IS
'what view inbox_groups shows; use the view';

CREATE VIEW inbox_groups AS
	SELECT * FROM inbox_group_status();
COMMENT ON VIEW inbox_groups IS
'every group of the FIFO queues that the current user may read, by his own rights and row security; reads the tables whole';
COMMENT ON COLUMN inbox_groups.queue IS 'schema-qualified name, quoted where SQL needs it';
COMMENT ON COLUMN inbox_groups.group_key IS 'the group';
COMMENT ON COLUMN inbox_groups.backlog IS 'unfinished messages of the group';
COMMENT ON COLUMN inbox_groups.head IS 'id of the first of them in claim order';
COMMENT ON COLUMN inbox_groups.head_state IS 'ready, expired (ready again after a lost lease), leased, resting, delayed or spent';
COMMENT ON COLUMN inbox_groups.head_attempt IS 'the attempt that its next delivery reports; NULL where the queue does not count';
COMMENT ON COLUMN inbox_groups.head_due_at IS 'when it is or was due';
COMMENT ON COLUMN inbox_groups.leased IS 'id of the message in work, which need not be the head; NULL: none';
COMMENT ON COLUMN inbox_groups.locked_until IS 'when its lease ends, or the head has rested';
GRANT SELECT ON inbox_groups TO PUBLIC;

CREATE FUNCTION inbox_subscription_status(
	OUT name text,
	OUT queue text,
	OUT handler text,
	OUT owner text,
	OUT workers int,
	OUT by_key boolean,
	OUT lease interval,
	OUT on_error text,
	OUT on_decode_error text,
	OUT decode_delay interval,
	OUT group_key text,
	OUT time_limit interval,
	OUT paused boolean,
	OUT state text,
	OUT problem text,
	OUT running int,
	OUT pids int[],
	OUT handled bigint,
	OUT failed bigint,
	OUT undecodable bigint,
	OUT lost bigint,
	OUT rate double precision,
	OUT last_error text,
	OUT last_error_at timestamptz,
	OUT stats_since timestamptz
) RETURNS SETOF record
AS 'MODULE_PATHNAME', 'inbox_subscription_status_0_1'
LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE ROWS 10;
COMMENT ON FUNCTION inbox_subscription_status() IS
'what view inbox_subscriptions shows; use the view';

CREATE VIEW inbox_subscriptions AS
	SELECT * FROM inbox_subscription_status();
COMMENT ON VIEW inbox_subscriptions IS
'the subscriptions of this database: how they are defined, what they do, what has happened since the server''s start';
GRANT SELECT ON inbox_subscriptions TO PUBLIC;
