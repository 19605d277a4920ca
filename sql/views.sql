--
-- inbox_queues and inbox_leases: counts by state, ages, who sees what
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS inbox;
CREATE SCHEMA "the views";
SET search_path = "the views", public;
DROP ROLE IF EXISTS views_owner, views_column, views_insert, views_monitor, views_outsider, views_reader;
CREATE ROLE views_owner;
CREATE ROLE views_column;
CREATE ROLE views_insert;
CREATE ROLE views_monitor IN ROLE pg_monitor;
CREATE ROLE views_outsider;
CREATE ROLE views_reader;
GRANT USAGE, CREATE ON SCHEMA "the views" TO PUBLIC;
RESET client_min_messages;
\pset format unaligned
\pset null '(null)'

-- counts of one queue, without what differs from run to run
CREATE FUNCTION counts(name text) RETURNS TABLE (ready bigint, delayed bigint, leased bigint,
	expired bigint, spent bigint, finished bigint, dead bigint, estimated boolean, problem text)
LANGUAGE sql AS $$
	SELECT ready, delayed, leased, expired, spent, finished, dead, estimated, problem
	FROM inbox_queues WHERE queue = name
$$;

\echo '# settings'
SELECT inbox_create('plain');
SELECT inbox_create('full', lease => '90 s', max_attempts => 3, backoff => '2.5 s',
	backoff_max => '1 day', retention => '30 days');
SELECT inbox_create('grouped', max_attempts => 2, dead_group => 'dead "ones"');
SELECT inbox_create('onward', max_attempts => 2, dead_letter => 'plain');
SELECT queue, lease, max_attempts, dead_letter, dead_group, backoff, backoff_max, retention, paused, fifo
FROM inbox_queues WHERE queue LIKE '"the views"%' ORDER BY queue;

\echo '# an empty queue'
SELECT * FROM counts('"the views".plain');
SELECT oldest_ready_age, table_bytes, dead_rows FROM inbox_queues WHERE queue = '"the views"."plain"' OR queue = '"the views".plain';

\echo '# every state; uncommitted, so that no worker buries what is spent'
BEGIN;
INSERT INTO "full"(payload, due_at, locked_until, attempt, processed_at)
SELECT '1', now() + due, now() + lock, attempt, CASE WHEN done THEN now() END
FROM (VALUES
	-- ready
	('-1 h'::interval, NULL::interval, 1, false), ('-1 h', NULL, 3, false), ('0', NULL, 1, false),
	-- delayed
	('1 h', NULL, 1, false), ('1 h', '-1 min', 2, false),
	-- leased, the last one with its attempts spent
	('0', '1 h', 2, false), ('0', '1 h', 4, false), ('1 h', '1 h', 2, false), ('0', '1 h', 9, false),
	-- expired
	('0', '-1 h', 2, false), ('0', '-1 h', 3, false), ('0', '-1 min', 3, false), ('0', '-1 min', 3, false), ('0', '0', 2, false),
	-- spent
	('0', '-1 h', 4, false), ('0', NULL, 4, false), ('1 h', '-1 h', 5, false), ('0', '-1 h', 5, false), ('0', '-1 h', 5, false), ('0', '-1 h', 5, false),
	-- finished
	('0', NULL, 1, true), ('-1 h', '1 h', 7, true), ('1 h', NULL, 1, true), ('0', NULL, 1, true), ('0', NULL, 1, true), ('0', NULL, 1, true), ('0', NULL, 1, true)
) v(due, lock, attempt, done);
INSERT INTO full_dead(id, payload, cause) SELECT i, '1', 'failed' FROM generate_series(1, 8) i;
SELECT * FROM counts('"the views"."full"');
SELECT ready + delayed + leased + expired + spent + finished = (SELECT count(*) FROM "full") AS each_once
FROM counts('"the views"."full"');
\echo '# what is claimable by the view, a claim gets'
SELECT (SELECT ready + expired FROM counts('"the views"."full"')) AS claimable,
	(SELECT count(*) FROM inbox_claim('full', 1000)) AS claimed;
ROLLBACK;

\echo '# dead letters under a group of the same table; those in another queue'
BEGIN;
INSERT INTO grouped(payload, group_key, attempt, locked_until) VALUES
	('1', 'dead "ones"', 1, NULL), ('1', 'dead "ones"', 1, now() - interval '1 h'),
	('1', 'dead "ones"', 2, now() + interval '1 h'),
	('1', 'other', 1, NULL), ('1', NULL, 1, NULL);
