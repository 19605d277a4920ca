--
-- Misuse: each an error with its SQLSTATE and a hint, before anything changes
--
SET client_min_messages = error;
CREATE EXTENSION IF NOT EXISTS inbox;
CREATE SCHEMA lease_errors;
SET search_path = lease_errors, public;
\pset format unaligned
\pset tuples_only on

SELECT inbox_create('q');
SELECT inbox_create('capped', max_attempts => 2);
CREATE TABLE plain (id int PRIMARY KEY);
CREATE VIEW view AS SELECT 1 AS id;
CREATE MATERIALIZED VIEW matview AS SELECT 1 AS id;
CREATE SEQUENCE seq;
CREATE INDEX idx ON plain (id);
CREATE TYPE pair AS (a int, b int);
CREATE TABLE ungrouped (id int PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz);
SELECT inbox_adopt('ungrouped', claimed_at => 'claimed_at');
INSERT INTO ungrouped VALUES (1);
INSERT INTO q(payload) SELECT to_jsonb(i) FROM generate_series(1, 5) i;
INSERT INTO capped(payload) VALUES ('1');
CREATE TABLE held AS SELECT * FROM inbox_claim('q', 3);
SELECT array_agg(receipt ORDER BY id) AS rs FROM held \gset
SELECT receipt AS r FROM inbox_claim('capped') \gset
CREATE FUNCTION fingerprint() RETURNS text LANGUAGE sql AS $$
	SELECT md5(concat((SELECT string_agg(q::text || q.ctid || q.xmin, '' ORDER BY id) FROM q),
		(SELECT string_agg(c::text || c.ctid || c.xmin, '' ORDER BY id) FROM capped c), (SELECT string_agg(d::text, '') FROM capped_dead d),
		(SELECT string_agg(u::text || u.ctid || u.xmin, '' ORDER BY id) FROM ungrouped u)))
$$;
SELECT fingerprint() AS before \gset

-- What an error says.  $1 stands for receipts of rows 1 to 3, $2 for that of
-- the row in "capped".
CREATE FUNCTION try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
	message text;
	detail text;
	hint text;
BEGIN
	EXECUTE 'SELECT ' || statement INTO result
	USING (SELECT array_agg(receipt ORDER BY id) FROM held), (SELECT inbox_receipt(c) FROM capped c);
	RETURN 'no error: ' || coalesce(result, 'null');
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(E'\n  ', SQLSTATE || ': ' || message, nullif(detail, ''), nullif(hint, ''));
END $$;

\echo '# the queue'
SELECT s, try(s) FROM unnest(ARRAY['inbox_claim(NULL)', 'inbox_claim(NULL::text)', 'inbox_claim_ids(NULL)', 'inbox_stamp(NULL, ''{}'')', 'inbox_next(NULL)',
	'inbox_extend(NULL, ''1@1'')', 'inbox_extend_batch(NULL, ''{}'')', 'inbox_settle(NULL, ''1@1'')', 'inbox_settle_batch(NULL, ''{}'')']) s;
SELECT s, try(s) FROM unnest(ARRAY['nobody', 'plain', 'view', 'matview', 'seq', 'idx', 'pair', 'pg_class', 'capped_dead', 'no queue']) n,
	LATERAL (SELECT format('inbox_claim(%L)', n)) s(s);
SELECT s, try(s) FROM unnest(ARRAY['inbox_claim_ids(''plain'')', 'inbox_stamp(''plain'', ''{}'')', 'inbox_next(''plain'')',
	'inbox_extend(''plain'', NULL)', 'inbox_extend_batch(''plain'', ''{}'')', 'inbox_settle(''plain'', NULL)', 'inbox_settle_batch(''plain'', ''{}'')']) s;
