--
-- Thousands of levels of priority beside a model: random histories, each claim
-- compared with what plain SQL says it has to return
--
SET client_min_messages = error;
CREATE EXTENSION IF NOT EXISTS inbox;
CREATE SCHEMA levels;
SET search_path = levels, public;
\pset format unaligned
\pset tuples_only on
SET synchronous_commit = off;

CREATE TABLE wrong (what text);
CREATE TABLE done (q text, claims int, rows int);

-- the ids that a claim has to return
CREATE FUNCTION expected(q text, n int) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE ids text[]; BEGIN
	EXECUTE format($sql$
		SELECT array_agg(id::text ORDER BY priority NULLS LAST, due_at, id) FROM (
			SELECT id, priority, due_at FROM %I
			WHERE (locked_until IS NULL OR locked_until <= clock_timestamp()) AND due_at <= clock_timestamp() AND attempt <= 3
			ORDER BY priority NULLS LAST, due_at, id LIMIT %s) r
	$sql$, q, n) INTO ids;
	RETURN coalesce(ids, '{}');
END $$;

-- No row comes due, and no lease ends, between what is expected and the claim.
-- A lease that a walk has met is looked for a little later than it ends, by
-- how long that walk was.
CREATE FUNCTION quiet(q text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE last timestamptz; BEGIN
	LOOP
		EXECUTE format($sql$
			SELECT max(t) FROM %I, LATERAL (VALUES (due_at), (locked_until)) v(t)
			WHERE t > clock_timestamp() - interval '0.1 s' AND t < clock_timestamp() + interval '2 s'
		$sql$, q) INTO last;
		EXIT WHEN last IS NULL;
		PERFORM pg_sleep_until(last + interval '0.11 s');
	END LOOP;
END $$;

-- "hand": rows are also written by hand, many at once, which opens much
CREATE PROCEDURE play(q text, steps int, levels text, hand boolean) LANGUAGE plpgsql AS $$
DECLARE
	held text[] = '{}'; got text[]; new text[]; want text[];
	dice float; n int; compare boolean; claims int = 0; rows int = 0;
BEGIN
	FOR i IN 1 .. steps LOOP
		dice := random();
		IF dice < 0.2 THEN
			-- any level; now and then one row that comes due by itself
			EXECUTE format('INSERT INTO %I (payload, priority, due_at) SELECT ''1'', %s, clock_timestamp() +
				CASE WHEN i = 1 AND random() < 0.3 THEN interval ''0.2 s'' WHEN random() < 0.1 THEN interval ''1 h'' ELSE random() * interval ''-1 h'' END
				FROM generate_series(1, %s) i', q, levels, 1 + (random() ^ 4 * 60)::int);
		ELSIF dice < 0.25 THEN
			-- a level that empties and refills
			EXECUTE format('INSERT INTO %I (payload, priority) SELECT ''1'', -7 FROM generate_series(1, 3)', q);
		ELSIF dice < 0.3 THEN
			PERFORM inbox_send_batch(q, ARRAY['1', '2']::jsonb[], priority => (random() * 3000)::int,
				delay => CASE WHEN random() < 0.5 THEN interval '0.2 s' END);
		ELSIF dice < 0.6 THEN
			-- now and then a claim while rows are about to come due
			compare := random() < 0.7;
			IF compare THEN
				PERFORM quiet(q);
			END IF;
			n := (ARRAY[1, 1, 1, 10, 10, 1000])[ceil(random() * 6)];
			want := expected(q, n);
			SELECT coalesce(array_agg(d.id ORDER BY o), '{}'), array_agg(d.receipt ORDER BY o) INTO got, new
				FROM inbox_claim(q, n, '1 h') WITH ORDINALITY AS d (id, receipt, a, m, p, h, pr, du, e, g, pk, l, o);
			held := held || new;
			claims := claims + 1;
			rows := rows + cardinality(got);
			IF compare AND got <> want THEN
				INSERT INTO wrong VALUES (format('step %s of %s, %s rows: claimed %s, not %s', i, q, n, got[:20], want[:20]));
			END IF;
		ELSIF dice < 0.63 THEN
			-- a claim that is undone
			BEGIN
				PERFORM inbox_claim(q, (random() * 20)::int);
				RAISE EXCEPTION USING errcode = 'IB999';
			EXCEPTION WHEN SQLSTATE 'IB999' THEN
				NULL;
			END;
		ELSIF dice < 0.88 THEN
			n := ceil(random() * cardinality(held));
			PERFORM inbox_settle_batch(q, held[n :][: 20], (ARRAY['{done}', '{done}', '{retry}', '{release}', '{dead}'])[ceil(random() * 5)]::text[],
				(ARRAY['{0}', '{0}', '{1 h}', '{0.2 s}'])[ceil(random() * 4)]::interval[]);
			held := held[: n - 1] || (held[n :])[21 :];
		ELSIF dice < 0.9 THEN
			PERFORM inbox_reap(q);
		ELSIF NOT hand THEN
			NULL;
		ELSIF dice < 0.93 THEN
			-- leases end, at once or by themselves
			EXECUTE format('UPDATE %I SET locked_until = clock_timestamp() + %L WHERE locked_until IS NOT NULL AND random() < 0.2', q,
				CASE WHEN random() < 0.5 THEN interval '-1 s' ELSE interval '0.2 s' END);
		ELSIF dice < 0.97 THEN
			-- by hand to another level, up and down, leased or not
			EXECUTE format('UPDATE %I SET priority = %s WHERE random() < 0.05', q, levels);
			EXECUTE format('UPDATE %I SET priority = priority - 50 WHERE random() < 0.05 AND priority > 0', q);
		ELSE
			EXECUTE format('UPDATE %I SET due_at = clock_timestamp() - random() * interval ''1 h'' WHERE random() < 0.1', q);
		END IF;
		COMMIT;
	END LOOP;
	INSERT INTO done VALUES (q, claims, rows);
END $$;

\echo '# all levels there are'
SELECT inbox_create('q', max_attempts => 3);
SELECT setseed(0.25) \gset
INSERT INTO q (payload, priority) SELECT '1', i FROM generate_series(0, 3000) i;
CALL play('q', 300, '(ARRAY[-2147483648, 2147483647, 0, random() * 3000, random() * 3000, random() * 3000])[ceil(random() * 6)]::int', true);
\echo '# all leased but the last: claims do not go over them'
SELECT inbox_create('r', max_attempts => 3);
INSERT INTO r (payload, priority) SELECT '1', i FROM generate_series(0, 3000) i;
SELECT count(*) FROM inbox_claim('r', 3000);
SELECT priority FROM inbox_claim('r');
SELECT coalesce(walk_entries, 0) AS before FROM inbox_queues WHERE queue = 'levels.r' \gset
SELECT inbox_send('r', '2', priority => n) IS NOT NULL FROM unnest('{4000,4000,1}'::int[]) n;
SELECT priority, payload FROM inbox_claim('r');
SELECT priority, payload FROM inbox_claim('r');
SELECT priority, payload FROM inbox_claim('r');
SELECT count(*) FROM inbox_claim('r');
-- nor over rows that are not due, on more levels than there is room for
INSERT INTO r (payload, priority, due_at) SELECT '3', 5000 + i, now() + interval '1 h' FROM generate_series(0, 500) i;
SELECT inbox_send('r', '4', priority => 6000) IS NOT NULL;
SELECT priority, payload FROM inbox_claim('r');
SELECT count(*) FROM inbox_claim('r', 10);
-- (without preload nothing is counted)
SELECT walk_entries - :before < 20 IS NOT false FROM inbox_queues WHERE queue = 'levels.r';
CALL play('r', 300, '(random() * 5000)::int', false);
VACUUM r;
CALL play('r', 150, '(random() * 50)::int', true);
\echo '# NULL is the last level; ids that are no integers'
SELECT inbox_create('sink');
ALTER TABLE sink ALTER priority DROP NOT NULL;
CREATE TABLE t (id uuid PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz, payload jsonb NOT NULL, priority int,
	due_at timestamptz DEFAULT now(), attempt int NOT NULL DEFAULT 1);
ALTER TABLE t ALTER id SET DEFAULT md5(random()::text)::uuid;
CREATE INDEX ON t (priority, due_at, id);
SELECT inbox_adopt('t', claimed_at => 'claimed_at', payload => 'payload', priority => 'priority', due_at => 'due_at', attempt => 'attempt',
	dead_letter => 'sink', max_attempts => 3);
INSERT INTO t (payload, priority) SELECT '1', i FROM generate_series(0, 2000) i;
CALL play('t', 300, '(ARRAY[NULL, -2147483648, 2147483647, random() * 3000, random() * 3000, random() * 3000])[ceil(random() * 6)]::int', true);
SELECT * FROM wrong LIMIT 10;
SELECT q, claims > 20, rows > 200 FROM done;
DROP SCHEMA levels CASCADE;
