-- More levels of priority, more ends of leases and more revisits than the
-- hints have room for: slower, but nothing is lost.  Each count is checked at
-- once; what only the worker's sweep would find is lost here.

SET client_min_messages = error;
CREATE EXTENSION IF NOT EXISTS inbox;
CREATE SCHEMA walk_overflow;
SET search_path = walk_overflow, public;

CREATE TABLE many (id bigint PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz,
	attempt int, payload jsonb, priority int, due_at timestamptz);
CREATE INDEX ON many (priority, due_at, id);
SELECT inbox_adopt('many', claimed_at => 'claimed_at', attempt => 'attempt', payload => 'payload',
	priority => 'priority', due_at => 'due_at', lease => '1 h');
CREATE TABLE held (n serial, id bigint, receipt text);

-- 500 levels, one row each and one that is not due
INSERT INTO many (id, payload, priority, due_at)
	SELECT i, '1', i % 500, CASE WHEN i <= 500 THEN now() - interval '1 min' ELSE now() + interval '1 h' END
	FROM generate_series(1, 1000) i;
-- leases of 500 lengths
DO $$ BEGIN
	FOR i IN 1 .. 500 LOOP
		INSERT INTO held (id, receipt) SELECT id::bigint, receipt FROM inbox_claim('many', 1, make_interval(secs => 100 + i % 1000));
	END LOOP;
END $$;
SELECT count(*), count(DISTINCT id), min(id), max(id), (array_agg(id ORDER BY n))[1:3] AS first FROM held;
SELECT count(*) FROM inbox_claim('many', 10);

-- every seventh comes back, one at a time
DO $$ DECLARE r record; BEGIN
	FOR r IN SELECT * FROM held WHERE id % 7 = 0 ORDER BY hashint8(id) LOOP
		PERFORM inbox_settle('many', r.receipt, 'release');
	END LOOP;
END $$;
SELECT count(*), sum((id::int % 7 = 0)::int) FROM inbox_claim('many', 10000);
SELECT count(*) FROM inbox_claim('many', 10);

-- and by hand, in 250 statements and in one
DO $$ BEGIN
	FOR i IN 1 .. 250 LOOP
		UPDATE many SET locked_until = NULL WHERE id = i * 2;
	END LOOP;
END $$;
SELECT count(*), sum((id::int % 2 = 0)::int) FROM inbox_claim('many', 10000);
UPDATE many SET locked_until = NULL, due_at = now() - interval '1 d' WHERE id > 500 AND id % 3 = 0;
SELECT count(*), min(id::int) FROM inbox_claim('many', 10000);
SELECT count(*) FROM inbox_claim('many', 10);

-- leases of many lengths that all end within some seconds
UPDATE many SET locked_until = now() + make_interval(secs => 3 + id % 5000 / 10000.0) WHERE locked_until IS NOT NULL;
SELECT count(*) FROM inbox_claim('many', 10);
SELECT FROM many HAVING pg_sleep(extract(epoch FROM max(locked_until) - clock_timestamp()) + 0.01) IS NOT NULL;
SELECT count(*) FROM many WHERE locked_until <= clock_timestamp();
SELECT count(*) FROM inbox_claim('many', 1000);
SELECT count(*) FROM inbox_claim('many', 10000);
SELECT count(*) FROM many WHERE locked_until IS NULL AND due_at < now();

-- savepoints without end, some rolled back
DO $$ DECLARE n int; BEGIN
	UPDATE many SET locked_until = NULL WHERE due_at < now();
	FOR i IN 1 .. 600 LOOP
		BEGIN
			SELECT count(*) INTO n FROM inbox_claim('many', 1, make_interval(secs => 100 + i));
			IF n <> 1 THEN RAISE 'claim % found nothing', i; END IF;
			IF i % 3 = 0 THEN RAISE SQLSTATE 'XX999'; END IF;
		EXCEPTION WHEN SQLSTATE 'XX999' THEN NULL;
		END;
	END LOOP;
END $$;
SELECT count(*) = (SELECT count(*) FROM many WHERE due_at < now()) - 400 AS "the rest" FROM inbox_claim('many', 100000);
DROP SCHEMA walk_overflow CASCADE;
