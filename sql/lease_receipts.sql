--
-- Receipts: unique, growing, opaque, and worth nothing in other hands
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS inbox;
RESET client_min_messages;
CREATE SCHEMA lease_receipts;
SET search_path = lease_receipts, public;
\pset format unaligned
\pset tuples_only on

SELECT inbox_create('created');
SET client_min_messages = error;
CREATE TABLE expiry (id text PRIMARY KEY, locked_until timestamptz, attempt int DEFAULT 1);
SELECT inbox_adopt('expiry', attempt => 'attempt');
CREATE TABLE texts (id text PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz);
SELECT inbox_adopt('texts', claimed_at => 'claimed_at');
CREATE TABLE ints (id int PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz);
SELECT inbox_adopt('ints', claimed_at => 'claimed_at');
CREATE TABLE uuids (id uuid PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz);
SELECT inbox_adopt('uuids', claimed_at => 'claimed_at');
RESET client_min_messages;

\echo '# <id>@<number>, the number being the claim instant or the expiry'
INSERT INTO created(payload) SELECT '1' FROM generate_series(1, 3);
INSERT INTO expiry SELECT i FROM generate_series(1, 3) i;
-- (a statement sees the queue as it was before its own claim)
CREATE TABLE c AS SELECT * FROM inbox_claim('created', 3);
CREATE TABLE e AS SELECT * FROM inbox_claim('expiry', 3);
SELECT count(*) FROM c JOIN created q ON q.id::text = c.id
WHERE receipt = format('%s@%s', q.id, (extract(epoch FROM claimed_at) * 1000000)::bigint);
SELECT count(*) FROM e AS c JOIN expiry q ON q.id = c.id
WHERE receipt = format('%s@%s', q.id, (extract(epoch FROM q.locked_until) * 1000000)::bigint)
	AND c.locked_until = q.locked_until;
DROP TABLE c, e;

\echo '# unique in a call and over calls, and growing per row where claimed_at is'
TRUNCATE created, expiry;
INSERT INTO created(payload) SELECT '1' FROM generate_series(1, 50);
INSERT INTO expiry SELECT i FROM generate_series(1, 50) i;
CREATE TABLE seen (queue text, id text, receipt text, no serial);
CREATE FUNCTION number(receipt text) RETURNS bigint LANGUAGE sql AS $$ SELECT substring(receipt FROM '@(\d+)$')::bigint $$;
-- in one transaction: claim, release, claim again, and so on
DO $$
DECLARE
	q text;
	taken text[];
BEGIN
	FOREACH q IN ARRAY '{created,expiry}'::text[] LOOP
		FOR i IN 1..15 LOOP
			WITH c AS (INSERT INTO seen SELECT q, id, c.receipt FROM inbox_claim(q, 50) c RETURNING receipt)
			SELECT array_agg(receipt) FROM c INTO taken;
			PERFORM inbox_settle_batch(q, taken, '{release}');
		END LOOP;
	END LOOP;
END $$;
SELECT queue, count(*), count(DISTINCT number(receipt)) FROM seen GROUP BY queue ORDER BY queue;
SELECT queue, bool_and(number(receipt) > before) FROM (SELECT queue, receipt, number(lag(receipt) OVER (PARTITION BY queue, id ORDER BY no)) AS before FROM seen) s
WHERE queue = 'created' GROUP BY queue;
-- also in a call that makes more leases than its instant has room for
CREATE TABLE many (id int PRIMARY KEY, locked_until timestamptz);
SET client_min_messages = error;
SELECT inbox_adopt('many');
RESET client_min_messages;
INSERT INTO many SELECT generate_series(1, 3000);
SELECT count(*), count(DISTINCT number(receipt)) FROM inbox_claim('many', 3000, '1 h');
SELECT count(*), count(DISTINCT number(new_receipt)) FROM inbox_extend_batch('many', ARRAY(SELECT inbox_receipt(m) FROM many m), '2 h');
DROP TABLE many;
-- all but the last of them are stale, and a call names which
TRUNCATE seen;
INSERT INTO seen SELECT 'created', id, receipt FROM inbox_claim('created', 50);
SELECT verdict, count(*) FROM inbox_settle_batch('created', (SELECT array_agg(receipt ORDER BY no) FROM seen), '{retry}', '{0}') GROUP BY verdict;
INSERT INTO seen SELECT 'created', id, receipt FROM inbox_claim('created', 50);
SELECT verdict, count(*), bool_and(no > 50) FROM seen JOIN
	inbox_settle_batch('created', (SELECT array_agg(receipt ORDER BY no) FROM seen)) USING (receipt) GROUP BY verdict ORDER BY verdict;

