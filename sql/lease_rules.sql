--
-- The rules of a lease, by their numbers, on four kinds of queue: one made by
-- inbox_create, one that keeps finished rows, an adopted table whose attempts
-- count from 0, and one whose receipts are the lease's expiry.
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS inbox;
CREATE SCHEMA lease_rules;
SET search_path = lease_rules, public;
\pset format unaligned
\pset tuples_only on

SELECT inbox_create('created', max_attempts => 3, backoff => '10 s', backoff_max => '20 s');
SELECT inbox_create('keeper', max_attempts => 3, retention => '1 h');
CREATE TABLE adopted (id int PRIMARY KEY, due_at timestamptz, locked_until timestamptz,
	claimed_at timestamptz, attempt smallint DEFAULT 0, payload json, last_error text);
CREATE TABLE adopted_dead (LIKE adopted, died_at timestamptz, cause text);
CREATE TABLE expiry (id uuid PRIMARY KEY, due_at timestamptz, locked_until timestamptz,
	attempt bigint DEFAULT 1, payload text);
CREATE TABLE expiry_dead (LIKE expiry, died_at timestamptz, cause text);
SELECT inbox_adopt('adopted', claimed_at => 'claimed_at', attempt => 'attempt', due_at => 'due_at',
	payload => 'payload', last_error => 'last_error', max_attempts => 3, dead_letter => 'adopted_dead');
SELECT inbox_adopt('expiry', attempt => 'attempt', due_at => 'due_at', payload => 'payload',
	max_attempts => 3, dead_letter => 'expiry_dead');
CREATE VIEW queues AS SELECT * FROM unnest('{created,keeper,adopted,expiry}'::text[]) AS q;

-- The queue's id number n.
CREATE FUNCTION key(q text, n int) RETURNS text LANGUAGE sql AS $$
	SELECT CASE q WHEN 'expiry' THEN format('00000000-0000-0000-0000-%s', lpad(n::text, 12, '0'))
		ELSE n::text END
$$;

