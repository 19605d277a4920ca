--
-- What a session remembers of a user's rights follows every change of them
--
SET client_min_messages = error;
CREATE EXTENSION IF NOT EXISTS inbox;
CREATE SCHEMA percall_rights;
GRANT USAGE ON SCHEMA percall_rights TO public;
SET search_path = percall_rights, public;
\pset format unaligned
\pset tuples_only on
DROP ROLE IF EXISTS inbox_percall_worker, inbox_percall_other, inbox_percall_group;
CREATE ROLE inbox_percall_worker;
CREATE ROLE inbox_percall_other;
CREATE ROLE inbox_percall_group;

-- a claim and its settlement, and a send, or what they say
CREATE FUNCTION work(q text = 'q') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r text;
	result text;
BEGIN
	BEGIN
		SELECT id, receipt INTO result, r FROM inbox_claim(q);
		result := 'claimed ' || coalesce(result, 'nothing');
	EXCEPTION WHEN OTHERS THEN
		result := SQLERRM;
	END;
	BEGIN
		result := result || ', ' || coalesce(inbox_settle(q, r, 'release'), 'NULL');
	EXCEPTION WHEN OTHERS THEN
		result := result || ', ' || SQLERRM;
	END;
	BEGIN
		PERFORM inbox_settle(q, '1@1', 'done');
	EXCEPTION WHEN OTHERS THEN
		result := result || ', may not delete';
	END;
	BEGIN
		PERFORM inbox_send(q, '1');
		result := result || ', sent';
		RAISE EXCEPTION 'undo';
	EXCEPTION WHEN OTHERS THEN
		RETURN CASE SQLERRM WHEN 'undo' THEN result ELSE result || ', may not send' END;
	END;
END $$;
CREATE FUNCTION work_as_definer() RETURNS text LANGUAGE sql SECURITY DEFINER AS 'SELECT work()';
SELECT inbox_create('q');
SELECT inbox_send('q', '1', group_key => 'one');

\echo '# the table''s own privileges, given and taken'
SET ROLE inbox_percall_worker;
SELECT work();
RESET ROLE;
GRANT SELECT, UPDATE, DELETE, INSERT ON q TO inbox_percall_worker;
SET ROLE inbox_percall_worker;
SELECT work();
RESET ROLE;
REVOKE UPDATE ON q FROM inbox_percall_worker;
SET ROLE inbox_percall_worker;
SELECT work();
RESET ROLE;
GRANT UPDATE ON q TO inbox_percall_worker;
REVOKE DELETE, INSERT ON q FROM inbox_percall_worker;
SET ROLE inbox_percall_worker;
SELECT work();

\echo '# another role in between'
SET ROLE inbox_percall_other;
SELECT work();
SET ROLE inbox_percall_worker;
SELECT work();
RESET ROLE;
SELECT work();
SET ROLE inbox_percall_other;
SELECT work_as_definer();
SELECT work();

\echo '# within a transaction, and taken back with it'
RESET ROLE;
BEGIN;
GRANT ALL ON q TO inbox_percall_other;
SET LOCAL ROLE inbox_percall_other;
SELECT work();
ROLLBACK;
SET ROLE inbox_percall_other;
SELECT work();
RESET ROLE;
BEGIN;
SAVEPOINT s;
REVOKE SELECT ON q FROM inbox_percall_worker;
SET LOCAL ROLE inbox_percall_worker;
SELECT work();
ROLLBACK TO s;
SET LOCAL ROLE inbox_percall_worker;
SELECT work();
COMMIT;