\echo '# growing although the clock was stepped back'
INSERT INTO created(payload, claimed_at) OVERRIDING SYSTEM VALUE VALUES ('1', now() + interval '1 h') RETURNING claimed_at \gset
SELECT receipt AS r1 FROM inbox_claim('created') \gset
SELECT number(:'r1') = (extract(epoch FROM :'claimed_at'::timestamptz) * 1000000)::bigint + 1;
SELECT inbox_settle('created', :'r1', 'release');
SELECT receipt AS r2 FROM inbox_claim('created') \gset
SELECT number(:'r2') - number(:'r1');
-- but that row alone
INSERT INTO created(payload) VALUES ('1');
SELECT number(receipt) < number(:'r1') FROM inbox_claim('created');
-- a claim instant at the end of time is as good as none
UPDATE created SET claimed_at = 'infinity', locked_until = NULL;
SELECT number(receipt) < number(:'r1') FROM inbox_claim('created', 2);
UPDATE created SET claimed_at = '-infinity', locked_until = NULL;
SELECT number(receipt) < number(:'r1') FROM inbox_claim('created', 2);
TRUNCATE created;

\echo '# the same whatever the session''s settings; through JSON'
INSERT INTO created(payload) VALUES ('1');
INSERT INTO expiry VALUES ('x') ON CONFLICT DO NOTHING;
UPDATE expiry SET locked_until = 'infinity' WHERE id <> 'x';
SET TimeZone = 'Asia/Kathmandu';
SET DateStyle = 'SQL, DMY';
SET IntervalStyle = 'iso_8601';
SET extra_float_digits = -5;
SELECT to_json(c)::text AS c, receipt AS cr FROM inbox_claim('created') c \gset
SELECT to_jsonb(c)::text AS e, receipt AS er FROM inbox_claim('expiry') c \gset
SELECT :'c'::json ->> 'receipt' = :'cr', :'e'::json ->> 'receipt' = :'er', :'cr' ~ '^\d+@\d{16}$', :'er' ~ '^x@\d{16}$';
SET TimeZone = 'America/Lima';
SELECT verdict, new_receipt = :'cr' FROM inbox_extend('created', :'c'::json ->> 'receipt', '2 h');
SELECT new_receipt AS er, verdict FROM inbox_extend('expiry', :'e'::json ->> 'receipt', '2 h') \gset
SELECT :'verdict';
RESET ALL;
SET search_path = lease_receipts, public;
SELECT inbox_settle('created', :'c'::json ->> 'receipt'), inbox_settle('expiry', :'er');

\echo '# a receipt in other hands: of another row, of another queue, made up'
INSERT INTO created(id, payload) VALUES (1, '1'), (2, '1');
INSERT INTO ints VALUES (1), (2);
CREATE TABLE c AS SELECT * FROM inbox_claim_ids('created', 2);
SELECT array_agg(number(receipt) ORDER BY id) AS n FROM c \gset
SELECT inbox_settle('created', format('2@%s', (:'n'::bigint[])[1]));
SELECT inbox_settle('created', format('1@%s', (:'n'::bigint[])[2]));
SELECT inbox_settle('created', format('3@%s', (:'n'::bigint[])[1]));
SELECT inbox_settle('created', format('1@%s', (:'n'::bigint[])[1] + 1));
SELECT inbox_settle('created', format('1@%s', (:'n'::bigint[])[1] - 1));
SELECT inbox_settle('ints', format('1@%s', (:'n'::bigint[])[1]));
SELECT receipt AS ir FROM inbox_claim('ints') \gset
SELECT inbox_settle('created', :'ir');
SELECT count(*) FROM created WHERE locked_until > now();

