--
-- FIFO groups: heads only, nothing behind a lease, holds and rests, dead heads
--
SET client_min_messages = error;
CREATE EXTENSION IF NOT EXISTS inbox;
CREATE SCHEMA fifo;
SET search_path = fifo, public;
\pset format unaligned
\pset tuples_only on

-- what a claim returns, and the receipts by id
CREATE TABLE held (q text, id text, receipt text, PRIMARY KEY (q, id));
CREATE FUNCTION take(queue text, n bigint = 100, g text = NULL, lease interval = '1 h') RETURNS text LANGUAGE plpgsql AS $$
DECLARE d record; ids text[] = '{}'; BEGIN
	FOR d IN SELECT * FROM inbox_claim(queue, n, lease, group_key => g) LOOP
		INSERT INTO held VALUES (queue, d.id, d.receipt) ON CONFLICT (q, id) DO UPDATE SET receipt = d.receipt;
		ids := ids || d.id;
	END LOOP;
	RETURN coalesce(array_to_string(nullif(ids, '{}'), ' '), 'nothing');
END $$;
CREATE FUNCTION settle(queue text, n text, outcome text = 'done', delay interval = NULL) RETURNS text LANGUAGE sql AS $$
	SELECT inbox_settle(queue, receipt, outcome, delay) FROM held WHERE q = queue AND id = n
