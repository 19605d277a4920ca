--
-- inbox_send, inbox_send_batch
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS inbox;
CREATE SCHEMA send;
SET search_path = send, public;
\pset format unaligned

-- what an error says, or the result
CREATE FUNCTION try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
	message text;
	detail text;
	hint text;
BEGIN
	EXECUTE statement INTO result;
	RETURN coalesce(result, 'null');
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT,
		detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(E'\n  ', SQLSTATE || ': ' || message,
					 nullif(detail, ''), nullif(hint, ''));
END $$;

SELECT inbox_create('q');

--
-- One message: every argument, and what is left to the table
--
SELECT inbox_send('q', '{"n": 1}');
SELECT * FROM inbox_send('q', '"two"', headers => '{"h": 1}', priority => -3,
	group_key => 'g', partition_key => 'p', dedup_key => 'd');
SELECT id, payload, headers, priority, group_key, partition_key, dedup_key,
	attempt, locked_until, due_at = enqueued_at AS due
FROM q ORDER BY id;
BEGIN;
SELECT inbox_send('q', '3', delay => '1 h') AS delayed \gset
SELECT inbox_send('q', '4', due_at => '2100-01-01 00:00:00+00') AS due \gset
SELECT inbox_send('q', '5', delay => '0') AS undelayed \gset
-- a delay counts from the call, not from the start of the transaction
SELECT due_at - interval '1 h' > now() AND due_at - interval '1 h' <= clock_timestamp() AS from_call
FROM q WHERE id = :delayed;
SELECT due_at = '2100-01-01 00:00:00+00' AS fixed FROM q WHERE id = :due;
SELECT due_at BETWEEN now() AND clock_timestamp() AS at_once FROM q WHERE id = :undelayed;
COMMIT;
-- the JSON null is a payload, and an empty dedup key is a key
SELECT inbox_send('q', 'null');
SELECT inbox_send('q', '1', dedup_key => '') = inbox_send('q', '2', dedup_key => '') AS same;
-- a send belongs to the caller's transaction, savepoints included
BEGIN;
SELECT inbox_send('q', '"kept"') AS kept \gset
SAVEPOINT s;
SELECT inbox_send('q', '"lost"') AS lost \gset
ROLLBACK TO s;
SELECT count(*) FROM inbox_claim('q', 100) WHERE payload IN ('"kept"', '"lost"');
ROLLBACK;
-- a paused queue takes sends
SELECT inbox_pause('q');
SELECT inbox_send('q', '1') IS NOT NULL AS sent;
SELECT inbox_resume('q');
DELETE FROM q;
ALTER TABLE q ALTER id RESTART WITH 1;

--
-- Many messages
--
SELECT inbox_send_batch('q', ARRAY['1', '"2"', '{"n": 3}', 'null']::jsonb[]);
SELECT * FROM inbox_send_batch('q', ARRAY['5', '6']::jsonb[],
	headers => ARRAY[NULL, '{"h": 6}']::jsonb[], delay => '1 d', priority => 7,
	group_keys => '{g5, NULL}', partition_keys => '{NULL, p6}',
	dedup_keys => '{d5, NULL}') WITH ORDINALITY AS t(id, n);
SELECT id, payload, headers, priority, group_key, partition_key, dedup_key,
	due_at > now() AS later
FROM q ORDER BY id;
SELECT count(*) FROM inbox_send_batch('q', '{}');
SELECT count(*) FROM inbox_send_batch('q', '{}', '{}', group_keys => '{}');
DELETE FROM q;
-- 100,000 rows in one call, ids in input order
CREATE TABLE sent AS
SELECT n, id::bigint FROM inbox_send_batch('q',
	ARRAY(SELECT to_jsonb(i) FROM generate_series(1, 100000) i))
	WITH ORDINALITY AS t(id, n);
SELECT count(*), count(DISTINCT q.id), bool_and(q.payload = to_jsonb(n))
FROM sent JOIN q USING (id);
SELECT bool_and(id = first + n - 1) FROM sent, (SELECT min(id) AS first FROM sent) f;
DELETE FROM q;

--
-- Dedup keys
--
SELECT inbox_send('q', '1', dedup_key => 'k') AS first \gset
SELECT inbox_send('q', '2', dedup_key => 'k') = :'first' AS same,
	inbox_send('q', '3', dedup_key => 'l') = :'first' AS other;