\echo '# malformed ones'
CREATE FUNCTION judged(q text, receipt text) RETURNS text LANGUAGE sql AS $$
	SELECT inbox_settle(q, receipt) || ' ' || (inbox_extend(q, receipt)).verdict || ' ' ||
		(SELECT verdict FROM inbox_settle_batch(q, ARRAY[receipt])) || ' ' ||
		(SELECT verdict FROM inbox_extend_batch(q, ARRAY[receipt]))
$$;
SELECT coalesce(receipt, 'NULL'), judged('created', receipt) FROM unnest(ARRAY[NULL, '', '@', '1', '1@', '@1', '1@x', 'x@1', '1@-1', '1@+1',
	'1@01', '01@1', '+1@1', '-0@1', ' 1@1', '1 @1', '1@ 1', '1@1 ', '1@1@1', '1@1.0', '1@1e3', '0x1@1', '1_0@1', '1@9223372036854775808',
	'9223372036854775808@1', '99999999999999999999999@1', '1@99999999999999999999999', '١@1', E'1@1\n', '1.0@1', 'NaN@1']) AS receipt;
-- well formed
SELECT coalesce(receipt, 'NULL'), judged('created', receipt) FROM unnest(ARRAY['1@0', '1@1', '-1@1', '0@0', '-9223372036854775808@0', '9223372036854775807@9223372036854775807']) AS receipt;
SELECT receipt, judged('ints', receipt) FROM unnest(ARRAY['2147483648@1', '-2147483649@1', '2147483647@1', '-2147483648@1']) AS receipt;
SELECT receipt, judged('uuids', receipt) FROM unnest(ARRAY['00000000-0000-0000-0000-00000000000a@1', '00000000-0000-0000-0000-00000000000A@1',
	'{00000000-0000-0000-0000-00000000000a}@1', '0000000000000000000000000000000a@1', '00000000-0000-0000-0000-00000000000@1',
	'00000000-0000-0000-0000-00000000000a0@1', '00000000-0000-0000-0000_00000000000a@1', '@1', '00000000@1']) AS receipt;
SELECT length(receipt), judged('texts', receipt) FROM unnest(ARRAY[repeat('x', 100000) || '@1', repeat('@', 1000) || '1', '@0', '0@']) AS receipt;

\echo '# ids that are text'
INSERT INTO texts SELECT unnest(ARRAY['', ' ', 'a b', 'a@b', '@', '@@1', 'a@1234567890123456', E'tab\tand\nline', 'ärger', '鍵', 'it''s', '"q"', E'\\', '1', '01', 'NULL', 'A', 'a', 'a ']);
CREATE TABLE t AS SELECT * FROM inbox_claim_ids('texts', 100);
SELECT count(*), bool_and(receipt LIKE '%@%') FROM t;
SELECT id, receipt = format('%s@%s', id, (extract(epoch FROM claimed_at) * 1000000)::bigint) FROM t JOIN texts USING (id) WHERE id LIKE '%@%' ORDER BY id COLLATE "C";
SELECT (inbox_extend('texts', receipt)).verdict, count(*) FROM t GROUP BY 1;
SELECT s.id = t.id, verdict, count(*) FROM inbox_settle_batch('texts', (SELECT array_agg(receipt) FROM t)) s JOIN t USING (receipt) GROUP BY 1, 2;
SELECT count(*) FROM texts;
-- ids that the column's collation calls equal are not the same receipt
DO $$
BEGIN
	CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
EXCEPTION WHEN OTHERS THEN	-- a server without ICU has no such thing
	CREATE COLLATION nocase FROM "C";