\echo '# by membership, and by that of a predefined role'
RESET ROLE;
GRANT ALL ON q TO inbox_percall_group;
SET ROLE inbox_percall_other;
SELECT work();
RESET ROLE;
GRANT inbox_percall_group TO inbox_percall_other;
SET ROLE inbox_percall_other;
SELECT work();
RESET ROLE;
REVOKE inbox_percall_group FROM inbox_percall_other;
SET ROLE inbox_percall_other;
SELECT work();
RESET ROLE;
GRANT pg_read_all_data, pg_write_all_data TO inbox_percall_other;
SET ROLE inbox_percall_other;
SELECT work();
RESET ROLE;
REVOKE pg_write_all_data FROM inbox_percall_other;
SET ROLE inbox_percall_other;
SELECT work();
RESET ROLE;
REVOKE pg_read_all_data FROM inbox_percall_other;
ALTER ROLE inbox_percall_other SUPERUSER;
SET ROLE inbox_percall_other;
SELECT work();
RESET ROLE;
ALTER ROLE inbox_percall_other NOSUPERUSER;
SET ROLE inbox_percall_other;
SELECT work();

\echo '# by ownership'
RESET ROLE;
ALTER TABLE q OWNER TO inbox_percall_other;
SET ROLE inbox_percall_other;
SELECT work();
RESET ROLE;
ALTER TABLE q OWNER TO CURRENT_USER;
SET ROLE inbox_percall_other;
SELECT work();

\echo '# on columns only'
RESET ROLE;
REVOKE UPDATE ON q FROM inbox_percall_worker;
GRANT UPDATE (locked_until, claimed_at, attempt) ON q TO inbox_percall_worker;
SET ROLE inbox_percall_worker;
SELECT work();
RESET ROLE;
REVOKE UPDATE (attempt) ON q FROM inbox_percall_worker;
SET ROLE inbox_percall_worker;
SELECT work();
RESET ROLE;
GRANT ALL ON q TO inbox_percall_worker;

\echo '# row security, its policies, and who is above them'
CREATE POLICY two ON q USING (group_key = 'two');
SET ROLE inbox_percall_worker;
SELECT work();
RESET ROLE;
ALTER TABLE q ENABLE ROW LEVEL SECURITY;
SET ROLE inbox_percall_worker;
SELECT work();
RESET ROLE;
ALTER ROLE inbox_percall_worker BYPASSRLS;
SET ROLE inbox_percall_worker;
SELECT work();
RESET ROLE;
ALTER ROLE inbox_percall_worker NOBYPASSRLS;
SET ROLE inbox_percall_worker;
SELECT work();
SET ROLE inbox_percall_other;
SELECT work();
RESET ROLE;
SELECT work();
ALTER POLICY two ON q USING (group_key = 'one');
SET ROLE inbox_percall_worker;
SELECT work();
RESET ROLE;
ALTER TABLE q DISABLE ROW LEVEL SECURITY;
DROP POLICY two ON q;
SET ROLE inbox_percall_worker;
SELECT work();

\echo '# what makes the table need SQL, given and taken'
RESET ROLE;
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $m$refused$m$; END';
SET ROLE inbox_percall_worker;
SELECT work();
RESET ROLE;
CREATE TRIGGER t BEFORE UPDATE ON q FOR EACH ROW EXECUTE FUNCTION refuse();
SET ROLE inbox_percall_worker;
SELECT work();
RESET ROLE;
ALTER TABLE q DISABLE TRIGGER t;
SET ROLE inbox_percall_worker;
SELECT work();
RESET ROLE;
ALTER TABLE q ENABLE TRIGGER t;
SET ROLE inbox_percall_worker;
SELECT work();
RESET ROLE;
DROP TRIGGER t ON q;
CREATE RULE r AS ON UPDATE TO q DO INSTEAD NOTHING;
SET ROLE inbox_percall_worker;
SELECT work();
RESET ROLE;
DROP RULE r ON q;
SET ROLE inbox_percall_worker;
SELECT work();
RESET ROLE;
CREATE TRIGGER t AFTER DELETE ON q FOR EACH STATEMENT EXECUTE FUNCTION refuse();
SELECT work();
SELECT receipt AS r FROM inbox_claim('q') \gset
SELECT inbox_settle('q', :'r');
DROP TRIGGER t ON q;
DISCARD ALL;
SET search_path = percall_rights, public;
SELECT inbox_settle('q', :'r');

SET client_min_messages = error;
DROP SCHEMA percall_rights CASCADE;
DROP ROLE inbox_percall_worker, inbox_percall_other, inbox_percall_group;