SELECT s, try(s) FROM unnest(ARRAY['inbox_claim(''q''::regclass)', 'inbox_claim(1)', 'inbox_claim(NULL::int)', 'inbox_claim(NULL::pair)', 'inbox_claim(NULL::plain)', 'inbox_claim(NULL::view)',
	'inbox_claim(NULL::pg_class)', 'inbox_claim(ROW(1, 2))', 'inbox_claim(ARRAY[1])', 'inbox_claim()']) s;

\echo '# max_rows'
SELECT s, try(s) FROM unnest(ARRAY['inbox_claim(''q'', NULL)', 'inbox_claim(''q'', -1)', 'inbox_claim(''q'', -9223372036854775808)', 'inbox_claim_ids(''q'', -1)',
	'inbox_claim(NULL::q, -1)', 'inbox_claim(NULL::q, NULL)', 'inbox_next(''q'', max_rows => -1)', 'inbox_next(''q'', $1, NULL)']) s;

\echo '# leases'
SELECT s, try(s) FROM unnest(ARRAY['0', '-1 s', '1 s ago', '7 days 1 us', '168:00:01', '1 month', '100 years', '5000000000', '30000000000', '1 day -24 h', '1 mon -30 days', '178000000 years', '-178000000 years']) i,
	LATERAL (SELECT format('inbox_claim(''q'', 1, %L)', i)) s(s);
SELECT s, try(s) FROM unnest(ARRAY['inbox_claim(NULL::q, lease => ''0'')', 'inbox_claim_ids(''q'', lease => ''0'')', 'inbox_stamp(''q'', ''{4}'', ''0'')', 'inbox_next(''q'', $1, lease => ''0'')',
	'inbox_extend(''q'', $1[1], ''0'')', 'inbox_extend(''q'', ''garbage'', ''8 days'')', 'inbox_extend_batch(''q'', $1, ''-1 s'')', 'inbox_extend_batch(''q'', ''{}'', ''1 year'')']) s;
SET inbox.max_lease = '1 min';
SELECT try('inbox_claim(''q'', 1, ''61 s'')');
SELECT try('inbox_extend(''q'', $1[1], ''1 h'')');
RESET inbox.max_lease;

\echo '# waits'
SELECT s, try(s) FROM unnest(ARRAY['-1 s', '1 h 1 us', '2 hours', '20000', '20000000000', '1 day', '178000000 years']) i, LATERAL (SELECT format('inbox_claim(''q'', wait => %L)', i)) s(s);
SELECT s, try(s) FROM unnest(ARRAY['inbox_claim(NULL::q, wait => ''-1 s'')', 'inbox_claim_ids(''q'', wait => ''2 h'')', 'inbox_next(''q'', $1, wait => ''-1 s'')']) s;
BEGIN;
CALL inbox_wait('q', '1 s');
ROLLBACK;
CALL inbox_wait('q', '2 h');
CALL inbox_wait('nowhere', '0');
CALL inbox_wait(NULL, '0');
CREATE TABLE no_queue_to_wait_for (id int);
CALL inbox_wait('no_queue_to_wait_for', '0');
DROP TABLE no_queue_to_wait_for;
SELECT inbox_create('waited');
\echo '# none for no rows, and none when it is zero or NULL'
SELECT id FROM inbox_claim('waited', 0, wait => '1 h');
SELECT id FROM inbox_claim('waited', wait => '0');
CALL inbox_wait('waited', '0');
CALL inbox_wait('waited', NULL);
SELECT id FROM inbox_claim('waited', wait => '1 ms');
SELECT inbox_drop('waited');

\echo '# what this queue has not'
SELECT s, try(s) FROM unnest(ARRAY[
	'inbox_claim(''ungrouped'', group_key => ''x'')', 'inbox_claim(NULL::ungrouped, group_key => ''x'')', 'inbox_next(''ungrouped'', group_key => ''x'')',
	'inbox_settle(''q'', $1[1], ''dead'')', 'inbox_settle(''q'', ''garbage'', ''dead'')', 'inbox_settle_batch(''q'', $1, ''{done,done,dead}'')']) s;

