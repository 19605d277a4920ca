--
-- How clients call: prepared statements, kinds of parameters, places in a
-- statement
--
SET client_min_messages = error;
CREATE EXTENSION IF NOT EXISTS inbox;
CREATE SCHEMA lease_drivers;
SET search_path = lease_drivers, public;
\pset format unaligned
\pset tuples_only on

SELECT inbox_create('q');
CREATE FUNCTION fill(n int) RETURNS void LANGUAGE sql AS $$
	DELETE FROM q;
	INSERT INTO q(id, payload, due_at) SELECT i, to_jsonb(i), now() - make_interval(secs => 100 - i) FROM generate_series(1, n) i;
$$;
CREATE FUNCTION leased() RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(string_agg(id::text, ' ' ORDER BY id), 'none') FROM q WHERE locked_until > now()
$$;
SELECT fill(50);

\echo '# parameters without a type, and each type that a driver sends'
PREPARE c0 AS SELECT id FROM inbox_claim($1);
PREPARE c1 AS SELECT id FROM inbox_claim($1, $2, $3, $4, $5);
PREPARE c2(text) AS SELECT id FROM inbox_claim($1);
PREPARE c3(varchar) AS SELECT id FROM inbox_claim($1);
PREPARE c4(name) AS SELECT id FROM inbox_claim($1);
PREPARE c5(char(1)) AS SELECT id FROM inbox_claim($1);
PREPARE c6(unknown) AS SELECT id FROM inbox_claim($1);
PREPARE c7(text, int) AS SELECT id FROM inbox_claim($1, $2);
PREPARE c8(text, smallint, text) AS SELECT id FROM inbox_claim($1, $2, $3::interval);
PREPARE c9(text, bigint, double precision) AS SELECT id FROM inbox_claim(queue => $1, max_rows => $2, lease => make_interval(secs => $3));
SELECT name, parameter_types FROM pg_prepared_statements WHERE name ~ '^c\d$' ORDER BY name;
EXECUTE c0('q');
EXECUTE c1('q', 2, '5 s', NULL, NULL);
EXECUTE c2('q');
EXECUTE c3('q');
EXECUTE c4('q');
EXECUTE c5('q');
EXECUTE c6('q');
EXECUTE c7('q', 2);
EXECUTE c8('q', 1::smallint, '00:00:20');
EXECUTE c9('q', 1, 20.5);
PREPARE r(regclass) AS SELECT * FROM inbox_claim($1);
EXECUTE r('q');
PREPARE s0 AS SELECT inbox_settle($1, $2);
PREPARE s1 AS SELECT inbox_settle($1, $2, $3, $4, $5, $6);
PREPARE s2 AS SELECT verdict FROM inbox_settle_batch($1, $2, $3, $4, $5, $6);
PREPARE e1 AS SELECT verdict FROM inbox_extend($1, $2, $3);
PREPARE e2 AS SELECT verdict FROM inbox_extend_batch($1, $2, $3);
PREPARE n1 AS SELECT id FROM inbox_next($1, $2, $3, $4, $5, $6);
PREPARE t1 AS SELECT id FROM inbox_stamp($1, $2, $3);
PREPARE i1 AS SELECT id FROM inbox_claim_ids($1, $2, $3, $4, $5);
SELECT name, parameter_types FROM pg_prepared_statements WHERE name ~ '^[senti]\d$' ORDER BY name;
SELECT receipt AS r FROM inbox_claim('q') \gset
EXECUTE e1('q', :'r', '1 h');
EXECUTE e2('q', ARRAY[:'r'], NULL);
EXECUTE s1('q', :'r', 'retry', '0', 'an error', false);
EXECUTE s0('q', :'r');
EXECUTE t1('q', '{20,21}', NULL);
SELECT array_agg(inbox_receipt(q)) AS rs FROM q WHERE id IN (20, 21) \gset
EXECUTE s2('q', :'rs', '{done}', NULL, NULL, NULL);
EXECUTE n1('q', '{}', 1, NULL, NULL, NULL);
EXECUTE i1('q', 1, NULL, NULL, NULL);
-- custom plans, generic plans
SELECT fill(20);
SET plan_cache_mode = force_generic_plan;
EXECUTE c7('q', 2);
EXECUTE c7('q', 2);
SET plan_cache_mode = force_custom_plan;
EXECUTE c7('q', 2);
RESET plan_cache_mode;
DEALLOCATE ALL;

