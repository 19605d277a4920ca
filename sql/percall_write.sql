--
-- What a write to one row owes to the table, whatever way it is made: NOT
-- NULL, CHECK, indexes on what a lease changes, keys, replica identity
--
SET client_min_messages = error;
CREATE EXTENSION IF NOT EXISTS inbox;
CREATE SCHEMA percall_write;
SET search_path = percall_write, public;
\pset format unaligned
\pset tuples_only on

-- a statement's result, or its error
CREATE FUNCTION try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE statement INTO result;
	RETURN coalesce(result, 'nothing');
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ': ' || SQLERRM;
END $$;
CREATE FUNCTION receipt(q text) RETURNS text LANGUAGE sql AS $$ SELECT receipt FROM inbox_claim(q) $$;

\echo '# a column that a settlement sets to NULL refuses'
SELECT inbox_create('strict');
INSERT INTO strict (payload, locked_until) VALUES ('1', '2000-01-01');
ALTER TABLE strict ALTER locked_until SET NOT NULL;
SELECT receipt('strict') AS r \gset
SELECT try(format('SELECT inbox_settle(''strict'', %L, ''release'')', :'r'));
SELECT try(format('SELECT inbox_settle(''strict'', %L, ''retry'')', :'r'));
SELECT verdict FROM inbox_extend('strict', :'r', '1 h');
SELECT verdict FROM inbox_settle('strict', :'r');
SELECT count(*) FROM strict;

\echo '# a CHECK on them is checked, also one that comes while the queue is in use'
SELECT inbox_create('checked');
SELECT count(*) FROM inbox_send_batch('checked', '{1,2}');
SELECT inbox_settle('checked', receipt('checked'), 'release');
SELECT inbox_settle('checked', receipt('checked'), 'release');
ALTER TABLE checked ADD CONSTRAINT once CHECK (attempt < 3);
SELECT receipt('checked') AS r \gset
SELECT inbox_settle('checked', :'r', 'retry', '0');
SELECT try('SELECT receipt(''checked'')');
ALTER TABLE checked DROP CONSTRAINT once;
SELECT attempt FROM inbox_claim('checked');

\echo '# indexes on what a lease changes'
SELECT inbox_create('indexed');
CREATE INDEX by_time ON indexed (locked_until);
CREATE INDEX leased ON indexed (id) WHERE locked_until IS NOT NULL;
CREATE INDEX by_expression ON indexed ((attempt * 2));
INSERT INTO indexed (payload) SELECT to_jsonb(i) FROM generate_series(1, 50) i;
SELECT count(*) FROM inbox_claim('indexed', 20);
SELECT sum(count) FROM (SELECT count(inbox_settle('indexed', inbox_receipt(q), CASE id % 4 WHEN 0 THEN 'release' WHEN 1 THEN 'retry' WHEN 2 THEN 'done' END))
	FROM indexed q WHERE locked_until IS NOT NULL AND id % 4 < 3) x;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS off) SELECT count(*) FROM indexed WHERE locked_until > '2000-01-01';
SELECT count(*) FROM indexed WHERE locked_until > '2000-01-01';
SELECT count(*) FROM (SELECT id FROM indexed WHERE locked_until IS NOT NULL ORDER BY id) x;
SELECT count(*) FROM indexed WHERE attempt * 2 = 4;
RESET enable_seqscan;
RESET enable_bitmapscan;
SELECT count(locked_until), count(*) FILTER (WHERE attempt = 2), count(*) FROM indexed;
CREATE EXTENSION IF NOT EXISTS amcheck;
SELECT bool_and(bt_index_check(indexrelid, true)::text = '') FROM pg_index WHERE indrelid = 'indexed'::regclass;

\echo '# an index that comes and goes between two calls'
CREATE INDEX by_claim ON indexed (claimed_at);
SELECT count(*) FROM inbox_claim('indexed', 5);
SELECT bt_index_check('by_claim', true);
DROP INDEX by_claim;
DROP INDEX by_time;
SELECT count(*) FROM inbox_claim('indexed', 5);
ALTER INDEX leased SET (fillfactor = 50);
REINDEX INDEX leased;
SELECT count(*) FROM inbox_claim('indexed', 5);
SELECT bool_and(bt_index_check(indexrelid, true)::text = '') FROM pg_index WHERE indrelid = 'indexed'::regclass;

\echo '# a foreign key that comes while the queue is in use'
SELECT inbox_create('parent');
SELECT count(*) FROM inbox_send_batch('parent', '{1,2,3}');
SELECT inbox_settle('parent', receipt('parent'));
CREATE TABLE child (id bigint REFERENCES parent ON DELETE CASCADE);
INSERT INTO child VALUES (2), (3);
SELECT inbox_settle('parent', receipt('parent'));
SELECT id FROM child;
ALTER TABLE child DROP CONSTRAINT child_id_fkey, ADD FOREIGN KEY (id) REFERENCES parent;
SELECT try('SELECT inbox_settle(''parent'', receipt(''parent''))');
DROP TABLE child;
SELECT inbox_settle('parent', receipt('parent'));

\echo '# a published table without replica identity'
SELECT inbox_create('published');
SELECT count(*) FROM inbox_send_batch('published', '{1,2}');
SELECT receipt('published') AS r \gset
CREATE PUBLICATION percall_write FOR TABLE published;
ALTER TABLE published REPLICA IDENTITY NOTHING;
SELECT try('SELECT receipt(''published'')');
SELECT try(format('SELECT inbox_settle(''published'', %L)', :'r'));
DROP PUBLICATION percall_write;
SELECT inbox_settle('published', :'r');

DROP SCHEMA percall_write CASCADE;
