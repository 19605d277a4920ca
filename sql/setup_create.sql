--
-- inbox_create: the table, its settings, and everything it refuses
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS inbox;
RESET client_min_messages;
CREATE SCHEMA setup_create;
SET search_path = setup_create, public;
\pset format unaligned
\pset tuples_only on

-- what an error says, or the result
CREATE FUNCTION try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
	message text;
	detail text;
	hint text;
BEGIN
	IF statement !~ '^SELECT' THEN
		EXECUTE statement;
		RETURN 'ok';
	END IF;
	EXECUTE statement INTO result;
	RETURN coalesce(result, 'null');
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT,
		detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(E'\n  ', SQLSTATE || ': ' || message,
					 nullif(detail, ''), nullif(hint, ''));
END $$;

-- labels, tokens left out
CREATE VIEW labels AS
SELECT objoid::regclass::text AS rel,
	coalesce((SELECT attname FROM pg_attribute
			  WHERE attrelid = objoid AND attnum = objsubid AND objsubid > 0),
			 '') AS col,
	regexp_replace(label, '"[0-9a-f]{32}"', '"..."', 'g') AS label
FROM pg_seclabel WHERE provider = 'inbox'
	AND (SELECT relnamespace FROM pg_class WHERE oid = objoid) = 'setup_create'::regnamespace;

-- which table a queue buries in
CREATE VIEW destinations AS
SELECT q.objoid::regclass::text AS queue, d.objoid::regclass::text AS dead
FROM pg_seclabel q JOIN pg_seclabel d
	ON q.label::jsonb->>'dead_letter' = d.label::jsonb->>'token'
WHERE q.objsubid = 0 AND d.objsubid = 0
	AND (SELECT relnamespace FROM pg_class WHERE oid = q.objoid)::regnamespace::text IN
		('setup_create', '"Other one"', 'other');

--
-- Standard layout
--
SELECT inbox_create('plain');
\pset format aligned
\pset tuples_only off
\d plain
\pset format unaligned
\pset tuples_only on
SELECT unnest(reloptions) FROM pg_class WHERE oid = 'plain'::regclass;
SELECT unnest(t.reloptions) FROM pg_class c JOIN pg_class t
	ON t.oid = c.reltoastrelid WHERE c.oid = 'plain'::regclass;
SELECT * FROM labels ORDER BY rel COLLATE "C", col COLLATE "C";
-- a plain INSERT is a valid send
INSERT INTO plain(payload) VALUES ('1') RETURNING id, attempt, priority,
	due_at = now() AS due, enqueued_at = now() AS enqueued, locked_until, claimed_at;
SELECT inbox_drop('plain');

--
-- Every setting
--
SELECT inbox_create('every', lease => '90.2 s', max_attempts => 5,
	backoff => '0', backoff_max => '1 day', retention => '0',
	fifo => false, fifo_retry => 'hold');