\echo '# named arguments and defaults'
SELECT fill(20);
SELECT id FROM inbox_claim(queue => 'q');
SELECT id FROM inbox_claim(max_rows => 2, queue => 'q');
SELECT id FROM inbox_claim('q', lease => '1 min');
SELECT id FROM inbox_claim(queue => NULL::q, max_rows => 1);
SELECT id FROM inbox_claim_ids(lease => '1 min', queue => 'q');
SELECT id FROM inbox_next(queue => 'q', max_rows => 1);
SELECT verdict FROM inbox_settle(queue => 'q', receipt => '1@1', outcome => 'release', error => 'e');
SELECT verdict FROM inbox_extend(lease => '1 h', receipt => '1@1', queue => 'q');

\echo '# in the target list'
SELECT fill(20);
SELECT (inbox_claim('q')).id;
SELECT (c).id, (c).payload FROM (SELECT inbox_claim('q', 2) AS c) x;
-- with OFFSET 0 or not, and in LIMIT: the claim is all or nothing
SELECT (c).id FROM (SELECT inbox_claim('q', 3) AS c OFFSET 0) x LIMIT 1;
SELECT leased();
SELECT id FROM inbox_claim('q', 3) LIMIT 1;
SELECT leased();
SELECT DISTINCT inbox_settle('q', inbox_receipt(q), 'release') FROM q WHERE locked_until > now();
SELECT leased();

\echo '# in a common table expression, a join, a subquery, LATERAL'
SELECT fill(20);
WITH c AS (SELECT * FROM inbox_claim('q', 2)) SELECT id, payload FROM c;
WITH c AS MATERIALIZED (SELECT * FROM inbox_claim('q', 2)) SELECT count(*) FROM c a, c b;
SELECT leased();
WITH c AS (SELECT * FROM inbox_claim('q', 2)) SELECT 'not read';
SELECT leased();
SELECT n, id FROM generate_series(1, 3) n, LATERAL inbox_claim('q', n % 2 + 1);
SELECT leased();
SELECT (SELECT id FROM inbox_claim('q')), (SELECT id FROM inbox_claim('q'));
SELECT EXISTS (SELECT FROM inbox_claim('q')), 'x' IN (SELECT id FROM inbox_claim('q'));
SELECT leased();

\echo '# claim and settle in one statement'
SELECT fill(10);
SELECT id, s.verdict FROM inbox_claim('q', 3) c, LATERAL inbox_settle('q', c.receipt) s;
WITH c AS (SELECT * FROM inbox_claim('q', 3)) SELECT s.id, verdict FROM inbox_settle_batch('q', (SELECT array_agg(receipt) FROM c), '{release}') s;
SELECT id, inbox_settle('q', receipt), (inbox_extend('q', receipt)).verdict FROM inbox_claim('q', 2);
SELECT inbox_settle('q', receipt, 'release') FROM (SELECT receipt FROM inbox_claim('q', 2) OFFSET 0) x;
SELECT count(*), leased() FROM q;
-- settle the same receipt twice in one statement
SELECT id, inbox_settle('q', receipt), inbox_settle('q', receipt) FROM inbox_claim('q');
-- two claims in one statement share nothing
SELECT a.id, b.id FROM inbox_claim('q', 2) a FULL JOIN inbox_claim('q', 2) b ON false ORDER BY 1, 2;

