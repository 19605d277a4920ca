--
-- What the owner of a queue can do to others: nothing
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS inbox;
DROP ROLE IF EXISTS sec_mallory, sec_victim, sec_outsider;
CREATE ROLE sec_mallory;
CREATE ROLE sec_victim;
CREATE ROLE sec_outsider;
CREATE SCHEMA sec_m AUTHORIZATION sec_mallory;
CREATE SCHEMA sec_v AUTHORIZATION sec_victim;
GRANT USAGE ON SCHEMA sec_m, sec_v TO PUBLIC;
RESET client_min_messages;
\pset format unaligned
\pset null '(null)'
\set SHOW_CONTEXT never

-- who has run code of mallory's; written by whoever that is
SET ROLE sec_mallory;
CREATE TABLE sec_m.caught(who name, what text);
GRANT INSERT ON sec_m.caught TO PUBLIC;
CREATE FUNCTION sec_m.catch(what text) RETURNS void LANGUAGE sql AS $$
	INSERT INTO sec_m.caught VALUES (current_user, what)
$$;
CREATE FUNCTION sec_m.label(tab text, label text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN EXECUTE format('SECURITY LABEL FOR inbox ON TABLE %s IS %L', tab, label); END $$;
RESET ROLE;

\echo '# looking at dead letters runs nothing of the owner''s'
SET ROLE sec_mallory;
SELECT inbox_create('sec_m.bait', max_attempts => 1);
-- an operator, a cast and a function of the names that a query might use
CREATE TYPE sec_m.mood AS ENUM ('bad');
CREATE FUNCTION sec_m.mood_text(sec_m.mood) RETURNS text LANGUAGE plpgsql AS $$
BEGIN PERFORM sec_m.catch('cast'); RETURN 'x'; END $$;
CREATE CAST (sec_m.mood AS text) WITH FUNCTION sec_m.mood_text(sec_m.mood);
INSERT INTO sec_m.bait_dead(id, payload, cause) VALUES (1, '1', 'failed');
ALTER TABLE sec_m.bait_dead ALTER cause TYPE sec_m.mood USING 'bad';
ALTER TABLE sec_m.bait_dead ADD COLUMN shadow int GENERATED ALWAYS AS (1) STORED;
CREATE FUNCTION sec_m.policy() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN PERFORM sec_m.catch('policy'); RETURN true; END $$;
CREATE POLICY all_rows ON sec_m.bait_dead USING (sec_m.policy());
ALTER TABLE sec_m.bait_dead ENABLE ROW LEVEL SECURITY;
GRANT SELECT ON sec_m.bait_dead TO sec_victim;
RESET ROLE;
SELECT id, cause FROM inbox_dead WHERE queue = 'sec_m.bait';
\echo '# row security runs, because it must, but can do no harm'
SET ROLE sec_victim;
SELECT id, cause FROM inbox_dead WHERE queue = 'sec_m.bait';
RESET ROLE;
SELECT * FROM sec_m.caught;
SET ROLE sec_mallory;
DROP POLICY all_rows ON sec_m.bait_dead;
CREATE FUNCTION sec_m.one_only(bigint) RETURNS boolean LANGUAGE sql AS 'SELECT $1 = 1';
CREATE POLICY all_rows ON sec_m.bait_dead USING (sec_m.one_only(id));
INSERT INTO sec_m.bait_dead(id, payload, cause) VALUES (2, '1', 'bad');
RESET ROLE;
SET ROLE sec_victim;
SELECT id, cause FROM inbox_dead WHERE queue = 'sec_m.bait';
RESET ROLE;
SELECT id, cause FROM inbox_dead WHERE queue = 'sec_m.bait';
\echo '# a broken queue does not hide the others'
SET ROLE sec_victim;
SELECT inbox_create('sec_v.good', max_attempts => 1);
SELECT verdict FROM inbox_send('sec_v.good', '1'), inbox_claim('sec_v.good') c, inbox_settle('sec_v.good', c.receipt, 'dead');
RESET ROLE;
ALTER TABLE sec_m.bait DROP COLUMN id CASCADE;
SELECT queue, id, cause FROM inbox_dead WHERE queue LIKE 'sec%';
DROP TABLE sec_m.bait, sec_m.bait_dead;

\echo '# tokens are no secret: labels that name another''s table by its token'
SELECT label::json ->> 'token' AS token FROM pg_seclabel WHERE objoid = 'sec_v.good_dead'::regclass AND objsubid = 0 \gset
SELECT label::json ->> 'token' AS queue_token FROM pg_seclabel WHERE objoid = 'sec_v.good'::regclass AND objsubid = 0 \gset
SET ROLE sec_mallory;
SELECT inbox_create('sec_m.thief', max_attempts => 1, dead_group => 'dead');
SELECT sec_m.label('sec_m.thief',
	'{"kind": "queue", "token": "0123456789abcdef0123456789abcdef", "max_attempts": 1, "created": true, "dead_letter": "' || :'token' || '"}');
\echo '# it is not where he buries, not even for who may write there'
RESET ROLE;
GRANT ALL ON sec_v.good_dead TO sec_mallory;
SET ROLE sec_mallory;
SELECT inbox_send('sec_m.thief', '1');
SELECT verdict FROM inbox_claim('sec_m.thief') c, inbox_settle('sec_m.thief', c.receipt, 'dead');
SELECT inbox_redrive('sec_m.thief');
SELECT queue, id FROM inbox_dead WHERE queue LIKE 'sec_m%';
\echo '# the label of the other stays, and so does the table, whoever calls'
BEGIN;
SELECT inbox_alter('sec_m.thief', reset => '{max_attempts,dead_letter}');
SELECT count(*) FROM pg_seclabel WHERE objoid = 'sec_v.good_dead'::regclass AND objsubid = 0;
ROLLBACK;
BEGIN;
SELECT inbox_forget('sec_m.thief');
SELECT count(*) FROM pg_seclabel WHERE objoid = 'sec_v.good_dead'::regclass AND objsubid = 0;
ROLLBACK;
RESET ROLE;
BEGIN;
SELECT inbox_drop('sec_m.thief');
SELECT to_regclass('sec_m.thief'), to_regclass('sec_v.good_dead');
ROLLBACK;
SELECT dead_letter, dead FROM inbox_queues WHERE queue = 'sec_m.thief';
\echo '# nor does it bind the other''s hands'
SET ROLE sec_victim;
BEGIN;
SELECT inbox_alter('sec_v.good', reset => '{max_attempts,dead_letter}');
SELECT inbox_forget('sec_v.good');
ROLLBACK;
\echo '# no token twice; no label on what one does not own'
SET ROLE sec_mallory;
SELECT sec_m.label('sec_m.thief',
	'{"kind": "queue", "token": "' || :'queue_token' || '"}');
SELECT sec_m.label('sec_m.caught',
	'{"kind": "dead", "token": "' || :'token' || '"}');
SECURITY LABEL FOR inbox ON TABLE sec_v.good IS NULL;
SECURITY LABEL FOR inbox ON COLUMN sec_v.good.id IS 'payload';
\echo '# a token that has become free, on a table that anybody may write to'
RESET ROLE;
DROP TABLE sec_v.good_dead;
SET ROLE sec_mallory;
CREATE TABLE sec_m.trap (LIKE sec_m.thief, died_at timestamptz, cause text, rest jsonb);
CREATE FUNCTION sec_m.spring() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM sec_m.catch('trigger'); RETURN NEW; END $$;
CREATE TRIGGER spring BEFORE INSERT ON sec_m.trap FOR EACH ROW EXECUTE FUNCTION sec_m.spring();
GRANT ALL ON sec_m.trap TO PUBLIC;
SELECT sec_m.label('sec_m.trap',
	'{"kind": "dead", "token": "' || :'token' || '"}');
SECURITY LABEL FOR inbox ON COLUMN sec_m.trap.id IS 'id';
SET ROLE sec_victim;
SELECT inbox_send('sec_v.good', '1');
SELECT verdict FROM inbox_claim('sec_v.good') c, inbox_settle('sec_v.good', c.receipt, 'dead');
RESET ROLE;
UPDATE sec_v.good SET attempt = 5, locked_until = now() - interval '1 h';
SELECT buried FROM inbox_reap('sec_v.good');
SELECT * FROM sec_m.caught;
TABLE sec_m.trap;

\echo '# a destination in other hands than the queue'
SET ROLE sec_victim;
SELECT inbox_alter('sec_v.good', reset => '{dead_letter}');
RESET ROLE;
ALTER TABLE sec_v.good_dead OWNER TO sec_mallory;
UPDATE sec_v.good SET attempt = 1, locked_until = NULL;
SET ROLE sec_victim;
SELECT verdict FROM inbox_claim('sec_v.good') c, inbox_settle('sec_v.good', c.receipt, 'dead');
RESET ROLE;
ALTER TABLE sec_v.good_dead OWNER TO sec_victim;
UPDATE sec_v.good SET attempt = 1, locked_until = NULL;
SET ROLE sec_victim;
SELECT verdict FROM inbox_claim('sec_v.good') c, inbox_settle('sec_v.good', c.receipt, 'dead');
\echo '# a dead-letter table made by a superuser is the queue owner''s'
SELECT inbox_create('sec_v.plain');
RESET ROLE;
SELECT inbox_alter('sec_v.plain', max_attempts => 1);
SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = 'sec_v.plain_dead'::regclass;

\echo '# labels: nothing but what is known, and not too much of it'
SET ROLE sec_mallory;
CREATE TABLE sec_m.t(id int PRIMARY KEY, n sec_m.mood);
SECURITY LABEL FOR inbox ON TABLE sec_m.t IS 'x';
SECURITY LABEL FOR inbox ON TABLE sec_m.t IS '[]';
SECURITY LABEL FOR inbox ON TABLE sec_m.t IS '{}';
SECURITY LABEL FOR inbox ON TABLE sec_m.t IS '{"kind": "dead", "token": {"a": 1}}';
SECURITY LABEL FOR inbox ON TABLE sec_m.t IS '{"kind": "dead", "token": "0123456789abcdef0123456789abcde'' OR 1"}';
SECURITY LABEL FOR inbox ON TABLE sec_m.t IS '{"token": "fedcba98765432100123456789abcdef", "lease": 1e300}';
SECURITY LABEL FOR inbox ON TABLE sec_m.t IS '{"token": "fedcba98765432100123456789abcdef", "run": "rm"}';
SELECT sec_m.label('sec_m.t', json_build_object('token', repeat('a', 32), 'dead_group', repeat('x', 5000))::text);
SECURITY LABEL FOR inbox ON COLUMN sec_m.t.n IS 'attempt';
SECURITY LABEL FOR inbox ON FUNCTION sec_m.spring() IS 'id';
SECURITY LABEL FOR inbox ON TABLE sec_m.t IS '{"token": "fedcba98765432100123456789abcdef", "dead_letter": "fedcba98765432100123456789abcdef", "max_attempts": 1}';
SELECT * FROM inbox_claim('sec_m.t');
RESET ROLE;
SELECT queue, problem FROM inbox_queues WHERE queue = 'sec_m.t';
SELECT * FROM inbox_reap('sec_m.t');
SELECT * FROM inbox_reap() r WHERE r.queue IN ('sec_m.t', 'sec_v.good');
DROP TABLE sec_m.t;

\echo '# adopting another''s table evaluates nothing of his as who does it'
TRUNCATE sec_m.caught;
SET ROLE sec_mallory;
CREATE FUNCTION sec_m.zero() RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN PERFORM sec_m.catch('default'); RETURN 0; END $$;
CREATE TABLE sec_m.adopted(id bigint PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz,
	attempt int DEFAULT sec_m.zero());
RESET ROLE;
SELECT inbox_adopt('sec_m.adopted', claimed_at => 'claimed_at', attempt => 'attempt');
SELECT * FROM sec_m.caught;

\echo '# a trigger function that has the name of ours is not taken for it'
SET ROLE sec_mallory;
TRUNCATE sec_m.caught;
SELECT inbox_create('sec_m.names');
CREATE FUNCTION sec_m.inbox_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM sec_m.catch('namesake'); RETURN NULL; END $$;
CREATE TRIGGER mine AFTER UPDATE ON sec_m.names FOR EACH STATEMENT EXECUTE FUNCTION sec_m.inbox_changed();
SELECT inbox_send('sec_m.names', '1');
SELECT attempt FROM inbox_claim('sec_m.names');
SELECT * FROM sec_m.caught;
SELECT inbox_forget('sec_m.names');
SELECT tgname FROM pg_trigger WHERE tgrelid = 'sec_m.names'::regclass AND NOT tgisinternal;

\echo '# our trigger function in other places'
CREATE TABLE sec_m.other(id int);
CREATE TRIGGER t1 AFTER INSERT ON sec_m.other REFERENCING NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION inbox_changed();
INSERT INTO sec_m.other VALUES (1);
CREATE TRIGGER t2 AFTER INSERT ON sec_m.other FOR EACH ROW EXECUTE FUNCTION inbox_changed();
INSERT INTO sec_m.other VALUES (2);
DROP TRIGGER t2 ON sec_m.other;
CREATE TRIGGER t3 AFTER DELETE ON sec_m.other REFERENCING OLD TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION inbox_changed();
DELETE FROM sec_m.other;
SELECT inbox_changed();
RESET ROLE;

\echo '# every function, for who has no rights on the queue'
SELECT inbox_create('sec_v.closed', max_attempts => 3);
SET ROLE sec_outsider;
CREATE FUNCTION pg_temp.refused(call text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN EXECUTE 'SELECT * FROM ' || call; RETURN call || ': went through';
EXCEPTION WHEN insufficient_privilege THEN RETURN NULL; WHEN OTHERS THEN RETURN call || ': ' || SQLERRM; END $$;
SELECT pg_temp.refused(call) FROM unnest(ARRAY[
	$$inbox_create('sec_v.mine')$$,
	$$inbox_adopt('sec_v.closed')$$,
	$$inbox_alter('sec_v.closed', lease => '1 s')$$,
	$$inbox_drop('sec_v.closed')$$,
	$$inbox_forget('sec_v.closed')$$,
	$$inbox_pause('sec_v.closed')$$,
	$$inbox_resume('sec_v.closed')$$,
	$$inbox_send('sec_v.closed', '1')$$,
	$$inbox_send_batch('sec_v.closed', '{1}')$$,
	$$inbox_claim('sec_v.closed')$$,
	$$inbox_claim(NULL::sec_v.closed)$$,
	$$inbox_claim_ids('sec_v.closed')$$,
	$$inbox_stamp('sec_v.closed', '{1}')$$,
	$$inbox_next('sec_v.closed')$$,
	$$inbox_extend('sec_v.closed', '1@1')$$,
	$$inbox_extend_batch('sec_v.closed', '{1@1}')$$,
	$$inbox_settle('sec_v.closed', '1@1')$$,
	$$inbox_settle_batch('sec_v.closed', '{1@1}')$$,
	$$inbox_reap('sec_v.closed')$$,
	$$inbox_redrive('sec_v.closed')$$,
	$$inbox_purge('sec_v.closed')$$]) call
WHERE pg_temp.refused(call) IS NOT NULL;
CALL inbox_wait('sec_v.closed', '1 s');
SELECT count(*) FROM inbox_queues WHERE queue LIKE 'sec%';
SELECT count(*) FROM inbox_leases WHERE queue LIKE 'sec%';
SELECT count(*) FROM inbox_dead WHERE queue LIKE 'sec%';
SELECT count(*) FROM inbox_reap() r WHERE r.queue LIKE 'sec%';
RESET ROLE;
\echo '# none is a definer function, none is granted to anybody by name'
SELECT p.proname FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid
WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
	AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'inbox') AND (p.prosecdef OR p.proacl IS NOT NULL);

SET client_min_messages = warning;
DROP FUNCTION pg_temp.refused;
DROP SCHEMA sec_m, sec_v CASCADE;
DROP ROLE sec_mallory, sec_victim, sec_outsider;
