--
-- FIFO groups of adopted tables: roles, indexes, and tables that need SQL
--
CREATE EXTENSION IF NOT EXISTS inbox;
SET client_min_messages = error;
CREATE SCHEMA fifo_adopt;
SET client_min_messages = warning;
SET search_path = fifo_adopt, public;
\pset format unaligned
\pset tuples_only on

CREATE FUNCTION take(queue text, n bigint = 100, g text = NULL) RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(string_agg(id, ' '), 'nothing') FROM inbox_claim(queue, n, '1 h', group_key => g)
$$;

\echo '# what fifo needs, and what it misses'
CREATE TABLE t (k text PRIMARY KEY, until timestamptz, taken timestamptz, grp varchar(20), pri bigint NOT NULL DEFAULT 0, due timestamptz DEFAULT now(), done timestamptz);
\set VERBOSITY terse
SELECT inbox_adopt('t', 'k', 'until', fifo => true);
\set VERBOSITY default
SELECT inbox_adopt('t', 'k', 'until', group_key => 'grp', fifo => true);
SELECT inbox_adopt('t', 'k', 'until', 'taken', group_key => 'grp', priority => 'pri', due_at => 'due', processed_at => 'done', fifo => true);
SELECT inbox_forget('t');
CREATE INDEX CONCURRENTLY ON fifo_adopt.t (pri, grp, due, k) WHERE done IS NULL;
CREATE INDEX CONCURRENTLY ON fifo_adopt.t (grp, pri, due, k) WHERE done IS NULL;
CREATE INDEX CONCURRENTLY ON fifo_adopt.t (grp) WHERE until IS NOT NULL AND done IS NULL;
SELECT inbox_adopt('t', 'k', 'until', 'taken', group_key => 'grp', priority => 'pri', due_at => 'due', processed_at => 'done', fifo => true);
INSERT INTO t(k, grp, pri, due) SELECT 'k' || n, CASE WHEN n % 4 > 0 THEN 'g' || n % 4 END, n % 2, now() - make_interval(secs => n / 4) FROM generate_series(1, 12) n;
SELECT take('t');
SELECT count(*) FROM inbox_settle_batch('t', ARRAY(SELECT inbox_receipt(t) FROM t WHERE until IS NOT NULL));
SELECT take('t');
SELECT take('t', 1, 'g1'), take('t', 1, 'nosuch');
SELECT inbox_forget('t');

\echo '# without claimed_at a head is requeued; without priority two indexes do'
CREATE TABLE s (id int PRIMARY KEY, locked_until timestamptz, g text);
CREATE INDEX ON s (g, id);
SET client_min_messages = error;
SELECT inbox_adopt('s', group_key => 'g', fifo => true, fifo_retry => 'requeue');
SET client_min_messages = warning;
CREATE INDEX ON s (g) WHERE locked_until IS NOT NULL;
INSERT INTO s VALUES (1, NULL, 'a'), (2, NULL, 'a'), (3, NULL, 'b'), (4, NULL, NULL), (5, NULL, NULL);
SELECT take('s');
SELECT inbox_settle('s', inbox_receipt(s), 'retry') FROM s WHERE id = 1;
SELECT take('s');
-- hold needs it, also later
SELECT inbox_alter('s', fifo_retry => 'hold');
SELECT inbox_alter('s', fifo => false);
SELECT take('s');
SELECT inbox_alter('s', fifo => true);
DROP TABLE s;