\echo '# INSERT … SELECT, CREATE TABLE AS, MERGE, COPY'
SELECT fill(20);
CREATE TABLE work (id text, receipt text, payload jsonb, verdict text);
INSERT INTO work SELECT id, receipt, payload FROM inbox_claim('q', 2) RETURNING id;
CREATE TABLE more AS SELECT id, receipt, payload FROM inbox_claim('q', 2);
SELECT id FROM more;
MERGE INTO work w USING inbox_claim('q', 2) c ON w.id = c.id WHEN NOT MATCHED THEN INSERT VALUES (c.id, c.receipt, c.payload);
COPY (SELECT id, payload FROM inbox_claim('q', 2)) TO stdout;
UPDATE work SET verdict = inbox_settle('q', receipt);
SELECT id, verdict FROM work ORDER BY id;
DELETE FROM more RETURNING inbox_settle('q', receipt, 'release');
SELECT leased();
-- claims rows that the statement at hand has not shown yet: none of its own
WITH i AS (INSERT INTO q(id, payload, due_at) VALUES (100, '"new"', '2000-01-01') RETURNING id) SELECT i.id, c.id FROM i, inbox_claim('q') c;
SELECT id FROM inbox_claim('q');
-- UPDATE and DELETE of the queue that call our functions on the same rows
UPDATE q SET payload = '"x"' WHERE inbox_settle('q', inbox_receipt(q), 'release') = 'ok';
SELECT id, payload, locked_until FROM q WHERE payload = '"x"' ORDER BY id;
DELETE FROM q WHERE inbox_settle('q', inbox_receipt(q)) = 'ok';
WITH d AS (DELETE FROM q RETURNING inbox_settle('q', inbox_receipt(q)) AS verdict) SELECT verdict, count(*) FROM d GROUP BY 1 ORDER BY 1;

\echo '# cursors'
SELECT fill(10);
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM inbox_claim('q', 3);
SELECT leased();
FETCH 1 FROM c;
SELECT leased();
FETCH 5 FROM c;
CLOSE c;
DECLARE h SCROLL CURSOR WITH HOLD FOR SELECT id FROM inbox_claim('q', 3);
FETCH 2 FROM h;
FETCH BACKWARD 1 FROM h;
COMMIT;
FETCH ALL FROM h;
SELECT leased();
CLOSE h;
DECLARE h CURSOR WITH HOLD FOR SELECT id FROM inbox_claim('q', 2);
SELECT leased();
FETCH ALL FROM h;
CLOSE h;

\echo '# PL/pgSQL'
SELECT fill(10);
CREATE FUNCTION work_all() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	d inbox_delivery;
	done text := '';
BEGIN
	FOR d IN SELECT * FROM inbox_claim('q', 3) LOOP
		done := done || d.id || ' ' || inbox_settle('q', d.receipt) || ', ';
	END LOOP;
	LOOP
		SELECT * INTO d FROM inbox_claim('q');
		EXIT WHEN NOT FOUND;
		BEGIN
			IF d.id::int % 2 = 0 THEN RAISE 'even'; END IF;
			PERFORM inbox_settle('q', d.receipt);
			done := done || d.id || ', ';
		EXCEPTION WHEN raise_exception THEN
			done := done || 'failed ' || d.id || ' ' || inbox_settle('q', d.receipt, 'retry', '1 h', SQLERRM) || ', ';
		END;
	END LOOP;
	RETURN done;
END $$;
SELECT work_all();
SELECT id, last_error, due_at > now() FROM q ORDER BY id;
-- an exception takes the claim inside its block back
SELECT fill(2);
DO $$
BEGIN
	BEGIN
		PERFORM inbox_claim('q');
		RAISE 'oops';
	EXCEPTION WHEN raise_exception THEN
	END;
	PERFORM inbox_claim('q');
