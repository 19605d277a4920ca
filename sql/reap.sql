--
-- The reap pass by hand.  The worker may run beside it: what it would reap is
-- kept in open transactions.
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS inbox;
RESET client_min_messages;
CREATE SCHEMA reap;
SET search_path = reap, public;
\pset format unaligned
\pset null NULL
CREATE VIEW letters AS SELECT queue, id, cause, error, attempt FROM inbox_dead WHERE queue LIKE 'reap.%' ORDER BY queue, id;
GRANT SELECT ON letters TO PUBLIC;

-- What is buried: spent, and no lease alive.  Deliveries are reported from 1,
-- so max_attempts => 2 is spent when the row holds 3
SELECT inbox_create('jobs', max_attempts => 2, retention => '1 hour');
SELECT inbox_pause('jobs');
BEGIN;
INSERT INTO jobs (payload, attempt, locked_until, processed_at, last_error) VALUES
	('1', 1, NULL, NULL, NULL),							-- fresh
	('2', 2, now() - '1 s'::interval, NULL, NULL),		-- ended, one delivery left
	('3', 3, now() + '1 h'::interval, NULL, NULL),		-- spent, but in work
	('4', 3, now() - '1 s'::interval, NULL, 'boom'),	-- spent, lease lost
	('5', 9, NULL, NULL, NULL),							-- spent, under a lowered cap
	('6', 3, NULL, now() - '2 h'::interval, NULL),		-- finished long ago
	('7', 3, NULL, now(), NULL);						-- finished just now
SELECT * FROM inbox_reap('jobs');
COMMIT;
SELECT id, attempt FROM jobs ORDER BY id;
TABLE letters;
-- an ended lease is not touched: a late holder still holds it
SELECT locked_until IS NOT NULL FROM jobs WHERE id = 2;
SELECT * FROM inbox_reap('jobs');
-- a bounded number of rows at a time
BEGIN;
INSERT INTO jobs (payload, attempt) SELECT '0', 3 FROM generate_series(1, 25);
SET LOCAL inbox.reap_rows = 10;
SELECT buried FROM inbox_reap('jobs');
SELECT buried FROM inbox_reap('jobs');
SELECT buried FROM inbox_reap('jobs');
SELECT buried FROM inbox_reap('jobs');
COMMIT;
-- the page bound is the worker's
BEGIN;
SET LOCAL inbox.reap_pages = 1;
INSERT INTO jobs (payload, attempt) SELECT to_jsonb(repeat('x', 1000)), 3 FROM generate_series(1, 200);
SELECT buried FROM inbox_reap('jobs');
COMMIT;
-- at any isolation level
INSERT INTO jobs (payload, attempt, locked_until) SELECT '8', 3, now() + '1 h'::interval FROM generate_series(1, 2);
BEGIN ISOLATION LEVEL SERIALIZABLE;
UPDATE jobs SET locked_until = NULL WHERE id = (SELECT min(id) FROM jobs WHERE payload = '8');
SELECT buried FROM inbox_reap('jobs');
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
UPDATE jobs SET locked_until = NULL WHERE payload = '8';
SELECT buried FROM inbox_reap('jobs');
COMMIT;
SELECT id, payload FROM jobs ORDER BY id;

-- One bad row is set aside and stops nobody
SELECT inbox_create('bad', max_attempts => 1);
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF OLD.payload = '"bad"' THEN
		RAISE 'not this one';
	END IF;
	RETURN OLD;