SELECT * FROM counts('"the views".grouped');
SELECT (SELECT ready + expired FROM counts('"the views".grouped')) AS claimable,
	(SELECT count(*) FROM inbox_claim('grouped', 1000)) AS claimed;
SELECT * FROM counts('"the views".onward');
ROLLBACK;

\echo '# paused'
INSERT INTO plain(payload) VALUES ('1');
SELECT inbox_pause('plain');
SELECT queue, paused, ready FROM inbox_queues WHERE queue = '"the views".plain';
SELECT inbox_resume('plain');
SELECT paused FROM inbox_queues WHERE queue = '"the views".plain';

\echo '# age of the oldest claimable message: since it was sent, was due, and its lease ended'
CREATE FUNCTION age(sent interval, due interval, lock interval, VARIADIC more interval[] = '{}') RETURNS text
LANGUAGE plpgsql AS $$
DECLARE answer interval;
BEGIN
	DELETE FROM plain;
	INSERT INTO plain(payload, enqueued_at, due_at, locked_until)
	VALUES ('1', clock_timestamp() - sent, clock_timestamp() - due, clock_timestamp() - lock);
	INSERT INTO plain(payload, enqueued_at, due_at)
	SELECT '1', clock_timestamp() - m, clock_timestamp() - m FROM unnest(more) m;
	SELECT oldest_ready_age INTO answer FROM inbox_queues WHERE queue = '"the views".plain';
	RETURN date_trunc('minute', answer);
END $$;
SELECT age('5 min', '5 min', NULL) AS sent, age('5 min', '3 min', NULL) AS due,
	age('5 min', '1 h', NULL) AS due_before_sent, age('5 min', '5 min', '2 min') AS expired,
	age('5 min', '-5 min', NULL) AS delayed, age('5 min', '5 min', '-2 min') AS leased,
	age('5 min', '5 min', '-2 min', '3 min', '4 min', '1 min') AS oldest_of_several,
	age('-5 min', '5 min', NULL) AS from_the_future;

\echo '# adopted, hostile names, attempts from 0, no clock but the lease'
CREATE TABLE "My ""Jobs"" ; --" ("The Id" uuid PRIMARY KEY, "locked ""until" timestamptz, "AT" smallint DEFAULT 0,
	"a group" varchar(10), body bytea);
SET client_min_messages = error;
SELECT inbox_adopt('"My ""Jobs"" ; --"', id => 'The Id', locked_until => 'locked "until', attempt => 'AT',
	group_key => 'a group', payload => 'body', max_attempts => NULL);
RESET client_min_messages;
INSERT INTO "My ""Jobs"" ; --" VALUES ('00000000-0000-0000-0000-000000000001', NULL, 0, 'g', NULL),
	('00000000-0000-0000-0000-000000000002', now() + interval '1 h', 2, 'h', NULL),
	('00000000-0000-0000-0000-000000000003', now() - interval '1 h', NULL, NULL, NULL);
SELECT c.* FROM inbox_queues q, counts(queue) c WHERE queue LIKE '%Jobs%';
SELECT queue, oldest_ready_age BETWEEN '1 h' AND '1 h 10 min' AS age FROM inbox_queues WHERE queue LIKE '%Jobs%';
SELECT queue, id, attempt, claimed_at, remaining BETWEEN '50 min' AND '1 h' AS remaining, group_key
FROM inbox_leases WHERE queue LIKE '%Jobs%';

\echo '# partitions, whose columns are in another order; a child table'
CREATE TABLE parted (id bigint, region int, locked_until timestamptz, claimed_at timestamptz,
	due_at timestamptz, processed_at timestamptz, PRIMARY KEY (region, id)) PARTITION BY LIST (region);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1);
CREATE TABLE parted_2 (junk int, due_at timestamptz, processed_at timestamptz, claimed_at timestamptz,
	locked_until timestamptz, region int NOT NULL, id bigint NOT NULL);
ALTER TABLE parted_2 DROP COLUMN junk;
ALTER TABLE parted ATTACH PARTITION parted_2 FOR VALUES IN (2);
CREATE TABLE parted_3 PARTITION OF parted FOR VALUES IN (3) PARTITION BY LIST (id);
CREATE TABLE parted_3_all PARTITION OF parted_3 DEFAULT;
CREATE TABLE family (id bigint PRIMARY KEY, locked_until timestamptz);
CREATE TABLE family_child (extra int) INHERITS (family);
SET client_min_messages = error;
SELECT inbox_adopt('parted', claimed_at => 'claimed_at', due_at => 'due_at', processed_at => 'processed_at');
SELECT inbox_adopt('family');
RESET client_min_messages;
INSERT INTO parted SELECT i, 1 + i % 3, CASE WHEN i % 5 = 0 THEN now() + interval '1 h' END, now(),
	CASE WHEN i % 7 > 0 THEN now() END, CASE WHEN i % 2 = 0 THEN now() END FROM generate_series(1, 210) i;