\echo '# outcomes'
SELECT s, try(s) FROM unnest(ARRAY['''''', '''Done''', '''ack''', '''done ''', 'NULL', '''retry,done''', '''dead''::varchar']) o, LATERAL (SELECT format('inbox_settle(''q'', $1[1], %s)', o)) s(s);
SELECT s, try(s) FROM unnest(ARRAY['inbox_settle(''q'', NULL, ''ack'')', 'inbox_settle_batch(''q'', $1, ''{ack}'')', 'inbox_settle_batch(''q'', $1, ''{done,done,ack}'')', 'inbox_settle_batch(''q'', $1, ''{done,NULL,done}'')',
	'inbox_settle_batch(''q'', $1, ''{NULL}'')', 'inbox_settle_batch(''q'', $1, NULL)', 'inbox_settle_batch(''q'', ''{}'', ''{ack}'')']) s;

\echo '# delays'
SELECT s, try(s) FROM unnest(ARRAY['-1 s', '-1 us', '3661 days', '11 years', '5000000000', '100000000000000', '178000000 years']) i, LATERAL (SELECT format('inbox_settle(''q'', $1[1], ''retry'', %L)', i)) s(s);
SELECT s, try(s) FROM unnest(ARRAY['inbox_settle(''q'', $1[1], ''done'', ''-1 s'')', 'inbox_settle_batch(''q'', $1, ''{retry}'', ''{1 s,1 s,-1 s}'')', 'inbox_settle_batch(''q'', $1, ''{done}'', ''{11 years}'')']) s;

\echo '# arrays'
SELECT s, try(s) FROM unnest(ARRAY['inbox_settle_batch(''q'', NULL)', 'inbox_extend_batch(''q'', NULL)', 'inbox_stamp(''q'', NULL)',
	'inbox_settle_batch(''q'', $1, ''{done,done}'')', 'inbox_settle_batch(''q'', $1, ''{}'')', 'inbox_settle_batch(''q'', $1, ''{done,done,done,done}'')', 'inbox_settle_batch(''q'', ''{}'', ''{done,done}'')',
	'inbox_settle_batch(''q'', $1, ''{retry}'', ''{1 s,1 s}'')', 'inbox_settle_batch(''q'', $1, ''{retry}'', ''{}'')', 'inbox_settle_batch(''q'', $1, ''{done}'', NULL, ''{a,b}'')',
	'inbox_settle_batch(''q'', ARRAY[$1])', 'inbox_extend_batch(''q'', ARRAY[$1])', 'inbox_stamp(''q'', ''{{4},{5}}'')', 'inbox_next(''q'', ARRAY[$1])',
	'inbox_settle_batch(''q'', $1, ''{{done,done,done}}'')', 'inbox_settle_batch(''q'', $1, ''{done}'', ''{{1 s},{1 s},{1 s}}'')', 'inbox_settle_batch(''q'', $1, ''{done}'', NULL, ''{{a}}'')',
	'inbox_stamp(''q'', ''{4,x}'')', 'inbox_stamp(''q'', ''{4,NULL}'')', 'inbox_stamp(''q'', ''{04}'')', 'inbox_stamp(''ungrouped'', ''{2147483648}'')', 'inbox_stamp(''q'', ''{4@1}'')']) s;

\echo '# strict'
SELECT s, try(s) FROM unnest(ARRAY['inbox_settle(''q'', NULL, strict => true)', 'inbox_settle(''q'', ''x'', strict => true)', 'inbox_settle(''q'', ''1@1'', strict => true)', 'inbox_settle(''q'', ''99@1'', strict => true)',
	'inbox_settle_batch(''q'', $1 || ''1@1''::text, strict => true)', 'inbox_settle_batch(''q'', $1[1:1] || $1, strict => true)', 'inbox_settle_batch(''q'', $1 || NULL::text, ''{release}'', strict => true)',
	'inbox_settle_batch(''q'', $1, ''{done,done,ack}'', strict => true)']) s;

SELECT fingerprint() = :'before' AS unchanged;

\echo '# in a read-only transaction'
BEGIN READ ONLY;
SELECT try('inbox_claim(''q'')');
SELECT try('inbox_claim(NULL::q, 0)');
SELECT try('inbox_claim_ids(''q'')');
SELECT try('inbox_stamp(''q'', ''{4}'')');
SELECT try('inbox_next(''q'')');
SELECT try('inbox_extend(''q'', ''1@1'')');
SELECT try('inbox_extend_batch(''q'', ''{}'')');
SELECT try('inbox_settle(''q'', ''1@1'')');
SELECT try('inbox_settle_batch(''q'', ''{}'')');
-- the one that only looks is welcome
SELECT count(inbox_receipt(q)) FROM q;
COMMIT;

\echo '# what is no error'
BEGIN;
SELECT try('inbox_settle(''q'', $1[1], ''done'', strict => NULL)');
SELECT try('inbox_settle(''q'', $1[1], ''done'', strict => false)');
SELECT try('inbox_settle(''q'', $1[2], ''retry'', ''10 years'', NULL, true)');
SELECT try('inbox_settle(''capped'', $2, ''dead'', strict => true)');
SELECT count(*) FROM inbox_claim('q', 0);
SELECT count(*) FROM inbox_next('q', NULL, 0);
SELECT verdict FROM inbox_settle_batch('q', ('[5:5]={' || split_part(:'rs', ',', 3))::text[], '[0:0]={release}', '{NULL}', '{NULL}');
ROLLBACK;

\echo '# a queue whose columns have changed'
CREATE TABLE changed (id text PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz, due_at timestamptz DEFAULT now(), attempt int DEFAULT 1, g text);
CREATE TABLE changed_dead (LIKE changed);
CREATE FUNCTION readopt() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	DROP TABLE changed CASCADE;
	CREATE TABLE changed (id text PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz, due_at timestamptz DEFAULT now(), attempt int DEFAULT 1, g text);
	PERFORM inbox_adopt('changed', claimed_at => 'claimed_at', due_at => 'due_at', attempt => 'attempt', group_key => 'g', max_attempts => 3, dead_letter => 'changed_dead');
	INSERT INTO changed VALUES ('x'), ('y');
	PERFORM inbox_claim('changed');
END $$;
CREATE FUNCTION change(what text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	receipt text;
BEGIN
	PERFORM readopt();
	SELECT inbox_receipt(c) INTO receipt FROM changed c WHERE locked_until IS NOT NULL;
	EXECUTE format('ALTER TABLE changed %s', what);
	RETURN concat_ws(E'\n', try('inbox_claim(''changed'', 0)'), try(format('inbox_settle(''changed'', %L)', receipt)));
END $$;
SELECT what, change(what) FROM unnest(ARRAY['DROP COLUMN locked_until', 'DROP COLUMN id', 'DROP COLUMN attempt', 'DROP COLUMN claimed_at', 'DROP COLUMN due_at',
	'ALTER attempt TYPE numeric', 'ALTER attempt TYPE text', 'ALTER attempt TYPE bigint', 'ALTER locked_until TYPE timestamp', 'ALTER locked_until TYPE timestamptz(3)', 'ALTER claimed_at TYPE date',
	'ALTER claimed_at TYPE text', 'ALTER id TYPE varchar', 'ALTER id TYPE name', 'DROP CONSTRAINT changed_pkey', 'DROP CONSTRAINT changed_pkey, ALTER id DROP NOT NULL']) what;
-- the receipt cannot be made of such a row
SELECT try('inbox_receipt(c) FROM changed c');
-- the labels of a queue on a table that is none any more
SELECT readopt();
SELECT inbox_forget('changed');
SELECT try('inbox_claim(''changed'')');

DROP SCHEMA lease_errors CASCADE;