-- in one batch: the first row of a key is the one that stays
SELECT id = lag(id, 2) OVER (ORDER BY n) AS same_as_two_before, id = :'first' AS first
FROM inbox_send_batch('q', ARRAY['4', '5', '6', '7', '8']::jsonb[],
	dedup_keys => '{m, k, m, NULL, NULL}') WITH ORDINALITY AS t(id, n);
SELECT payload, dedup_key FROM q ORDER BY id;
-- a leased row is unfinished, a settled one is not
SELECT count(*) FROM inbox_claim('q', 100);
SELECT inbox_send('q', '9', dedup_key => 'k') = :'first' AS same;
SELECT verdict FROM q, inbox_settle('q', inbox_receipt(q)) WHERE dedup_key = 'k';
SELECT inbox_send('q', '10', dedup_key => 'k') AS second \gset
SELECT :'second' <> :'first' AS new, payload FROM q WHERE dedup_key = 'k';
-- finished rows that stay in the table do not count
SELECT inbox_create('kept', retention => '1 d');
SELECT inbox_send('kept', '1', dedup_key => 'k');
SELECT verdict FROM inbox_claim('kept') c, inbox_settle('kept', c.receipt);
SELECT inbox_send('kept', '2', dedup_key => 'k');
SELECT inbox_send('kept', '3', dedup_key => 'k');
SELECT id, payload, processed_at IS NOT NULL AS finished FROM kept ORDER BY id;
-- nor does one that has been buried
SELECT inbox_create('mortal', max_attempts => 1);
SELECT inbox_send('mortal', '1', dedup_key => 'k');
SELECT verdict FROM inbox_claim('mortal') c, inbox_settle('mortal', c.receipt, 'dead');
SELECT inbox_send('mortal', '2', dedup_key => 'k');
-- many, half of them there already
DELETE FROM q;
SELECT count(*) FROM inbox_send_batch('q',
	ARRAY(SELECT to_jsonb(i) FROM generate_series(1, 2000, 2) i),
	dedup_keys => ARRAY(SELECT 'k' || i FROM generate_series(1, 2000, 2) i));
SELECT count(*), bool_and(payload = to_jsonb(n)) FROM inbox_send_batch('q',
	ARRAY(SELECT to_jsonb(i) FROM generate_series(1, 2000) i),
	dedup_keys => ARRAY(SELECT 'k' || i FROM generate_series(1, 2000) i))
	WITH ORDINALITY AS t(id, n) JOIN q ON q.id = t.id::bigint;
-- the same in a transaction of a higher isolation level
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT inbox_send('q', '0', dedup_key => 'k7') = id::text AS same FROM q WHERE dedup_key = 'k7';
SELECT inbox_send('q', '0', dedup_key => 'r') = inbox_send('q', '0', dedup_key => 'r') AS same;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT inbox_send('q', '0', dedup_key => 'k7') = id::text AS same FROM q WHERE dedup_key = 'k7';
SELECT count(DISTINCT id) FROM inbox_send_batch('q', '{0, 0, 0}', dedup_keys => '{s, r, s}') id;
COMMIT;
DELETE FROM q;

--
-- Bad input: an error each, and nothing written
--
SELECT try($$SELECT inbox_send(NULL, '1')$$);
SELECT try($$SELECT inbox_send('missing', '1')$$);
CREATE TABLE plain (id bigint);
SELECT try($$SELECT inbox_send('plain', '1')$$);
SELECT try($$SELECT inbox_send('q', NULL)$$);
SELECT try($$SELECT inbox_send('q', '1', delay => '1 s', due_at => now())$$);
SELECT try($$SELECT inbox_send('q', '1', delay => '-1 s')$$);
SELECT try($$SELECT inbox_send('q', '1', delay => '11 years')$$);
SELECT try($$SELECT inbox_send('q', '1', delay => '30000000000')$$);
SELECT try($$SELECT inbox_send('q', '1', due_at => 'infinity')$$);
SELECT try($$SELECT inbox_send('q', '1', due_at => '-infinity')$$);
SELECT try($$SELECT inbox_send_batch(NULL, '{1}')$$);
SELECT try($$SELECT inbox_send_batch('q', NULL)$$);
SELECT try($$SELECT inbox_send_batch('q', '{1, NULL, 2}')$$);
SELECT try($$SELECT inbox_send_batch('q', '{{1, 2}, {3, 4}}')$$);
SELECT try($$SELECT inbox_send_batch('q', '{1, 2}', headers => '{1}')$$);
SELECT try($$SELECT inbox_send_batch('q', '{1, 2}', group_keys => '{a, b, c}')$$);
SELECT try($$SELECT inbox_send_batch('q', '{1, 2}', partition_keys => '{}')$$);
SELECT try($$SELECT inbox_send_batch('q', '{1, 2}', dedup_keys => '{a}')$$);
BEGIN READ ONLY;
SELECT inbox_send('q', '1');
ROLLBACK;
BEGIN READ ONLY;
SELECT inbox_send_batch('q', '{1}');
ROLLBACK;
SELECT count(*) FROM q;