INSERT INTO family VALUES (1, NULL);
INSERT INTO family_child VALUES (2, now() + interval '1 h', 1), (3, NULL, 1);
SELECT * FROM counts('"the views".parted');
SELECT count(*) FILTER (WHERE processed_at IS NULL AND (locked_until IS NULL) AND due_at IS NOT NULL) AS ready,
	count(*) FILTER (WHERE processed_at IS NULL AND locked_until IS NULL AND due_at IS NULL) AS parked,
	count(*) FILTER (WHERE processed_at IS NULL AND locked_until IS NOT NULL) AS leased,
	count(*) FILTER (WHERE processed_at IS NOT NULL) AS finished FROM parted;
SELECT * FROM counts('"the views".family');
SELECT count(*), count(DISTINCT id), sum(id::int) FROM inbox_leases WHERE queue = '"the views".parted';
SELECT sum(id) FROM parted WHERE processed_at IS NULL AND locked_until IS NOT NULL;
SELECT id, attempt FROM inbox_leases WHERE queue = '"the views".family';

\echo '# claims and settlements as the views see them'
DELETE FROM plain;
INSERT INTO plain(payload, group_key) SELECT '1', 'g' FROM generate_series(1, 5);
SELECT max(receipt) AS r FROM inbox_claim('plain', 2, lease => '1 h') \gset
SELECT * FROM counts('"the views".plain');
SELECT l.attempt, l.claimed_at = q.claimed_at AS claimed_at, l.locked_until = q.locked_until AS locked_until,
	l.remaining BETWEEN '50 min' AND '1 h' AS remaining, l.group_key
FROM inbox_leases l JOIN plain q ON q.id::text = l.id WHERE l.queue = '"the views".plain';
SELECT inbox_settle('plain', :'r', 'retry', delay => '1 h');
SELECT * FROM counts('"the views".plain');
SELECT count(*) FROM inbox_leases WHERE queue = '"the views".plain';

\echo '# who sees it: any privilege on the table or a column, or pg_monitor'
ALTER TABLE plain OWNER TO views_owner;
GRANT SELECT (id) ON plain TO views_column;
GRANT INSERT ON plain TO views_insert;
GRANT SELECT (id, locked_until, claimed_at, attempt, due_at, group_key) ON plain TO views_reader;
CREATE FUNCTION seen() RETURNS TABLE (who name, queues bigint, leases bigint) LANGUAGE sql AS $$
	SELECT current_user, (SELECT count(*) FROM inbox_queues WHERE queue = '"the views".plain' AND ready = 3),
		(SELECT count(*) FROM inbox_leases WHERE queue = '"the views".plain')
$$;
SET ROLE views_owner; SELECT * FROM seen();
SET ROLE views_column; SELECT * FROM seen();
SET ROLE views_insert; SELECT * FROM seen();
SET ROLE views_monitor; SELECT * FROM seen();
SET ROLE views_reader; SELECT * FROM seen();
SET ROLE views_outsider; SELECT * FROM seen();
SELECT count(*) FROM inbox_queues WHERE queue LIKE '"the views"%';
SELECT count(*) FROM inbox_leases WHERE queue LIKE '"the views"%';
RESET ROLE;

\echo '# row security: totals for who may look at the queue, leases by the policies'
ALTER TABLE plain ENABLE ROW LEVEL SECURITY;
GRANT SELECT ON plain TO views_insert;
SELECT count(*) AS leases FROM inbox_claim('plain', 3, lease => '1 h');
SET ROLE views_reader; SELECT (SELECT leased FROM counts('"the views".plain')), (SELECT count(*) FROM inbox_leases WHERE queue = '"the views".plain') AS listed;
RESET ROLE;
CREATE FUNCTION even(id bigint) RETURNS boolean LANGUAGE sql VOLATILE AS 'SELECT id % 2 = 0';
CREATE POLICY own ON plain USING (current_user = 'views_reader' AND even(id));
SET ROLE views_reader;
SELECT count(*) > 0 AS some, bool_and(id::bigint % 2 = 0) AS allowed FROM inbox_leases
WHERE queue = '"the views".plain';
SET ROLE views_insert;
SELECT count(*) FROM inbox_leases WHERE queue = '"the views".plain';
SET ROLE views_owner;
SELECT count(*) FROM inbox_leases WHERE queue = '"the views".plain';
RESET ROLE;

