--
-- Sends to tables that inbox did not make: other names, types, triggers
--
SET client_min_messages = error;
CREATE EXTENSION IF NOT EXISTS inbox;
CREATE SCHEMA "Send Adopt";
SET search_path = "Send Adopt", public;
\pset format unaligned

CREATE FUNCTION try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
	message text;
	detail text;
	hint text;
BEGIN
	EXECUTE statement INTO result;
	RETURN coalesce(result, 'null');
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT,
		detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(E'\n  ', SQLSTATE || ': ' || message,
					 nullif(detail, ''), nullif(hint, ''));
END $$;

--
-- Hostile names, keys that are uuids, every role
--
CREATE TABLE "My ""Q""" (
	"The Id" uuid PRIMARY KEY DEFAULT gen_random_uuid(),
	"leased TILL" timestamptz,
	"a""b" text NOT NULL,
	"select" json,
	"Due" timestamptz NOT NULL DEFAULT 'epoch',
	"from" smallint NOT NULL DEFAULT 5,
	"G K" varchar(4) DEFAULT 'dflt',
	"P K" text,
	"d'k" varchar(3),
	"done at" timestamptz
);
CREATE UNIQUE INDEX ON "My ""Q""" ("d'k") WHERE "d'k" IS NOT NULL AND "done at" IS NULL;
SELECT inbox_adopt('"My ""Q"""', id => 'The Id', locked_until => 'leased TILL',
	payload => 'a"b', headers => 'select', due_at => 'Due', priority => 'from',
	group_key => 'G K', partition_key => 'P K', dedup_key => 'd''k',
	processed_at => 'done at');
SELECT inbox_send('"My ""Q"""', '"x"', headers => '{"b":1,"a":2}', priority => 3,
	group_key => 'g', partition_key => 'p', dedup_key => 'd')::uuid IS NOT NULL AS sent;
SELECT "a""b", "select", "Due" = 'epoch' AS default_due, "from", "G K", "P K", "d'k" FROM "My ""Q""";
SELECT "The Id"::text = inbox_send('"Send Adopt"."My ""Q"""', '"y"', dedup_key => 'd') AS same
FROM "My ""Q""";
-- a NULL element means the column's default, as a NULL argument does
SELECT count(DISTINCT id) FROM inbox_send_batch('"My ""Q"""', '{1, 2, 3}',
	group_keys => '{a, NULL, b}', dedup_keys => '{abc, "abc  ", NULL}') id;
SELECT "a""b", "from", "G K", length("d'k") FROM "My ""Q""" ORDER BY 1;
SELECT try($$SELECT inbox_send('"My ""Q"""', '1', group_key => 'hello')$$);
SELECT try($$SELECT inbox_send('"My ""Q"""', '1', dedup_key => 'hello')$$);
SELECT try($$SELECT inbox_send('"My ""Q"""', '1', priority => 40000)$$);
SELECT try($$SELECT inbox_send('"My ""Q"""', 'null')$$);
SELECT try($$SELECT inbox_send_batch('"My ""Q"""', '{1, 2, "null"}')$$);
SELECT try($$SELECT inbox_send_batch('"My ""Q"""', ARRAY['1', 'null']::jsonb[])$$);
-- the index that decides who is first must be there
DROP INDEX "My ""Q""_d'k_idx";
SELECT try($$SELECT inbox_send('"My ""Q"""', '1', dedup_key => 'd')$$);
SELECT inbox_send('"My ""Q"""', '1') IS NOT NULL AS sent;
DROP TABLE "My ""Q""";

--
-- Payload types: what goes in comes out as to_jsonb(value)
--
CREATE TYPE pair AS (a int, b text[]);
CREATE DOMAIN even AS int CHECK (VALUE % 2 = 0);
CREATE DOMAIN ints AS int[] NOT NULL;
CREATE FUNCTION round_trip(type text, VARIADIC payloads jsonb[])
RETURNS TABLE (stored text, same boolean) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, locked_until timestamptz, payload %s)', type);
	PERFORM inbox_adopt('t', payload => 'payload');
	FOR i IN 1..cardinality(payloads) LOOP
		PERFORM inbox_send('t', payloads[i]);
	END LOOP;
	PERFORM inbox_send_batch('t', payloads);
	RETURN QUERY EXECUTE
		'SELECT (SELECT payload::text FROM t WHERE id = n),
			to_jsonb((SELECT payload FROM t WHERE id = n)) IS NOT DISTINCT FROM nullif(p, ''null'')
			AND (SELECT payload::text FROM t WHERE id = n) IS NOT DISTINCT FROM
			(SELECT payload::text FROM t WHERE id = n + cardinality($1))
		FROM unnest($1) WITH ORDINALITY AS u(p, n)' USING payloads;
	DROP TABLE t;
