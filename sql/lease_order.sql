--
-- Order: priority, due time, id; levels, delays, parked rows, many leaves
--
SET client_min_messages = error;
CREATE EXTENSION IF NOT EXISTS inbox;
CREATE SCHEMA lease_order;
SET search_path = lease_order, public;
\pset format unaligned
\pset tuples_only on

CREATE FUNCTION take(q text, n bigint = 100, g text = NULL) RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(string_agg(id, ' '), 'nothing') FROM inbox_claim(q, n, group_key => g)
$$;

\echo '# priority, then due time, then id'
SELECT inbox_create('q');
INSERT INTO q(id, payload, priority, due_at) SELECT n, '1', p, now() - make_interval(secs => s) FROM (VALUES
	(1, 0, 10), (2, 0, 20), (3, -5, 1), (4, -5, 1), (5, 7, 100), (6, 2147483647, 1), (7, -2147483648, 1), (8, 0, 20), (9, 7, 50), (10, -5, 2)) v(n, p, s);
SELECT take('q', 3);
SELECT take('q');
-- a delivery has no say in the order: released rows and ended leases keep their place, a retried one moves
UPDATE q SET locked_until = CASE WHEN id % 2 = 0 THEN now() END;
SELECT take('q');
CREATE TABLE c AS SELECT id, receipt FROM inbox_claim('q', 0);
UPDATE q SET locked_until = NULL;
INSERT INTO c SELECT id, receipt FROM inbox_claim('q', 100);
SELECT string_agg(verdict, ' ') FROM inbox_settle_batch('q', (SELECT array_agg(receipt) FROM c), '{retry}', '{0}');
SELECT take('q');
DROP TABLE c;

\echo '# delayed and parked rows in front of the ones that are due'
DELETE FROM q;
INSERT INTO q(id, payload, priority, due_at) SELECT i, '1', i % 3, now() + interval '1 h' FROM generate_series(1, 300) i;
INSERT INTO q(id, payload, priority, due_at) VALUES (1000, '1', 2, now()), (1001, '1', 0, now() - interval '1 h'), (1002, '1', 5, now()), (1003, '1', 2, 'infinity'), (1004, '1', 1, '-infinity');
SELECT take('q');
SELECT take('q');
CREATE TABLE parked (id int PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz, due_at timestamptz, p smallint);
CREATE INDEX ON parked (p, due_at, id);
SELECT inbox_adopt('parked', claimed_at => 'claimed_at', due_at => 'due_at', priority => 'p');
INSERT INTO parked VALUES (1, NULL, NULL, NULL, 1), (2, NULL, NULL, now(), 1), (3, NULL, NULL, NULL, NULL), (4, NULL, NULL, now(), NULL), (5, NULL, NULL, now() - interval '1 s', NULL), (6, NULL, NULL, now(), 2);
SELECT take('parked');
UPDATE parked SET due_at = now() WHERE id = 1;
SELECT take('parked');

\echo '# no priority is the last priority'
DELETE FROM parked;
INSERT INTO parked SELECT i, NULL, NULL, now(), CASE WHEN i % 2 = 0 THEN i END FROM generate_series(1, 6) i;
SELECT take('parked', 4);
SELECT take('parked', 4);
DELETE FROM parked;
INSERT INTO parked SELECT i, NULL, NULL, now(), NULL FROM generate_series(1, 3) i;
SELECT take('parked');

\echo '# levels without a claimable row, thousands of levels'
DELETE FROM q;
INSERT INTO q(id, payload, priority, due_at, locked_until) SELECT i, '1', i, now(), CASE WHEN i % 1000 > 0 THEN now() + interval '1 h' END FROM generate_series(1, 5000) i;
SELECT take('q', 3);
SELECT take('q', 3);
DELETE FROM q WHERE id % 1000 > 0;
UPDATE q SET locked_until = NULL;
SELECT take('q');

\echo '# more rows than are read at a time'
DELETE FROM q;
INSERT INTO q(id, payload, priority, due_at) SELECT i, '1', i % 2, now() - make_interval(secs => i % 7) FROM generate_series(1, 1000) i;
CREATE TABLE got AS SELECT o, id::int, priority, due_at FROM inbox_claim('q', 850) WITH ORDINALITY AS d (id, receipt, attempt, m, p, h, priority, due_at, e, g, pk, l, o);
SELECT count(*), bool_and(ordered) FROM (SELECT (priority, due_at, id) > lag((priority, due_at, id)) OVER (ORDER BY o) IS NOT false AS ordered FROM got) x;
SELECT count(*) FROM got WHERE (priority, due_at, id) > (SELECT priority, due_at, id FROM q WHERE locked_until IS NULL ORDER BY priority, due_at, id LIMIT 1);
SELECT count(*) FROM inbox_claim('q', 850);

\echo '# ids of other types break ties as they sort'
CREATE TABLE words (id text COLLATE "C" PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz);
SELECT inbox_adopt('words', claimed_at => 'claimed_at');
INSERT INTO words VALUES ('b'), ('a'), ('C'), ('10'), ('9');
SELECT take('words');
CREATE TABLE uuids (id uuid PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz);
SELECT inbox_adopt('uuids', claimed_at => 'claimed_at');
INSERT INTO uuids VALUES ('f0000000-0000-0000-0000-000000000000'), ('00000000-0000-0000-0000-00000000000f'), ('00000000-0000-0000-0000-0000000000f0');
SELECT take('uuids');