\echo '# a policy must not use the eyes of who looks to write'
CREATE TABLE loot (who name);
GRANT INSERT ON loot TO views_reader;
CREATE FUNCTION grab(bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN INSERT INTO "the views".loot VALUES (current_user); RETURN true; END $$;
ALTER POLICY own ON plain USING (grab(id));
SET ROLE views_reader;
SELECT count(*) FROM inbox_leases WHERE queue = '"the views".plain';
SELECT ready, leased FROM counts('"the views".plain');
-- and the transaction can still write
INSERT INTO loot VALUES ('mine');
RESET ROLE;
SELECT * FROM loot;
DROP POLICY own ON plain;
ALTER TABLE plain DISABLE ROW LEVEL SECURITY;

\echo '# an index of the owner''s runs no code of his as who looks'
CREATE TABLE trap (id bigint NOT NULL, locked_until timestamptz);
CREATE UNIQUE INDEX trap_key ON trap (id);
SET client_min_messages = error;
SELECT inbox_adopt('trap');
RESET client_min_messages;
CREATE FUNCTION spring() RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN IF current_user = 'views_monitor' THEN RAISE WARNING 'ran as %', current_user; END IF; RETURN true; END $$;
INSERT INTO trap VALUES (1, now() + interval '1 h');
GRANT SELECT ON trap TO views_monitor;
CREATE UNIQUE INDEX ON trap (id) WHERE spring();
CREATE INDEX ON trap ((spring()), id);
-- comes after the others now
DROP INDEX trap_key;
CREATE UNIQUE INDEX trap_key ON trap (id);
SET ROLE views_monitor;
SELECT * FROM counts('"the views".trap');
SELECT id FROM inbox_leases WHERE queue = '"the views".trap';
RESET ROLE;
DROP TABLE trap;

\echo '# a broken queue has its row, and the others theirs'
CREATE TABLE broken (id bigint PRIMARY KEY, locked_until timestamptz);
SET client_min_messages = error;
SELECT inbox_adopt('broken');
RESET client_min_messages;
SELECT * FROM counts('"the views".broken');
ALTER TABLE broken DROP COLUMN locked_until;
SELECT * FROM counts('"the views".broken');
SELECT lease, oldest_ready_age, table_bytes, dead_rows FROM inbox_queues WHERE queue = '"the views".broken';
SELECT ready FROM counts('"the views".parted');
SELECT count(*) > 0 AS others FROM inbox_leases;
DROP TABLE broken;

\echo '# a table of many pages: estimated, but not what its head shows'
SELECT inbox_create('large', max_attempts => 3);
ALTER TABLE large ALTER payload SET STORAGE PLAIN;
ALTER TABLE large SET (autovacuum_enabled = off);
ALTER TABLE large_dead SET (autovacuum_enabled = off);
INSERT INTO large(payload, priority, due_at, enqueued_at)
SELECT to_jsonb(repeat('x', 1500)), 5, now() - interval '1 min', now() - interval '1 min' FROM generate_series(1, 4000);
-- one message of a later priority that starves, wherever its page is
INSERT INTO large(payload, priority, due_at, enqueued_at) VALUES ('1', 9, now() - interval '1 day', now() - interval '1 day');
SELECT count(*) FROM inbox_claim('large', 7, lease => '1 h');
SELECT estimated, ready BETWEEN 3600 AND 4400 AS ready, leased >= 7 AS leased, delayed, expired, spent, finished, dead, problem
FROM counts('"the views".large');
SELECT oldest_ready_age BETWEEN '1 day' AND '1 day 1 h' AS starved, table_bytes = pg_relation_size('large') AS bytes,
	table_bytes > 128 * 8192 AS large FROM inbox_queues WHERE queue = '"the views".large';
INSERT INTO large_dead(id, payload, cause) SELECT i, to_jsonb(repeat('x', 1500)), 'failed' FROM generate_series(1, 2000) i;
SELECT dead BETWEEN 1800 AND 2200 AS dead FROM counts('"the views".large');
\echo '# nearly drained, it is exact again, from the claim index'
DELETE FROM large_dead;
DELETE FROM large WHERE id > 20;
-- a snapshot from before the delete would keep the rows
DO $$ BEGIN
	WHILE EXISTS (SELECT FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database() AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)) LOOP
		PERFORM pg_stat_clear_snapshot();
	END LOOP;
