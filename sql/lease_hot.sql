--
-- Claims, extensions and releases are HOT updates that do not make the table
-- grow
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS inbox;
CREATE SCHEMA lease_hot;
SET search_path = lease_hot, public;
\pset format unaligned
\pset tuples_only on

-- a transaction each, or no page could be pruned
CREATE PROCEDURE load(q text, rounds int, rows int) LANGUAGE plpgsql AS $$
DECLARE
	receipts text[];
BEGIN
	FOR i IN 1..rounds LOOP
		SELECT array_agg(receipt) INTO receipts FROM inbox_claim(q, rows);
		COMMIT;
		PERFORM inbox_extend_batch(q, receipts, '1 h');
		COMMIT;
		PERFORM inbox_settle_batch(q, receipts, '{release}');
		COMMIT;
	END LOOP;
END $$;
CREATE FUNCTION hot(q regclass, OUT updates bigint, OUT share numeric) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_stat_clear_snapshot();
	SELECT n_tup_upd, round(100.0 * n_tup_hot_upd / n_tup_upd, 1) INTO updates, share FROM pg_stat_user_tables WHERE relid = q;
END $$;

\echo '# created queues, with small and larger payloads, with finished rows kept'
SELECT inbox_create('small'), inbox_create('large', max_attempts => 1000), inbox_create('kept', retention => '1 h');
INSERT INTO small(payload) SELECT to_jsonb(i) FROM generate_series(1, 1000) i;
INSERT INTO large(payload, headers) SELECT jsonb_build_object('x', repeat(md5(i::text), 10)), '{"a": 1}' FROM generate_series(1, 1000) i;
INSERT INTO kept(payload) SELECT to_jsonb(i) FROM generate_series(1, 1000) i;
VACUUM (ANALYZE) small;
VACUUM (ANALYZE) large;
VACUUM (ANALYZE) kept;
SELECT pg_relation_size('small') AS small, pg_relation_size('large') AS large, pg_relation_size('kept') AS kept \gset
CALL load('small', 40, 50);
CALL load('large', 40, 50);
CALL load('kept', 40, 50);
-- the statistics of this session are sent when a transaction ends
SELECT pg_stat_force_next_flush();
SELECT q, updates, share > 95 FROM unnest('{small,large,kept}'::text[]) q, hot(q::regclass);
SELECT pg_relation_size('small') <= :small * 2, pg_relation_size('large') <= :large * 2, pg_relation_size('kept') <= :kept * 2;

\echo '# no index holds what a lease changes'
SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = indrelid JOIN pg_attribute a ON attrelid = indrelid
WHERE c.relnamespace = 'lease_hot'::regnamespace AND a.attname IN ('locked_until', 'claimed_at', 'attempt', 'last_error')
	AND (a.attnum = ANY(indkey) OR pg_get_indexdef(indexrelid) ~ a.attname);

\echo '# written by SQL they are HOT too'
CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
SELECT inbox_create('triggered');
CREATE TRIGGER t BEFORE UPDATE ON triggered FOR EACH ROW EXECUTE FUNCTION pass();
INSERT INTO triggered(payload) SELECT to_jsonb(i) FROM generate_series(1, 1000) i;
VACUUM (ANALYZE) triggered;
CALL load('triggered', 20, 50);
SELECT pg_stat_force_next_flush();
SELECT updates, share > 95 FROM hot('triggered');

DROP SCHEMA lease_hot CASCADE;