\echo '# tables that need SQL: partitions, children, triggers, rules of row security'
CREATE TABLE p (id bigint, part int, locked_until timestamptz, claimed_at timestamptz, g text, due_at timestamptz DEFAULT now(), PRIMARY KEY (part, id)) PARTITION BY LIST (part);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
CREATE TABLE p2 (g text, id bigint NOT NULL, part int NOT NULL, claimed_at timestamptz, due_at timestamptz DEFAULT now(), locked_until timestamptz);
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES IN (2);
SET client_min_messages = error;
SELECT inbox_adopt('p', claimed_at => 'claimed_at', group_key => 'g', due_at => 'due_at', fifo => true);
INSERT INTO p(id, part, g) VALUES (1, 2, 'a'), (2, 1, 'a'), (3, 1, 'b'), (4, 2, 'b'), (5, 1, NULL), (6, 2, NULL);
SELECT take('p'), take('p');
SELECT inbox_settle('p', id || '@' || (extract(epoch FROM claimed_at) * 1000000)::bigint, 'retry', '1 h') FROM p WHERE id = 1;
SELECT inbox_settle('p', id || '@' || (extract(epoch FROM claimed_at) * 1000000)::bigint) FROM p WHERE id = 3;
SELECT take('p');
SELECT group_key, backlog, head, head_state, leased FROM inbox_groups WHERE queue = 'fifo_adopt.p' ORDER BY 1;

CREATE TABLE b (id bigint PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz, g text);
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF OLD.id = 1 THEN RETURN NULL; END IF; RETURN NEW; END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON b FOR EACH ROW EXECUTE FUNCTION refuse();
SELECT inbox_adopt('b', claimed_at => 'claimed_at', group_key => 'g', fifo => true);
INSERT INTO b VALUES (1, NULL, NULL, 'a'), (2, NULL, NULL, 'a'), (3, NULL, NULL, 'b');
-- a head that a trigger keeps as it is holds its group
BEGIN;
SELECT take('b');
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 433 AND pid = pg_backend_pid();
COMMIT;
DROP TRIGGER refuse ON b;
-- an ended lease that is not the head's is taken from its holder
UPDATE b SET locked_until = now() - interval '1 s', claimed_at = now() - interval '1 h' WHERE id = 2;
SELECT take('b');
SELECT id, locked_until IS NOT NULL FROM b ORDER BY id;

\echo '# row security: groups are what the policy shows'
CREATE ROLE regress_fifo;
GRANT USAGE ON SCHEMA fifo_adopt TO regress_fifo;
CREATE TABLE r (id bigint PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz, g text, mine boolean);
SELECT inbox_adopt('r', claimed_at => 'claimed_at', group_key => 'g', fifo => true);
INSERT INTO r VALUES (1, NULL, NULL, 'a', false), (2, NULL, NULL, 'a', true), (3, NULL, NULL, 'b', false), (4, NULL, NULL, 'b', true);
GRANT SELECT, UPDATE, DELETE ON r TO regress_fifo;
ALTER TABLE r ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON r USING (mine);
SET ROLE regress_fifo;
SELECT take('r'), take('r');
SELECT group_key, backlog, head, head_state, leased FROM inbox_groups WHERE queue = 'fifo_adopt.r' ORDER BY 1;
RESET ROLE;
SELECT group_key, backlog, head, head_state, leased FROM inbox_groups WHERE queue = 'fifo_adopt.r' ORDER BY 1;

\echo '# ids of other types, keys of any length, other indexes'
CREATE TABLE u (id uuid PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz, g text COLLATE "C", due_at timestamptz);
CREATE INDEX ON u (g, due_at, id);
CREATE INDEX ON u (g) WHERE locked_until IS NOT NULL;
SELECT inbox_adopt('u', claimed_at => 'claimed_at', group_key => 'g', due_at => 'due_at', fifo => true);
INSERT INTO u SELECT ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, NULL, NULL, repeat('long ', 100) || n % 3, '2001-01-01' FROM generate_series(1, 9) n;
SELECT right(take('u', 1), 2) || right(take('u', 1), 2) || right(take('u', 1), 2) || right(take('u', 1), 2);
UPDATE u SET locked_until = NULL;
SELECT regexp_replace(take('u'), '0000+[0-]*', '', 'g');

DROP SCHEMA fifo_adopt CASCADE;
DROP OWNED BY regress_fifo;
DROP ROLE regress_fifo;
