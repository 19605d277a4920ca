--
-- inbox_queues: what has happened in a queue, and how claims find their way
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS inbox;
CREATE SCHEMA totals;
SET search_path = totals, public;
DROP ROLE IF EXISTS totals_owner, totals_sender, totals_outsider, totals_monitor;
CREATE ROLE totals_owner;
CREATE ROLE totals_sender;
CREATE ROLE totals_outsider;
CREATE ROLE totals_monitor IN ROLE pg_monitor;
GRANT USAGE, CREATE ON SCHEMA totals TO PUBLIC;
RESET client_min_messages;
\pset format unaligned
\pset null '(null)'

-- the totals of a queue that are not zero
CREATE FUNCTION totals(name text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(key || ' ' || value, ', ' ORDER BY n)
	FROM inbox_queues q, unnest(ARRAY['sent', 'claimed', 'done', 'dropped', 'retried', 'released', 'settled_dead',
		'extended', 'expired_leases', 'stale', 'buried', 'purged', 'redriven', 'waits']) WITH ORDINALITY k(key, n),
		LATERAL (SELECT to_jsonb(q) ->> key) v(value)
	WHERE queue = 'totals.' || name AND value IS DISTINCT FROM '0'
$$;
-- the worker may be faster with some of it, or have it locked just now
CREATE FUNCTION reaped(name text, expected text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE deadline timestamptz = clock_timestamp() + interval '3 min';
BEGIN
	WHILE totals(name) IS DISTINCT FROM expected AND clock_timestamp() < deadline LOOP
		PERFORM pg_sleep(0.02);
	END LOOP;
	RETURN totals(name);
END $$;

SELECT inbox_create('jobs');
INSERT INTO jobs(payload) VALUES ('1');

SELECT current_setting('shared_preload_libraries') ~ 'inbox' AS preloaded \gset
\if :preloaded
\else
\echo '# without preload there are none, and the view says so'
SELECT DISTINCT key, value FROM inbox_queues q, jsonb_each(to_jsonb(q)) WHERE queue = 'totals.jobs' AND
	key ~ 'sent|claimed|done|dropped|retried|released|settled|extended|leases$|stale|buried|purged|redriven|waits|rate$|since|hints|position|open|covers|walk|ahead'
ORDER BY key;
SELECT ready, problem FROM inbox_queues WHERE queue = 'totals.jobs';
SET client_min_messages = warning;
DROP SCHEMA totals CASCADE;
DROP ROLE totals_owner, totals_sender, totals_outsider, totals_monitor;
\quit
\endif

\echo '# sends, by whatever way'
SELECT totals('jobs');
SELECT count(*) FROM inbox_send('jobs', '1');
SELECT count(*) FROM inbox_send_batch('jobs', '{1,2,3}');
COPY jobs(payload) FROM stdin;
1
2
\.
INSERT INTO jobs(payload) SELECT '1' FROM generate_series(1, 10);
SELECT totals('jobs');
\echo '# an update adds nothing'
UPDATE jobs SET payload = '2' WHERE id = 1;
SELECT totals('jobs');
\echo '# a key that is taken adds nothing'
SELECT count(*) FROM inbox_send('jobs', '1', dedup_key => 'a');
SELECT count(*) FROM inbox_send('jobs', '1', dedup_key => 'a');
SELECT count(*) FROM inbox_send_batch('jobs', '{1,2,3,4}', dedup_keys => '{a,b,b,c}');
SELECT totals('jobs');
\echo '# nothing before the commit, nothing of what is rolled back'
BEGIN;
INSERT INTO jobs(payload) VALUES ('1');
SELECT totals('jobs');
SELECT count(*) FROM inbox_claim('jobs', 3);
ROLLBACK;
SELECT totals('jobs');
BEGIN;
INSERT INTO jobs(payload) VALUES ('1');
SAVEPOINT a;
INSERT INTO jobs(payload) VALUES ('1'), ('2');
SAVEPOINT b;
INSERT INTO jobs(payload) VALUES ('1'), ('2'), ('3'), ('4');
RELEASE b;
ROLLBACK TO a;
INSERT INTO jobs(payload) SELECT '1' FROM generate_series(1, 8);
SAVEPOINT c;
INSERT INTO jobs(payload) SELECT '1' FROM generate_series(1, 16);
SAVEPOINT d;
INSERT INTO jobs(payload) SELECT '1' FROM generate_series(1, 32);
ROLLBACK TO d;
RELEASE c;
COMMIT;
SELECT totals('jobs') AS "20 + 1 + 8 + 16";
\echo '# many queues and many subtransactions in one transaction'
SELECT inbox_create('other_' || i) FROM generate_series(1, 6) i;
DO $$
BEGIN
	FOR i IN 1 .. 60 LOOP
		BEGIN
			PERFORM inbox_send('other_' || 1 + i % 6, '1');
			IF i % 5 = 0 THEN RAISE division_by_zero; END IF;
		EXCEPTION WHEN division_by_zero THEN NULL;
		END;
	END LOOP;
END $$;
SELECT i, totals('other_' || i), (SELECT count(*) FILTER (WHERE n % 5 > 0) FROM generate_series(1, 60) n WHERE 1 + n % 6 = i) AS sent
FROM generate_series(1, 6) i;
\echo '# a prepared transaction counts when it is prepared'
BEGIN;
INSERT INTO other_1(payload) VALUES ('1'), ('2');
PREPARE TRANSACTION 'totals';
SELECT totals('other_1');
COMMIT PREPARED 'totals';
SELECT totals('other_1');

\echo '# claims of every shape'
SELECT inbox_create('work', lease => '1 h', max_attempts => 2);
INSERT INTO work(payload) SELECT '1' FROM generate_series(1, 20);
SELECT count(*) FROM inbox_claim('work');
SELECT count(*) FROM inbox_claim(NULL::work, 2);
SELECT count(*) FROM inbox_claim_ids('work', 3);
SELECT count(*) FROM inbox_next('work', max_rows => 4);
SELECT count(*) FROM inbox_stamp('work', '{10,11,12,13}');
SELECT totals('work');
BEGIN;
SELECT count(*) FROM inbox_claim('work', 3);
SAVEPOINT a;
SELECT count(*) FROM inbox_claim('work', 2);
ROLLBACK TO a;
COMMIT;
SELECT totals('work');

\echo '# each outcome'
SELECT array_agg(inbox_receipt(w) ORDER BY id) AS r FROM work w WHERE locked_until IS NOT NULL \gset
SELECT string_agg(verdict, ' ') FROM inbox_settle_batch('work', (:'r'::text[])[1:7],
	'{done,drop,drop,release,release,release,dead}');
SELECT totals('work');
\echo '# a retry, and one that buries; a receipt twice, one that is gone, one that is nonsense'
UPDATE work SET attempt = 3 WHERE id = 9;
SELECT string_agg(verdict, ' ') FROM inbox_settle_batch('work', (:'r'::text[])[8:9] || (:'r'::text[])[8:8] ||
	(:'r'::text[])[1:1] || '{nonsense}', '{retry}', delays => '{1 h}');
SELECT totals('work');
\echo '# what is rolled back has not been'
BEGIN;
SELECT inbox_settle('work', (:'r'::text[])[10]);
SELECT inbox_settle('work', (:'r'::text[])[11], 'dead');
ROLLBACK;
SELECT totals('work');
\echo '# extensions'
SELECT string_agg(verdict, ' ') FROM inbox_extend_batch('work', (:'r'::text[])[10:11] || (:'r'::text[])[1:1], '2 h');
SELECT verdict FROM inbox_extend('work', (:'r'::text[])[10], '1 s');
SELECT totals('work');
\echo '# stale ones count at once; an extension is no settlement'
SELECT inbox_create('late', lease => '1 h', max_attempts => 5);
INSERT INTO late(payload) VALUES ('1'), ('2');
SELECT array_agg(receipt) AS r FROM inbox_claim('late', 2) \gset
UPDATE late SET locked_until = NULL;
SELECT count(*) FROM inbox_claim('late', 2);
SELECT inbox_settle('late', (:'r'::text[])[1]);
SELECT verdict FROM inbox_extend('late', (:'r'::text[])[1]);
SELECT count(*) FROM inbox_next('late', :'r');
BEGIN;
SELECT inbox_settle('late', (:'r'::text[])[2]);
ROLLBACK;
SELECT inbox_settle('late', (:'r'::text[])[2], strict => true);
SELECT totals('late');

\echo '# leases that ended, once the message is claimed again'
UPDATE late SET locked_until = now() - interval '1 min';
SELECT totals('late');
SELECT count(*) FROM inbox_claim('late', 1);
SELECT totals('late');
SELECT count(*) FROM inbox_claim('late', 1);
SELECT totals('late');
\echo '# or buried'
UPDATE late SET attempt = 6, locked_until = now() - interval '1 min';
SELECT count(*) FROM inbox_reap('late');
SELECT reaped('late', 'sent 2, claimed 6, expired_leases 4, stale 5, buried 2');
\echo '# dead letters that come back are not sent'
SELECT inbox_redrive('late');
SELECT totals('late');
\echo '# in another queue they are, and are not when they come back'
SELECT inbox_create('hospital');
SELECT inbox_create('patients', max_attempts => 1, dead_letter => 'hospital', lease => '1 h');
INSERT INTO patients(payload) VALUES ('1'), ('2');
SELECT inbox_settle('patients', receipt, 'dead') FROM inbox_claim('patients');
SELECT totals('patients') AS patients, totals('hospital') AS hospital;
SELECT inbox_redrive('patients');
SELECT totals('patients') AS patients, totals('hospital') AS hospital;
\echo '# and under a group'
SELECT inbox_create('grouped', max_attempts => 1, dead_group => 'dead', lease => '1 h');
INSERT INTO grouped(payload) VALUES ('1');
SELECT inbox_settle('grouped', receipt, 'dead') FROM inbox_claim('grouped');
SELECT inbox_redrive('grouped');
SELECT totals('grouped');

\echo '# purges, by hand and after the retention'
SELECT inbox_create('kept', retention => '1 h', lease => '1 h');
INSERT INTO kept(payload) SELECT '1' FROM generate_series(1, 6);
SELECT string_agg(inbox_settle('kept', receipt), ' ') FROM inbox_claim('kept', 2);
SELECT count(*) FROM inbox_claim('kept');
UPDATE kept SET processed_at = now() - interval '2 h' WHERE id = 1;
SELECT count(*) FROM inbox_reap('kept');
SELECT reaped('kept', 'sent 6, claimed 3, done 2, purged 1');
SELECT inbox_purge('kept');
SELECT totals('kept');

\echo '# written by SQL'
SET inbox.direct = off;
SELECT inbox_create('slow', max_attempts => 2, lease => '1 h');
INSERT INTO slow(payload) SELECT '1' FROM generate_series(1, 5);
SELECT count(*) FROM inbox_claim('slow', 3);
SELECT string_agg(inbox_settle('slow', inbox_receipt(s), 'release'), ' ') FROM slow s WHERE locked_until IS NOT NULL;
SELECT totals('slow');
SELECT walks FROM inbox_queues WHERE queue = 'totals.slow';
RESET inbox.direct;
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN CASE WHEN new.id = 1 THEN NULL ELSE new END; END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON slow FOR EACH ROW EXECUTE FUNCTION refuse();
SELECT count(*) FROM inbox_claim('slow', 3);
SELECT totals('slow');
\echo '# adopted without triggers: plain statements are not seen'
CREATE TABLE plain (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, locked_until timestamptz, payload jsonb);
SET client_min_messages = error;
SELECT inbox_adopt('plain', payload => 'payload', triggers => false);
RESET client_min_messages;
INSERT INTO plain(payload) VALUES ('1');
SELECT count(*) FROM inbox_send_batch('plain', '{1,2,3}');
SELECT count(*) FROM inbox_send('plain', '1');
SELECT totals('plain');

\echo '# waits, if they have to sleep'
SELECT count(*) FROM inbox_claim('hospital', wait => '0');
SELECT count(*) FROM inbox_claim('hospital', wait => '20 ms');
SELECT count(*) FROM inbox_claim('other_2', wait => '1 h');
CALL inbox_wait('hospital', '20 ms');
SELECT totals('hospital'), totals('other_2');

\echo '# rates, and since when'
SELECT send_rate BETWEEN 20 / 60.0 AND 20 AS send, claim_rate BETWEEN 16 / 60.0 AND 16 AS claim,
	settle_rate BETWEEN 9 / 60.0 AND 9 AS settle,
	stats_since BETWEEN pg_postmaster_start_time() AND clock_timestamp() AS since
FROM inbox_queues WHERE queue = 'totals.work';

\echo '# how far claims walk'
SELECT inbox_create('far', lease => '1 h');
ALTER TABLE far SET (autovacuum_enabled = off);
CREATE FUNCTION walk() RETURNS text LANGUAGE sql AS $$
	SELECT format('walks %s, entries %s, dead %s, taken %s, ahead %s', walks, walk_entries, walk_dead_entries, walk_taken, dead_rows_ahead)
	FROM inbox_queues WHERE queue = 'totals.far'
$$;
INSERT INTO far(payload, priority, due_at) SELECT '1', 3, timestamptz '2001-01-01' + i * interval '1 day' FROM generate_series(1, 60) i;
SELECT uses_hints, no_hints_because, position_priority, position_due_at, open_ranges, covers, position_falls
FROM inbox_queues WHERE queue = 'totals.far';
SELECT walk();
SELECT count(*) FROM inbox_claim('far', 50);
SELECT walk();
SET timezone = 'UTC';
SELECT position_priority, position_due_at, covers FROM inbox_queues WHERE queue = 'totals.far';
SELECT string_agg(DISTINCT inbox_settle('far', inbox_receipt(f)), ' ') FROM far f WHERE locked_until IS NOT NULL;
SELECT covers FROM inbox_queues WHERE queue = 'totals.far';
SELECT count(*) FROM inbox_claim('far', 1);
SELECT walk();
\echo '# all of it forgotten, the next claim steps over the dead; the one after it does not'
SELECT inbox_alter('far', lease => '2 h');
SELECT position_due_at, position_falls FROM inbox_queues WHERE queue = 'totals.far';
SELECT count(*) FROM inbox_claim('far', 1);
SELECT dead_rows_ahead >= 50 AS dead_ahead FROM inbox_queues WHERE queue = 'totals.far';
SELECT count(*) FROM inbox_claim('far', 1);
SELECT dead_rows_ahead, position_due_at FROM inbox_queues WHERE queue = 'totals.far';
RESET timezone;

\echo '# why claims walk without hints'
CREATE FUNCTION why(name text) RETURNS text LANGUAGE sql AS $$
	SELECT format('%s: %s', uses_hints, no_hints_because) FROM inbox_queues WHERE queue = 'totals.' || name
$$;
SELECT why('far') AS far, why('slow') AS slow, why('plain') AS plain;
SET inbox.direct = off;
SELECT why('far');
RESET inbox.direct;
BEGIN;
ALTER TABLE far ADD COLUMN twice bigint GENERATED ALWAYS AS (id * 2) STORED;
SELECT why('far');
ROLLBACK;
BEGIN;
CREATE RULE nothing AS ON UPDATE TO far DO ALSO NOTHING;
SELECT why('far');
ROLLBACK;
BEGIN;
CREATE TRIGGER statement AFTER UPDATE ON far FOR EACH STATEMENT EXECUTE FUNCTION refuse();
SELECT why('far');
ROLLBACK;
CREATE TABLE parted (id bigint PRIMARY KEY, locked_until timestamptz) PARTITION BY HASH (id);
CREATE TABLE unordered (id bigint, locked_until timestamptz, due_at timestamptz, PRIMARY KEY (id));
SET client_min_messages = error;
SELECT inbox_adopt('parted');
SELECT inbox_adopt('unordered', due_at => 'due_at');
RESET client_min_messages;
SELECT why('parted') AS parted, why('unordered') AS unordered;

\echo '# who sees it: any privilege on the queue, or pg_monitor'
ALTER TABLE jobs OWNER TO totals_owner;
GRANT INSERT ON jobs TO totals_sender;
ALTER TABLE jobs ENABLE ROW LEVEL SECURITY;
SET ROLE totals_owner; SELECT totals('jobs'), why('jobs');
SET ROLE totals_sender; SELECT totals('jobs'), why('jobs');
SET ROLE totals_monitor; SELECT totals('jobs'), why('jobs');
SET ROLE totals_outsider; SELECT totals('jobs'), why('jobs');
RESET ROLE;

\echo '# a queue that is locked or broken still tells'
CREATE TABLE broken (id bigint PRIMARY KEY, locked_until timestamptz);
SET client_min_messages = error;
SELECT inbox_adopt('broken');
RESET client_min_messages;
INSERT INTO broken VALUES (1), (2);
SELECT count(*) FROM inbox_claim('broken', 1);
ALTER TABLE broken DROP COLUMN locked_until;
SELECT totals('broken'), why('broken');

\echo '# a queue of the same name starts anew'
SELECT inbox_drop('other_1');
SELECT inbox_create('other_1');
SELECT totals('other_1');

SET client_min_messages = warning;
DROP SCHEMA totals CASCADE;
DROP ROLE totals_owner, totals_sender, totals_outsider, totals_monitor;