END $$;
SELECT id, attempt, locked_until > now() FROM q ORDER BY id;
-- strict takes the handler's own writes with it
CREATE TABLE effects (n int);
DO $$
BEGIN
	INSERT INTO effects VALUES (1);
	PERFORM inbox_settle('q', '1@1', strict => true);
END $$;
SELECT count(*) FROM effects;
-- a loop that commits
CREATE PROCEDURE loop_and_commit() LANGUAGE plpgsql AS $$
DECLARE
	d inbox_delivery;
BEGIN
	LOOP
		SELECT * INTO d FROM inbox_claim('q');
		COMMIT;
		EXIT WHEN d.id IS NULL;
		PERFORM inbox_settle('q', d.receipt);
		COMMIT;
	END LOOP;
END $$;
SELECT fill(5);
CALL loop_and_commit();
SELECT count(*) FROM q;
-- and one over a cursor that outlives its transaction
CREATE PROCEDURE loop_over_claim() LANGUAGE plpgsql AS $$
DECLARE
	d inbox_delivery;
BEGIN
	FOR d IN SELECT * FROM inbox_claim('q', 5) LOOP
		PERFORM inbox_settle('q', d.receipt, CASE WHEN d.id = '3' THEN 'release' ELSE 'done' END);
		COMMIT;
	END LOOP;
END $$;
SELECT fill(5);
CALL loop_over_claim();
SELECT id, attempt FROM q;

\echo '# SQL functions, views, rules of the client''s own'
SELECT fill(10);
CREATE FUNCTION wrapped(q text, n bigint) RETURNS SETOF inbox_delivery LANGUAGE sql AS 'SELECT * FROM inbox_claim(q, n)';
SELECT id FROM wrapped('q', 2);
CREATE FUNCTION wrapped_rows(n bigint) RETURNS SETOF q LANGUAGE sql BEGIN ATOMIC SELECT * FROM inbox_claim(NULL::q, n); END;
SELECT id, payload FROM wrapped_rows(2);
CREATE VIEW todo AS SELECT id, receipt, payload FROM inbox_claim('q', 1);
SELECT id FROM todo;
SELECT id FROM todo;

\echo '# inbox_next: settle and claim in one call'
SELECT fill(6);
SELECT id, receipt AS r1 FROM inbox_next('q') \gset
SELECT :'id';
SELECT id, receipt AS r2 FROM inbox_next('q', ARRAY[:'r1']) \gset
SELECT :'id', (SELECT count(*) FROM q);
-- stale, malformed, NULL ones are skipped
SELECT array_agg(id) AS ids, array_agg(receipt) AS rs FROM inbox_next('q', ARRAY[:'r1', 'x', NULL, '1@1', :'r2', :'r2'], 2) \gset
SELECT :'ids', (SELECT count(*) FROM q);
SELECT id FROM inbox_next('q', :'rs', 0);
SELECT count(*), leased() FROM q;
SELECT id, locked_until > now() + interval '59 min' FROM inbox_next('q', NULL, 10, '1 h');
SELECT count(*) FROM inbox_next('q', NULL, 10);

\echo '# PREPARE TRANSACTION'
SELECT fill(2);
-- (with max_prepared_transactions = 0 there is nothing to try)
SELECT current_setting('max_prepared_transactions')::int > 0 AS two_phase \gset
\if :two_phase
BEGIN;
SELECT id FROM inbox_claim('q');
PREPARE TRANSACTION 'lease_drivers';
SELECT id FROM inbox_claim('q', 10);
COMMIT PREPARED 'lease_drivers';
SELECT id, attempt FROM q ORDER BY id;
\endif

\echo '# EXPLAIN, and functions that only claim when run'
SELECT fill(2);
EXPLAIN (COSTS OFF) SELECT id FROM inbox_claim('q');
SELECT leased();
DO $$ BEGIN EXECUTE 'EXPLAIN ANALYZE SELECT id FROM inbox_claim(''q'')'; END $$;
SELECT leased();

DROP SCHEMA lease_drivers CASCADE;
