--
-- Sends without SQL: the same answers and rows as with it
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS inbox;
CREATE SCHEMA send_direct;
SET search_path = send_direct, public;
SET track_functions = 'all';
SET datestyle = ISO;
\pset format unaligned
\pset tuples_only on

-- Does a statement both ways, and undoes it; says what came of it, or how the
-- ways differ.  With SQL the statement triggers fire, which tells the ways.
CREATE FUNCTION once(way text, statement text, look text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	result text;
	seen text;
	ran bigint := (SELECT coalesce(sum(pg_stat_get_xact_function_calls(oid)), 0)
		FROM pg_proc WHERE proname = 'inbox_changed');
	message text;
	detail text;
	con text;
	tab text;
BEGIN
	PERFORM set_config('inbox.direct', way, true);
	PERFORM setval(pg_get_serial_sequence('q', 'id'), 1, false);
	BEGIN
		EXECUTE statement INTO result;
		EXECUTE format('SELECT %s FROM q', look) INTO seen;
		RAISE SQLSTATE 'ZZ999';
	EXCEPTION
		WHEN SQLSTATE 'ZZ999' THEN
			result := format('%s: %s', coalesce(result, 'null'), seen);
		WHEN OTHERS THEN
			GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
				con = CONSTRAINT_NAME, tab = TABLE_NAME;
			result := concat_ws(E'\n  ', SQLSTATE || ': ' || message, nullif(
				regexp_replace(detail, '\d{4}-\d\d-\d\d( [\d:.+-]+)?', '(time)', 'g'), ''), nullif(tab || '.' || con, '.'));
	END;
	ran := (SELECT coalesce(sum(pg_stat_get_xact_function_calls(oid)), 0)
		FROM pg_proc WHERE proname = 'inbox_changed') - ran;
	RETURN CASE WHEN ran > 0 THEN 'by SQL; ' ELSE '' END || result;
END $$;

CREATE FUNCTION twice(statement text, look text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	direct text := once('on', statement, look);
	sql text := once('off', statement, look);
BEGIN
	IF sql = direct AND sql !~ '^\w{5}:' THEN
		RETURN 'only ' || direct;
	ELSIF sql IN (direct, 'by SQL; ' || direct) THEN
		RETURN direct;
	END IF;
	RETURN format(E'DIFFERENT\n%s\n%s', direct, sql);
END $$;

SELECT inbox_create('q');
\set look '$look$string_agg(concat_ws(\',\', id, payload, headers, priority, group_key, partition_key, attempt, locked_until, due_at = now(), enqueued_at = now()), E\'\\n\' ORDER BY id)$look$'
\set sums '$look$concat_ws(\' \', count(*), sum(length(payload::text)), md5(string_agg(payload::text, \'\' ORDER BY id)))$look$'

--
-- What a created queue gets
--
SELECT twice($$SELECT inbox_send('q', '{"n": 1}')$$, :look);
SELECT twice($$SELECT inbox_send('q', '{"n": 1}', headers => '{"h": 1}', priority => -3,
	group_key => 'g', partition_key => 'p', due_at => '2030-01-01')$$, :look);
SELECT twice($$SELECT string_agg(x, '+') FROM inbox_send_batch('q', '{1, 2, 3}', headers => '{null, 5, null}',
	priority => 7, group_keys => '{a, null, c}') x$$, :look);
SELECT twice($$SELECT inbox_send('q', NULL)$$, :look);
-- rows without a dedup key in a batch that has some
SELECT twice($$SELECT string_agg(x, '+') FROM inbox_send_batch('q', '{1, 2, 3}', dedup_keys => '{null, k, null}') x$$, :look);
-- its own sends a transaction can claim; a statement does not see those it makes
SELECT twice($$WITH s AS MATERIALIZED (SELECT inbox_send('q', '1')) SELECT (SELECT count(*) FROM q) FROM s$$, :look);
BEGIN;
SET LOCAL inbox.direct = on;
SELECT inbox_send('q', '1') IS NOT NULL, count(*) FROM inbox_send_batch('q', '{2, 3}');
SELECT payload FROM inbox_claim('q', 10);
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SET LOCAL inbox.direct = on;
SELECT count(*) FROM inbox_send_batch('q', '{1, 2}');
SELECT payload FROM inbox_claim('q', 10);
ROLLBACK;

--
-- Columns that users add
--
CREATE SEQUENCE numbers;
CREATE FUNCTION three() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 3';
CREATE FUNCTION rows_before() RETURNS bigint LANGUAGE plpgsql AS
	'BEGIN RETURN (SELECT count(*) FROM send_direct.q); END';
CREATE FUNCTION rows_stable() RETURNS bigint LANGUAGE sql STABLE AS
	'SELECT count(*) FROM send_direct.q';
CREATE DOMAIN small AS int CHECK (VALUE < 10);
CREATE DOMAIN needed AS int NOT NULL;
CREATE DOMAIN five AS int DEFAULT 5;
ALTER TABLE q ADD gone int, ADD constant text DEFAULT 'c' || 1, ADD number int DEFAULT nextval('numbers'),
	ADD number2 int GENERATED ALWAYS AS IDENTITY, ADD moment date NOT NULL DEFAULT current_date,
	ADD uid uuid DEFAULT gen_random_uuid(), ADD clock timestamptz(0) DEFAULT clock_timestamp(), ADD f five,
	ADD s small DEFAULT 9, ADD big text DEFAULT repeat('x', 5000), ADD cut varchar(3) DEFAULT 'abc'::text;
ALTER TABLE q DROP gone;
CREATE VIEW added AS SELECT concat_ws(',', id, payload, constant, number - lag(number) OVER w, number2 - lag(number2) OVER w,
	moment = current_date, uid <> lag(uid) OVER w, clock > now() - interval '1 s', f, s, length(big), cut) AS x
	FROM q WINDOW w AS (ORDER BY id);
\set added '$look$(SELECT string_agg(x, E\'\\n\') FROM added LIMIT 1), count(*)$look$'
SELECT twice($$SELECT inbox_send('q', '1')$$, :added);
SELECT twice($$SELECT count(*) FROM inbox_send_batch('q', '{1, 2, 3}')$$, :added);
-- user functions: planned when called, and rows are there one by one
ALTER TABLE q ADD t int DEFAULT three(), ADD r bigint DEFAULT rows_before(), ADD rs bigint DEFAULT rows_stable();
\set users '$look$string_agg(concat_ws(\',\', payload, t, r, rs), E\'\\n\' ORDER BY id)$look$'
SELECT twice($$SELECT count(*) FROM inbox_send_batch('q', '{1, 2, 3}')$$, :users);
CREATE OR REPLACE FUNCTION three() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 4';
SELECT twice($$SELECT count(*) FROM inbox_send_batch('q', '{1, 2}')$$, :users);
ALTER TABLE q ALTER t SET DEFAULT 6, ALTER r DROP DEFAULT, ALTER rs SET DEFAULT -1;
SELECT twice($$SELECT count(*) FROM inbox_send_batch('q', '{1, 2}')$$, :users);
ALTER TABLE q ALTER t SET DEFAULT 1 / 0;
SELECT twice($$SELECT inbox_send('q', '1')$$, :look);
ALTER TABLE q DROP t, DROP r, DROP rs;

--
-- Constraints
--
DROP VIEW added;
ALTER TABLE q DROP big, DROP clock, DROP uid, DROP number, DROP number2, ADD must int NOT NULL;
SELECT twice($$SELECT inbox_send('q', '1')$$, :look);
ALTER TABLE q DROP must, ADD must needed;
SELECT twice($$SELECT inbox_send('q', '1')$$, :look);
ALTER TABLE q DROP must;
ALTER TABLE q ALTER s SET DEFAULT 10;
SELECT twice($$SELECT inbox_send('q', '1')$$, :look);
ALTER TABLE q ALTER s DROP DEFAULT;
SELECT twice($$SELECT inbox_send('q', '1')$$, :look);
ALTER DOMAIN small SET NOT NULL;
SELECT twice($$SELECT inbox_send('q', '1')$$, :look);
ALTER TABLE q DROP s;
ALTER TABLE q ADD CONSTRAINT short CHECK (length(payload::text) < 4);
SELECT twice($$SELECT count(*) FROM inbox_send_batch('q', '{1, 2, 3}')$$, :look);
SELECT twice($$SELECT count(*) FROM inbox_send_batch('q', '{1, 2, 12345}')$$, :look);
ALTER TABLE q DROP CONSTRAINT short, ADD CONSTRAINT few CHECK (rows_before() < 2);
SELECT twice($$SELECT count(*) FROM inbox_send_batch('q', '{1, 2, 3}')$$, :look);
ALTER TABLE q DROP CONSTRAINT few;

--
-- Indexes.  What fails in the middle undoes the whole call
--
CREATE UNIQUE INDEX once ON q (payload) WHERE payload <> '0';
SELECT twice($$SELECT count(*) FROM inbox_send_batch('q', '{0, 0, 3}')$$, :look);
SELECT twice($$SELECT count(*) FROM inbox_send_batch('q', '{1, 2, 2, 3}')$$, :look);
DROP INDEX once;
CREATE INDEX ratio ON q ((10 / (payload #>> '{}')::int));
SELECT twice($$SELECT count(*) FROM inbox_send_batch('q', '{1, 2, 0, 3}')$$, :look);
SET inbox.direct = on;
SELECT count(*) FROM inbox_send_batch('q', (SELECT array_agg(to_jsonb(1500 - g)) FROM generate_series(1, 2000) g));
SELECT count(*) FROM q;
DROP INDEX ratio;
ALTER TABLE q ADD CONSTRAINT apart EXCLUDE (payload WITH =);
SELECT twice($$SELECT count(*) FROM inbox_send_batch('q', '{1, 2, 1}')$$, :look);
ALTER TABLE q DROP CONSTRAINT apart;
-- deferred to the end: by SQL, as a trigger sees to it
ALTER TABLE q ADD CONSTRAINT later UNIQUE (payload) DEFERRABLE INITIALLY DEFERRED;
SELECT twice($$SELECT count(*) FROM inbox_send_batch('q', '{1, 2, 2}')$$, :look);
ALTER TABLE q DROP CONSTRAINT later;

--
-- Large messages, and many
--
SELECT twice($$SELECT inbox_send('q', to_jsonb(repeat('compresses well ', 100000))) IS NOT NULL$$, :sums);
SELECT twice($$SELECT inbox_send('q', (SELECT jsonb_agg(md5(g::text)) FROM generate_series(1, 10000) g)) IS NOT NULL$$, :sums);
SELECT twice($$SELECT count(*) FROM inbox_send_batch('q', (SELECT array_agg(
	(SELECT jsonb_agg(md5((g * h)::text)) FROM generate_series(1, 200) g)) FROM generate_series(1, 50) h))$$, :sums);
CREATE TABLE stored AS SELECT (SELECT jsonb_agg(md5((g * h)::text)) FROM generate_series(1, 300) g) AS p, h FROM generate_series(1, 20) h;
SELECT twice($$SELECT count(inbox_send('q', p, headers => p)) FROM (SELECT p FROM stored ORDER BY h) s$$, :sums);
SELECT twice($$SELECT count(*) FROM inbox_send_batch('q', (SELECT array_agg(p ORDER BY h) FROM stored))$$, :sums);
SELECT twice($$SELECT count(*) || ' ' || bool_and(x::int = n) FROM inbox_send_batch('q',
	(SELECT array_agg(to_jsonb(g)) FROM generate_series(1, 30000) g)) WITH ORDINALITY AS s(x, n)$$, :sums);
SELECT twice($$SELECT count(*) FROM inbox_send_batch('q', '{}')$$, :sums);

--
-- Tables that need SQL
--
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE FUNCTION ways(ddl text, undo text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE ddl;
	result := twice($q$SELECT count(*) FROM inbox_send_batch('q', '{1, 2}')$q$, 'count(*)');
	EXECUTE undo;
	RETURN result;
END $$;
SELECT ways('CREATE TRIGGER t BEFORE INSERT ON q FOR EACH ROW EXECUTE FUNCTION nothing()', 'DROP TRIGGER t ON q');
SELECT ways('CREATE TRIGGER t AFTER INSERT ON q FOR EACH ROW EXECUTE FUNCTION nothing()', 'DROP TRIGGER t ON q');
SELECT ways('CREATE TRIGGER t AFTER INSERT ON q EXECUTE FUNCTION nothing()', 'DROP TRIGGER t ON q');
SELECT ways('CREATE TRIGGER t AFTER UPDATE ON q FOR EACH ROW EXECUTE FUNCTION nothing()', 'DROP TRIGGER t ON q');
CREATE TABLE other (id int PRIMARY KEY);
SELECT ways('ALTER TABLE q ADD fk int REFERENCES other', 'ALTER TABLE q DROP fk');
SELECT ways('ALTER TABLE other ADD fk int REFERENCES q', 'ALTER TABLE other DROP fk');
SELECT ways('CREATE RULE r AS ON INSERT TO q DO ALSO NOTIFY rule', 'DROP RULE r ON q');
SELECT ways('ALTER TABLE q ADD g int GENERATED ALWAYS AS (1) STORED', 'ALTER TABLE q DROP g');
SELECT ways('CREATE TABLE child () INHERITS (q)', 'DROP TABLE child');
SELECT ways('ALTER TABLE q ALTER due_at TYPE timestamptz(0)', 'ALTER TABLE q ALTER due_at TYPE timestamptz');
SELECT ways('ALTER TABLE q SET UNLOGGED', 'ALTER TABLE q SET LOGGED');

--
-- Rights
--
CREATE ROLE inbox_send_direct;
GRANT USAGE ON SCHEMA send_direct TO inbox_send_direct;
GRANT INSERT ON q TO inbox_send_direct;
SET inbox.direct = on;
SET ROLE inbox_send_direct;
SELECT inbox_send('q', '1') IS NOT NULL;
RESET ROLE;
-- an error shows no more than it would with SQL
ALTER TABLE q ADD secret text DEFAULT 'secret', ADD CONSTRAINT c CHECK (secret <> 'secret') NOT VALID;
\set VERBOSITY default
\set SHOW_CONTEXT never
SELECT setval(pg_get_serial_sequence('q', 'id'), 50, false);
SET ROLE inbox_send_direct;
SELECT inbox_send('q', '1', priority => 3);
SET inbox.direct = off;
SELECT inbox_send('q', '1', priority => 3);
RESET ROLE;
ALTER TABLE q DROP secret;
-- only some columns
REVOKE INSERT ON q FROM inbox_send_direct;
GRANT INSERT (id, payload) ON q TO inbox_send_direct;
SET ROLE inbox_send_direct;
SET inbox.direct = on;
SELECT inbox_send('q', '2') IS NOT NULL;
SELECT inbox_send('q', '2', priority => 3);
RESET ROLE;
-- row security
GRANT INSERT ON q TO inbox_send_direct;
ALTER TABLE q ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON q FOR INSERT WITH CHECK (payload <> '3');
SET ROLE inbox_send_direct;
SELECT inbox_send('q', '4') IS NOT NULL;
SELECT inbox_send('q', '3');
RESET ROLE;
SELECT ways('SELECT', 'SELECT');
SELECT string_agg(payload::text, ' ' ORDER BY id) FROM q;

DROP SCHEMA send_direct CASCADE;
DROP ROLE inbox_send_direct;
