--
-- inbox_adopt: what it takes, what it warns of, what it refuses
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS inbox;
RESET client_min_messages;
CREATE SCHEMA setup_adopt;
SET search_path = setup_adopt, public;
\pset format unaligned
\pset tuples_only on

-- what an error says, or the result
CREATE FUNCTION try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
	message text;
	detail text;
	hint text;
BEGIN
	IF statement !~ '^SELECT' THEN
		EXECUTE statement;
		RETURN 'ok';
	END IF;
	EXECUTE statement INTO result;
	RETURN coalesce(result, 'null');
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT,
		detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(E'\n  ', SQLSTATE || ': ' || message,
					 nullif(detail, ''), nullif(hint, ''));
END $$;

-- adopt, and forget again
CREATE FUNCTION adopt(rel text, arguments text = '') RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	result text = try(format('SELECT inbox_adopt(%L%s)', rel, ', ' || nullif(arguments, '')));
BEGIN
	IF result !~ '^.....: ' THEN
		PERFORM inbox_forget(rel);
	END IF;
	RETURN result;
END $$;

-- labels, tokens left out
CREATE VIEW labels AS
SELECT objoid::regclass::text AS rel,
	coalesce((SELECT attname FROM pg_attribute
			  WHERE attrelid = objoid AND attnum = objsubid AND objsubid > 0),
			 '') AS col,
	regexp_replace(label, '"[0-9a-f]{32}"', '"..."', 'g') AS label
FROM pg_seclabel WHERE provider = 'inbox'
	AND (SELECT relnamespace FROM pg_class WHERE oid = objoid) = 'setup_adopt'::regnamespace;

--
-- The least a table needs, and the most it can say
--
CREATE TABLE least (id int PRIMARY KEY, locked_until timestamptz);
SELECT inbox_adopt('least');
SELECT * FROM labels ORDER BY rel COLLATE "C", col COLLATE "C";
SELECT inbox_forget('least');
SELECT count(*) FROM labels;
CREATE TABLE "Most ""of it" (
	"the id;" uuid PRIMARY KEY,
	"LOCKED until" timestamptz,
	"claimed""at" timestamp(6) with time zone,
	"Versuch №" smallint DEFAULT 0,
	"select" bytea,
	h json,
	"when" timestamptz,
	prio bigint,
	g varchar(20),
	p text,
	created timestamptz,
	finished timestamptz,
	err varchar,
	dedup varchar(40),
	gone int,
	something_else point
);
ALTER TABLE "Most ""of it" DROP COLUMN gone;
CREATE INDEX ON "Most ""of it" (prio, "when", "the id;") INCLUDE (created) WHERE finished IS NULL;
CREATE UNIQUE INDEX ON "Most ""of it" (dedup) WHERE finished IS NULL AND dedup IS NOT NULL;
CREATE TABLE "Most_dead" (LIKE "Most ""of it", died_at timestamptz, cause text, rest jsonb);
SELECT inbox_adopt('"Most ""of it"', id => 'the id;', locked_until => 'LOCKED until',
	claimed_at => 'claimed"at', attempt => 'Versuch №', payload => 'select', headers => 'h',
	due_at => 'when', priority => 'prio', group_key => 'g', partition_key => 'p',
	enqueued_at => 'created', processed_at => 'finished', last_error => 'err',
	dedup_key => 'dedup', lease => '5 min', max_attempts => 3, dead_letter => '"Most_dead"',
	backoff => '2 s', backoff_max => '3 s', retention => '1 day', triggers => false);
SELECT * FROM labels ORDER BY rel COLLATE "C", col COLLATE "C";
-- labels follow a rename of column, table, dead-letter table and schema
ALTER TABLE "Most ""of it" RENAME COLUMN "the id;" TO "other id";
ALTER TABLE "Most ""of it" RENAME TO renamed;
ALTER TABLE "Most_dead" RENAME TO renamed_dead;
ALTER SCHEMA setup_adopt RENAME TO setup_adopted;
SET search_path = setup_adopted, public;
SELECT inbox_alter('renamed', lease => '6 min');
SELECT rel, col, label FROM labels WHERE col IN ('', 'other id') ORDER BY rel COLLATE "C", col COLLATE "C";
ALTER SCHEMA setup_adopted RENAME TO setup_adopt;
SET search_path = setup_adopt, public;
-- and go with a dropped column; a required one leaves a queue that says so
ALTER TABLE renamed DROP COLUMN p;
SELECT inbox_alter('renamed', lease => '7 min');
ALTER TABLE renamed DROP COLUMN "LOCKED until";
SELECT try('SELECT inbox_alter(''renamed'', lease => ''8 min'')');
SELECT inbox_forget('renamed');
SELECT count(*) FROM labels;
-- so does a column that has got another type
SELECT inbox_adopt('least');
ALTER TABLE least ALTER COLUMN locked_until TYPE timestamptz(0);
SELECT try('SELECT inbox_alter(''least'', lease => ''8 min'')');
ALTER TABLE least ALTER COLUMN locked_until TYPE timestamptz;
SELECT inbox_alter('least', lease => '8 min');
SELECT inbox_drop('least');
DROP TABLE renamed, renamed_dead;