--
-- Rights: INSERT is enough but for dedup keys
--
CREATE ROLE regress_inbox_sender;
GRANT USAGE ON SCHEMA send TO regress_inbox_sender;
SET ROLE regress_inbox_sender;
SELECT try($$SELECT inbox_send('q', '1')$$);
SELECT try($$SELECT inbox_send_batch('q', '{1}')$$);
RESET ROLE;
GRANT INSERT ON q TO regress_inbox_sender;
SET ROLE regress_inbox_sender;
SELECT inbox_send('q', '1') IS NOT NULL AS sent;
SELECT count(*) FROM inbox_send_batch('q', '{1, 2}');
SELECT try($$SELECT inbox_send('q', '1', dedup_key => 'k')$$);
SELECT try($$SELECT count(*) FROM q$$);
RESET ROLE;
GRANT SELECT (id, dedup_key, priority) ON q TO regress_inbox_sender;
SET ROLE regress_inbox_sender;
SELECT inbox_send('q', '1', dedup_key => 'k') = inbox_send('q', '1', dedup_key => 'k') AS same;
RESET ROLE;
-- row security applies
ALTER TABLE q ENABLE ROW LEVEL SECURITY;
CREATE POLICY low ON q FOR INSERT WITH CHECK (priority < 5);
CREATE POLICY seen ON q FOR SELECT USING (priority >= 0);
SELECT inbox_send('q', '1', priority => -1, dedup_key => 'hidden') IS NOT NULL AS sent;
SET ROLE regress_inbox_sender;
SELECT inbox_send('q', '1', priority => 4) IS NOT NULL AS sent;
SELECT try($$SELECT inbox_send('q', '1', priority => 5)$$);
SELECT inbox_send('q', '1', dedup_key => 'k') IS NOT NULL AS found;
SELECT try($$SELECT inbox_send('q', '1', dedup_key => 'hidden')$$);
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT inbox_send('q', '1', dedup_key => 'k') IS NOT NULL AS found;
ROLLBACK;
RESET ROLE;
ALTER TABLE q DISABLE ROW LEVEL SECURITY;

--
-- Memory stays where it is
--
DELETE FROM q;
CREATE FUNCTION held() RETURNS bigint LANGUAGE sql AS
$$SELECT sum(total_bytes)::bigint FROM pg_backend_memory_contexts
WHERE name IN ('CacheMemoryContext', 'TopMemoryContext', 'inbox queue', 'inbox send', 'SPI Plan')$$;
DO $$
DECLARE
	before bigint;
BEGIN
	FOR i IN 1..1500 LOOP
		IF i = 500 THEN
			before := held();
		END IF;
		PERFORM inbox_send('q', to_jsonb(i), headers => '{}', group_key => 'g');
		PERFORM inbox_send('q', to_jsonb(i), dedup_key => 'd' || i % 10);
		PERFORM inbox_send_batch('q', '{1, 2}', dedup_keys => '{a, NULL}');
		BEGIN
			PERFORM inbox_send('q', NULL);
		EXCEPTION WHEN null_value_not_allowed THEN
		END;
	END LOOP;
	RAISE WARNING 'grown: %', held() - before > 65536;
END $$;

SET client_min_messages = error;
DROP SCHEMA send CASCADE;
DROP ROLE regress_inbox_sender;
