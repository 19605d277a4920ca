--
-- inbox_alter, inbox_pause, inbox_resume, inbox_drop, inbox_forget
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS inbox;
RESET client_min_messages;
CREATE SCHEMA setup_alter;
SET search_path = setup_alter, public;
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
	EXECUTE statement INTO result;
	RETURN coalesce(result, 'null');
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT,
		detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(E'\n  ', SQLSTATE || ': ' || message,
					 nullif(detail, ''), nullif(hint, ''));
END $$;

-- settings of a queue, and which table it buries in
CREATE FUNCTION settings(queue regclass) RETURNS text LANGUAGE sql AS $$
	SELECT (q.label::jsonb - '{kind,token,dead_letter,attempt_base}'::text[])::text ||
		coalesce(' -> ' || d.objoid::regclass, '')
	FROM pg_seclabel q LEFT JOIN pg_seclabel d
		ON d.objsubid = 0 AND q.label::jsonb->>'dead_letter' = d.label::jsonb->>'token'
	WHERE q.objoid = queue AND q.objsubid = 0
$$;

--
-- Every setting, set and reset
--
SELECT inbox_create('q');
SELECT inbox_alter('q');
SELECT settings('q');
SELECT inbox_alter('q', lease => '100 ms', backoff => '0.5 s', backoff_max => '0.5 s',
	dead_group => 'd', max_attempts => 7, fifo => false, fifo_retry => 'hold');
SELECT settings('q');
SELECT inbox_alter('q', lease => '2 min');
SELECT settings('q');
SELECT inbox_alter('q', reset => '{lease,dead_group,max_attempts,backoff,backoff_max,retention,dead_letter,fifo,fifo_retry}');
SELECT settings('q');
SELECT inbox_alter('q', reset => '{}');
SELECT settings('q');
-- one setting replaces another
SELECT inbox_alter('q', dead_group => 'd');
SELECT inbox_alter('q', max_attempts => 3, reset => '{dead_group}');
SELECT settings('q');

--
-- Refused
--
SELECT try('SELECT inbox_alter(NULL)');
SELECT try('SELECT inbox_alter(''nosuch'')');
CREATE TABLE ordinary (id bigint, rest jsonb);
CREATE VIEW v AS SELECT 1;
SELECT try('SELECT inbox_' || f || '(''' || t || ''')')
FROM unnest('{alter,pause,resume,drop,forget}'::text[]) f,
	unnest('{ordinary,v,nosuch}'::text[]) t;
SELECT try('SELECT inbox_' || f || '(NULL)')
FROM unnest('{pause,resume,drop,forget}'::text[]) f;
SELECT try('SELECT inbox_' || f || '(''q_dead'')')
FROM unnest('{alter,pause,resume,drop,forget}'::text[]) f;
SELECT try('SELECT inbox_alter(''q'', ' || s || ')') FROM unnest(ARRAY[
	'lease => ''0''', 'lease => ''-1 s''', 'lease => ''1 year''', 'max_attempts => 0',
	'max_attempts => 40000', 'backoff => ''2 h''', 'backoff_max => ''0.1 s''',
	'retention => ''-1 s''', 'dead_letter => ''nosuch''', 'dead_letter => ''q''',
	'dead_letter => ''v''', 'dead_group => ''d''',
	'fifo_retry => ''x''', 'reset => ''{leese}''', 'reset => ''{lease,NULL}''',
	'reset => ''{{lease},{backoff}}''', 'lease => ''1 s'', reset => ''{lease}''']) s;
SELECT settings('q');
BEGIN READ ONLY;
SAVEPOINT s; SELECT inbox_alter('q'); ROLLBACK TO s;
SELECT inbox_pause('q'); ROLLBACK TO s;
SELECT inbox_resume('q'); ROLLBACK TO s;
SELECT inbox_drop('q'); ROLLBACK TO s;
SELECT inbox_forget('q');
ROLLBACK;