END $$;
CREATE TABLE folded (id text COLLATE nocase PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz);
SET client_min_messages = error;
SELECT inbox_adopt('folded', claimed_at => 'claimed_at');
RESET client_min_messages;
INSERT INTO folded VALUES ('Key');
SELECT receipt AS r FROM inbox_claim('folded') \gset
SELECT inbox_settle('folded', lower(:'r')), (inbox_extend('folded', upper(:'r'))).verdict;
SELECT id, verdict FROM inbox_settle_batch('folded', ARRAY[lower(:'r'), :'r', upper(:'r')]);

\echo '# ids that are uuids'
INSERT INTO uuids VALUES ('0A1B2C3D-4E5F-6071-8293-A4B5C6D7E8F9');
SELECT id, receipt AS r FROM inbox_claim('uuids') \gset
SELECT :'id', inbox_settle('uuids', upper(:'r')), inbox_settle('uuids', :'r');

\echo '# negative ids'
INSERT INTO ints VALUES (-2147483648), (0), (2147483647);
SELECT string_agg(id, ' '), array_agg(receipt) AS rs FROM inbox_claim('ints', 10) \gset
SELECT id, verdict FROM inbox_settle_batch('ints', :'rs');

\echo '# one verdict for each receipt, in their order; a mixed batch'
SELECT inbox_create('mixed', max_attempts => 2);
INSERT INTO mixed(id, payload) SELECT i, to_jsonb(i) FROM generate_series(1, 8) i;
CREATE TABLE m AS SELECT * FROM inbox_claim_ids('mixed', 7);
SELECT verdict FROM m, inbox_settle('mixed', receipt, 'dead') WHERE id = '4';
UPDATE mixed SET locked_until = now() WHERE id = 2;
SELECT array_agg(receipt ORDER BY id) AS m FROM m \gset
SELECT receipt AS new2 FROM inbox_claim('mixed') \gset
SELECT split_part(s.receipt, '@', 1), s.id, verdict FROM (SELECT :'m'::text[] AS m) m, inbox_settle_batch('mixed',
	ARRAY[m[1], m[2], '77@1', m[1], m[4], m[5], 'garbage', NULL, m[2], m[3]],
	'{done,done,done,done,done,retry,done,done,done,release}') s;
SELECT id, attempt, locked_until IS NOT NULL, due_at > now() FROM mixed ORDER BY id;
SELECT split_part(s.receipt, '@', 1), s.id, verdict FROM (SELECT :'m'::text[] AS m) m, inbox_settle_batch('mixed',
	ARRAY[m[1], m[2], '77@1', m[1], m[4], m[5], 'garbage', NULL, m[2], m[3]],
	'{done,done,done,done,done,retry,done,done,done,release}') s;
SELECT id, attempt, locked_until IS NOT NULL, due_at > now() FROM mixed ORDER BY id;
SELECT split_part(s.receipt, '@', 1), verdict, new_receipt = s.receipt, s.locked_until > now() + interval '59 min' FROM (SELECT :'m'::text[] AS m) m,
	inbox_extend_batch('mixed', ARRAY[m[7], NULL, m[6], m[7], m[2], '', m[1], m[4]], '1 h') s;
-- the empty batch
SELECT count(*) FROM inbox_settle_batch('mixed', '{}');
SELECT count(*) FROM inbox_extend_batch('mixed', '{}');
-- one receipt a thousand times, and a thousand numbers for one row
SELECT verdict, count(*) FROM inbox_extend_batch('mixed', array_fill(:'new2'::text, ARRAY[1000])) GROUP BY 1 ORDER BY 1;
SELECT verdict, count(*) FROM inbox_settle_batch('mixed', (SELECT array_agg('2@' || i) FROM generate_series(1, 1000) i) || ARRAY[:'new2'::text] || ARRAY[:'new2'::text]) GROUP BY 1 ORDER BY 1;

SET client_min_messages = warning;
DROP SCHEMA lease_receipts CASCADE;
