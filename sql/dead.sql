--
-- Dead letters: bury, redrive, purge, and the view
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS inbox;
RESET client_min_messages;
CREATE SCHEMA dead;
SET search_path = dead, public;
\pset format unaligned
\pset null NULL

-- headers without the times in them
CREATE FUNCTION no_times(h jsonb) RETURNS jsonb LANGUAGE sql AS $$
	SELECT regexp_replace(h::text, '"(at|died_at|due_at|enqueued_at|claimed_at|token)": "[^"]*"', '"\1": "..."', 'g')::jsonb
$$;
-- what an error says, or the result
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

-- A dead-letter table of its own: everything is kept
SELECT inbox_create('emails', max_attempts => 1);
ALTER TABLE emails ADD COLUMN tenant text DEFAULT 'acme', ADD COLUMN "Odd Name" int[] DEFAULT '{1,2}';
INSERT INTO emails (payload, headers, priority, group_key, partition_key, due_at)
	VALUES ('{"n": 1}', '{"trace": "x", "inbox": {"mine": 1}}', 5, 'g', 'p', '2020-01-01');
SELECT claimed_at AS claimed FROM inbox_claim(NULL::emails) \gset
SELECT inbox_settle('emails', inbox_receipt(e), 'retry', error => 'boom') FROM emails e;
SELECT count(*) FROM emails;
SELECT id, payload, no_times(headers) AS headers, priority, group_key, partition_key, due_at = '2020-01-01' AS due,
	locked_until, claimed_at = :'claimed' AS claimed, attempt, cause, last_error, rest,
	died_at BETWEEN now() - '1 min'::interval AND clock_timestamp() AS died
	FROM emails_dead;
SELECT queue, dead_letter, id, cause, error, attempt, died_at = (SELECT died_at FROM emails_dead) AS died FROM inbox_dead;
-- back again: same id, fresh attempts, the columns spread, the history grown
SELECT inbox_redrive('emails');
SELECT id, payload, no_times(headers) AS headers, priority, group_key, partition_key, due_at = '2020-01-01' AS due,
	locked_until, claimed_at = :'claimed' AS claimed, attempt, last_error, tenant, "Odd Name"
	FROM emails;
SELECT count(*) FROM emails_dead;
SELECT inbox_redrive('emails');
-- the old receipt holds nothing; the next claim's number is greater
SELECT inbox_settle('emails', '1@' || (extract(epoch FROM claimed_at) * 1000000)::bigint) FROM emails;
SELECT attempt, inbox_settle('emails', receipt, 'dead'), error IS NULL AS no_error
	FROM inbox_claim('emails'), LATERAL (SELECT NULL AS error) e;
-- its own last error stays when none is given
SELECT cause, last_error, no_times(headers) #> '{inbox,history}' AS history, claimed_at > :'claimed' AS grown FROM emails_dead;
-- a column added since then gets its default, one dropped is no matter
ALTER TABLE emails ADD COLUMN later int DEFAULT 7 NOT NULL, DROP COLUMN tenant;
SELECT inbox_redrive('emails');
SELECT id, later, "Odd Name" FROM emails;

-- History is capped, and so is an error text in it
SELECT inbox_create('capped', max_attempts => 1);
INSERT INTO capped (payload) VALUES ('1');
DO $$ BEGIN
	FOR i IN 1..15 LOOP
		PERFORM inbox_settle('capped', receipt, 'dead', error => repeat('é', 3000)) FROM inbox_claim('capped');
		PERFORM inbox_redrive('capped');
	END LOOP;