END $$;
SELECT * FROM round_trip('jsonb', '1', '"x"', '{"a": [1, null]}');
SELECT * FROM round_trip('json', '1', '"x"', '{"a": [1, null]}');
SELECT * FROM round_trip('text', '"abc"', '""', '"quo\"te\\"', 'null');
SELECT * FROM round_trip('varchar(3)', '"abc"');
SELECT * FROM round_trip('bytea', '"\\x00ff"', '"\\x"');
SELECT * FROM round_trip('int', '42', 'null');
SELECT * FROM round_trip('numeric(6,2)', '1234.50');
SELECT * FROM round_trip('boolean', 'true', 'false');
SELECT * FROM round_trip('timestamptz', '"infinity"');
SELECT * FROM round_trip('int[]', '[1, 2, null]', '[]', '[[1], [2]]', 'null');
SELECT * FROM round_trip('pair', '{"a": 1, "b": ["x", null]}', 'null');
SELECT * FROM round_trip('pair[]', '[{"a": 1, "b": null}]');
SELECT * FROM round_trip('even', '2');
SELECT * FROM round_trip('ints', '[1, 2]');
-- what has no other form is stored as its JSON text
SELECT stored FROM round_trip('text', '[1, 2]', '{"a": 1}', '1.50', 'true');
SELECT try($$SELECT * FROM round_trip('even', '3')$$);
SELECT try($$SELECT * FROM round_trip('even', '{}')$$);
SELECT try($$SELECT * FROM round_trip('ints', 'null')$$);
SELECT try($$SELECT * FROM round_trip('int', '"x"')$$);
SELECT try($$SELECT * FROM round_trip('varchar(3)', '"abcd"')$$);
SELECT try($$SELECT * FROM round_trip('int[]', '{"a": 1}')$$);

--
-- Arguments whose role the queue lacks; row mode
--
CREATE TABLE bare (id bigserial PRIMARY KEY, locked_until timestamptz, a int DEFAULT 7);
SELECT inbox_adopt('bare');
SELECT try($$SELECT inbox_send('bare', '1')$$);
SELECT try($$SELECT inbox_send('bare', NULL, headers => '1')$$);
SELECT try($$SELECT inbox_send('bare', NULL, delay => '1 s')$$);
SELECT try($$SELECT inbox_send('bare', NULL, due_at => now())$$);
SELECT try($$SELECT inbox_send('bare', NULL, priority => 1)$$);
SELECT try($$SELECT inbox_send('bare', NULL, group_key => 'g')$$);
SELECT try($$SELECT inbox_send('bare', NULL, partition_key => 'g')$$);
SELECT try($$SELECT inbox_send('bare', NULL, dedup_key => 'g')$$);
SELECT try($$SELECT inbox_send_batch('bare', '{NULL}', dedup_keys => '{g}')$$);
SELECT try($$SELECT inbox_send_batch('bare', '{NULL, 1}')$$);
SELECT inbox_send('bare', NULL);
SELECT inbox_send_batch('bare', '{NULL, NULL}');
SELECT * FROM bare ORDER BY id;

--
-- Who makes the id
--
-- a serial's sequence has rights of its own, an identity column's has not
CREATE TABLE ident (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, locked_until timestamptz, payload jsonb);
SELECT inbox_adopt('ident', payload => 'payload');
CREATE ROLE regress_inbox_sender;
GRANT USAGE ON SCHEMA "Send Adopt" TO regress_inbox_sender;
GRANT INSERT ON ident, bare TO regress_inbox_sender;
SET ROLE regress_inbox_sender;
SELECT inbox_send('ident', '1');
SELECT try($$SELECT inbox_send('bare', NULL)$$);
RESET ROLE;
GRANT USAGE ON SEQUENCE bare_id_seq TO regress_inbox_sender;
SET ROLE regress_inbox_sender;
SELECT inbox_send('bare', NULL);
RESET ROLE;
-- nobody
CREATE TABLE own_id (id text PRIMARY KEY, locked_until timestamptz, payload text, dedup text);
CREATE UNIQUE INDEX ON own_id (dedup) WHERE dedup IS NOT NULL;
SELECT inbox_adopt('own_id', payload => 'payload', dedup_key => 'dedup');
SELECT try($$SELECT inbox_send('own_id', '1')$$);
-- a trigger; this one also leaves rows out
CREATE FUNCTION make_id() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.payload = 'skip' THEN
		RETURN NULL;
	END IF;
	NEW.id = 'id of ' || coalesce(NEW.payload, 'nothing');
	RETURN NEW;
