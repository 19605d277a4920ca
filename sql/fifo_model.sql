--
-- FIFO groups beside a model: random histories, each claim compared with what
-- the rows say it has to be
--
SET client_min_messages = error;
CREATE EXTENSION IF NOT EXISTS inbox;
CREATE SCHEMA fifo_model;
SET search_path = fifo_model, public;
\pset format unaligned
\pset tuples_only on
SELECT setseed(0.7) \gset

-- the ids a claim on everything has to return, in its order
CREATE FUNCTION expected(q text, of text = NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE ids text; BEGIN
	EXECUTE format($sql$
		WITH r AS (SELECT id, priority, due_at, nullif(group_key, 'dead') AS g, group_key, attempt,
				locked_until > clock_timestamp() AS busy
			FROM %I WHERE processed_at IS NULL),
		head AS (SELECT DISTINCT ON (g) * FROM r WHERE g IS NOT NULL ORDER BY g, priority NULLS LAST, due_at NULLS LAST, id),
		ready AS (SELECT * FROM head h WHERE NOT EXISTS (SELECT FROM r WHERE r.g = h.g AND r.busy)
			UNION ALL SELECT * FROM r WHERE g IS NULL AND busy IS NOT TRUE)
		SELECT string_agg(id::text, ' ' ORDER BY priority NULLS LAST, due_at, id) FROM ready
		WHERE due_at <= clock_timestamp() AND attempt <= 3
			AND CASE WHEN $1 IS NULL THEN group_key IS DISTINCT FROM 'dead' ELSE group_key = $1 END
	$sql$, q) INTO ids USING of;
	RETURN coalesce(ids, 'nothing');
END $$;
CREATE FUNCTION play(q text, steps int, groups int = 6, null_levels float = 0.1) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	held text[] = '{}'; d record; want text; got text; of text; dice float; n int; claims int = 0; rows int = 0;
BEGIN
	FOR i IN 1 .. steps LOOP
		dice := random();
		IF dice < 0.3 THEN
			EXECUTE format('INSERT INTO %I (payload, group_key, priority, due_at) SELECT ''1'', CASE WHEN random() < 0.8 THEN ''g'' || (random() * $1)::int END,
				CASE WHEN random() >= $2 THEN (random() * 2)::int END, clock_timestamp() + (random() - 0.8) * interval ''1 h'' FROM generate_series(1, 3)', q) USING groups, null_levels;
		ELSIF dice < 0.6 THEN
			of := CASE WHEN random() < 0.2 THEN (ARRAY['g1', 'g2', 'dead', 'nosuch'])[ceil(random() * 4)] END;
			want := expected(q, of);
			n := CASE WHEN random() < 0.5 THEN 1000 ELSE 1 + (random() * 3)::int END;
			got := NULL;
			FOR d IN SELECT * FROM inbox_claim(q, n, '1 h', of) LOOP
				held := held || d.receipt;
				got := concat_ws(' ', got, d.id);
				rows := rows + 1;
			END LOOP;
			got := coalesce(got, 'nothing');
			claims := claims + 1;
			-- a part of it: as many as were asked for, none of another's
			IF got <> want AND (n = 1000 OR NOT string_to_array(got, ' ') <@ string_to_array(want, ' ') OR
				cardinality(string_to_array(got, ' ')) <> least(n, cardinality(string_to_array(want, ' '))) OR got = 'nothing') THEN
				RETURN NEXT format('step %s of %s: claimed %s, not %s', i, coalesce(of, 'all'), got, want);
			END IF;
		ELSIF dice < 0.9 AND cardinality(held) > 0 THEN
			n := ceil(random() * cardinality(held));
			PERFORM inbox_settle(q, held[n], (ARRAY['done', 'done', 'retry', 'retry', 'release', 'dead'])[ceil(random() * 6)],
				(ARRAY['0', '1 h', '0']::interval[])[ceil(random() * 3)]);
			held := held[: n - 1] || held[n + 1 :];
		ELSIF dice < 0.94 THEN
			-- leases and rests end
			EXECUTE format('UPDATE %I SET claimed_at = CASE WHEN claimed_at < locked_until THEN clock_timestamp() - interval ''2 h'' ELSE clock_timestamp() END,
				locked_until = clock_timestamp() - interval ''1 min'' WHERE locked_until IS NOT NULL AND random() < 0.5', q);
		ELSIF dice < 0.97 THEN
			EXECUTE format('UPDATE %I SET due_at = clock_timestamp() - random() * interval ''1 h'' WHERE random() < 0.2 AND locked_until IS NULL', q);
		ELSE
			PERFORM inbox_reap(q);
		END IF;
	END LOOP;
	IF claims < steps / 5 OR rows < steps / 5 THEN
		RETURN NEXT format('only %s claims of %s rows', claims, rows);
	END IF;
END $$;

SELECT inbox_create('q', fifo => true, max_attempts => 3, dead_group => 'dead', retention => '1 h');
ALTER TABLE q ALTER priority DROP NOT NULL;
SELECT play('q', 800);
-- a few large groups of a queue whose rows have a key each: claims begin where
-- the last one found the head
SELECT inbox_create('k', fifo => true, max_attempts => 3, dead_group => 'dead', retention => '1 h');
SELECT play('k', 1500, 1, 0);
-- the same with a table that has other indexes, and text for ids
CREATE TABLE t (id text PRIMARY KEY DEFAULT 'x' || (random() * 1000000000)::int, locked_until timestamptz, claimed_at timestamptz, payload text, group_key varchar,
	priority smallint, due_at timestamptz, attempt int NOT NULL DEFAULT 1, processed_at timestamptz);
CREATE INDEX ON t (priority, group_key, due_at, id) WHERE processed_at IS NULL;
CREATE INDEX ON t (group_key, priority, due_at, id) WHERE processed_at IS NULL;
CREATE INDEX ON t (group_key) WHERE locked_until IS NOT NULL AND processed_at IS NULL;
SELECT inbox_adopt('t', claimed_at => 'claimed_at', payload => 'payload', group_key => 'group_key', priority => 'priority', due_at => 'due_at', attempt => 'attempt',
	processed_at => 'processed_at', max_attempts => 3, dead_group => 'dead', fifo => true, fifo_retry => 'requeue');
SELECT play('t', 600);
DROP SCHEMA fifo_model CASCADE;