--
-- Every kind of id, payload and attempt
--
SET client_min_messages = error;
CREATE TABLE types (id text, locked_until timestamptz, payload jsonb, attempt bigint);
ALTER TABLE types ADD PRIMARY KEY (id);
SELECT adopt('types');
SELECT try('ALTER TABLE types ALTER id TYPE ' || t || ' USING NULL')
	|| ' ' || adopt('types') FROM unnest('{uuid,int,bigint,smallint,varchar,numeric}'::text[]) t;
ALTER TABLE types ALTER id TYPE bigint USING NULL;
SELECT try('ALTER TABLE types ALTER payload TYPE ' || t || ' USING NULL')
	|| ' ' || adopt('types', 'payload => ''payload''')
FROM unnest('{json,bytea,text,point}'::text[]) t;
SELECT try('ALTER TABLE types ALTER attempt TYPE ' || t || ' USING NULL')
	|| ' ' || adopt('types', 'attempt => ''attempt''')
FROM unnest('{smallint,int,bigint,numeric,text}'::text[]) t;
ALTER TABLE types ALTER attempt TYPE int USING NULL;
-- where attempts start
CREATE FUNCTION base(def text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE 'ALTER TABLE types ALTER attempt SET DEFAULT ' || def;
	IF adopt('types', 'attempt => ''attempt''') ~ ': ' THEN
		RETURN adopt('types', 'attempt => ''attempt''');
	END IF;
	PERFORM inbox_adopt('types', attempt => 'attempt');
	RETURN (SELECT label::jsonb->>'attempt_base' FROM labels WHERE rel = 'types' AND col = '')
		|| inbox_forget('types')::text;
END $$;
SELECT d || ': ' || base(d) FROM unnest(ARRAY['0', '1', '2 - 1', 'NULL', '2', '-1', 'random()::int']) d;
ALTER TABLE types ALTER attempt DROP DEFAULT;
SELECT inbox_adopt('types', attempt => 'attempt');
SELECT label::jsonb->>'attempt_base' FROM labels WHERE rel = 'types' AND col = '';
DROP TABLE types;
RESET client_min_messages;

--
-- Not a table for a queue
--
CREATE TABLE parted (id int, locked_until timestamptz, r int, PRIMARY KEY (id, r)) PARTITION BY LIST (r);
CREATE TABLE part PARTITION OF parted FOR VALUES IN (1);
CREATE VIEW v AS SELECT * FROM parted;
CREATE MATERIALIZED VIEW m AS SELECT * FROM parted;
CREATE SEQUENCE s;
CREATE TYPE composite AS (id int, locked_until timestamptz);
CREATE FOREIGN DATA WRAPPER setup_adopt;
CREATE SERVER setup_adopt FOREIGN DATA WRAPPER setup_adopt;
CREATE FOREIGN TABLE f (id int, locked_until timestamptz) SERVER setup_adopt;
CREATE TEMP TABLE t (id int PRIMARY KEY, locked_until timestamptz);
SELECT adopt(r) FROM unnest('{v,m,f,s,composite,parted_pkey,t,pg_class,nosuch,two words,"",999999999}'::text[]) r;
SELECT try('SELECT inbox_adopt(NULL)');
SELECT try('SELECT inbox_adopt(''parted'', id => NULL)');
SELECT try('SELECT inbox_adopt(''parted'', locked_until => NULL)');
BEGIN READ ONLY;
SELECT inbox_adopt('parted');
ROLLBACK;
CREATE UNLOGGED TABLE u (id int PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz);
SELECT adopt('u', 'claimed_at => ''claimed_at''');
DROP TABLE u;
-- a table is one queue, and no dead-letter table besides
SELECT inbox_create('q', max_attempts => 1);
SELECT try('SELECT inbox_adopt(''q'')');
SELECT try('SELECT inbox_adopt(''q_dead'')');
SELECT try('SELECT inbox_forget(''q_dead'')');
DROP TABLE q;
SELECT try('SELECT inbox_adopt(''q_dead'')');
SELECT inbox_forget('q_dead');
SELECT try('SELECT inbox_forget(''q_dead'')');
SET client_min_messages = error;
SELECT adopt('q_dead', 'claimed_at => ''claimed_at''');
RESET client_min_messages;
DROP TABLE q_dead;

--
-- Partitions and child tables
--
SELECT inbox_adopt('parted');
SELECT adopt('part');
SELECT inbox_forget('parted');
CREATE UNIQUE INDEX ON part (id);
SELECT inbox_adopt('part');
SELECT adopt('parted');
SELECT inbox_forget('part');
CREATE TABLE by_id (id int PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz) PARTITION BY HASH (id);
SELECT adopt('by_id', 'claimed_at => ''claimed_at''');
CREATE TABLE no_key (id int NOT NULL, locked_until timestamptz) PARTITION BY HASH (id);
SELECT adopt('no_key');
CREATE TABLE parent (id int PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz);
CREATE TABLE child () INHERITS (parent);
SELECT adopt('parent', 'claimed_at => ''claimed_at''');
CREATE FOREIGN TABLE fchild () INHERITS (parent) SERVER setup_adopt;
SELECT adopt('parent', 'claimed_at => ''claimed_at''');
SET client_min_messages = warning;
DROP TABLE parted, by_id, no_key, parent CASCADE;
DROP SEQUENCE s;
DROP TYPE composite;
DROP FOREIGN DATA WRAPPER setup_adopt CASCADE;
RESET client_min_messages;

--
-- Columns
--
CREATE TABLE jobs (id bigint PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz, a int DEFAULT 1,
	t timestamptz, t3 timestamptz(3), ts timestamp, d date, txt text, v10 varchar(10), j jsonb, n numeric,
	gen timestamptz GENERATED ALWAYS AS (NULL) STORED, gint int GENERATED ALWAYS AS (1) STORED,
	gtxt text GENERATED ALWAYS AS ('x') STORED,
	nn timestamptz NOT NULL, nntxt text NOT NULL, "Upper" text);
CREATE INDEX ON jobs (t, id);
CREATE FUNCTION role_of(role text, col text) RETURNS text LANGUAGE sql AS $$
	SELECT role || ' ' || col || ': ' || adopt('jobs', concat_ws(', ',
		CASE role WHEN 'claimed_at' THEN NULL ELSE 'claimed_at => ''claimed_at''' END,
		CASE role WHEN 'due_at' THEN NULL ELSE 'due_at => ''t''' END,
		format('%I => %L', role, col)))
$$;
SELECT role_of('payload', c) FROM unnest('{nosuch,upper,ctid,......,id,locked_until,claimed_at,Upper,nn}'::text[]) c;
SELECT adopt('jobs', 'id => ''j''');
SELECT adopt('jobs', 'id => ''a''');
SELECT role_of(r, c) FROM unnest('{locked_until,claimed_at,processed_at,enqueued_at,due_at}'::text[]) r,
	unnest('{t3,ts,d,txt,gen,nn}'::text[]) c;
SELECT role_of(r, c) FROM unnest('{attempt,priority}'::text[]) r, unnest('{n,txt,gint}'::text[]) c;
SELECT role_of(r, c) FROM unnest('{group_key,partition_key,last_error}'::text[]) r,
	unnest('{a,j,v10,gtxt,nntxt}'::text[]) c;
SELECT role_of('headers', c) FROM unnest('{j,txt}'::text[]) c;

--
-- Indexes
--
SELECT adopt('jobs', 'claimed_at => ''claimed_at''');
SELECT adopt('jobs', 'claimed_at => ''claimed_at'', due_at => ''t'', priority => ''a''');
CREATE INDEX desc_index ON jobs (a, t DESC, id);
CREATE INDEX other_order ON jobs (t, a, id);
CREATE INDEX partial ON jobs (a, t, id) WHERE a > 5;
SELECT adopt('jobs', 'claimed_at => ''claimed_at'', due_at => ''t'', priority => ''a''');
CREATE INDEX good ON jobs (a, t, id, txt);
SELECT adopt('jobs', 'claimed_at => ''claimed_at'', due_at => ''t'', priority => ''a''');
SELECT adopt('jobs', 'claimed_at => ''claimed_at'', due_at => ''t'', priority => ''a'', processed_at => ''t3''');
CREATE INDEX good2 ON jobs (a, t, id) WHERE t3 IS NULL;
SELECT adopt('jobs', 'claimed_at => ''claimed_at'', due_at => ''t'', priority => ''a'', processed_at => ''t3''');
CREATE INDEX leases ON jobs (txt) WHERE locked_until IS NULL;
SELECT adopt('jobs', 'claimed_at => ''claimed_at'', due_at => ''t''');
DROP INDEX leases;
CREATE INDEX leases ON jobs (txt) INCLUDE (claimed_at);
SELECT adopt('jobs', 'claimed_at => ''claimed_at'', due_at => ''t''');
DROP INDEX leases;
CREATE INDEX leases ON jobs (((locked_until IS NULL)));
SELECT adopt('jobs', 'claimed_at => ''claimed_at'', due_at => ''t''');
DROP INDEX leases;
-- the id
ALTER TABLE jobs DROP CONSTRAINT jobs_pkey, ALTER id DROP NOT NULL;
SELECT adopt('jobs', 'due_at => ''t''');
CREATE UNIQUE INDEX i ON jobs (id) WHERE a > 0;
SELECT adopt('jobs', 'due_at => ''t''');
DROP INDEX i;
CREATE UNIQUE INDEX i ON jobs (id, a);
SELECT adopt('jobs', 'due_at => ''t''');
ALTER TABLE jobs ADD PRIMARY KEY (txt), ADD UNIQUE (id) DEFERRABLE;
SELECT adopt('jobs', 'due_at => ''t''');
DROP INDEX i;
CREATE UNIQUE INDEX i ON jobs (id) INCLUDE (a);
SELECT adopt('jobs', 'due_at => ''t''');
ALTER TABLE jobs ALTER id SET NOT NULL;
SELECT adopt('jobs', 'claimed_at => ''claimed_at'', due_at => ''t''');
-- the dedup key
SELECT adopt('jobs', 'claimed_at => ''claimed_at'', due_at => ''t'', dedup_key => ''Upper''');
CREATE UNIQUE INDEX k ON jobs ("Upper") WHERE a > 1;
SELECT adopt('jobs', 'claimed_at => ''claimed_at'', due_at => ''t'', dedup_key => ''Upper''');
DROP INDEX k;
CREATE UNIQUE INDEX k ON jobs ("Upper");
SELECT adopt('jobs', 'claimed_at => ''claimed_at'', due_at => ''t'', dedup_key => ''Upper''');
-- a full index would refuse the key of a finished row
SELECT adopt('jobs', 'claimed_at => ''claimed_at'', due_at => ''t'', dedup_key => ''Upper'', processed_at => ''t3''');
DROP INDEX k;
CREATE UNIQUE INDEX k ON jobs ("Upper") WHERE "Upper" IS NOT NULL AND t3 IS NULL;
SELECT adopt('jobs', 'claimed_at => ''claimed_at'', due_at => ''t'', dedup_key => ''Upper''');
CREATE INDEX ON jobs (t, id) WHERE t3 IS NULL;
SELECT adopt('jobs', 'claimed_at => ''claimed_at'', due_at => ''t'', dedup_key => ''Upper'', processed_at => ''t3''');
DROP INDEX k;
CREATE UNIQUE INDEX k ON jobs ("Upper") WHERE t3 IS NULL;
SELECT adopt('jobs', 'claimed_at => ''claimed_at'', due_at => ''t'', dedup_key => ''Upper'', processed_at => ''t3''');

--
-- Settings in combination
--
CREATE TABLE work (id int PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz,
	attempt int DEFAULT 1, small smallint DEFAULT 0, due_at timestamptz, grp text, body json, extra int,
	ggrp text GENERATED ALWAYS AS ('x') STORED);
CREATE INDEX ON work (due_at, id);
CREATE TABLE work_dead (LIKE work, rest jsonb);
CREATE FUNCTION settings(arguments text) RETURNS text LANGUAGE sql AS $$
	SELECT adopt('work', 'claimed_at => ''claimed_at'', due_at => ''due_at'', ' || arguments)
$$;
SELECT settings('max_attempts => 3');
SELECT settings('max_attempts => 3, attempt => ''attempt''');
SELECT settings('dead_letter => ''work_dead''');
SELECT settings('dead_letter => ''work_dead'', attempt => ''attempt''');
SELECT settings('dead_letter => ''work_dead'', max_attempts => 3');
SELECT settings('dead_letter => ''work_dead'', max_attempts => 3, attempt => ''attempt''');
SELECT settings('dead_letter => ''nosuch'', max_attempts => 3, attempt => ''attempt''');
SELECT settings('dead_letter => ''work'', max_attempts => 3, attempt => ''attempt''');
SELECT settings('dead_letter => ''work_dead'', dead_group => ''d'', max_attempts => 3, attempt => ''attempt''');
SELECT settings('dead_group => ''d''');
SELECT settings('dead_group => ''d'', group_key => ''grp''');
SELECT settings('dead_group => ''d'', max_attempts => 3, attempt => ''attempt''');
SELECT settings('dead_group => ''d'', group_key => ''ggrp'', max_attempts => 3, attempt => ''attempt''');
SELECT settings('dead_group => ''d'', group_key => ''grp'', max_attempts => 3, attempt => ''attempt''');
SELECT settings('dead_group => ''d'', group_key => ''grp'', max_attempts => 32767, attempt => ''small''');
ALTER TABLE work ALTER small SET DEFAULT 1;
SELECT settings('dead_group => ''d'', group_key => ''grp'', max_attempts => 32767, attempt => ''small''');
SELECT settings('dead_group => ''d'', group_key => ''grp'', max_attempts => 32766, attempt => ''small''');
SELECT settings('retention => ''1 h''');
SELECT settings('lease => ''0''');
SELECT settings('fifo => true');
SELECT settings('fifo_retry => ''x''');
SELECT settings('fifo => false, fifo_retry => ''hold'', lease => NULL, triggers => NULL');
-- another queue as destination of rows of another shape
SELECT inbox_create('errors');
ALTER TABLE errors ALTER payload TYPE bytea USING NULL;
SELECT settings('dead_letter => ''errors'', max_attempts => 3, attempt => ''attempt''');
ALTER TABLE errors ALTER payload TYPE jsonb USING NULL;
SELECT settings('dead_letter => ''errors'', max_attempts => 3, attempt => ''attempt''');

--
-- Rights: the owner, or who is a member of it
--
CREATE ROLE regress_inbox_owner;
CREATE ROLE regress_inbox_member IN ROLE regress_inbox_owner;
CREATE ROLE regress_inbox_stranger;
GRANT ALL ON SCHEMA setup_adopt TO PUBLIC;
ALTER TABLE work OWNER TO regress_inbox_owner;
GRANT ALL ON work TO regress_inbox_stranger;
SET ROLE regress_inbox_stranger;
SELECT settings('triggers => true');
SET ROLE regress_inbox_owner;
SELECT settings('dead_letter => ''work_dead'', max_attempts => 3, attempt => ''attempt''');
SELECT settings('triggers => true');
SET ROLE regress_inbox_member;
SELECT settings('triggers => true');
RESET ROLE;
-- row security is the table's business
ALTER TABLE work ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
SET ROLE regress_inbox_owner;
SELECT settings('triggers => true');
RESET ROLE;
-- an untrusted label is refused as well
SELECT try('SECURITY LABEL FOR inbox ON TABLE work IS ''{}''');
SELECT try('SECURITY LABEL FOR inbox ON TABLE work IS ''nonsense''');
SELECT try('SECURITY LABEL FOR inbox ON COLUMN work.due_at IS ''id''');
SELECT try('SECURITY LABEL FOR inbox ON COLUMN work.due_at IS ''nonsense''');
SELECT try('SECURITY LABEL FOR inbox ON SCHEMA setup_adopt IS ''id''');
-- a stray one does no harm
SECURITY LABEL FOR inbox ON COLUMN work.extra IS 'priority';
SELECT inbox_adopt('work', claimed_at => 'claimed_at', due_at => 'due_at');
SELECT col, label FROM labels WHERE rel = 'work' AND col = 'extra';

SET client_min_messages = warning;
DROP SCHEMA setup_adopt CASCADE;
DROP ROLE regress_inbox_owner, regress_inbox_member, regress_inbox_stranger;
