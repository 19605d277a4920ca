--
-- What a session remembers of a queue's name follows every change of what it
-- means
--
SET client_min_messages = error;
CREATE EXTENSION IF NOT EXISTS inbox;
CREATE SCHEMA percall_names;
CREATE SCHEMA percall_names_2;
GRANT USAGE ON SCHEMA percall_names, percall_names_2 TO public;
SET search_path = percall_names, percall_names_2, public;
\pset format unaligned
\pset tuples_only on
DROP ROLE IF EXISTS inbox_percall_name;
CREATE ROLE inbox_percall_name;

-- whose row a claim by this name returns
CREATE FUNCTION of(q text = 'q') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
	r text;
BEGIN
	SELECT payload, receipt INTO result, r FROM inbox_claim(q);
	PERFORM inbox_settle(q, r, 'release');
	RETURN result;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ': ' || SQLERRM;
END $$;
CREATE PROCEDURE make(q text) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM inbox_create(q);
	PERFORM inbox_send(q, to_jsonb(q));
	EXECUTE format('GRANT ALL ON %s TO public', q);
END $$;

\echo '# schemas and the path'
CALL make('percall_names_2.q');
SELECT of(), of('percall_names_2.q'), of('Q'), of('"q"'), of('"Q"');
CALL make('percall_names.q');
SELECT of();
SET search_path = percall_names_2, percall_names, public;
SELECT of();
SET search_path = public;
SELECT percall_names.of('q'), percall_names.of('percall_names.q'), percall_names.of('percall_names_2.q');
SET search_path = percall_names, percall_names_2, public;
SELECT of();
CREATE FUNCTION of_second() RETURNS text LANGUAGE sql SET search_path = percall_names_2, percall_names, public AS 'SELECT percall_names.of()';
SELECT of(), of_second(), of();

\echo '# tables that come, go and change names'
CREATE TEMP TABLE q (id int);
SELECT of();
DROP TABLE pg_temp.q;
SELECT of();
ALTER TABLE percall_names.q RENAME TO r;
SELECT of(), of('r');
CALL make('percall_names.q');
SELECT of(), of('r');
SELECT inbox_drop('percall_names.q');
SELECT of();
CALL make('percall_names.moved');
SELECT of('moved'), of('percall_names.moved');
ALTER TABLE moved SET SCHEMA percall_names_2;
SELECT of('percall_names.moved'), of('moved'), of('percall_names_2.moved');
SELECT inbox_drop('r');
SELECT of('r');
BEGIN;
CALL make('percall_names.q');
SELECT of();
SAVEPOINT s;
DROP TABLE percall_names.q;
SELECT of();
ROLLBACK TO s;
SELECT of();
ROLLBACK;
SELECT of();
BEGIN;
DROP TABLE percall_names_2.q;
SELECT of();
ROLLBACK;
SELECT of();
SELECT inbox_forget('q');
SELECT of();
SELECT inbox_adopt('q', claimed_at => 'claimed_at', payload => 'payload', attempt => 'attempt');
SELECT of();

\echo '# schemas renamed and swapped'
CALL make('percall_names.q');
SELECT of();
ALTER SCHEMA percall_names RENAME TO percall_names_3;
SET search_path = percall_names, percall_names_2, percall_names_3, public;
SELECT of(), percall_names_3.of('percall_names.q');
ALTER SCHEMA percall_names_2 RENAME TO percall_names;
SELECT of(), percall_names_3.of('percall_names.q');
ALTER SCHEMA percall_names RENAME TO percall_names_2;
ALTER SCHEMA percall_names_3 RENAME TO percall_names;
SELECT of();

\echo '# who may use a schema'
SET ROLE inbox_percall_name;
SELECT of(), of('percall_names.q');
RESET ROLE;
REVOKE USAGE ON SCHEMA percall_names_2 FROM public;
GRANT USAGE ON SCHEMA percall_names TO inbox_percall_name;
SET ROLE inbox_percall_name;
SELECT of('percall_names_2.q');
RESET ROLE;
SELECT of('percall_names_2.q');
SET ROLE inbox_percall_name;
SELECT of('percall_names_2.q');
RESET ROLE;
GRANT pg_read_all_data TO inbox_percall_name;
SET ROLE inbox_percall_name;
SELECT of('percall_names_2.q');
RESET ROLE;
REVOKE pg_read_all_data FROM inbox_percall_name;
SET ROLE inbox_percall_name;
SELECT of('percall_names_2.q');
RESET ROLE;
DROP TABLE percall_names.q;
SELECT of();
SET ROLE inbox_percall_name;
SELECT of();
RESET ROLE;
ALTER ROLE inbox_percall_name SUPERUSER;
SET ROLE inbox_percall_name;
SELECT of('percall_names_2.q');
RESET ROLE;
ALTER ROLE inbox_percall_name NOSUPERUSER;
SET ROLE inbox_percall_name;
SELECT of('percall_names_2.q');
RESET ROLE;

\echo '# DISCARD ALL'
SELECT of();
DISCARD ALL;
SELECT percall_names.of();
SELECT percall_names.of('percall_names_2.q');

SET client_min_messages = error;
DROP SCHEMA percall_names, percall_names_2 CASCADE;
DROP ROLE inbox_percall_name;