-- Empty the queue and put rows 1 to n into it, due one second apart, the
-- first one longest ago.
CREATE FUNCTION fill(q text, n int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('DELETE FROM %s', q);
	EXECUTE format('DELETE FROM %s_dead', q);
	FOR i IN 1..n LOOP
		EXECUTE format('INSERT INTO %s (id, due_at, payload) VALUES (%L, %L, %L)',
			q, key(q, i), clock_timestamp() - make_interval(secs => 1000 - i), to_json(i));
	END LOOP;
END $$;

CREATE FUNCTION set(q text, n int, what text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('UPDATE %s SET %s WHERE id = %L', q, what, key(q, n));
END $$;

CREATE FUNCTION number(id text) RETURNS int LANGUAGE sql AS $$ SELECT right(id, 4)::int $$;

-- What was delivered, as number/attempt.
CREATE FUNCTION claim(q text, n bigint = 1, lease interval = NULL) RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(string_agg(number(id) || '/' || attempt, ' ' ORDER BY o), 'nothing')
	FROM inbox_claim(q, n, lease) WITH ORDINALITY AS d (id, receipt, attempt, m, p, h, pr, du, e, g, pk, l, o)
$$;
CREATE FUNCTION claim_one(q text, OUT id text, OUT receipt text, OUT attempt int) LANGUAGE sql AS $$
	SELECT id, receipt, attempt FROM inbox_claim(q)
$$;

-- The time until then, in whole seconds.
CREATE FUNCTION left_of(t timestamptz) RETURNS interval LANGUAGE sql AS $$
	SELECT make_interval(secs => ceil(extract(epoch FROM t - clock_timestamp()) - 0.003))
$$;

-- One line for each row: number, stored attempt, is it leased, is it due,
-- is it finished, its error.
CREATE FUNCTION rows(q text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format($f$
		SELECT string_agg(concat_ws(' ', lease_rules.number(id::text), 'attempt ' || attempt,
			CASE WHEN locked_until > clock_timestamp() THEN 'leased' WHEN locked_until IS NOT NULL THEN 'ended' END,
			CASE WHEN due_at > clock_timestamp() THEN 'delayed' WHEN due_at IS NULL THEN 'parked' END,
			CASE WHEN to_jsonb(t) ->> 'processed_at' IS NOT NULL THEN 'finished' END,
			to_jsonb(t) ->> 'last_error'), ', ' ORDER BY id)
		FROM %s t $f$, q) INTO result;
	RETURN coalesce(result, 'no rows');
END $$;
CREATE FUNCTION dead(q text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format($f$ SELECT string_agg(concat_ws(' ', lease_rules.number(id::text), 'attempt ' || attempt, cause,
		to_jsonb(t) ->> 'last_error'), ', ' ORDER BY id) FROM %s_dead t $f$, q) INTO result;
	RETURN coalesce(result, 'no dead letters');
END $$;

\echo '# 1 what is claimable'
CREATE FUNCTION rule_1(q text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM fill(q, 9);
	PERFORM set(q, 1, 'locked_until = clock_timestamp() + interval ''1 h''');
	PERFORM set(q, 2, 'locked_until = clock_timestamp()');	-- ends no later than now
	PERFORM set(q, 3, 'locked_until = clock_timestamp() - interval ''1 h''');
	PERFORM set(q, 4, 'due_at = clock_timestamp() + interval ''1 h''');
	PERFORM set(q, 5, 'due_at = clock_timestamp()');
	PERFORM set(q, 6, 'attempt = attempt + 3');	-- spent
	PERFORM set(q, 7, 'attempt = attempt + 2');	-- one delivery left
	IF q IN ('adopted', 'expiry') THEN
		PERFORM set(q, 8, 'due_at = NULL');		-- parked
	ELSE
		PERFORM set(q, 8, 'due_at = ''infinity''');
	END IF;
	IF q = 'keeper' THEN
		PERFORM set(q, 9, 'processed_at = clock_timestamp()');
	ELSE
		PERFORM set(q, 9, 'locked_until = ''infinity''');
	END IF;
	RETURN NEXT claim(q, 100);
	RETURN NEXT claim(q, 100);
END $$;
SELECT q, rule_1(q) FROM queues;

\echo '# 2 the clock and the lease'
CREATE FUNCTION rule_2(q text, lease interval, OUT length interval) LANGUAGE plpgsql AS $$
DECLARE
	before timestamptz;
	after timestamptz;
	until timestamptz;
BEGIN
	PERFORM fill(q, 1);
	before := clock_timestamp();
	SELECT locked_until INTO until FROM inbox_claim(q, 1, lease);
	after := clock_timestamp();
	-- where the expiry is the receipt, it is moved by less than 3 ms
	length := make_interval(secs => ceil(extract(epoch FROM until - after) - 0.003));
	IF until < before + length OR until > after + length + interval '3 ms' THEN
		RAISE 'lease from % to % ends at %', before, after, until;
	END IF;
END $$;
SELECT q, rule_2(q, '1.2 s'), rule_2(q, '1 us'), rule_2(q, '1 s'), rule_2(q, '7 days'), rule_2(q, NULL) FROM queues;
-- not the transaction's start: what became due since then is due
BEGIN;
SELECT fill('created', 2);
SELECT set('created', 1, 'due_at = clock_timestamp()');
SELECT set('created', 2, 'due_at = now()');
SELECT clock_timestamp() > now(), claim('created', 2);
SELECT locked_until > now() + interval '30 s' FROM created;
COMMIT;
-- one instant for all rows of a call
SELECT fill('created', 100);
SELECT count(DISTINCT locked_until), count(*) FROM inbox_claim('created', 100);
SELECT count(DISTINCT locked_until), count(DISTINCT claimed_at), max(claimed_at) - min(claimed_at) < interval '1 ms' FROM created;

\echo '# 3 attempts'
CREATE FUNCTION rule_3(q text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM fill(q, 1);
	RETURN NEXT rows(q);
	FOR i IN 1..4 LOOP
		RETURN NEXT claim(q) || ': ' || rows(q);
		PERFORM set(q, 1, 'locked_until = clock_timestamp()');
	END LOOP;
END $$;
SELECT q, rule_3(q) FROM queues;

\echo '# 4 no more than max_rows'
CREATE FUNCTION rule_4(q text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM fill(q, 5);
	RETURN NEXT claim(q, 0);
	RETURN NEXT claim(q, 2);
	RETURN NEXT claim(q, 9223372036854775807);
	RETURN NEXT claim(q, 1);
END $$;
SELECT q, rule_4(q) FROM queues;
SELECT fill('created', 250);
SELECT count(*), count(DISTINCT id), count(DISTINCT receipt) FROM inbox_claim('created', 249);
SELECT count(*) FROM inbox_claim('created', 249);

\echo '# 5 and 6: who holds a row'
CREATE FUNCTION rule_6(q text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	a record;
	b record;
	x record;
BEGIN
	PERFORM fill(q, 1);
	a := claim_one(q);
	x := inbox_extend(q, a.receipt, '1 h');
	RETURN NEXT format('extend: %s, receipt %s, lease %s', x.verdict,
		CASE WHEN x.new_receipt = a.receipt THEN 'the same' ELSE 'a new one' END,
		left_of(x.locked_until));
	IF x.new_receipt <> a.receipt THEN
		RETURN NEXT 'old receipt: ' || (inbox_extend(q, a.receipt)).verdict || ' ' || inbox_settle(q, a.receipt);
	END IF;
	a.receipt := x.new_receipt;
	-- never shorter
	x := inbox_extend(q, a.receipt, '1 s');
	RETURN NEXT format('shorter: %s, receipt %s, lease %s', x.verdict,
		CASE WHEN x.new_receipt = a.receipt THEN 'the same' ELSE 'a new one' END,
		left_of(x.locked_until));
	-- late, but nobody has taken the row since
	PERFORM set(q, 1, 'locked_until = locked_until - interval ''2 h''');
	IF q = 'expiry' THEN
		RETURN NEXT 'moved by hand: ' || (inbox_extend(q, a.receipt)).verdict;
		PERFORM set(q, 1, 'locked_until = locked_until + interval ''2 h''');
	END IF;
	x := inbox_extend(q, a.receipt);
	RETURN NEXT 'late: ' || x.verdict || ', ' || rows(q);
	a.receipt := x.new_receipt;
	-- taken by somebody else
	PERFORM set(q, 1, 'locked_until = clock_timestamp()');
	b := claim_one(q);
	RETURN NEXT 'overtaken: ' || inbox_settle(q, a.receipt) || ' ' || (inbox_extend(q, a.receipt)).verdict ||
		', new holder: ' || inbox_settle(q, b.receipt) || ', both again: ' ||
		inbox_settle(q, a.receipt) || ' ' || inbox_settle(q, b.receipt) || ' ' || (inbox_extend(q, b.receipt)).verdict;
	RETURN NEXT rows(q);
	-- what a verdict other than ok returns besides
	x := inbox_extend(q, b.receipt);
	RETURN NEXT format('%s %s %s', x.verdict, coalesce(x.new_receipt, 'null'), coalesce(x.locked_until::text, 'null'));
	-- a lease taken away by hand
	PERFORM fill(q, 1);
	a := claim_one(q);
	PERFORM set(q, 1, 'locked_until = NULL');
	RETURN NEXT 'lease taken away: ' || inbox_settle(q, a.receipt) || ' ' || (inbox_extend(q, a.receipt)).verdict;
	-- the row was deleted
	PERFORM fill(q, 0);
	RETURN NEXT 'deleted: ' || inbox_settle(q, a.receipt) || ' ' || (inbox_extend(q, a.receipt)).verdict;
END $$;
SELECT q, rule_6(q) FROM queues;

\echo '# 7 settlements'
CREATE FUNCTION settled(q text, VARIADIC args text[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	a record;
	verdict text;
	d timestamptz;
	before timestamptz;
BEGIN
	a := claim_one(q);
	EXECUTE format('SELECT due_at FROM %s WHERE id = %L', q, a.id) INTO before;
	EXECUTE format('SELECT inbox_settle(%L, %L, %s)', q, a.receipt, array_to_string(args, ', ')) INTO verdict;
	EXECUTE format('SELECT due_at FROM %s WHERE id = %L', q, a.id) INTO d;
	RETURN format('%s: %s, due %s; %s', array_to_string(args, ', '), verdict,
		CASE WHEN d IS NULL THEN 'never' WHEN d = before THEN 'as before'
			ELSE 'in ' || left_of(d) END, rows(q));
END $$;
CREATE FUNCTION rule_7(q text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM fill(q, 1);
	RETURN NEXT settled(q, '''done''');
	PERFORM fill(q, 1);
	RETURN NEXT settled(q, '''drop''', 'error => ''no use''');
	PERFORM fill(q, 1);
	RETURN NEXT settled(q, '''retry''', '''100 s''', '''first''');
	RETURN NEXT claim(q);
	PERFORM set(q, 1, 'due_at = clock_timestamp() - interval ''1 s''');
	RETURN NEXT settled(q, '''retry''', 'delay => ''0''');
	RETURN NEXT settled(q, '''release''', 'error => ''second''');
	RETURN NEXT settled(q, '''release''');
	RETURN NEXT settled(q, '''retry''', 'delay => ''0''', 'error => ''third''');
	RETURN NEXT dead(q);
	RETURN NEXT claim(q);
	PERFORM fill(q, 1);
	RETURN NEXT settled(q, '''dead''', 'error => ''poison''') || '; ' || dead(q);
END $$;
SELECT q, rule_7(q) FROM queues;

\echo '# 7 backoff: doubled, jittered by a quarter, capped'
CREATE FUNCTION backoff(q text, deliveries int) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
	receipt text;
	pause numeric;
BEGIN
	PERFORM fill(q, 1);
	PERFORM set(q, 1, format('attempt = attempt + %s', deliveries - 1));
	receipt := (claim_one(q)).receipt;
	PERFORM inbox_settle(q, receipt, 'retry');
	EXECUTE format('SELECT extract(epoch FROM due_at - clock_timestamp()) FROM %s', q) INTO pause;
	RETURN pause;
END $$;
SELECT inbox_create('patient', backoff => '8 s', backoff_max => '100 s');
CREATE TABLE patient_dead (id int);
WITH p AS MATERIALIZED (
	SELECT n, backoff('patient', n) AS s FROM generate_series(1, 12) n, generate_series(1, 20))
SELECT n, min(s) >= least(6 * 2 ^ (n - 1), 75) - 1, max(s) <= least(10 * 2 ^ (n - 1), 100), count(DISTINCT s) > 1
FROM p GROUP BY n ORDER BY n;
-- a count far beyond the cap neither overflows nor takes long
SELECT backoff('patient', 2000000000) BETWEEN 74 AND 100;
-- no backoff, no change of place
SELECT inbox_create('eager', backoff => '0', backoff_max => '0');
CREATE TABLE eager_dead (id int);
SELECT backoff('eager', 1) < 0;

\echo '# 7 without the columns of due time, attempt and error'
CREATE TABLE bare (id text PRIMARY KEY, locked_until timestamptz);
SELECT inbox_adopt('bare');
INSERT INTO bare VALUES ('a'), ('b');
SELECT id, attempt, max_attempts, priority, due_at, payload - 'locked_until' FROM inbox_claim('bare', 1);
SELECT receipt AS r FROM inbox_claim('bare', 1) \gset
SELECT inbox_settle('bare', :'r', 'retry', '1 h', 'an error');
SELECT id, attempt FROM inbox_claim('bare', 1);
UPDATE bare SET locked_until = NULL;
SELECT receipt AS r FROM inbox_claim('bare', 1) \gset
SELECT inbox_settle('bare', :'r', 'release');
SELECT inbox_settle('bare', :'r', 'release');
SELECT id, locked_until FROM bare ORDER BY id;

\echo '# 8 nobody delivers a spent row'
-- in a transaction, so that the worker does not bury it meanwhile
CREATE FUNCTION rule_8(q text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	a record;
BEGIN
	PERFORM fill(q, 2);
	FOR i IN 1..3 LOOP
		a := claim_one(q);
		PERFORM set(q, 1, 'locked_until = clock_timestamp()');
	END LOOP;
	RETURN NEXT rows(q);
	RETURN NEXT claim(q, 10);
	-- nor lets anybody lease it by name
	RETURN NEXT (SELECT count(*) FROM inbox_stamp(q, ARRAY[key(q, 1)]));
	-- its last holder still holds it, until somebody buries it
	RETURN NEXT (inbox_extend(q, (CASE WHEN q = 'expiry' THEN
		format('%s@%s', a.id, (SELECT round(extract(epoch FROM locked_until) * 1000000) FROM expiry
			WHERE number(expiry.id::text) = 1)) ELSE a.receipt END))).verdict;
END $$;
SELECT q, rule_8(q) FROM queues;
BEGIN;
SELECT fill('created', 1);
SELECT receipt AS r FROM inbox_claim('created') \gset
SELECT set('created', 1, 'attempt = 4, locked_until = clock_timestamp()');
SELECT buried FROM inbox_reap('created');
SELECT inbox_settle('created', :'r'), dead('created');
COMMIT;
-- a lowered cap applies to rows already above it
BEGIN;
SELECT fill('created', 1);
SELECT claim('created'), claim('created');
SELECT set('created', 1, 'locked_until = NULL');
SELECT claim('created');
SELECT set('created', 1, 'locked_until = NULL');
SELECT inbox_alter('created', max_attempts => 2);
SELECT claim('created'), rows('created');
SELECT buried FROM inbox_reap('created');
SELECT rows('created'), dead('created');
ROLLBACK;

\echo '# 9 claim and settle in one transaction; rollback un-claims and un-counts'
SELECT fill('created', 1);
BEGIN;
SELECT claim('created'), rows('created');
ROLLBACK;
SELECT rows('created');
BEGIN;
SELECT receipt AS r FROM inbox_claim('created') \gset
ROLLBACK;
SELECT inbox_settle('created', :'r'), (inbox_extend('created', :'r')).verdict;
BEGIN;
SAVEPOINT s;
SELECT receipt AS r FROM inbox_claim('created') \gset
ROLLBACK TO s;
SELECT inbox_settle('created', :'r'), rows('created');
SELECT receipt AS r2, attempt FROM inbox_claim('created') \gset
SELECT :attempt, :'r' = :'r2', inbox_settle('created', :'r2');
COMMIT;
SELECT rows('created');

\echo '# 10 a bury is one atomic move'
SELECT fill('created', 1);
BEGIN;
SELECT receipt AS r FROM inbox_claim('created') \gset
SELECT inbox_settle('created', :'r', 'dead');
SELECT rows('created'), dead('created');
ROLLBACK;
SELECT rows('created'), dead('created');
SELECT receipt AS r FROM inbox_claim('created') \gset
SELECT inbox_settle('created', :'r', 'dead'), rows('created'), dead('created');
SELECT inbox_settle('created', :'r', 'dead'), (inbox_extend('created', :'r')).verdict;

\echo '# a paused queue hands nothing out, and takes settlements'
SELECT fill('created', 2);
SELECT receipt AS r FROM inbox_claim('created') \gset
SELECT inbox_pause('created');
SELECT claim('created', 10);
SELECT count(*) FROM inbox_stamp('created', '{1,2}');
SELECT count(*) FROM inbox_claim_ids('created');
SELECT count(*) FROM inbox_claim(NULL::created);
SELECT (inbox_extend('created', :'r')).verdict;
SELECT count(*) FROM inbox_next('created', ARRAY[:'r']);
SELECT rows('created');
SELECT inbox_resume('created');
SELECT claim('created', 10);

SELECT fill(q, 0) FROM queues;
DROP SCHEMA lease_rules CASCADE;