END $$;
CREATE TRIGGER refuse BEFORE DELETE ON bad FOR EACH ROW EXECUTE FUNCTION refuse();
BEGIN;
INSERT INTO bad (payload, attempt) SELECT CASE WHEN g % 40 = 0 THEN '"bad"' ELSE to_jsonb(g) END, 2 FROM generate_series(1, 120) g;
SELECT * FROM inbox_reap('bad');
SELECT id, payload FROM bad ORDER BY id;
SELECT count(*) FROM bad_dead;
-- so does a child row that will not let go, and an id that is there already
DROP TRIGGER refuse ON bad;
CREATE TABLE child (job bigint REFERENCES bad);
INSERT INTO child VALUES (40);
INSERT INTO bad_dead (id, cause) VALUES (80, 'buried');
SELECT * FROM inbox_reap('bad');
DELETE FROM child;
DELETE FROM bad_dead WHERE id = 80;
SELECT * FROM inbox_reap('bad');
SELECT count(*) FROM bad;
COMMIT;
-- an AFTER trigger that is deferred counts as much
DROP TABLE child;
CREATE CONSTRAINT TRIGGER refuse AFTER DELETE ON bad DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse();
BEGIN;
INSERT INTO bad (payload, attempt) VALUES ('"good"', 2), ('"bad"', 2);
SELECT * FROM inbox_reap('bad');
DELETE FROM bad_dead;
-- many of them: only some are told
INSERT INTO bad (payload, attempt) SELECT '"bad"', 2 FROM generate_series(1, 11);
SELECT * FROM inbox_reap('bad');
ROLLBACK;
DROP TRIGGER refuse ON bad;
-- nowhere to bury
DROP TABLE bad_dead;
BEGIN;
INSERT INTO bad (payload, attempt) VALUES ('1', 2);
SELECT * FROM inbox_reap('bad');
SELECT count(*) FROM bad;
ROLLBACK;

-- A group as destination
SELECT inbox_create('grouped', max_attempts => 1, dead_group => 'dead');
BEGIN;
INSERT INTO grouped (payload, group_key, attempt) VALUES ('1', 'x', 2), ('2', 'y', 1);
SELECT * FROM inbox_reap('grouped');
COMMIT;
SELECT id, group_key, attempt FROM grouped ORDER BY id;
SELECT * FROM inbox_reap('grouped');

-- Adopted tables: other names, types and tables
CREATE TABLE "Odd ""Q" ("The Id" uuid PRIMARY KEY, "lock" timestamptz, tries smallint DEFAULT 0, body bytea, note varchar(5), total int GENERATED ALWAYS AS (1 + 1) STORED)
	PARTITION BY HASH ("The Id");
CREATE TABLE part_0 (note varchar(5), body bytea, total int GENERATED ALWAYS AS (1 + 1) STORED, tries smallint DEFAULT 0, "lock" timestamptz, "The Id" uuid NOT NULL);
ALTER TABLE "Odd ""Q" ATTACH PARTITION part_0 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE part_1 PARTITION OF "Odd ""Q" FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE "Odd Dead" ("The Id" uuid, tries bigint, body bytea, cause text, died_at timestamptz, rest jsonb);
SET client_min_messages = error;
SELECT inbox_adopt('"Odd ""Q"', id => 'The Id', locked_until => 'lock', attempt => 'tries', payload => 'body', max_attempts => 2, dead_letter => '"Odd Dead"');
RESET client_min_messages;
BEGIN;
INSERT INTO "Odd ""Q" ("The Id", tries, body, note)
	SELECT ('00000000-0000-0000-0000-00000000000' || g)::uuid, CASE WHEN g > 6 THEN NULL ELSE 2 END, '\xdeadbeef00', 'n' || g FROM generate_series(1, 8) g;
SELECT count(DISTINCT tableoid) FROM "Odd ""Q";
SELECT * FROM inbox_reap('"Odd ""Q"');
COMMIT;
SELECT "The Id", tries, body, cause, rest FROM "Odd Dead" ORDER BY 1;
SELECT inbox_redrive('"Odd ""Q"');
SELECT "The Id", tries, body, note, total FROM "Odd ""Q" ORDER BY 1;
SELECT inbox_purge('"Odd ""Q"');