END $$;
CREATE TRIGGER make_id BEFORE INSERT ON own_id FOR EACH ROW EXECUTE FUNCTION make_id();
SELECT inbox_send('own_id', '1');
SELECT inbox_send('own_id', NULL);
SELECT inbox_send('own_id', '"skip"');
SELECT inbox_send_batch('own_id', ARRAY['2', '"skip"', '3']::jsonb[]);
SELECT inbox_send('own_id', '4', dedup_key => 'k');
SELECT inbox_send('own_id', '5', dedup_key => 'k');
SELECT inbox_send_batch('own_id', '{6, 7, 8}', dedup_keys => '{l, k, l}');
SELECT try($$SELECT inbox_send('own_id', '"skip"', dedup_key => 's')$$);
SELECT * FROM own_id ORDER BY id;
GRANT INSERT ON own_id TO regress_inbox_sender;
SET ROLE regress_inbox_sender;
SELECT try($$SELECT inbox_send('own_id', '9')$$);
RESET ROLE;
-- the default counts even where a trigger may change it
ALTER TABLE own_id ALTER id SET DEFAULT 'x', DISABLE TRIGGER make_id;
SELECT inbox_send('own_id', '10');
-- an expression
CREATE TABLE derived (id text GENERATED ALWAYS AS ('id-' || payload) STORED PRIMARY KEY,
	locked_until timestamptz, payload text);
SELECT inbox_adopt('derived', payload => 'payload');
SELECT inbox_send('derived', '1');
SELECT inbox_send_batch('derived', '{2, 3}');

--
-- Everything that an INSERT does
--
CREATE TABLE parent (id int PRIMARY KEY);
INSERT INTO parent VALUES (1);
CREATE TABLE full_of (
	id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
	locked_until timestamptz,
	payload int CHECK (payload < 100) REFERENCES parent,
	twice int GENERATED ALWAYS AS (payload * 2) STORED,
	number bigint GENERATED ALWAYS AS IDENTITY (START 50)
);
CREATE TABLE seen (id bigint, rows bigint);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO seen SELECT NEW.id, count(*) FROM full_of;
	RETURN NULL;
END $$;
CREATE TRIGGER note AFTER INSERT ON full_of FOR EACH ROW EXECUTE FUNCTION note();
SELECT inbox_adopt('full_of', payload => 'payload', triggers => false);
SELECT inbox_send('full_of', '1');
SELECT inbox_send_batch('full_of', '{1, 1}');
SELECT try($$SELECT inbox_send('full_of', '100')$$);
SELECT try($$SELECT inbox_send('full_of', '2')$$);
SELECT * FROM full_of ORDER BY id;
SELECT * FROM seen ORDER BY id;
-- partitions; a trigger on one of them may change the id
CREATE TABLE parts (id bigint GENERATED ALWAYS AS IDENTITY, locked_until timestamptz,
	payload int, part int DEFAULT 1, PRIMARY KEY (id, part)) PARTITION BY LIST (part);
CREATE TABLE part1 PARTITION OF parts FOR VALUES IN (1);
SELECT inbox_adopt('parts', payload => 'payload');
SELECT inbox_send('parts', '1');
SELECT inbox_send_batch('parts', '{2, 3}');
CREATE FUNCTION other_id() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN NEW.id = NEW.id + 1000; RETURN NEW; END $$;
CREATE TRIGGER other_id BEFORE INSERT ON part1 FOR EACH ROW EXECUTE FUNCTION other_id();
SELECT inbox_send('parts', '4');
SELECT inbox_send_batch('parts', '{5, 6}');
SELECT tableoid::regclass, id, payload FROM parts ORDER BY id;
DROP TRIGGER other_id ON part1;
SELECT inbox_send('parts', '7');
-- the table changes between two sends of a session
ALTER TABLE parts RENAME COLUMN payload TO body;
ALTER TABLE parts ADD COLUMN more text NOT NULL DEFAULT 'm';
SELECT inbox_send('parts', '8');
ALTER TABLE parts ALTER COLUMN body TYPE text;
SELECT inbox_send('parts', '"nine"');
ALTER TABLE parts RENAME TO pieces;
SELECT inbox_send('pieces', '"ten"');
SELECT body, more FROM pieces ORDER BY id;

DROP SCHEMA "Send Adopt" CASCADE;
DROP ROLE regress_inbox_sender;