$$;
-- let a rest be over, as if it had begun so much earlier
CREATE FUNCTION later(queue text, n text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
	EXECUTE format('UPDATE %s SET locked_until = now() - interval ''1 s'', claimed_at = claimed_at - (locked_until - now() + interval ''1 s'') WHERE id::text = %L', queue, n);
END $$;
CREATE FUNCTION groups(queue text) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT concat_ws(' ', group_key, backlog, head, head_state, head_attempt, 'leased ' || leased) FROM inbox_groups WHERE inbox_groups.queue = 'fifo.' || $1 ORDER BY group_key
$$;

\echo '# heads only, in claim order, none of a group that has a lease'
SELECT inbox_create('f', fifo => true);
INSERT INTO f(id, payload, group_key, due_at) SELECT n, '1', g, now() - make_interval(secs => 100 - n) FROM
	(VALUES (1, 'b'), (2, 'a'), (3, 'a'), (4, 'c'), (5, 'b'), (6, 'c'), (7, 'a')) v(n, g);
INSERT INTO f(id, payload, group_key, due_at) VALUES (8, '1', 'd', now() + interval '1 h');
SELECT take('f');
SELECT take('f');
SELECT groups('f');
SELECT settle('f', '2');
SELECT take('f');
SELECT settle('f', '1', 'release'), settle('f', '3', 'retry', '0');
SELECT take('f', 1), take('f', 1), take('f', 1);
SELECT id, attempt FROM f WHERE id IN (1, 3) ORDER BY id;

\echo '# what enters ahead of the row in work waits'
INSERT INTO f(id, payload, group_key, due_at) VALUES (0, '1', 'a', now() - interval '1 d');
INSERT INTO f(id, payload, group_key, due_at, priority) VALUES (-1, '1', 'a', now(), -1);
SELECT take('f'), settle('f', '3'), take('f');
SELECT settle('f', '-1'), take('f'), settle('f', '0'), take('f'), settle('f', '7');

\echo '# where the last claim found the head is a place to begin, and no more'
DELETE FROM f;
INSERT INTO f(id, payload, group_key, due_at) SELECT n, '1', 'a', now() - make_interval(hours => 10) + make_interval(mins => n) FROM generate_series(1, 60) n;
SELECT take('f'), settle('f', '1'), take('f'), settle('f', '2');
-- a row ahead of all that were near
INSERT INTO f(id, payload, group_key, due_at) VALUES (0, '1', 'a', now() - interval '20 h');
SELECT take('f'), settle('f', '0'), take('f'), settle('f', '3');
-- those near are gone, or later than all
DELETE FROM f WHERE id BETWEEN 4 AND 30;
SELECT take('f'), settle('f', '31');
UPDATE f SET due_at = due_at + interval '9 h' WHERE id BETWEEN 32 AND 50;
SELECT take('f'), settle('f', '51');
-- those near are not due, one before them is
UPDATE f SET due_at = now() + make_interval(hours => id::int) WHERE id > 51;
DELETE FROM f WHERE id < 50;
SELECT take('f'), settle('f', '50'), take('f');
INSERT INTO f(id, payload, group_key, due_at) VALUES (100, '1', 'a', now() - interval '1 s'), (101, '1', 'a', now() - interval '20 h');
SELECT take('f'), settle('f', '101'), take('f'), settle('f', '100'), take('f');
-- a row on a better level that is not due holds the group
UPDATE f SET due_at = now() - interval '10 h' + make_interval(secs => id::int);
SELECT take('f'), settle('f', '52');
INSERT INTO f(id, payload, group_key, due_at, priority) VALUES (102, '1', 'a', now() + interval '1 h', -1);
SELECT take('f');
UPDATE f SET due_at = now() - interval '1 s' WHERE id = 102;
SELECT take('f'), settle('f', '102'), take('f'), settle('f', '53');

\echo '# a group counts at the level of its head, and a head that is not due holds all'
DELETE FROM f;
INSERT INTO f(id, payload, group_key, priority, due_at) SELECT n, '1', g, p, now() + make_interval(secs => s) FROM (VALUES
	(1, 'a', 1, -9), (2, 'a', 0, 3600), (3, 'b', 1, -8), (4, 'b', 0, -1), (5, 'c', 2, -7), (6, 'd', 1, -6), (7, 'd', 2, -9)) v(n, g, p, s);
SELECT take('f', 1), take('f', 1), take('f', 1), take('f', 1);
SELECT settle('f', '4'), settle('f', '6');
SELECT take('f');
SELECT groups('f');

\echo '# groups in turn, level by level'
DELETE FROM f;
INSERT INTO f(payload, group_key, priority) SELECT '1', 'g' || n % 3, 0 FROM generate_series(1, 12) n;
CREATE FUNCTION serve(queue text, n int) RETURNS text LANGUAGE plpgsql AS $$ DECLARE d record; served text = ''; BEGIN
	FOR i IN 1 .. n LOOP
		SELECT * INTO d FROM inbox_claim(queue);
		served := concat_ws(' ', served, coalesce(d.group_key, '-'));
		-- an urgent message of another group now and then is no reason to begin anew
		IF i % 2 = 0 THEN PERFORM inbox_send(queue, '1', priority => -1, group_key => 'u'); END IF;
		PERFORM inbox_settle(queue, d.receipt);
	END LOOP;
	RETURN served;
END $$;
SELECT serve('f', 1) IN (' g0', ' g1', ' g2');
SELECT regexp_replace(replace(serve('f', 12), ' u', ''), '^( g.)( g.)( g.)\1\2\3.*', 'in turn') ;

\echo '# rows without a group are claimed as in a plain queue, and take turns with groups'
DELETE FROM f;
INSERT INTO f(id, payload, group_key, due_at) SELECT n, '1', CASE WHEN n > 4 THEN 'g' || n END, now() - make_interval(secs => 100 - n) FROM generate_series(1, 8) n;
SELECT take('f', 4);
SELECT take('f');
SELECT settle('f', '1', 'retry', '1 h'), settle('f', '5', 'retry', '1 h');
SELECT id, locked_until > now(), claimed_at >= locked_until, due_at > now() FROM f WHERE id IN (1, 5) ORDER BY id;

\echo '# a retried head rests: it counts as delayed, nobody holds it, it keeps its place'
DELETE FROM f;
INSERT INTO f(id, payload, group_key) VALUES (1, '1', 'a'), (2, '1', 'a');
SELECT take('f'), settle('f', '1', 'retry', '1 h'), take('f');
SELECT ready, delayed, leased, expired FROM inbox_queues WHERE queue = 'fifo.f';
SELECT count(*) FROM inbox_leases WHERE queue = 'fifo.f';
SELECT groups('f');
SELECT settle('f', '1'), verdict FROM inbox_extend('f', (SELECT receipt FROM held WHERE q = 'f' AND id = '1'));
SELECT inbox_receipt(f) IS NULL FROM f WHERE id = 1;
-- not by the number that is in the row either
SELECT inbox_settle('f', '1@' || (extract(epoch FROM claimed_at) * 1000000)::bigint) FROM f WHERE id = 1;
SELECT count(*) FROM inbox_stamp('f', '{1,2}');
SELECT later('f', '1');
SELECT ready, delayed, leased, expired FROM inbox_queues WHERE queue = 'fifo.f';
SELECT take('f');
SELECT attempt FROM f WHERE id = 1;
SELECT settle('f', '1'), take('f'), settle('f', '2');
-- the pause is the queue's own, and needs no reading by hand
SELECT inbox_alter('f', backoff => '10 s', backoff_max => '1 h');
INSERT INTO f(id, payload, group_key) VALUES (1, '1', 'a');
SELECT take('f'), settle('f', '1', 'retry');
SELECT locked_until - now() BETWEEN '7 s' AND '13 s', due_at <= now() FROM f;
-- cut short by hand, the next claim is a lease as any other
UPDATE f SET locked_until = NULL;
SELECT take('f'), settle('f', '1', 'retry', '1 d');
UPDATE f SET locked_until = NULL;
SELECT take('f');
SELECT locked_until > claimed_at FROM f;
SELECT settle('f', '1', 'release'), take('f'), settle('f', '1', 'retry', '1 d'), inbox_purge('f');

\echo '# requeue: behind what is due earlier'
SELECT inbox_alter('f', fifo_retry => 'requeue');
INSERT INTO f(id, payload, group_key) VALUES (1, '1', 'a'), (2, '1', 'a');
SELECT take('f'), settle('f', '1', 'retry', '1 h'), take('f'), settle('f', '2'), take('f');
SELECT groups('f');
SELECT inbox_alter('f', reset => '{fifo_retry}');
DELETE FROM f;

\echo '# a lease that has ended: its holder goes on, until another row of the group is claimed'
INSERT INTO f(id, payload, group_key) VALUES (5, '1', 'a'), (6, '1', 'a');
SELECT take('f');
UPDATE f SET locked_until = clock_timestamp() + interval '1 ms' WHERE id = 5;
SELECT pg_sleep(0.01);
SELECT groups('f');
SELECT verdict FROM inbox_extend('f', (SELECT receipt FROM held WHERE q = 'f' AND id = '5'));
SELECT take('f');
UPDATE f SET locked_until = clock_timestamp() + interval '1 ms' WHERE id = 5;
INSERT INTO f(id, payload, group_key, due_at) VALUES (1, '1', 'a', now() - interval '1 h');
SELECT pg_sleep(0.01);
SELECT take('f');
SELECT verdict FROM inbox_extend('f', (SELECT receipt FROM held WHERE q = 'f' AND id = '5'));
SELECT settle('f', '5'), settle('f', '1'), take('f');
SELECT attempt FROM f WHERE id = 5;
DELETE FROM f;

\echo '# a dead head frees its group; a spent one does when it is buried'
SELECT inbox_create('d', fifo => true, max_attempts => 1);
INSERT INTO d(id, payload, group_key) VALUES (1, '1', 'a'), (2, '1', 'a'), (3, '1', 'a'), (4, '1', 'a');
SELECT take('d'), settle('d', '1', 'retry'), take('d'), settle('d', '2', 'dead'), take('d');
SELECT groups('d');
UPDATE d SET locked_until = clock_timestamp() + interval '1 ms' WHERE id = 3;
SELECT pg_sleep(0.01);
SELECT groups('d');
SELECT take('d'), buried, take('d') FROM inbox_reap('d');
SELECT id, cause FROM d_dead ORDER BY id;

\echo '# dead letters in a group of the same table are no FIFO group'
SELECT inbox_create('m', fifo => true, max_attempts => 1, dead_group => 'dead');
INSERT INTO m(id, payload, group_key) VALUES (1, '1', 'a'), (2, '1', 'b'), (3, '1', 'a');
SELECT take('m'), settle('m', '1', 'dead'), settle('m', '2', 'dead');
SELECT take('m'), take('m', 10, 'dead'), take('m', 10, 'dead');
SELECT groups('m');
SELECT settle('m', '1', 'release'), settle('m', '2', 'release'), take('m', 1, 'dead'), take('m', 10, 'dead');

\echo '# one group by name, all shapes, stamps'
INSERT INTO f(id, payload, group_key) VALUES (1, '"one"', 'a'), (2, '"two"', 'a'), (3, '"three"', 'b'), (4, '"four"', NULL);
SELECT take('f', 10, 'b'), take('f', 10, 'b'), take('f', 10, 'nosuch');
SELECT id, attempt FROM inbox_claim_ids('f', 1, group_key => 'a');
SELECT id, payload FROM inbox_claim(NULL::f, 10);
UPDATE f SET locked_until = NULL;
SELECT id FROM inbox_stamp('f', '{2,4,1,1,3}');
UPDATE f SET locked_until = NULL;
SELECT id FROM inbox_stamp('f', '{2}');
SELECT id FROM inbox_stamp('f', '{1}');
SELECT id FROM inbox_stamp('f', '{2}');
SELECT id FROM inbox_next('f', ARRAY(SELECT inbox_receipt(f) FROM f WHERE id = 1), 1, group_key => 'a');
DELETE FROM f;

\echo '# the row-lock form: claim and settle in one transaction; a savepoint gives the group back'
INSERT INTO f(id, payload, group_key) VALUES (1, '1', 'a'), (2, '1', 'a'), (3, '1', 'b');
BEGIN;
SELECT take('f', 1, 'a'), settle('f', '1'), take('f', 1, 'a');
SAVEPOINT s;
SELECT take('f', 10);
ROLLBACK TO s;
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 433 AND pid = pg_backend_pid();
SELECT take('f', 10), settle('f', '2'), settle('f', '3');
COMMIT;
SELECT count(*) FROM f;
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 433 AND pid = pg_backend_pid();

\echo '# every isolation level looks at what is now'
INSERT INTO f(id, payload, group_key) VALUES (1, '1', 'a'), (2, '1', 'a');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM f;
SELECT take('f'), settle('f', '1'), take('f');
COMMIT;
SELECT settle('f', '2', 'release');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT take('f'), settle('f', '2'), take('f');
COMMIT;

\echo '# more groups than a call locks; what it returns is in claim order'
INSERT INTO f(payload, group_key, due_at) SELECT to_jsonb(n), md5(n::text), now() - make_interval(secs => n % 7) FROM generate_series(1, 300) n;
SELECT count(*) = current_setting('max_locks_per_transaction')::int, bool_and(ok) FROM
	(SELECT due_at >= lag(due_at) OVER (ORDER BY o) OR o = 1 AS ok FROM inbox_claim('f', 300) WITH ORDINALITY c(id, receipt, attempt, max_attempts, payload, headers, priority, due_at, enqueued_at, group_key, partition_key, locked_until, o)) s;
SELECT count(*) FROM f WHERE locked_until > now();
DELETE FROM f;

\echo '# on and off'
SELECT indexdef FROM pg_indexes WHERE schemaname = 'fifo' AND tablename = 'f' ORDER BY indexname;
INSERT INTO f(id, payload, group_key) VALUES (1, '1', 'a'), (2, '1', 'a');
SELECT inbox_alter('f', fifo => false);
SELECT indexdef FROM pg_indexes WHERE schemaname = 'fifo' AND tablename = 'f' ORDER BY indexname;
SELECT take('f');
SELECT inbox_alter('f', fifo => true, retention => '1 h');
SELECT indexdef FROM pg_indexes WHERE schemaname = 'fifo' AND tablename = 'f' ORDER BY indexname;
SELECT take('f'), settle('f', '1'), take('f'), settle('f', '2'), take('f');
INSERT INTO f(id, payload, group_key) VALUES (3, '1', 'a');
SELECT take('f'), groups('f');
SELECT inbox_drop('f');