--
-- The destination
--
INSERT INTO q_dead (id, cause) VALUES (1, 'failed');
-- reset with a cap left, it is the default one
SELECT inbox_alter('q', reset => '{dead_letter}');
SELECT settings('q');
-- set again, to the same one, by any name
SELECT inbox_alter('q', dead_letter => 'setup_alter."q_dead"');
SELECT settings('q');
-- another table
SELECT inbox_alter('q', dead_letter => 'ordinary');
SELECT settings('q');
SELECT label::jsonb - 'token' FROM pg_seclabel WHERE objoid = 'ordinary'::regclass AND objsubid = 0;
SELECT count(*) FROM pg_seclabel WHERE objoid = 'q_dead'::regclass;
-- another queue
SELECT inbox_create('errors');
SELECT inbox_alter('q', dead_letter => 'errors');
SELECT settings('q');
SELECT count(*) FROM pg_seclabel WHERE objoid = 'ordinary'::regclass;
-- back to the default: its name is taken
SELECT try('SELECT inbox_alter(''q'', reset => ''{dead_letter}'')');
SELECT inbox_alter('q', dead_letter => 'q_dead');
SELECT settings('q');
SELECT inbox_alter('q', dead_letter => 'errors');
DROP TABLE q_dead;
SELECT inbox_alter('q', reset => '{dead_letter}');
SELECT settings('q');
-- to a group
SELECT try('SELECT inbox_alter(''q'', dead_group => ''d'')');
SELECT inbox_alter('q', dead_group => 'd', reset => '{dead_letter}');
SELECT settings('q');
-- none at all
SELECT inbox_alter('q', reset => '{dead_group,max_attempts}');
SELECT settings('q');
-- columns of the user's are part of the dead letter
DROP TABLE q_dead;
ALTER TABLE q ADD COLUMN tenant int NOT NULL DEFAULT 7, ADD COLUMN odd numrange,
	ADD COLUMN twice int GENERATED ALWAYS AS (priority * 2) STORED, DROP COLUMN partition_key;
ALTER TABLE q RENAME id TO "Key";
SELECT inbox_alter('q', max_attempts => 1);
\d q_dead
SELECT string_agg(attname, ', ' ORDER BY attnum) FROM pg_attribute a
WHERE attrelid = 'q_dead'::regclass AND attnum > 0
	AND EXISTS (SELECT FROM pg_seclabel WHERE objoid = attrelid AND objsubid = attnum);
-- a rename parts nothing
ALTER TABLE q_dead RENAME TO graveyard;
ALTER TABLE q RENAME TO renamed;
SELECT settings('renamed');
SELECT inbox_drop('renamed');
SELECT to_regclass('renamed'), to_regclass('graveyard');

--
-- Retention of a created queue makes the column
--
SELECT inbox_create('q', dead_group => 'x');
ALTER TABLE q RENAME due_at TO "Due";
ALTER TABLE q RENAME priority TO prio;
CREATE INDEX mine ON q (prio, "Due", id, payload);
ALTER TABLE q ADD COLUMN u text, ADD UNIQUE (u);
INSERT INTO q(payload, dedup_key) VALUES ('1', 'k');
SELECT inbox_alter('q', retention => '1 day');
SELECT settings('q');
SELECT indexdef FROM pg_indexes WHERE schemaname = 'setup_alter' AND tablename = 'q' ORDER BY indexname COLLATE "C";
SELECT a.attname, l.label FROM pg_seclabel l JOIN pg_attribute a ON attrelid = objoid AND attnum = objsubid
WHERE objoid = 'q'::regclass AND attname IN ('processed_at', 'Due') ORDER BY attnum;
-- the same key is free again once the row is finished
UPDATE q SET processed_at = now();
INSERT INTO q(payload, dedup_key) VALUES ('1', 'k');
SELECT inbox_alter('q', retention => '0');
SELECT inbox_alter('q', reset => '{retention}');
SELECT settings('q');
SELECT count(processed_at) FROM q;
-- a column of that name that is none of ours
SELECT inbox_create('q2');
ALTER TABLE q2 ADD COLUMN processed_at text;
SELECT try('SELECT inbox_alter(''q2'', retention => ''1 h'')');
SELECT inbox_drop('q2'), inbox_drop('q');