-- a child that has more columns than its parent
CREATE TABLE parent (id int PRIMARY KEY, locked_until timestamptz, attempt bigint DEFAULT 1, doc json);
CREATE TABLE kid (extra text, UNIQUE (id)) INHERITS (parent);
CREATE TABLE parent_dead (LIKE parent, died_at timestamptz, cause text, rest jsonb);
SET client_min_messages = error;
SELECT inbox_adopt('parent', attempt => 'attempt', headers => 'doc', max_attempts => 1, dead_letter => 'parent_dead');
RESET client_min_messages;
BEGIN;
INSERT INTO parent VALUES (1, NULL, 2, '{"a": 1}');
INSERT INTO kid VALUES (2, NULL, 2, NULL, 'more');
SELECT * FROM inbox_reap('parent');
COMMIT;
SELECT id, attempt, cause, doc #>> '{inbox,history,0,cause}' AS history, rest FROM parent_dead ORDER BY id;

-- Rights: it takes a consumer's to reap; the owner's code runs as the owner
CREATE ROLE reap_owner;
CREATE ROLE reap_consumer;
CREATE ROLE reap_nobody;
GRANT ALL ON SCHEMA reap TO reap_owner;
GRANT USAGE ON SCHEMA reap TO reap_consumer, reap_nobody;
SET ROLE reap_owner;
SELECT inbox_create('owned', max_attempts => 1);
GRANT SELECT, UPDATE, DELETE ON owned TO reap_consumer;
CREATE TABLE whoami (who text, path text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO reap.whoami VALUES (current_user, current_setting('search_path'));
	RETURN NULL;
END $$;
CREATE TRIGGER note AFTER DELETE ON owned FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER note_dead AFTER INSERT ON owned_dead FOR EACH ROW EXECUTE FUNCTION note();
INSERT INTO owned (payload, attempt, locked_until) VALUES ('1', 2, now() + '1 h'::interval), ('2', 1, NULL);
SET ROLE reap_nobody;
SELECT * FROM inbox_reap('owned');
SELECT * FROM inbox_reap();
SELECT inbox_redrive('owned');
SELECT inbox_purge('owned');
TABLE letters;
SET ROLE reap_consumer;
SELECT inbox_settle('owned', receipt, 'dead') FROM inbox_claim('owned');
BEGIN;
UPDATE owned SET locked_until = NULL;
SELECT * FROM inbox_reap('owned');
COMMIT;
SELECT queue FROM inbox_reap();
SELECT inbox_redrive('owned');
TABLE letters;
SET ROLE reap_owner;
SELECT DISTINCT * FROM whoami;
SELECT count(*) FROM whoami;
TABLE letters;
GRANT SELECT, DELETE ON owned_dead TO reap_consumer;
SET ROLE reap_consumer;
SELECT inbox_redrive('owned');
RESET ROLE;
GRANT INSERT ON reap.owned TO reap_consumer;
SET ROLE reap_consumer;
SELECT inbox_redrive('owned');
SELECT current_user, current_setting('search_path');
RESET ROLE;
-- a purge goes by row security
ALTER TABLE owned ENABLE ROW LEVEL SECURITY;
CREATE POLICY mine ON owned USING (id = 1);
ALTER TABLE owned DISABLE TRIGGER note;
SET ROLE reap_consumer;
SELECT inbox_purge('owned');
RESET ROLE;
SELECT id FROM owned;
-- restricted: the owner's code cannot leave anything behind
CREATE OR REPLACE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	CREATE TEMP TABLE left_behind ();
	RETURN NULL;
END $$;
ALTER TABLE owned ENABLE TRIGGER note;
BEGIN;
UPDATE owned SET attempt = 2;
SELECT * FROM inbox_reap('owned');
ROLLBACK;

SELECT inbox_reap('nosuch');
SELECT inbox_reap('pg_class');
BEGIN READ ONLY;
SELECT inbox_reap();
ROLLBACK;
SET client_min_messages = error;
DROP SCHEMA reap CASCADE;
DROP ROLE reap_owner, reap_consumer, reap_nobody;