\echo '# without an index, by sorting'
CREATE TABLE heap (id int PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz, due_at timestamptz DEFAULT '2000-01-01', p bigint);
SELECT inbox_adopt('heap', claimed_at => 'claimed_at', due_at => 'due_at', priority => 'p');
INSERT INTO heap(id, p) SELECT i, 10 - i FROM generate_series(1, 10) i;
SELECT take('heap', 4);
SELECT take('heap');

\echo '# over the partitions of a table, and under each setting of the planner'
CREATE TABLE parted (id int NOT NULL, locked_until timestamptz, claimed_at timestamptz, due_at timestamptz, p int, r int) PARTITION BY LIST (r);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES IN (2);
CREATE TABLE parted_3 PARTITION OF parted FOR VALUES IN (3);
CREATE UNIQUE INDEX ON parted (id, r);
CREATE INDEX ON parted (p, due_at, id);
SELECT inbox_adopt('parted', claimed_at => 'claimed_at', due_at => 'due_at', priority => 'p');
CREATE FUNCTION check_order(q text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('UPDATE %s SET locked_until = NULL', q);
	SELECT count(*) || ' ' || bool_and(ordered) INTO result FROM (
		SELECT (priority, due_at, id::int) > lag((priority, due_at, id::int)) OVER (ORDER BY o) IS NOT false AS ordered
		FROM inbox_claim(q, 40) WITH ORDINALITY AS d (id, receipt, attempt, m, p, h, priority, due_at, e, g, pk, l, o)) x;
	SELECT result || ', ' || count(*) || ' ' || bool_and(ordered) INTO result FROM (
		SELECT (priority, due_at, id::int) > lag((priority, due_at, id::int)) OVER (ORDER BY o) IS NOT false AS ordered
		FROM inbox_claim(q, 100) WITH ORDINALITY AS d (id, receipt, attempt, m, p, h, priority, due_at, e, g, pk, l, o)) x;
	RETURN result;
END $$;
INSERT INTO parted SELECT i, NULL, NULL, now() - make_interval(secs => i * 7 % 5), i % 4, i * 11 % 3 + 1 FROM generate_series(1, 60) i;
SELECT check_order('parted');
CREATE FUNCTION with_setting(name text, value text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('SET LOCAL %s = %L', name, value);
	-- plans anew
	COMMENT ON TABLE parted IS NULL;
	EXECUTE format('ANALYZE parted');
	result := check_order('parted');
	EXECUTE format('RESET %s', name);
	RETURN result;
END $$;
SELECT name, with_setting(name, 'off') FROM unnest('{enable_indexscan,enable_indexonlyscan,enable_seqscan,enable_sort,enable_incremental_sort,enable_bitmapscan,enable_partition_pruning,enable_tidscan,enable_nestloop}'::text[]) AS name;
-- (each server knows six of them)
SELECT count(*), string_agg(DISTINCT with_setting(name, value), '; ') FROM (VALUES ('force_parallel_mode', 'on'), ('debug_parallel_query', 'on'), ('plan_cache_mode', 'force_custom_plan'), ('plan_cache_mode', 'force_generic_plan'),
	('jit_above_cost', '0'), ('parallel_setup_cost', '0'), ('enable_seqscan', 'on')) AS s (name, value)
WHERE name IN (SELECT name FROM pg_settings);
-- the caller's own settings are as before
SELECT current_setting('enable_seqscan'), current_setting('enable_sort'), current_setting('enable_bitmapscan'), current_setting('enable_indexonlyscan');
SET enable_sort = off;
SELECT check_order('parted');
SELECT current_setting('enable_sort');
RESET enable_sort;

\echo '# the plan uses the claim index, whatever the table held when it was planned'
SELECT inbox_create('grown');
ANALYZE grown;
SELECT take('grown');
INSERT INTO grown(payload, due_at) SELECT '1', now() + interval '1 h' FROM generate_series(1, 20000);
INSERT INTO grown(id, payload, due_at) VALUES (100000, '1', now());
CREATE FUNCTION pages_read(q regclass) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_stat_clear_snapshot();
	RETURN pg_stat_get_xact_blocks_fetched(q);
END $$;
BEGIN;
SELECT pages_read('grown') AS before \gset
SELECT take('grown');
SELECT pages_read('grown') - :before < 20;
COMMIT;

\echo '# groups as a filter'
SELECT inbox_create('grouped');
INSERT INTO grouped(id, payload, group_key, priority) SELECT i, '1', (ARRAY['a', 'b', NULL, ''])[i % 4 + 1], i % 2 FROM generate_series(1, 16) i;
SELECT take('grouped', 2, 'b');
SELECT take('grouped', 10, 'b');
SELECT take('grouped', 10, 'none');
SELECT take('grouped', 10, '');
SELECT take('grouped');

DROP SCHEMA lease_order CASCADE;