--
-- An adopted queue
--
CREATE TABLE work (id int PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz, attempt smallint, grp text);
SELECT inbox_adopt('work', claimed_at => 'claimed_at', attempt => 'attempt', triggers => false);
SELECT try('SELECT inbox_alter(''work'', retention => ''1 h'')');
SELECT try('SELECT inbox_alter(''work'', max_attempts => 3)');
SELECT try('SELECT inbox_alter(''work'', dead_letter => ''errors'')');
SELECT try('SELECT inbox_alter(''work'', dead_group => ''x'')');
SELECT try('SELECT inbox_alter(''work'', max_attempts => 3, dead_letter => ''nosuch'')');
SELECT try('SELECT inbox_alter(''work'', max_attempts => 32767, dead_letter => ''errors'')');
SELECT inbox_alter('work', max_attempts => 3, dead_letter => 'errors');
SELECT settings('work');
SELECT try('SELECT inbox_alter(''work'', reset => ''{max_attempts}'')');
SELECT try('SELECT inbox_alter(''work'', reset => ''{dead_letter}'')');
SELECT inbox_alter('work', reset => '{max_attempts,dead_letter}');
SELECT settings('work');
-- its dead-letter table is the user's and stays
CREATE TABLE work_dead (LIKE work, rest jsonb);
SELECT inbox_alter('work', max_attempts => 3, dead_letter => 'work_dead');
SELECT inbox_forget('work');
SELECT count(*) FROM pg_seclabel WHERE objoid IN ('work'::regclass, 'work_dead'::regclass);
SELECT inbox_adopt('work', claimed_at => 'claimed_at', attempt => 'attempt', max_attempts => 3, dead_letter => 'work_dead');
SELECT inbox_drop('work');
SELECT to_regclass('work'), to_regclass('work_dead');
SELECT count(*) FROM pg_seclabel WHERE objoid = 'work_dead'::regclass;

--
-- Pause and resume
--
SELECT inbox_pause('errors'), inbox_pause('errors');
SELECT settings('errors');
SELECT inbox_alter('errors', lease => '1 min');
SELECT settings('errors');
SELECT inbox_resume('errors'), inbox_resume('errors');
SELECT settings('errors');

--
-- Drop and forget
--
-- what depends on the table is respected
CREATE VIEW depends AS SELECT * FROM errors;
SELECT try('SELECT inbox_drop(''errors'')');
DROP VIEW depends;
SELECT inbox_create('q', max_attempts => 2, dead_letter => 'errors');
SELECT try('SELECT inbox_drop(''errors'')');
SELECT inbox_drop('q');
SELECT inbox_drop('errors');
SELECT try('SELECT inbox_drop(''errors'')');
-- forget keeps rows and both tables
SELECT inbox_create('q', max_attempts => 2);
INSERT INTO q(payload) VALUES ('1');
SELECT inbox_forget('q');
SELECT count(*) FROM q;
SELECT to_regclass('q_dead');
SELECT count(*) FROM pg_seclabel WHERE provider = 'inbox' AND objoid = 'q'::regclass OR objoid = 'q_dead'::regclass;
SELECT try('SELECT inbox_forget(''q'')');
-- and adopting it again with the same columns is the way back
SELECT inbox_adopt('q', claimed_at => 'claimed_at', attempt => 'attempt', payload => 'payload', headers => 'headers',
	due_at => 'due_at', priority => 'priority', dedup_key => 'dedup_key', max_attempts => 2, dead_letter => 'q_dead');
SELECT inbox_forget('q');
-- an OID is a name too
SELECT inbox_create('byoid');
SELECT inbox_pause('byoid'::regclass::oid::text);
SELECT settings('byoid');
SELECT inbox_drop('byoid'::regclass::oid::text);
-- all of it obeys a rollback
BEGIN;
SELECT inbox_create('never', max_attempts => 1);
SELECT inbox_pause('never');
ROLLBACK;
SELECT to_regclass('never'), to_regclass('never_dead');
SELECT inbox_create('kept', max_attempts => 1);
BEGIN;
SELECT inbox_alter('kept', lease => '1 h');
SAVEPOINT s;
SELECT inbox_drop('kept');
ROLLBACK TO s;
SELECT settings('kept');
ROLLBACK;
SELECT settings('kept');

-- a queue that has lost its triggers, with a dropped extension for one, gets
-- them again; one that was to have none does not
DROP TRIGGER inbox_inserted ON kept;
SELECT inbox_alter('kept');
SELECT tgname FROM pg_trigger WHERE tgrelid = 'kept'::regclass ORDER BY 1;
CREATE TABLE bare (id int PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz);
SELECT inbox_adopt('bare', claimed_at => 'claimed_at', triggers => false);
SELECT inbox_alter('bare');
SELECT tgname FROM pg_trigger WHERE tgrelid = 'bare'::regclass ORDER BY 1;

--
-- Everything is documented
--
SELECT p.oid::regprocedure FROM pg_proc p
WHERE p.proname ~ '^inbox_' AND obj_description(p.oid, 'pg_proc') IS NULL ORDER BY 1;

SET client_min_messages = warning;
DROP SCHEMA setup_alter CASCADE;
