--
-- What a session remembers of a queue follows every change of it
--
SET client_min_messages = error;
CREATE EXTENSION IF NOT EXISTS inbox;
CREATE SCHEMA lease_cache;
CREATE SCHEMA lease_cache_2;
SET search_path = lease_cache, lease_cache_2, public;
\pset format unaligned
\pset tuples_only on

-- The whole life of row 1 of a queue, by every path that keeps a plan.
CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN coalesce(NEW, OLD); END';
CREATE FUNCTION work(q text, name text DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r text;
	n text;
	result text;
BEGIN
	name := coalesce(name, q);
	SELECT id || '/' || attempt, receipt INTO n, r FROM inbox_claim(q);
	result := concat_ws(' ', n, (inbox_extend(q, r, '1 h')).verdict, inbox_settle(q, r, 'retry', '0'));
	SELECT id || '/' || attempt, receipt INTO n, r FROM inbox_claim_ids(q);
	result := concat_ws(' ', result, n, inbox_settle(q, r, 'release'));
	EXECUTE format('SELECT inbox_receipt(x) FROM inbox_claim(NULL::%s) x', name) INTO r;
	result := concat_ws(' ', result, inbox_settle(q, r, 'release'));
	SELECT id || '/' || attempt, receipt INTO n, r FROM inbox_stamp(q, ARRAY['1']);
	RETURN concat_ws(' ', result, n, inbox_settle(q, r));
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ': ' || SQLERRM;
END $$;
-- Each change is tried on a table that is written directly and on one that is
-- written by SQL.
CREATE PROCEDURE make(q text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TABLE %s (id bigint PRIMARY KEY, due_at timestamptz DEFAULT ''2000-01-01'', locked_until timestamptz, claimed_at timestamptz, attempt int DEFAULT 1, priority int DEFAULT 0, payload jsonb)', q);
	EXECUTE format('CREATE INDEX ON %s (priority, due_at, id)', q);
	PERFORM inbox_adopt(q, due_at => 'due_at', claimed_at => 'claimed_at', attempt => 'attempt', payload => 'payload', priority => 'priority');
	EXECUTE format('INSERT INTO %s (id, payload) VALUES (1, ''1'')', q);
END $$;
CREATE FUNCTION each(change text, after text = NULL) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	statement text;
	q text := 'q';
BEGIN
	FOREACH q IN ARRAY '{direct,bysql}'::text[] LOOP
		CALL make(q);
		IF q = 'bysql' THEN
			CREATE TRIGGER t BEFORE UPDATE OR DELETE ON bysql FOR EACH ROW EXECUTE FUNCTION pass();
		END IF;
		RETURN NEXT q || ': ' || work(q);
		EXECUTE format('INSERT INTO %s (id, payload) VALUES (1, ''1'')', q);
		FOREACH statement IN ARRAY string_to_array(replace(change, '$q', q), '; ') LOOP
			EXECUTE statement;
		END LOOP;
		RETURN NEXT replace(change, '$q', q) || ': ' || work(coalesce(replace(after, '$q', q), q));
		IF after IS NOT NULL THEN
			RETURN NEXT 'by the old name: ' || work(q);
		END IF;
		EXECUTE format('DROP TABLE %s', coalesce(replace(after, '$q', q), q));
	END LOOP;
END $$;

\echo '# columns'
SELECT each('ALTER TABLE $q RENAME id TO "The Id"; ALTER TABLE $q RENAME locked_until TO "select"; ALTER TABLE $q RENAME claimed_at TO c; ALTER TABLE $q RENAME attempt TO a; ALTER TABLE $q RENAME payload TO p; ALTER TABLE $q RENAME due_at TO d; ALTER TABLE $q RENAME priority TO pr');
SELECT each('ALTER TABLE $q ALTER id TYPE int');
SELECT each('ALTER TABLE $q ALTER id TYPE text');
SELECT each('ALTER TABLE $q ALTER attempt TYPE smallint; ALTER TABLE $q ALTER priority TYPE bigint');
SELECT each('ALTER TABLE $q ALTER payload TYPE text');
SELECT each('ALTER TABLE $q ADD COLUMN extra text DEFAULT ''x''; ALTER TABLE $q ADD COLUMN more int GENERATED ALWAYS AS (attempt * 2) STORED');
SELECT each('ALTER TABLE $q DROP COLUMN payload');
SELECT each('ALTER TABLE $q DROP COLUMN claimed_at');
SELECT each('ALTER TABLE $q DROP COLUMN due_at; ALTER TABLE $q DROP COLUMN priority; ALTER TABLE $q DROP COLUMN attempt');
-- swapped
SELECT each('ALTER TABLE $q RENAME due_at TO x; ALTER TABLE $q RENAME claimed_at TO due_at; ALTER TABLE $q RENAME x TO claimed_at');

\echo '# names'
SELECT each('ALTER TABLE $q RENAME TO "New Name"', '"New Name"');
SELECT each('ALTER TABLE $q SET SCHEMA lease_cache_2', 'lease_cache_2.$q');
CALL make('lease_cache_2.away');
SELECT work('lease_cache_2.away');
INSERT INTO lease_cache_2.away (id) VALUES (1);
ALTER SCHEMA lease_cache_2 RENAME TO lease_cache_3;
SELECT work('lease_cache_2.away');
SELECT work('lease_cache_3.away');
ALTER SCHEMA lease_cache_3 RENAME TO lease_cache_2;
-- by the same name, through the search path
CALL make('lease_cache_2.moved');
SELECT work('moved');
INSERT INTO lease_cache_2.moved (id) VALUES (1);
ALTER SCHEMA lease_cache_2 RENAME TO lease_cache_x;
SELECT work('moved');
ALTER SCHEMA lease_cache_x RENAME TO lease_cache_2;
SELECT work('moved');

\echo '# indexes, statistics, storage'
SELECT each('DROP INDEX $q_priority_due_at_id_idx');
SELECT each('ALTER TABLE $q DROP CONSTRAINT $q_pkey');
SELECT each('ALTER TABLE $q DROP CONSTRAINT $q_pkey; CREATE UNIQUE INDEX ON $q (id) INCLUDE (payload)');
SELECT each('ALTER TABLE $q DROP CONSTRAINT $q_pkey; CREATE UNIQUE INDEX ON $q (id) WHERE attempt < 0');
SELECT each('ALTER TABLE $q DROP CONSTRAINT $q_pkey; CREATE UNIQUE INDEX ON $q (id, attempt)');
SELECT each('ALTER TABLE $q DROP CONSTRAINT $q_pkey; ALTER TABLE $q ADD PRIMARY KEY (id) DEFERRABLE');
SELECT each('REINDEX TABLE $q');
SELECT each('ANALYZE $q');
SELECT each('CLUSTER $q USING $q_priority_due_at_id_idx');
SELECT each('TRUNCATE $q; INSERT INTO $q (id, payload) VALUES (1, ''"new"'')');
SELECT each('ALTER TABLE $q SET UNLOGGED');
SELECT each('ALTER TABLE $q SET (fillfactor = 20)');

\echo '# triggers, rules, row security, generated columns come and go'
SELECT each('CREATE TRIGGER u BEFORE UPDATE ON $q FOR EACH ROW EXECUTE FUNCTION pass()');
SELECT each('CREATE TRIGGER u BEFORE UPDATE ON $q FOR EACH ROW EXECUTE FUNCTION pass(); DROP TRIGGER u ON $q');
SELECT each('ALTER TABLE $q DISABLE TRIGGER ALL');
SELECT each('CREATE RULE r AS ON UPDATE TO $q DO ALSO NOTHING');
SELECT each('ALTER TABLE $q ENABLE ROW LEVEL SECURITY; ALTER TABLE $q FORCE ROW LEVEL SECURITY');
SELECT each('CREATE TABLE heir () INHERITS ($q); DROP TABLE heir');

\echo '# the queue itself'
SELECT each('SELECT inbox_forget(''$q'')');
SELECT each('SELECT inbox_forget(''$q''); SELECT inbox_adopt(''$q'')');
SELECT each('DROP TABLE $q; CALL make(''$q'')');
SELECT each('DROP TABLE $q; SELECT inbox_create(''$q''); INSERT INTO $q (id, payload) VALUES (1, ''1'')');
SELECT each('SELECT inbox_pause(''$q'')');
SELECT each('SELECT inbox_pause(''$q''); SELECT inbox_resume(''$q'')');
SELECT each('SELECT inbox_alter(''$q'', lease => ''5 s'')');
-- in a transaction that takes it back
CALL make('undone');
BEGIN;
ALTER TABLE undone RENAME locked_until TO l;
SELECT work('undone');
ROLLBACK;
SELECT work('undone');
INSERT INTO undone (id) VALUES (1);
BEGIN;
SELECT inbox_forget('undone');
SAVEPOINT s;
SELECT work('undone');
SELECT inbox_adopt('undone');
SELECT work('undone');
ROLLBACK TO s;
SELECT work('undone');
ROLLBACK;
SELECT work('undone');
-- the cap
SELECT inbox_create('capped', max_attempts => 2);
BEGIN;
INSERT INTO capped (id, payload, attempt) VALUES (1, '1', 3);
SELECT id FROM inbox_claim('capped');
SELECT inbox_alter('capped', max_attempts => 5);
SELECT id, attempt, max_attempts FROM inbox_claim('capped');
UPDATE capped SET locked_until = NULL;
SELECT inbox_alter('capped', max_attempts => 1);
SELECT id FROM inbox_claim('capped');
SELECT inbox_alter('capped', reset => '{max_attempts}');
SELECT id, attempt, max_attempts FROM inbox_claim('capped');
ROLLBACK;
-- the lease
BEGIN;
INSERT INTO capped (id, payload) VALUES (1, '1');
SELECT locked_until < now() + interval '1 min' FROM inbox_claim('capped');
UPDATE capped SET locked_until = NULL;
SELECT inbox_alter('capped', lease => '1 h');
SELECT locked_until > now() + interval '59 min' FROM inbox_claim('capped');
ROLLBACK;

\echo '# change of role'
DROP ROLE IF EXISTS lease_cache_1, lease_cache_2;
CREATE ROLE lease_cache_1;
CREATE ROLE lease_cache_2;
GRANT USAGE ON SCHEMA lease_cache, lease_cache_2 TO lease_cache_1, lease_cache_2;
CALL make('roles');
INSERT INTO roles (id) VALUES (2);
GRANT SELECT, UPDATE ON roles TO lease_cache_1;
SELECT id FROM inbox_claim('roles');
SET ROLE lease_cache_1;
SELECT id FROM inbox_claim('roles');
SET ROLE lease_cache_2;
SELECT id FROM inbox_claim('roles');
RESET ROLE;

UPDATE roles SET locked_until = NULL;
ALTER TABLE roles ENABLE ROW LEVEL SECURITY;
CREATE POLICY two ON roles TO lease_cache_1 USING (id = 2);
SET ROLE lease_cache_1;
SELECT id FROM inbox_claim('roles', 10);
RESET ROLE;
SELECT id FROM inbox_claim('roles', 10);
DROP TABLE roles;

\echo '# a call that a change of the queue interrupts'
CALL make('busy');
CREATE FUNCTION alter_it() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM inbox_alter('busy', lease => '7 s');
	RETURN NEW;
END $$;
CREATE TRIGGER t BEFORE UPDATE ON busy FOR EACH ROW EXECUTE FUNCTION alter_it();
INSERT INTO busy (id) SELECT i FROM generate_series(2, 250) i;
SELECT count(*) FROM inbox_claim('busy', 3);
SELECT count(*) FROM inbox_claim('busy', 300);
CREATE FUNCTION rename_it() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	ALTER TABLE busy RENAME locked_until TO l;
	RETURN NEW;
END $$;
DROP TRIGGER t ON busy;
UPDATE busy SET locked_until = NULL;
CREATE TRIGGER t BEFORE UPDATE ON busy FOR EACH ROW EXECUTE FUNCTION rename_it();
SELECT work('busy');
CREATE FUNCTION forget_it() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM inbox_forget('busy');
	RETURN NEW;
END $$;
DROP TRIGGER t ON busy;
CREATE TRIGGER t AFTER UPDATE ON busy FOR EACH ROW WHEN (new.id = 2) EXECUTE FUNCTION forget_it();
BEGIN;
SELECT count(*) FROM inbox_claim('busy', 3);
SELECT work('busy');
ROLLBACK;
SELECT count(*) FROM inbox_claim('busy', 1);

\echo '# many queues made and dropped'
DO $$
BEGIN
	FOR i IN 1..30 LOOP
		PERFORM inbox_create('churn');
		INSERT INTO churn (payload) VALUES ('1');
		PERFORM inbox_settle('churn', receipt) FROM inbox_claim('churn');
		PERFORM inbox_drop('churn');
	END LOOP;
END $$;
SELECT count(*) < 10 FROM pg_backend_memory_contexts WHERE name LIKE 'inbox queue%' AND ident IS NULL;

DROP SCHEMA lease_cache, lease_cache_2 CASCADE;
DROP ROLE lease_cache_1, lease_cache_2;
