--
-- Kinds of columns and of tables: ids, attempts, payloads, whole rows,
-- dropped and generated columns, partitions, children
--
SET client_min_messages = error;
CREATE EXTENSION IF NOT EXISTS inbox;
CREATE SCHEMA lease_types;
SET search_path = lease_types, public;
\pset format unaligned
\pset tuples_only on

\echo '# attempts: smallint, integer, bigint; from 0, from 1, none yet'
CREATE FUNCTION attempts(type text, initial text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	d record;
	r record;
	result text := '';
BEGIN
	EXECUTE format('CREATE TABLE att (id int PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz, attempt %s %s)', type, initial);
	CREATE TABLE att_dead (LIKE att);
	PERFORM inbox_adopt('att', claimed_at => 'claimed_at', attempt => 'attempt', max_attempts => 3, dead_letter => 'att_dead');
	INSERT INTO att VALUES (1);
	FOR i IN 1..5 LOOP
		SELECT * INTO d FROM inbox_claim('att');
		EXIT WHEN d IS NULL;
		SELECT a.attempt::bigint INTO r FROM att a;
		result := concat(result, d.attempt, '(', d.max_attempts, ',', r.attempt, ') ');
		IF i = 2 THEN
			PERFORM inbox_settle('att', d.receipt, 'release');
			SELECT a.attempt::bigint INTO r FROM att a;
			result := concat(result, 'released(', r.attempt, ') ');
		ELSE
			result := concat(result, inbox_settle('att', d.receipt, 'retry'), ' ');
		END IF;
	END LOOP;
	SELECT a.attempt::bigint INTO r FROM att_dead a;
	result := concat(result, 'dead(', r.attempt, ')');
	-- the row form reports alike
	INSERT INTO att VALUES (2);
	EXECUTE 'SELECT attempt::bigint FROM inbox_claim(NULL::att)' INTO r;
	result := concat(result, ' row ', r.attempt);
	DROP TABLE att, att_dead;
	RETURN result;
END $$;
SELECT type, initial, attempts(type, initial) FROM unnest('{smallint,integer,bigint}'::text[]) AS type,
	unnest(ARRAY['', 'DEFAULT 0', 'DEFAULT 1', 'DEFAULT NULL', 'NOT NULL DEFAULT 0', 'NOT NULL DEFAULT 1']) AS initial;
-- at the end of the type it stays there, and rows that hold less than none are fresh
CREATE TABLE att (id int PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz, attempt smallint DEFAULT 1);
SELECT inbox_adopt('att', claimed_at => 'claimed_at', attempt => 'attempt');
INSERT INTO att VALUES (1, NULL, NULL, 32766), (2, NULL, NULL, 32767), (3, NULL, NULL, 0), (4, NULL, NULL, -32768);
SELECT id, attempt FROM inbox_claim('att', 10);
SELECT id, attempt FROM att ORDER BY id;
UPDATE att SET locked_until = now();
SELECT id, attempt FROM inbox_claim('att', 10);
CREATE TABLE att8 (id int PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz, attempt bigint DEFAULT 0);
SELECT inbox_adopt('att8', claimed_at => 'claimed_at', attempt => 'attempt');
INSERT INTO att8 VALUES (1, NULL, NULL, 3000000000);
SELECT id, attempt FROM inbox_claim('att8', 10);
SELECT id, attempt FROM att8;

\echo '# payloads, several rows in a call'
CREATE FUNCTION payloads(type text, VARIADIC vals text[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('CREATE TABLE pay (id int PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz, p %s, h json)', type);
	PERFORM inbox_adopt('pay', claimed_at => 'claimed_at', payload => 'p', headers => 'h');
	FOR i IN 1..cardinality(vals) LOOP
		EXECUTE format('INSERT INTO pay VALUES (%s, NULL, NULL, %L, %L)', i, vals[i], json_build_object('n', i));
	END LOOP;
	SELECT string_agg(coalesce(payload::text, 'NULL') || ' ' || headers, ', ') INTO result FROM inbox_claim('pay', 100)
	WHERE payload IS NOT DISTINCT FROM (SELECT to_jsonb(p) FROM pay WHERE pay.id::text = inbox_claim.id);
	EXECUTE 'DROP TABLE pay';
	RETURN result;
END $$;
SELECT payloads('jsonb', '{"a": 1}', '[]', 'null', NULL, '"x"');
SELECT payloads('json', '{"a":   1, "a": 2}', '[]', 'null', NULL, '"x"');
SELECT payloads('text', '{"a": 1}', '', NULL, 'ä"\');
SELECT payloads('bytea', '\x00ff', '', NULL);
SELECT payloads('int[]', '{1,2}', '{}', NULL);
SELECT payloads('numeric', '1.50', 'NaN', NULL);
SELECT payloads('timestamptz', '2000-01-01 00:00+00', 'infinity', NULL);
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN word AS text CHECK (value <> 'bad');
SELECT payloads('pair', '(1,x)', '(,)', NULL);
SELECT payloads('word', 'good', NULL);
SELECT payloads('"char"', 'x', NULL);

\echo '# payloads in TOAST, not touched by claim, extend and release'
SELECT inbox_create('big');
INSERT INTO big(payload) SELECT to_jsonb((SELECT string_agg(md5(i::text || n), '') FROM generate_series(1, 1000) i)) FROM generate_series(1, 3) n;
SELECT reltoastrelid::regclass AS toast FROM pg_class WHERE oid = 'big'::regclass \gset
SELECT string_agg(ctid::text, ' ' ORDER BY ctid) AS before FROM :toast \gset
CREATE TABLE b AS SELECT id, receipt, md5(payload::text) AS m FROM inbox_claim('big', 3);
SELECT (inbox_extend('big', receipt, '1 h')).verdict FROM b;
SELECT inbox_settle('big', receipt, 'release') FROM b;
SELECT count(*) FROM b JOIN inbox_claim('big', 3) c USING (id) WHERE md5(payload::text) = m;
SELECT string_agg(ctid::text, ' ' ORDER BY ctid) = :'before' FROM :toast;

\echo '# row mode'
CREATE TABLE rowmode (id int PRIMARY KEY, a text, gone int, locked_until timestamptz, b int[], attempt int DEFAULT 0, c pair);
ALTER TABLE rowmode DROP COLUMN gone;
SELECT inbox_adopt('rowmode', attempt => 'attempt');
INSERT INTO rowmode(id, a, b, c) VALUES (1, 'x', '{1}', '(1,y)'), (2, NULL, NULL, NULL), (3, 'z', '{}', '(,)');
SELECT id, attempt, payload - 'locked_until', (payload ->> 'locked_until')::timestamptz = locked_until FROM inbox_claim('rowmode', 10);

\echo '# whole rows in their own types'
UPDATE rowmode SET locked_until = NULL, attempt = 0;
ALTER TABLE rowmode ADD COLUMN d date DEFAULT '2000-01-01';
SELECT id, a, b, attempt, c, d, locked_until > now() FROM inbox_claim(NULL::rowmode, 10);
UPDATE rowmode SET locked_until = NULL;
SELECT (r).id, (r).c.b, inbox_settle('rowmode', inbox_receipt(r), 'release') FROM (SELECT inbox_claim(NULL::rowmode, 2) AS r) x;
SELECT (inbox_claim(NULL::rowmode, 1)).a;
SELECT count(*), count(inbox_receipt(r)) FROM rowmode r;
SELECT inbox_receipt(NULL::rowmode);
-- the receipt of a row read later, by whoever may read it
SELECT verdict FROM rowmode r, inbox_settle('rowmode', inbox_receipt(r)) WHERE locked_until > now();
SELECT inbox_create('finished', retention => '1 h');
INSERT INTO finished(payload) VALUES ('1'), ('2');
SELECT inbox_settle('finished', receipt) FROM inbox_claim('finished');
SELECT inbox_receipt(f), processed_at IS NOT NULL FROM finished f;
-- only a queue's rows
SELECT inbox_receipt(1);
SELECT inbox_receipt(c) FROM pg_class c LIMIT 1;
SELECT inbox_receipt(ROW(1, 2));
SELECT inbox_receipt(NULL::pair);

\echo '# ids only'
UPDATE rowmode SET locked_until = NULL;
SELECT id, split_part(receipt, '@', 1), attempt, locked_until > now() FROM inbox_claim_ids('rowmode', 10);
CREATE TABLE uncounted (id uuid PRIMARY KEY, locked_until timestamptz);
SELECT inbox_adopt('uncounted');
INSERT INTO uncounted VALUES ('00000000-0000-0000-0000-000000000001');
SELECT id, attempt FROM inbox_claim_ids('uncounted');

\echo '# stamp: rows that the caller names'
SELECT inbox_create('stamped', max_attempts => 1);
INSERT INTO stamped(id, payload, due_at, locked_until, attempt) VALUES (1, '1', now(), NULL, 1), (2, '2', now() + interval '1 h', NULL, 1),
	(3, '3', now(), now() + interval '1 h', 1), (4, '4', now(), now() + interval '1 h', 2), (5, '5', now(), now(), 1), (6, '6', now(), NULL, 1);
SELECT id, attempt, payload, locked_until > now() + interval '59 min' FROM inbox_stamp('stamped', '{6,5,4,3,2,1,1,99,5}', '1 h');
SELECT count(*) FROM inbox_stamp('stamped', '{}');
SELECT inbox_settle('stamped', inbox_receipt(s)) FROM stamped s WHERE id IN (1, 5) ORDER BY id;
BEGIN;
SELECT id FROM inbox_stamp('stamped', ARRAY(SELECT id::text FROM stamped WHERE payload > '1' ORDER BY id DESC FOR UPDATE SKIP LOCKED));
INSERT INTO stamped(id, payload) VALUES (7, '7');
SELECT id FROM inbox_stamp('stamped', '{7}');
UPDATE stamped SET locked_until = NULL, attempt = 1;
SELECT id FROM inbox_stamp('stamped', '{7,6,3}');
ROLLBACK;

\echo '# headers, keys, times of a delivery'
SELECT inbox_create('full', max_attempts => 5);
INSERT INTO "full"(payload, headers, priority, due_at, enqueued_at, group_key, partition_key)
VALUES ('{"p": 1}', '{"h": 1}', -7, '2001-01-01 00:00+00', '2002-01-01 00:00+00', 'g', 'k');
SET TimeZone = 'UTC';
SELECT id, attempt, max_attempts, payload, headers, priority, due_at, enqueued_at, group_key, partition_key FROM inbox_claim('full');
CREATE TABLE varchars (id bigint PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz, g varchar(10), k varchar(10), p bigint);
SELECT inbox_adopt('varchars', claimed_at => 'claimed_at', group_key => 'g', partition_key => 'k', priority => 'p');
INSERT INTO varchars VALUES (1, NULL, NULL, 'g1', 'k1', -9000000000), (2, NULL, NULL, 'g2', 'k2', 9000000000), (3, NULL, NULL, NULL, NULL, NULL), (4, NULL, NULL, 'g1', 'k', 5);
SELECT id, group_key, partition_key, priority FROM inbox_claim('varchars', 10, group_key => 'g1');
SELECT id, group_key, partition_key, priority FROM inbox_claim('varchars', 10, group_key => 'none');
SELECT id, group_key, partition_key, priority FROM inbox_claim('varchars', 10);

\echo '# generated columns'
CREATE TABLE gen (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz, attempt int DEFAULT 1,
	p int, twice int GENERATED ALWAYS AS (p * 2) STORED, is_leased boolean GENERATED ALWAYS AS (locked_until IS NOT NULL) STORED);
SELECT inbox_adopt('gen', claimed_at => 'claimed_at', attempt => 'attempt', payload => 'twice');
INSERT INTO gen(p) VALUES (1), (2), (3);
SELECT id, payload, attempt FROM inbox_claim('gen', 2);
SELECT id, twice, attempt, is_leased FROM gen ORDER BY id;
SELECT id, p, twice, is_leased FROM inbox_claim(NULL::gen);
SELECT DISTINCT (inbox_extend('gen', inbox_receipt(g), '1 h')).verdict FROM gen g;
SELECT DISTINCT inbox_settle('gen', inbox_receipt(g), 'release') FROM gen g WHERE id < 3;
SELECT DISTINCT inbox_settle('gen', inbox_receipt(g)) FROM gen g WHERE is_leased;
SELECT id, twice, attempt, is_leased FROM gen ORDER BY id;

\echo '# partitions, of other layouts'
CREATE TABLE parted (id bigint NOT NULL, p text, due_at timestamptz, locked_until timestamptz, claimed_at timestamptz, attempt int DEFAULT 0, r int NOT NULL,
	PRIMARY KEY (id, r)) PARTITION BY LIST (r);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1);
CREATE TABLE parted_2 (gone int, r int NOT NULL, attempt int DEFAULT 0, claimed_at timestamptz, p text, id bigint NOT NULL, locked_until timestamptz, due_at timestamptz);
ALTER TABLE parted_2 DROP COLUMN gone;
ALTER TABLE parted ATTACH PARTITION parted_2 FOR VALUES IN (2);
CREATE TABLE parted_3 (locked_until timestamptz, id bigint NOT NULL, r int NOT NULL, p text, attempt int DEFAULT 0, claimed_at timestamptz, due_at timestamptz) PARTITION BY RANGE (id);
CREATE TABLE parted_3_a (p text, id bigint NOT NULL, r int NOT NULL, due_at timestamptz, attempt int DEFAULT 0, claimed_at timestamptz, locked_until timestamptz);
ALTER TABLE parted_3 ATTACH PARTITION parted_3_a FOR VALUES FROM (0) TO (1000);
ALTER TABLE parted ATTACH PARTITION parted_3 FOR VALUES IN (3);
CREATE INDEX ON parted (due_at, id);
SELECT inbox_adopt('parted', claimed_at => 'claimed_at', attempt => 'attempt', due_at => 'due_at', payload => 'p');
CREATE FUNCTION fill_parted() RETURNS void LANGUAGE sql AS $$
	DELETE FROM parted;
	INSERT INTO parted(id, p, due_at, r) SELECT i, 'p' || i, now() - make_interval(secs => 100 - i), i % 3 + 1 FROM generate_series(1, 9) i;
$$;
SELECT fill_parted();
SELECT id, attempt, payload FROM inbox_claim('parted', 7);
SELECT tableoid::regclass, id, p, attempt, r, locked_until > now() AS leased FROM parted ORDER BY id;
SELECT array_agg(format('%s@%s', id, (extract(epoch FROM claimed_at) * 1000000)::bigint) ORDER BY id) AS rs FROM parted WHERE claimed_at IS NOT NULL \gset
SELECT id, verdict, s.locked_until > now() + interval '59 min' FROM inbox_extend_batch('parted', :'rs', '1 h') s, split_part(receipt, '@', 1) AS id;
SELECT id, verdict FROM inbox_settle_batch('parted', :'rs', '{done,release,retry,done,release,retry,done}', '{0}');
SELECT tableoid::regclass, id, p, attempt, r, locked_until FROM parted ORDER BY id;
SELECT id, p, attempt, r FROM inbox_claim(NULL::parted, 10);
SELECT id FROM inbox_stamp('parted', '{2,3}');
UPDATE parted SET locked_until = NULL;
SELECT id, payload FROM inbox_stamp('parted', '{9,2,3}');
-- a partition comes, another goes
CREATE TABLE parted_4 PARTITION OF parted FOR VALUES IN (4);
INSERT INTO parted(id, p, due_at, r) VALUES (20, 'p20', now(), 4);
SELECT id, payload FROM inbox_claim('parted', 10);
ALTER TABLE parted DETACH PARTITION parted_4;
SELECT fill_parted();
SELECT count(*) FROM inbox_claim('parted', 100);
-- in row mode, a queue without a payload column
SELECT inbox_forget('parted');
SELECT inbox_adopt('parted', claimed_at => 'claimed_at', attempt => 'attempt', due_at => 'due_at');
SELECT fill_parted();
SELECT id, payload - '{claimed_at,locked_until,due_at}'::text[] FROM inbox_claim('parted', 4);

\echo '# partitions by a column that a claim or settlement writes: rows move'
CREATE TABLE moving (id bigint NOT NULL, p text, locked_until timestamptz, claimed_at timestamptz, attempt int NOT NULL DEFAULT 0) PARTITION BY RANGE (attempt);
CREATE TABLE moving_new PARTITION OF moving FOR VALUES FROM (MINVALUE) TO (1);
CREATE TABLE moving_old (gone int, attempt int NOT NULL DEFAULT 0, claimed_at timestamptz, p text, locked_until timestamptz, id bigint NOT NULL);
ALTER TABLE moving_old DROP COLUMN gone;
ALTER TABLE moving ATTACH PARTITION moving_old FOR VALUES FROM (1) TO (MAXVALUE);
CREATE UNIQUE INDEX ON moving (id, attempt);
SELECT inbox_adopt('moving', claimed_at => 'claimed_at', attempt => 'attempt', payload => 'p');
INSERT INTO moving SELECT i, 'p' || i FROM generate_series(1, 4) i;
SELECT id, attempt, payload, locked_until > now() FROM inbox_claim('moving', 2);
SELECT id, p, attempt, locked_until > now() FROM inbox_claim(NULL::moving, 2);
SELECT tableoid::regclass, id, p, attempt, locked_until > now() FROM moving ORDER BY id;
SELECT array_agg(format('%s@%s', id, (extract(epoch FROM claimed_at) * 1000000)::bigint) ORDER BY id) AS rs FROM moving \gset
SELECT verdict, new_receipt = receipt, locked_until > now() + interval '59 min' FROM inbox_extend_batch('moving', :'rs', '1 h');
SELECT id, verdict FROM inbox_settle_batch('moving', :'rs', '{release,release,retry,done}');
SELECT tableoid::regclass, id, p, attempt, locked_until FROM moving ORDER BY id;
SELECT now() + interval '1 day' AS tomorrow \gset
CREATE TABLE timed (id bigint NOT NULL, due_at timestamptz NOT NULL, locked_until timestamptz, claimed_at timestamptz, PRIMARY KEY (id, due_at)) PARTITION BY RANGE (due_at);
CREATE TABLE timed_past PARTITION OF timed FOR VALUES FROM (MINVALUE) TO (:'tomorrow');
CREATE TABLE timed_future (claimed_at timestamptz, locked_until timestamptz, due_at timestamptz NOT NULL, id bigint NOT NULL);
ALTER TABLE timed ATTACH PARTITION timed_future FOR VALUES FROM (:'tomorrow') TO (MAXVALUE);
SELECT inbox_adopt('timed', claimed_at => 'claimed_at', due_at => 'due_at');
INSERT INTO timed VALUES (1, '2000-01-01'), (2, '2000-01-02');
SELECT receipt AS r FROM inbox_claim('timed') \gset
SELECT inbox_settle('timed', :'r', 'retry', '9 years');
SELECT tableoid::regclass, id, locked_until FROM timed ORDER BY id;
SELECT inbox_settle('timed', :'r'), (inbox_extend('timed', :'r')).verdict;
UPDATE timed SET due_at = '2000-01-01' WHERE id = 1;
SELECT id FROM inbox_claim('timed', 10);

\echo '# children that inherit'
CREATE TABLE parent (id int PRIMARY KEY, p text, locked_until timestamptz, claimed_at timestamptz, attempt int DEFAULT 1);
CREATE TABLE child (extra text) INHERITS (parent);
CREATE TABLE other (x int, locked_until timestamptz, attempt int DEFAULT 1, id int, claimed_at timestamptz, p text);
ALTER TABLE other ALTER id SET NOT NULL;
ALTER TABLE other INHERIT parent;
SELECT inbox_adopt('parent', claimed_at => 'claimed_at', attempt => 'attempt', payload => 'p');
INSERT INTO parent VALUES (1, 'a');
INSERT INTO child VALUES (2, 'b');
INSERT INTO other(id, p) VALUES (3, 'c');
SELECT id, payload, attempt FROM inbox_claim('parent', 10);
SELECT array_agg(format('%s@%s', id, (extract(epoch FROM claimed_at) * 1000000)::bigint) ORDER BY id) AS rs FROM parent \gset
SELECT verdict FROM inbox_extend_batch('parent', :'rs');
SELECT verdict FROM inbox_settle_batch('parent', :'rs', '{release}');
SELECT p.* FROM inbox_claim(NULL::parent, 10) q, LATERAL (SELECT q.id, q.p, q.attempt) p;
SELECT array_agg(format('%s@%s', id, (extract(epoch FROM claimed_at) * 1000000)::bigint) ORDER BY id) AS rs FROM parent \gset
SELECT verdict FROM inbox_settle_batch('parent', :'rs');
SELECT count(*) FROM parent;
-- a child may let go of what the parent promises, since 18 only if that lets it
DO $$
BEGIN
	IF current_setting('server_version_num')::int >= 180000 THEN
		EXECUTE 'ALTER TABLE parent ALTER CONSTRAINT parent_id_not_null NO INHERIT';
	END IF;
END
$$;
ALTER TABLE other ALTER id DROP NOT NULL;
INSERT INTO other(id, p) VALUES (NULL, 'nameless');
SELECT id FROM inbox_claim('parent');
DELETE FROM other;
-- a table that gets its first child while it is a queue
SELECT inbox_create('lonely');
INSERT INTO lonely(payload) VALUES ('1');
SELECT receipt AS r FROM inbox_claim('lonely') \gset
SELECT (inbox_extend('lonely', :'r')).verdict;
CREATE TABLE lonely_child () INHERITS (lonely);
INSERT INTO lonely_child(id, payload, due_at) VALUES (100, '2', now() - interval '1 h');
SELECT id FROM inbox_claim('lonely');
SELECT inbox_settle('lonely', :'r');
SELECT count(*) FROM inbox_settle_batch('lonely', ARRAY['100@1']) WHERE verdict = 'stale';

\echo '# unlogged'
CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz);
SELECT inbox_adopt('unlogged', claimed_at => 'claimed_at');
INSERT INTO unlogged VALUES (1);
SELECT inbox_settle('unlogged', receipt) FROM inbox_claim('unlogged');

DROP SCHEMA lease_types CASCADE;
