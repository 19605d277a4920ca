--
-- Tables with triggers, rules, foreign keys and constraints of their own
--
SET client_min_messages = error;
CREATE EXTENSION IF NOT EXISTS inbox;
CREATE SCHEMA lease_triggers;
SET search_path = lease_triggers, public;
\pset format unaligned
\pset tuples_only on

CREATE TABLE log (no serial, entry text);
CREATE FUNCTION logged() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	SELECT coalesce(string_agg(entry, ', ' ORDER BY no), 'no entries') FROM log INTO result;
	DELETE FROM log;
	RETURN result;
END $$;
CREATE FUNCTION log_it() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log(entry) VALUES (concat_ws(' ', lower(TG_WHEN), lower(TG_OP), lower(TG_LEVEL),
		CASE WHEN TG_LEVEL = 'ROW' THEN coalesce(NEW.id, OLD.id) || ':' || coalesce(NEW.attempt, OLD.attempt) END));
	RETURN coalesce(NEW, OLD);
END $$;
CREATE FUNCTION take(q text, n bigint = 100) RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(string_agg(concat(id, '/', attempt, ' ' || (payload #>> '{}')), ', '), 'nothing') FROM inbox_claim(q, n)
$$;
CREATE FUNCTION extend_all(q text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('SELECT string_agg(verdict, '' '' ORDER BY receipt) FROM inbox_extend_batch(%L,
		(SELECT array_agg(inbox_receipt(q)) FROM %s q WHERE locked_until > now()), ''1 h'')', q, q) INTO result;
	RETURN result;
END $$;
CREATE FUNCTION settle_all(q text, outcome text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('SELECT string_agg(verdict, '' '' ORDER BY receipt) FROM inbox_settle_batch(%L,
		(SELECT array_agg(inbox_receipt(q)) FROM %s q WHERE locked_until > now()), %L)', q, q, ARRAY[outcome]) INTO result;
	RETURN result;
END $$;
CREATE FUNCTION all_of(q text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN NEXT 'claimed ' || take(q, 2) || ': ' || logged();
	RETURN NEXT 'extended ' || extend_all(q) || ': ' || logged();
	RETURN NEXT 'released ' || settle_all(q, 'release') || ': ' || logged();
	RETURN NEXT 'claimed ' || take(q, 1) || ': ' || logged();
	RETURN NEXT 'done ' || settle_all(q, 'done') || ': ' || logged();
END $$;
CREATE FUNCTION make(q text, adopt boolean = true) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('DROP TABLE IF EXISTS %I CASCADE', q);
	EXECUTE format('CREATE TABLE %I (id int PRIMARY KEY, payload text, locked_until timestamptz, claimed_at timestamptz, attempt int DEFAULT 1)', q);
	IF adopt THEN
		PERFORM inbox_adopt(q, claimed_at => 'claimed_at', attempt => 'attempt', payload => 'payload');
	END IF;
	EXECUTE format('INSERT INTO %I SELECT i FROM generate_series(1, 3) i', q);
END $$;

\echo '# AFTER ROW'
SELECT make('q');
CREATE TRIGGER t AFTER UPDATE OR DELETE ON q FOR EACH ROW EXECUTE FUNCTION log_it();
SELECT all_of('q');
\echo '# AFTER ROW with a column list and a condition'
SELECT make('q');
CREATE TRIGGER t1 AFTER UPDATE OF attempt ON q FOR EACH ROW EXECUTE FUNCTION log_it();
CREATE TRIGGER t2 AFTER UPDATE ON q FOR EACH ROW WHEN (old.locked_until IS NULL AND new.locked_until IS NOT NULL AND new.id = 2) EXECUTE FUNCTION log_it();
CREATE TRIGGER t3 AFTER UPDATE OF payload ON q FOR EACH ROW EXECUTE FUNCTION log_it();
SELECT all_of('q');
\echo '# BEFORE ROW'
SELECT make('q');
CREATE TRIGGER t BEFORE UPDATE OR DELETE ON q FOR EACH ROW EXECUTE FUNCTION log_it();
SELECT all_of('q');
\echo '# BEFORE and AFTER ROW, BEFORE and AFTER STATEMENT'
SELECT make('q');
CREATE TRIGGER t1 BEFORE UPDATE OR DELETE ON q FOR EACH STATEMENT EXECUTE FUNCTION log_it();
CREATE TRIGGER t2 AFTER UPDATE OR DELETE ON q FOR EACH STATEMENT EXECUTE FUNCTION log_it();
CREATE TRIGGER t3 BEFORE UPDATE OR DELETE ON q FOR EACH ROW EXECUTE FUNCTION log_it();
CREATE TRIGGER t4 AFTER UPDATE OR DELETE ON q FOR EACH ROW EXECUTE FUNCTION log_it();
SELECT all_of('q');
\echo '# transition tables'
SELECT make('q');
CREATE FUNCTION log_tables() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'UPDATE' THEN
		INSERT INTO log(entry) SELECT format('update %s:%s to %s', o.id, o.attempt, n.attempt) FROM o JOIN n USING (id);
	ELSE
		INSERT INTO log(entry) SELECT format('delete %s:%s', o.id, o.attempt) FROM o;
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER t1 AFTER UPDATE ON q REFERENCING OLD TABLE AS o NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION log_tables();
CREATE TRIGGER t2 AFTER DELETE ON q REFERENCING OLD TABLE AS o FOR EACH STATEMENT EXECUTE FUNCTION log_tables();
SELECT all_of('q');
\echo '# on a partition, with others that have none'
CREATE TABLE p (id int PRIMARY KEY, payload text, locked_until timestamptz, claimed_at timestamptz, attempt int DEFAULT 1) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (1) TO (2);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (2) TO (3);
CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (3) TO (4);
CREATE TRIGGER t AFTER UPDATE OR DELETE ON p1 FOR EACH ROW EXECUTE FUNCTION log_it();
CREATE TRIGGER t BEFORE UPDATE OR DELETE ON p2 FOR EACH ROW EXECUTE FUNCTION log_it();
SELECT inbox_adopt('p', claimed_at => 'claimed_at', attempt => 'attempt', payload => 'payload');
INSERT INTO p SELECT i FROM generate_series(1, 3) i;
SELECT all_of('p');

\echo '# a trigger that keeps the row as it is: not delivered, not locked'
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF OLD.payload = 'stay' THEN
		RETURN NULL;
	END IF;
	RETURN coalesce(NEW, OLD);
END $$;
SELECT make('q');
UPDATE q SET payload = 'stay' WHERE id = 2;
CREATE TRIGGER t BEFORE UPDATE OR DELETE ON q FOR EACH ROW EXECUTE FUNCTION refuse();
SELECT take('q', 2);
SELECT take('q');
SELECT id, attempt, locked_until > now() FROM q ORDER BY id;
-- leased before the trigger came, a settlement that the trigger refuses is an error
SELECT make('q');
SELECT take('q');
SELECT inbox_receipt(q) AS r FROM q WHERE id = 2 \gset
UPDATE q SET payload = 'stay' WHERE id = 2;
CREATE TRIGGER t BEFORE UPDATE OR DELETE ON q FOR EACH ROW EXECUTE FUNCTION refuse();
SELECT inbox_settle('q', :'r');
SELECT inbox_settle('q', :'r', 'release');
SELECT (inbox_extend('q', :'r', '1 h')).verdict;
-- and takes the whole batch with it
SELECT settle_all('q', 'done');
SELECT count(*) FROM q;

\echo '# a trigger that writes into the row'
SELECT make('q');
CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	NEW.payload := concat(OLD.payload, '+');
	IF NEW.id = 2 THEN
		NEW.locked_until := date_trunc('year', NEW.locked_until) + interval '10 years';
		NEW.attempt := 7;
		NEW.claimed_at := '2020-01-01 00:00+00';
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER t BEFORE UPDATE ON q FOR EACH ROW EXECUTE FUNCTION meddle();
CREATE TABLE c AS SELECT * FROM inbox_claim('q', 3);
SELECT c.id, c.attempt, c.payload, c.receipt = inbox_receipt(q), c.locked_until = q.locked_until FROM c JOIN q ON q.id::text = c.id;
SELECT id, inbox_settle('q', receipt, 'release') FROM c;
SELECT id, payload, attempt FROM q ORDER BY id;
DROP TABLE c;

\echo '# a trigger that moves the row to another id, or takes the lease away'
SELECT make('q');
CREATE FUNCTION rename() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.id = 1 THEN NEW.id := 11; END IF;
	IF NEW.id = 2 THEN NEW.locked_until := NULL; END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER t BEFORE UPDATE ON q FOR EACH ROW EXECUTE FUNCTION rename();
SELECT id, locked_until > now(), inbox_settle('q', receipt) FROM inbox_claim('q', 3);
SELECT id, locked_until FROM q;

\echo '# a trigger that raises: the claim fails, and what it had taken is free'
SELECT make('q');
CREATE FUNCTION raise() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.id = 2 THEN RAISE 'not this one'; END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER t BEFORE UPDATE ON q FOR EACH ROW EXECUTE FUNCTION raise();
SELECT take('q', 3);
SELECT take('q', 1);
DROP TRIGGER t ON q;
CREATE TRIGGER t AFTER UPDATE ON q FOR EACH ROW EXECUTE FUNCTION raise();
SELECT take('q', 3);
SELECT count(*) FROM q WHERE locked_until IS NOT NULL;
DO $$
BEGIN
	PERFORM take('q', 3);
EXCEPTION WHEN raise_exception THEN
	PERFORM inbox_stamp('q', '{3}');
END $$;
SELECT id FROM q WHERE locked_until IS NOT NULL ORDER BY id;

\echo '# triggers that claim and settle'
SELECT make('q');
SELECT make('other');
CREATE FUNCTION chain() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log(entry) SELECT format('claimed %s of other for %s', id, NEW.id) FROM inbox_claim('other');
	RETURN NEW;
END $$;
CREATE TRIGGER t AFTER UPDATE ON q FOR EACH ROW WHEN (new.locked_until > now()) EXECUTE FUNCTION chain();
SELECT take('q', 2), logged();
-- of the same queue
SELECT make('q');
CREATE FUNCTION nested() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log(entry) SELECT format('%s brings %s', NEW.id, id) FROM inbox_claim('q');
	RETURN NEW;
END $$;
CREATE TRIGGER t AFTER UPDATE ON q FOR EACH ROW WHEN (new.locked_until > now()) EXECUTE FUNCTION nested();
SELECT take('q', 1), logged();
SELECT id, attempt, locked_until > now() FROM q ORDER BY id;
DROP TRIGGER t ON q;
-- a row that is settled by a trigger as soon as it is claimed
CREATE FUNCTION settle_at_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log(entry) VALUES (inbox_settle('q', inbox_receipt(NEW)));
	RETURN NEW;
END $$;
CREATE TRIGGER t AFTER UPDATE ON q FOR EACH ROW WHEN (new.id = 2) EXECUTE FUNCTION settle_at_once();
UPDATE q SET locked_until = NULL;
SELECT logged();
SELECT take('q', 3), logged();
SELECT id FROM q ORDER BY id;
-- in the middle of a change to the very row
SELECT make('q');
CREATE FUNCTION settle_old() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log(entry) VALUES (inbox_settle('q', inbox_receipt(OLD)));
	RETURN NEW;
END $$;
SELECT take('q');
CREATE TRIGGER t BEFORE UPDATE OF payload ON q FOR EACH ROW EXECUTE FUNCTION settle_old();
UPDATE q SET payload = 'x' WHERE id = 1;
-- a batch whose first settlement fires a trigger that changes the second row
SELECT make('q');
SELECT take('q');
CREATE FUNCTION touch_others() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.id = 1 AND pg_trigger_depth() = 1 THEN
		UPDATE q SET payload = 'touched' WHERE id <> 1;
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER t BEFORE UPDATE ON q FOR EACH ROW EXECUTE FUNCTION touch_others();
SELECT settle_all('q', 'release');
SELECT id, payload, attempt, locked_until FROM q ORDER BY id;
DROP TRIGGER t ON q;
CREATE TRIGGER t AFTER UPDATE ON q FOR EACH ROW EXECUTE FUNCTION touch_others();
SELECT take('q');
SELECT settle_all('q', 'release');
SELECT id, payload, attempt, locked_until FROM q ORDER BY id;
-- and one that deletes it
CREATE FUNCTION delete_others() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	DELETE FROM q WHERE id = 2 AND NEW.id = 1;
	RETURN NEW;
END $$;
SELECT make('q');
SELECT take('q');
CREATE TRIGGER t BEFORE UPDATE ON q FOR EACH ROW EXECUTE FUNCTION delete_others();
SELECT settle_all('q', 'release');

\echo '# constraint triggers, at once and deferred'
SELECT make('q');
CREATE CONSTRAINT TRIGGER t AFTER UPDATE OR DELETE ON q DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION log_it();
BEGIN;
SELECT take('q', 1);
SELECT logged();
SELECT settle_all('q', 'done');
SELECT logged();
COMMIT;
SELECT logged();
BEGIN;
SET CONSTRAINTS ALL IMMEDIATE;
SELECT take('q', 1), logged();
COMMIT;

\echo '# rules'
SELECT make('q');
CREATE RULE r AS ON UPDATE TO q DO ALSO INSERT INTO log(entry) VALUES ('rule ' || old.id);
SELECT take('q', 2), logged();
SELECT extend_all('q'), logged();
DROP RULE r ON q;
CREATE RULE r AS ON UPDATE TO q DO INSTEAD NOTHING;
SELECT take('q', 2);
SELECT settle_all('q', 'release');
DROP RULE r ON q;
CREATE RULE r AS ON DELETE TO q DO INSTEAD UPDATE q SET payload = 'kept' WHERE id = old.id;
SELECT settle_all('q', 'done');
SELECT id, payload, locked_until > now() FROM q ORDER BY id;

\echo '# foreign keys, both ways'
CREATE TABLE customer (id int PRIMARY KEY);
CREATE TABLE fk (id int PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz, customer int REFERENCES customer);
CREATE TABLE step (id int PRIMARY KEY, message int REFERENCES fk);
CREATE TABLE trace (id int PRIMARY KEY, message int REFERENCES fk ON DELETE CASCADE);
INSERT INTO customer VALUES (1);
INSERT INTO fk SELECT i, NULL, NULL, 1 FROM generate_series(1, 3) i;
INSERT INTO step VALUES (1, 1);
INSERT INTO trace VALUES (1, 2);
SELECT inbox_adopt('fk', claimed_at => 'claimed_at');
SELECT count(*) FROM inbox_claim('fk', 10);
SELECT extend_all('fk');
SELECT inbox_settle('fk', inbox_receipt(fk)) FROM fk WHERE id = 2;
SELECT id, message FROM trace;
SELECT inbox_settle('fk', inbox_receipt(fk)) FROM fk WHERE id = 1;
SELECT settle_all('fk', 'done');
SELECT count(*) FROM fk;
DELETE FROM step;
SELECT settle_all('fk', 'done');
-- the child's rows, inserted in the transaction that settles
INSERT INTO fk VALUES (4);
BEGIN;
INSERT INTO trace SELECT 4, id::int FROM inbox_claim('fk');
SELECT settle_all('fk', 'done');
COMMIT;
SELECT count(*) FROM fk;
-- a deferred one
ALTER TABLE step ALTER CONSTRAINT step_message_fkey DEFERRABLE INITIALLY DEFERRED;
INSERT INTO fk VALUES (5);
INSERT INTO step VALUES (5, 5);
BEGIN;
SELECT inbox_settle('fk', receipt) FROM inbox_claim('fk');
DELETE FROM step;
COMMIT;
INSERT INTO fk VALUES (6);
INSERT INTO step VALUES (6, 6);
SELECT inbox_settle('fk', receipt) FROM inbox_claim('fk');
SELECT id, locked_until FROM fk;

\echo '# constraints that a claim or a settlement would break'
\set VERBOSITY terse
SELECT make('q');
ALTER TABLE q ADD CHECK (id <> 2 OR attempt < 2);
SELECT take('q', 3);
SELECT count(*) FROM q WHERE locked_until IS NOT NULL;
SELECT take('q', 1);
SELECT make('q');
SELECT take('q');
ALTER TABLE q ALTER locked_until SET NOT NULL;
SELECT settle_all('q', 'release');
SELECT settle_all('q', 'done');
CREATE TABLE ex (id int PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz, attempt int DEFAULT 1, EXCLUDE (attempt WITH =));
SELECT inbox_adopt('ex', claimed_at => 'claimed_at', attempt => 'attempt');
INSERT INTO ex VALUES (1, NULL, NULL, 1), (2, NULL, NULL, 2);
SELECT id FROM inbox_claim('ex');
UPDATE ex SET attempt = 5 WHERE id = 2;
SELECT id FROM inbox_claim('ex');

\echo '# published'
SELECT make('q');
CREATE PUBLICATION pub FOR TABLE q;
SELECT take('q', 1), settle_all('q', 'done');
ALTER TABLE q REPLICA IDENTITY NOTHING;
SELECT take('q', 1);
DROP PUBLICATION pub;
SELECT take('q', 1);

DROP SCHEMA lease_triggers CASCADE;