END $$;
SELECT jsonb_array_length(headers #> '{inbox,history}'), headers #>> '{inbox,history,-1,event}' AS newest,
	length(headers #>> '{inbox,history,-2,error}') AS error, length(last_error) AS whole FROM capped;
-- headers that are no object are left alone
UPDATE capped SET headers = '["a"]';
SELECT inbox_settle('capped', receipt, 'dead') FROM inbox_claim('capped');
SELECT headers FROM capped_dead;

-- Newest first; an id or a deduplication key that is taken stays dead
SELECT inbox_create('dedup', max_attempts => 1);
INSERT INTO dedup (payload, dedup_key) VALUES ('1', 'a'), ('2', 'b'), ('3', 'c'), ('4', NULL);
DO $$ BEGIN
	FOR i IN 1..4 LOOP
		PERFORM inbox_settle('dedup', receipt, 'dead') FROM inbox_claim('dedup');
	END LOOP;
END $$;
SELECT inbox_redrive('dedup', 1);
SELECT id FROM dedup;
INSERT INTO dedup (payload, dedup_key) VALUES ('22', 'b');
INSERT INTO dedup (id, payload) VALUES (3, '33');
SELECT inbox_redrive('dedup');
SELECT id, payload FROM dedup ORDER BY id;
SELECT id FROM dedup_dead ORDER BY id;
SELECT inbox_redrive('dedup', 0);
SELECT try($$SELECT inbox_redrive('dedup', -1)$$);

-- two of one id, in a table without a key: the newer comes back, the other is named
CREATE TABLE twice (id int PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz, attempt int DEFAULT 1, payload jsonb);
CREATE TABLE twice_dead (LIKE twice, died_at timestamptz, cause text, rest jsonb);
SELECT inbox_adopt('twice', claimed_at => 'claimed_at', attempt => 'attempt', payload => 'payload',
	max_attempts => 1, dead_letter => 'twice_dead');
INSERT INTO twice_dead (id, payload, cause, died_at) VALUES (1, '"older"', 'failed', '2020-01-01'), (1, '"newer"', 'failed', '2020-01-02');
SELECT inbox_redrive('twice');
SELECT id, payload FROM twice;
SELECT id, payload FROM twice_dead;

-- Another queue as destination
SELECT inbox_create('morgue', max_attempts => 1);
SELECT inbox_create('orders', max_attempts => 1, dead_letter => 'morgue');
ALTER TABLE orders ADD COLUMN tenant text;
INSERT INTO orders (id, payload, headers, priority, group_key, dedup_key, tenant, due_at)
	VALUES (41, '{"n": 1}', '{"a": 1}', 3, 'g', 'k', 'acme', '2020-01-01'),
		   (42, '{"n": 2}', '["no object"]', 3, 'g', NULL, NULL, '2020-01-01');
SELECT inbox_settle('orders', receipt, 'retry', error => 'boom') FROM inbox_claim('orders', 2);
SELECT count(*) FROM orders;
SELECT id, payload, no_times(headers) AS headers, priority, group_key, dedup_key, attempt, last_error,
	due_at > '2021-01-01' AS due FROM morgue ORDER BY id;
SELECT queue, dead_letter, id, cause, error, attempt,
	died_at BETWEEN now() - '1 min'::interval AND clock_timestamp() AS died FROM inbox_dead WHERE queue = 'dead.orders' ORDER BY id;
-- down a chain and back
SELECT inbox_settle('morgue', receipt, 'dead', error => 'again') FROM inbox_claim('morgue') WHERE payload = '{"n": 1}';
SELECT id, last_error, no_times(headers) #>> '{inbox,origin,queue}' AS origin FROM morgue_dead;
SELECT inbox_redrive('morgue');
-- one that is in work there is left alone
UPDATE morgue SET locked_until = now() + '1 h'::interval WHERE payload = '{"n": 2}';
SELECT inbox_redrive('orders');
UPDATE morgue SET locked_until = NULL;
SELECT inbox_redrive('orders');
SELECT id, payload, no_times(headers) AS headers, priority, group_key, dedup_key, tenant, attempt, last_error,
	locked_until, due_at = '2020-01-01' AS due FROM orders ORDER BY id;
SELECT count(*) FROM morgue;
-- a morgue with messages of its own keeps them
INSERT INTO morgue (payload) VALUES ('"own"');
SELECT inbox_redrive('orders');

-- A group of the table itself
SELECT inbox_create('groups', max_attempts => 1, dead_group => 'dead', backoff_max => '1 h');
INSERT INTO groups (payload, group_key) VALUES ('1', 'x'), ('2', NULL), ('3', 'dead');
SELECT inbox_settle('groups', receipt, 'retry', error => 'boom') FROM inbox_claim('groups', 10, group_key => 'x');
SELECT inbox_settle('groups', receipt, 'dead') FROM inbox_claim('groups', 10);
SELECT id, group_key, attempt, locked_until, last_error, no_times(headers) AS headers, due_at <= now() AS due FROM groups ORDER BY id;
SELECT queue, dead_letter, id, cause, error, attempt,
	died_at BETWEEN now() - '1 min'::interval AND clock_timestamp() AS died FROM inbox_dead WHERE queue = 'dead.groups' ORDER BY id;
-- spent again there: it pauses
SELECT inbox_settle('groups', receipt, 'retry', error => 'boom') FROM inbox_claim('groups', 10, group_key => 'dead') WHERE id = '1';
SELECT id, group_key, attempt, due_at > now() + '59 min'::interval AS rests FROM groups WHERE id = 1;
UPDATE groups SET locked_until = NULL WHERE id = 1;
SELECT inbox_redrive('groups');
-- and is due again
SELECT id, group_key, attempt, due_at <= now() AS due, no_times(headers) AS headers FROM groups ORDER BY id;

-- Nowhere to bury
SELECT inbox_create('plain');
INSERT INTO plain (payload) VALUES ('1');
SELECT try(format($$SELECT inbox_settle('plain', %L, 'dead')$$, receipt)) FROM inbox_claim('plain');
SELECT try($$SELECT inbox_redrive('plain')$$);
SELECT inbox_create('lost', max_attempts => 1);
INSERT INTO lost (payload) VALUES ('1');
DROP TABLE lost_dead;
SELECT try(format($$SELECT inbox_settle('lost', %L, 'retry')$$, receipt)) FROM inbox_claim('lost');
SELECT try($$SELECT inbox_redrive('lost')$$);
SELECT id, attempt FROM lost;
SELECT queue, ready, spent, problem FROM inbox_queues WHERE queue IN ('dead.lost', 'dead.plain') ORDER BY 1;
SELECT try($$SELECT inbox_redrive(NULL)$$);
SELECT try($$SELECT inbox_purge(NULL)$$);
SELECT try($$SELECT inbox_redrive('nosuch')$$);
SELECT try($$SELECT inbox_purge('pg_class')$$);
BEGIN READ ONLY;
SELECT inbox_redrive('emails');
ROLLBACK;
BEGIN READ ONLY;
SELECT inbox_purge('emails');
ROLLBACK;

-- Purge: all but live leases
SELECT inbox_create('purged', retention => '1 day', max_attempts => 1);
INSERT INTO purged (payload, locked_until, processed_at) VALUES
	('1', NULL, NULL), ('2', now() - '1 s'::interval, NULL), ('3', now() + '1 h'::interval, NULL), ('4', NULL, now());
INSERT INTO purged (payload) SELECT '0' FROM generate_series(1, 2500);
SELECT inbox_purge('purged');
SELECT id FROM purged;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT inbox_purge('purged');
ROLLBACK;

-- A dead-letter table that knows no time of death: the highest ids are the newest
CREATE TABLE timeless (id int PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz, attempt int DEFAULT 1);
CREATE TABLE timeless_dead (LIKE timeless);
SELECT inbox_adopt('timeless', claimed_at => 'claimed_at', attempt => 'attempt', max_attempts => 1, dead_letter => 'timeless_dead');
INSERT INTO timeless VALUES (1), (2), (3);
SELECT verdict FROM inbox_claim('timeless', 3) c, inbox_settle('timeless', c.receipt, 'dead');
SELECT inbox_redrive('timeless', 2);
SELECT id, attempt FROM timeless ORDER BY id;

-- Never two copies, never none
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
SELECT inbox_create('stubborn', max_attempts => 1);
INSERT INTO stubborn (payload) VALUES ('1');
CREATE TRIGGER no_delete BEFORE DELETE ON stubborn FOR EACH ROW EXECUTE FUNCTION nothing();
SELECT try(format($$SELECT inbox_settle('stubborn', %L, 'dead')$$, receipt)) FROM inbox_claim('stubborn');
SELECT (SELECT count(*) FROM stubborn), (SELECT count(*) FROM stubborn_dead);
DROP TRIGGER no_delete ON stubborn;
CREATE TRIGGER no_insert BEFORE INSERT ON stubborn_dead FOR EACH ROW EXECUTE FUNCTION nothing();
UPDATE stubborn SET locked_until = NULL, attempt = 1;
SELECT try(format($$SELECT inbox_settle('stubborn', %L, 'dead')$$, receipt)) FROM inbox_claim('stubborn');
SELECT (SELECT count(*) FROM stubborn), (SELECT count(*) FROM stubborn_dead);
DROP TRIGGER no_insert ON stubborn_dead;
UPDATE stubborn SET locked_until = NULL, attempt = 1;
SELECT inbox_settle('stubborn', receipt, 'dead') FROM inbox_claim('stubborn');
CREATE TRIGGER no_delete BEFORE DELETE ON stubborn_dead FOR EACH ROW EXECUTE FUNCTION nothing();
SELECT try($$SELECT inbox_redrive('stubborn')$$);
SELECT (SELECT count(*) FROM stubborn), (SELECT count(*) FROM stubborn_dead);

SET client_min_messages = warning;
DROP SCHEMA dead CASCADE;
