--
-- How a name becomes a queue: as regclass resolves it
--
SET client_min_messages = error;
CREATE EXTENSION IF NOT EXISTS inbox;
CREATE SCHEMA lease_names;
CREATE SCHEMA "lease Names";
SET search_path = lease_names, public;
\pset format unaligned
\pset tuples_only on

-- a queue of that name, with one row; then each function by that name
CREATE FUNCTION round_trip(q text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r text;
	found regclass;
	result text;
BEGIN
	EXECUTE format('SELECT %L::regclass', q) INTO found;
	EXECUTE format('INSERT INTO %s (payload) VALUES (''1'')', found);
	SELECT receipt INTO STRICT r FROM inbox_claim(q);
	result := (inbox_extend(q, r)).verdict;
	result := concat_ws(' ', result, (SELECT verdict FROM inbox_extend_batch(q, ARRAY[r])));
	result := concat_ws(' ', result, inbox_settle(q, r, 'release'));
	SELECT receipt INTO STRICT r FROM inbox_claim_ids(q);
	result := concat_ws(' ', result, (SELECT verdict FROM inbox_settle_batch(q, ARRAY[r], '{release}')));
	EXECUTE format('SELECT inbox_receipt(x) FROM inbox_claim(NULL::%s) x', found) INTO STRICT r;
	result := concat_ws(' ', result, inbox_settle(q, r, 'release'));
	EXECUTE format('SELECT receipt FROM inbox_stamp(%L, ARRAY(SELECT id::text FROM %s))', q, found) INTO STRICT r;
	result := concat_ws(' ', result, (SELECT count(*) FROM inbox_next(q, ARRAY[r])));
	EXECUTE format('SELECT count(*) || %L FROM %s', ' ' || result, found) INTO result;
	RETURN result;
END $$;

\echo '# spaces, capitals, quotes, unicode, dots, dollars, 63 bytes'
SELECT n, inbox_create(n), round_trip(n) FROM unnest(ARRAY['plain', 'UPPER', '"Mixed Case"', '"with ""quotes"""', '"it''s"', '"a.b"', '"$1"', '"%s%n"', '"select"',
	'"ärger"', '"鍵"', 'mötley', '"  "', '"123"', '"-"', E'"tab\tline\n"', '"\back"', repeat('n', 63), '"lease Names"."Q q"', 'lease_names.other']) AS n;
-- of an adopted table, with columns named likewise
CREATE TABLE "Odd Table" ("Id ""x""" bigint PRIMARY KEY, "select" timestamptz, "ctid?" timestamptz, "Attempt №" int DEFAULT 1, "$1" jsonb,
	"due.at" timestamptz DEFAULT now(), " " int DEFAULT 0, q text, "%d" text, "processed	at" timestamptz, "it's" text);
SELECT inbox_adopt('"Odd Table"', 'Id "x"', 'select', 'ctid?', 'Attempt №', '$1', due_at => 'due.at', priority => ' ', group_key => 'q', partition_key => '%d',
	processed_at => 'processed	at', last_error => 'it''s');
INSERT INTO "Odd Table"("Id ""x""", "$1", q) VALUES (1, '1', 'g'), (2, '2', 'h');
SELECT id, receipt AS r, payload, attempt, group_key FROM inbox_claim('"Odd Table"', group_key => 'h') \gset
SELECT :'id', :'payload', :'attempt', :'group_key', (inbox_extend('"Odd Table"', :'r')).verdict, inbox_settle('"Odd Table"', :'r', 'retry', error => 'x');
SELECT "Id ""x""", q, "Attempt №" FROM inbox_claim(NULL::"Odd Table");
SELECT inbox_settle('"Odd Table"', inbox_receipt(o)) FROM "Odd Table" o WHERE "Id ""x""" = 1;
SELECT "Id ""x""", "Attempt №", "it's", "processed	at" IS NOT NULL FROM "Odd Table" ORDER BY 1;
-- names that could be taken for something else in the SQL of a claim
CREATE TABLE "values" (tid int PRIMARY KEY, "order" timestamptz, "limit" timestamptz, old int, new int);
SELECT inbox_adopt('values', 'tid', 'order', 'limit', 'old', priority => 'new');
INSERT INTO "values" VALUES (1, NULL, NULL, 1, 1);
SELECT inbox_settle('values', receipt, 'release'), inbox_settle('values', receipt) FROM inbox_claim('values');

\echo '# as regclass would'
CREATE FUNCTION named(q text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	reg text;
	inbox text;
BEGIN
	BEGIN
		EXECUTE format('SELECT %L::regclass', q) INTO reg;
	EXCEPTION
		-- servers word a missing schema in two ways
		WHEN invalid_schema_name OR undefined_table THEN reg := 'none';
		WHEN OTHERS THEN reg := SQLSTATE || ' ' || SQLERRM;
	END;
	BEGIN
		inbox := (SELECT count(*) FROM inbox_claim(q, 0));
	EXCEPTION WHEN OTHERS THEN inbox := SQLSTATE || ' ' || SQLERRM;
	END;
	RETURN reg || ' | ' || inbox;
END $$;
SELECT n, named(n) FROM unnest(ARRAY['plain', 'PLAIN', ' plain ', '"plain"', '"PLAIN"', 'lease_names.plain', 'LEASE_NAMES . PLAIN', '"lease_names".plain', 'upper', '"UPPER"', '"upper"',
	'Mixed Case', '"Mixed Case"', '"mixed case"', 'lease Names.Q q', '"lease Names"."Q q"', '', ' ', '"', '""', '.', 'plain.', '.plain', 'a.b.c.d', 'no_such', 'no_such.plain', 'lease_names.no_such',
	'plain; DROP TABLE plain', 'plain--', 'pg_class', 'information_schema.tables', '0', '123', '99999999999', '-1', '1.5', '007', '１']) AS n;
SELECT current_database() || '.lease_names.plain' AS full, 'other_db.lease_names.plain' AS foreign \gset
SELECT named(:'full') = 'plain | 0', named(:'foreign');
-- longer than a name can be: cut off, as it is everywhere
SELECT named(repeat('n', 70)) = named(repeat('n', 63)), named('"' || repeat('n', 70) || '"') LIKE 'nnn%| 0';
-- by OID
SELECT 'plain'::regclass::oid::text AS oid \gset
SELECT named(:'oid'), round_trip(:'oid');
SELECT named('4294967295');

\echo '# search path'
CREATE SCHEMA lease_names_2;
SELECT inbox_create('lease_names_2.plain');
INSERT INTO plain(payload) VALUES ('"first"');
INSERT INTO lease_names_2.plain(payload) VALUES ('"second"');
BEGIN;
SELECT payload FROM inbox_claim('plain');
SET LOCAL search_path = lease_names_2, lease_names, public;
SELECT payload FROM inbox_claim('plain');
SELECT payload FROM inbox_claim('lease_names.plain', 10);
SET LOCAL search_path = public;
SELECT payload FROM inbox_claim('plain');
ROLLBACK;
-- the functions need nothing in the path, whatever hides the operators
CREATE SCHEMA lease_names_evil;
CREATE FUNCTION lease_names_evil.lies(timestamptz, timestamptz) RETURNS boolean LANGUAGE sql AS 'SELECT pg_catalog.random() < 2';
CREATE FUNCTION lease_names_evil.lies(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT pg_catalog.random() > 2';
CREATE FUNCTION lease_names_evil.lies(int, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT pg_catalog.random() > 2';
CREATE FUNCTION lease_names_evil.lies(tid, tid) RETURNS boolean LANGUAGE sql AS 'SELECT pg_catalog.random() < 2';
CREATE OPERATOR lease_names_evil.<= (FUNCTION = lease_names_evil.lies, LEFTARG = timestamptz, RIGHTARG = timestamptz);
CREATE OPERATOR lease_names_evil.= (FUNCTION = lease_names_evil.lies, LEFTARG = bigint, RIGHTARG = bigint);
CREATE OPERATOR lease_names_evil.= (FUNCTION = lease_names_evil.lies, LEFTARG = int, RIGHTARG = bigint);
CREATE OPERATOR lease_names_evil.= (FUNCTION = lease_names_evil.lies, LEFTARG = tid, RIGHTARG = tid);
CREATE FUNCTION lease_names_evil.to_jsonb(anyelement) RETURNS jsonb LANGUAGE sql AS $$ SELECT '"evil"'::pg_catalog.jsonb $$;
CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN coalesce(NEW, OLD); END';
CREATE TABLE victim (id bigint PRIMARY KEY, due_at timestamptz, locked_until timestamptz, claimed_at timestamptz, priority int, p text);
CREATE TRIGGER t BEFORE UPDATE OR DELETE ON victim FOR EACH ROW EXECUTE FUNCTION pass();
SELECT inbox_adopt('victim', claimed_at => 'claimed_at', due_at => 'due_at', priority => 'priority', payload => 'p');
INSERT INTO victim VALUES (1, now() - interval '1 h', NULL, NULL, 1, 'a'), (2, now() + interval '1 h', NULL, NULL, 1, 'b'), (3, now(), now() + interval '1 h', NULL, 1, 'c');
SELECT oid AS extension_schema FROM pg_namespace WHERE oid = (SELECT extnamespace FROM pg_extension WHERE extname = 'inbox') \gset
SELECT format('SET search_path = lease_names_evil, pg_catalog, lease_names, %I', :extension_schema::regnamespace::text) \gexec
CREATE TABLE lease_names.got AS SELECT * FROM inbox_claim('victim', 10);
RESET search_path;
SET search_path = lease_names, public;
SELECT id, payload FROM got;
SELECT id, locked_until > now() FROM victim ORDER BY id;
SELECT format('SET search_path = lease_names_evil, pg_catalog, lease_names, %I', :extension_schema::regnamespace::text) \gexec
SELECT verdict, new_receipt OPERATOR(pg_catalog.=) receipt FROM got, inbox_extend('victim', receipt);
SELECT inbox_settle('victim', receipt) FROM got;
RESET search_path;
SET search_path = lease_names, public;
SELECT id FROM victim ORDER BY id;

\echo '# a temporary table hides a queue'
CREATE TEMP TABLE plain (id int);
SELECT named('plain'), named('lease_names.plain'), named('pg_temp.plain');
DROP TABLE plain;
SELECT named('plain');

DROP SCHEMA lease_names, "lease Names", lease_names_2, lease_names_evil CASCADE;