SELECT label FROM labels WHERE rel = 'every' AND col = '';
SELECT * FROM destinations;
\pset format aligned
\pset tuples_only off
\d every
\d every_dead
\pset format unaligned
\pset tuples_only on
SELECT * FROM labels WHERE rel = 'every_dead' ORDER BY col COLLATE "C";
SELECT inbox_create('grouped', max_attempts => 2, dead_group => 'the dead');
SELECT label FROM labels WHERE rel = 'grouped' AND col = '';
SELECT to_regclass('grouped_dead');
-- NULL settings are the defaults
SELECT inbox_create('defaults', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
SELECT label FROM labels WHERE rel = 'defaults' AND col = '';
-- untyped parameters, as drivers send them
PREPARE p AS SELECT inbox_create($1, $2, $3);
EXECUTE p('typed', '5 s', 2);
DEALLOCATE p;
SELECT inbox_drop(q) FROM unnest('{every,grouped,defaults,typed}'::text[]) q;
SELECT relname FROM pg_class WHERE relnamespace = 'setup_create'::regnamespace
	AND relkind = 'r';

--
-- Bad settings
--
SELECT try('SELECT inbox_create(NULL)');
SELECT try('SELECT inbox_create(''bad'', lease => ' || quote_literal(v) || ')')
FROM unnest('{0,-1 s,8 days,30000000000 s}'::text[]) v;
SELECT try('SELECT inbox_create(''bad'', max_attempts => ' || v || ')')
FROM unnest('{0,-1,32768}'::int[]) v;
SELECT try('SELECT inbox_create(''bad'', backoff => ''-1 s'')');
SELECT try('SELECT inbox_create(''bad'', backoff => ''11 years'', backoff_max => ''12 years'')');
SELECT try('SELECT inbox_create(''bad'', backoff_max => ''-1 s'')');
SELECT try('SELECT inbox_create(''bad'', backoff => ''2 h'')');
SELECT try('SELECT inbox_create(''bad'', retention => ''-1 s'')');
SELECT try('SELECT inbox_create(''bad'', retention => ''100 years'')');
SELECT try('SELECT inbox_create(''bad'', dead_letter => ''x'', dead_group => ''y'')');
SELECT try('SELECT inbox_create(''bad'', fifo_retry => ''hodl'')');
SELECT try('SELECT inbox_create(''bad'', lease => ''soon'')');
SELECT to_regclass('bad');

--
-- Names
--
SELECT inbox_create('"We ""ird; DROP TABLE x"', max_attempts => 1);
SELECT inbox_create('"Ünïcode 🐘 queue"', max_attempts => 1);
SELECT inbox_create('MiXed');
SELECT inbox_create('"select"', max_attempts => 1);
SELECT inbox_create('"1"', max_attempts => 1);
SELECT inbox_create('"a.b"', max_attempts => 1);
SELECT inbox_create('setup_create . spaced');
SELECT inbox_create(repeat('n', 63), max_attempts => 1);
SELECT * FROM destinations ORDER BY queue COLLATE "C";
SELECT inbox_drop(queue) FROM (SELECT DISTINCT queue FROM destinations) d;
SELECT inbox_drop('mixed'), inbox_drop('spaced');
SELECT count(*) FROM labels;
SELECT try('SELECT inbox_create(' || quote_literal(n) || ')')
FROM unnest(ARRAY['', ' ', '"', '""', 'two words', 'a.', '.a', 'a..b', '1',
				  repeat('n', 64), '"' || repeat('"', 128) || '"', 'a.b.c.d',
				  repeat('é', 32), 'nosuchschema.q', 'pg_temp.q', 'pg_catalog.q']) n;

--
-- Another schema, and none
--
CREATE SCHEMA "Other one";
SELECT inbox_create('"Other one".q', max_attempts => 3);
SELECT * FROM destinations;
SET search_path = "Other one";
SELECT setup_create.try('SELECT public.inbox_create(''q'')');
SET search_path = nosuchschema;
SELECT setup_create.try('SELECT public.inbox_create(''q'')');
SET search_path = setup_create, public;
ALTER SCHEMA "Other one" RENAME TO other;
SELECT * FROM destinations;
SELECT inbox_drop('other.q');
SET search_path = pg_temp, setup_create, public;
SELECT setup_create.try('SELECT public.inbox_create(''q'')');
SET search_path = setup_create, public;
-- objects of the user's that look like PostgreSQL's do not confuse it
CREATE SCHEMA evil;
CREATE FUNCTION evil.now() RETURNS timestamptz LANGUAGE sql AS 'SELECT ''epoch''::timestamptz';
CREATE DOMAIN evil.text AS int;
CREATE DOMAIN evil.jsonb AS int;
SET search_path = setup_create, evil, pg_catalog, public;
SELECT public.inbox_create('safe', max_attempts => 1);
SET search_path = setup_create, public;
INSERT INTO safe(payload) VALUES ('{}') RETURNING due_at = now(), pg_typeof(group_key);
SELECT inbox_drop('safe');
DROP SCHEMA evil CASCADE;

--
-- What exists already
--
CREATE TABLE ordinary (i int);
CREATE VIEW looks AS SELECT 1 AS i;
SELECT inbox_create('twice');
SELECT try('SELECT inbox_create(''twice'')');
SELECT inbox_create('twice', if_not_exists => true, lease => '1 h');
SELECT label FROM labels WHERE rel = 'twice' AND col = '';
SELECT try('SELECT inbox_create(''ordinary'', if_not_exists => true)');
SELECT try('SELECT inbox_create(''looks'', if_not_exists => true)');
SELECT try('SELECT inbox_create(''ordinary'')');
-- the default dead-letter table's name is taken
CREATE TABLE taken_dead (i int);
SELECT try('SELECT inbox_create(''taken'', max_attempts => 1)');
SELECT to_regclass('taken');
DROP TABLE taken_dead, ordinary;
DROP VIEW looks;

--
-- A destination of the user's
--
SELECT try('SELECT inbox_create(''q'', dead_letter => ''nosuch'')');
SELECT try('SELECT inbox_create(''q'', dead_letter => ''q'')');
-- another queue, shared by two, without a cap
SELECT inbox_create('q1', dead_letter => 'twice'),
	inbox_create('q2', dead_letter => 'twice', max_attempts => 3);
SELECT * FROM destinations ORDER BY queue COLLATE "C";
SELECT try('SELECT inbox_drop(''twice'')');
SELECT try('SELECT inbox_forget(''twice'')');
SELECT inbox_drop('q1'), inbox_drop('q2');
-- a table
CREATE TABLE dead (id bigint, rest jsonb);
SELECT inbox_create('q', dead_letter => 'dead', max_attempts => 2);
SELECT * FROM destinations;
SELECT * FROM labels WHERE rel = 'dead' ORDER BY col COLLATE "C";
SELECT try('SELECT inbox_create(''q2'', dead_letter => ''dead'')');
SELECT try('SELECT inbox_create(''dead'')');
-- stays when the queue goes
SELECT inbox_drop('q');
SELECT * FROM labels WHERE rel = 'dead';
-- a dead-letter table whose queue went by DROP TABLE
SELECT inbox_create('q', max_attempts => 2);
DROP TABLE q;
SELECT try('SELECT inbox_create(''q'', max_attempts => 2)');
SELECT inbox_create('q', max_attempts => 2, dead_letter => 'q_dead');
SELECT * FROM destinations;
SELECT inbox_drop('q');
SELECT to_regclass('q_dead');
-- unsuitable ones
CREATE VIEW no_table AS SELECT 1;
CREATE TEMP TABLE no_temp (id bigint, rest jsonb);
CREATE TABLE no_id (i int);
CREATE TABLE no_rest (id bigint, payload jsonb, priority int);
CREATE TABLE no_bigint (id int, rest jsonb);
CREATE TABLE no_jsonb (id bigint, payload json, rest jsonb);
CREATE TABLE no_null (id bigint, rest jsonb, i int NOT NULL);
CREATE TABLE no_null2 (id bigint, rest jsonb, claimed_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE no_room (id bigint, rest jsonb, attempt smallint);
CREATE TABLE no_text (id bigint, rest jsonb, group_key varchar(10));
CREATE TABLE no_generated (id bigint GENERATED ALWAYS AS (1) STORED, rest jsonb);
SELECT try('SELECT inbox_create(''q'', dead_letter => ''no_' || n || ''')')
FROM unnest('{table,temp,id,rest,bigint,jsonb,"null",null2,room,text,generated}'::text[]) n;
SELECT to_regclass('q');
CREATE UNLOGGED TABLE unlogged (id bigint, rest jsonb, i int NOT NULL DEFAULT 0,
	died_at timestamptz NOT NULL, cause text NOT NULL, attempt bigint);
SELECT inbox_create('q', dead_letter => 'unlogged');
SELECT col, label FROM labels WHERE rel = 'unlogged' ORDER BY col COLLATE "C";
SELECT inbox_drop('q');
-- unsuitable queues
CREATE TABLE other_queue (id bigint PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz,
	payload jsonb);
SELECT inbox_adopt('other_queue', claimed_at => 'claimed_at', payload => 'payload');
SELECT try('SELECT inbox_create(''q'', dead_letter => ''other_queue'')');
ALTER TABLE other_queue ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY,
	ALTER COLUMN payload TYPE text;
SELECT try('SELECT inbox_create(''q'', dead_letter => ''other_queue'')');
ALTER TABLE other_queue ALTER COLUMN payload TYPE json USING payload::json, ADD COLUMN must int NOT NULL;
SELECT try('SELECT inbox_create(''q'', dead_letter => ''other_queue'')');
ALTER TABLE other_queue ALTER COLUMN must SET DEFAULT 0;
SELECT inbox_create('q', dead_letter => 'other_queue');
SELECT inbox_drop('q');

--
-- Read-only
--
BEGIN READ ONLY;
SELECT inbox_create('q');
ROLLBACK;

--
-- Rights: CREATE on the schema, ownership of the destination
--
CREATE ROLE regress_inbox_maker;
CREATE ROLE regress_inbox_other;
SET ROLE regress_inbox_maker;
SELECT public.inbox_create('setup_create.mine');
RESET ROLE;
GRANT USAGE ON SCHEMA setup_create TO regress_inbox_maker, regress_inbox_other;
SET ROLE regress_inbox_maker;
SELECT try('SELECT inbox_create(''mine'')');
RESET ROLE;
GRANT CREATE ON SCHEMA setup_create TO regress_inbox_maker;
SET ROLE regress_inbox_maker;
SELECT try('SELECT inbox_create(''mine'', dead_letter => ''twice'')');
SELECT inbox_create('mine', max_attempts => 1);
RESET ROLE;
SELECT relname, pg_get_userbyid(relowner) FROM pg_class
WHERE relname IN ('mine', 'mine_dead', 'mine_id_seq') ORDER BY 1;
SET ROLE regress_inbox_other;
SELECT try('SELECT inbox_' || f || '(''mine'')')
FROM unnest('{alter,pause,resume,forget,drop,adopt}'::text[]) f;
RESET ROLE;
-- a superuser cannot pair tables of different owners
CREATE TABLE foreign_dead (id bigint, rest jsonb);
SELECT try('SELECT inbox_alter(''mine'', dead_letter => ''foreign_dead'')');
SET ROLE regress_inbox_maker;
SELECT inbox_drop('mine');
RESET ROLE;

SET client_min_messages = warning;
DROP SCHEMA setup_create, other CASCADE;
DROP ROLE regress_inbox_maker, regress_inbox_other;