END $$;
VACUUM large;
VACUUM large_dead;
SELECT pg_relation_size('large') / 8192 > 128 AS still_large;
SELECT * FROM counts('"the views".large');
\echo '# also with finished messages, whose count is then the estimate'
SELECT inbox_create('kept', retention => '1 year');
ALTER TABLE kept ALTER payload SET STORAGE PLAIN;
INSERT INTO kept(payload, processed_at)
SELECT to_jsonb(repeat('x', 1500)), now() FROM generate_series(1, 2000);
INSERT INTO kept(payload, locked_until) SELECT '1', CASE WHEN i > 2 THEN now() + interval '1 h' END FROM generate_series(1, 3) i;
SELECT ready, leased, finished BETWEEN 1800 AND 2200 AS finished, estimated FROM counts('"the views".kept');
\echo '# without an index for it, and with partitions'
CREATE TABLE heap (region int, id bigint, locked_until timestamptz, filler text, PRIMARY KEY (region, id)) PARTITION BY LIST (region);
CREATE TABLE heap_1 PARTITION OF heap FOR VALUES IN (1);
CREATE TABLE heap_2 PARTITION OF heap FOR VALUES IN (2);
CREATE TABLE heap_3 PARTITION OF heap FOR VALUES IN (3);
ALTER TABLE heap ALTER filler SET STORAGE PLAIN;
SET client_min_messages = error;
SELECT inbox_adopt('heap');
RESET client_min_messages;
INSERT INTO heap SELECT CASE WHEN i > 200 THEN 3 ELSE 1 END, i, CASE WHEN i > 1800 THEN now() + interval '1 h' END, repeat('x', 1500)
FROM generate_series(1, 3600) i;
SELECT ready BETWEEN 1500 AND 2100 AS ready, leased BETWEEN 1500 AND 2100 AS leased,
	ready + leased BETWEEN 3400 AND 3800 AS all, estimated FROM counts('"the views".heap');

\echo '# who holds the oldest snapshot'
CREATE FUNCTION wait_for_holder(pattern text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r record;
	deadline timestamptz = clock_timestamp() + interval '3 min';
BEGIN
	-- a worker may have one that is older, for an instant
	LOOP
		SELECT DISTINCT oldest_snapshot_pid AS pid, oldest_snapshot_holder AS holder,
			oldest_snapshot_age AS age, oldest_snapshot_xids AS xids INTO STRICT r FROM inbox_queues;
		EXIT WHEN (r.holder ~ pattern AND coalesce(r.pid, pg_backend_pid()) = pg_backend_pid()) OR clock_timestamp() > deadline;
		PERFORM pg_sleep(0.01);
	END LOOP;
	RETURN format('%s, pid: %s, age: %s, xids: %s', r.holder,
		CASE r.pid WHEN pg_backend_pid() THEN 'own' ELSE r.pid::text END,
		CASE WHEN r.age BETWEEN '0' AND '10 min' THEN 'known' END, CASE WHEN r.xids > 0 THEN 'some' ELSE r.xids::text END);
END $$;
BEGIN;
CREATE TABLE prepared ();
PREPARE TRANSACTION 'it''s forgotten';
CREATE TABLE later ();
SELECT wait_for_holder('forgotten');
COMMIT PREPARED 'it''s forgotten';
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT wait_for_holder('client backend');
ROLLBACK;

\echo '# a queue that is dropped or forgotten is gone'
SELECT inbox_drop('onward');
SELECT inbox_forget('grouped');
SELECT count(*) FROM inbox_queues WHERE queue IN ('"the views".onward', '"the views".grouped');

\echo '# read-only, and serializable'
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY;
SELECT count(*) > 0 AS queues FROM inbox_queues;
SELECT count(*) > 0 AS leases FROM inbox_leases;
SELECT count(*) FROM pg_locks WHERE mode = 'SIReadLock' AND relation::regclass::text ~ 'plain|large|heap|parted|kept'
	AND pid = pg_backend_pid();
SELECT count(*) AS locks_held FROM pg_locks WHERE relation::regclass::text ~ 'plain|large|heap|parted|kept'
	AND pid = pg_backend_pid();
COMMIT;

\echo '# everything is explained'
SELECT attrelid::regclass, attname FROM pg_attribute
WHERE attrelid IN ('inbox_queues'::regclass, 'inbox_leases'::regclass) AND attnum > 0
	AND col_description(attrelid, attnum) IS NULL;

SET client_min_messages = warning;
DROP SCHEMA "the views" CASCADE;
DROP ROLE views_owner, views_column, views_insert, views_monitor, views_outsider, views_reader;
