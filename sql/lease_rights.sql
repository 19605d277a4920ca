--
-- Who may claim, extend and settle: privileges, row security, definers
--
SET client_min_messages = error;
CREATE EXTENSION IF NOT EXISTS inbox;
DO $$
DECLARE
	role text;
BEGIN
	FOREACH role IN ARRAY '{lr_owner,lr_producer,lr_observer,lr_worker,lr_nodelete,lr_columns,lr_outsider,lr_a,lr_b,lr_b2}'::text[] LOOP
		IF EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
			EXECUTE format('DROP OWNED BY %I CASCADE', role);
			EXECUTE format('DROP ROLE %I', role);
		END IF;
		EXECUTE format('CREATE ROLE %I', role);
	END LOOP;
END $$;
CREATE SCHEMA lease_rights;
GRANT USAGE, CREATE ON SCHEMA lease_rights TO PUBLIC;
SET search_path = lease_rights, public;
\pset format unaligned
\pset tuples_only on

-- What role says to statement: its result, or the error.
CREATE FUNCTION by(role text, statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('SET LOCAL ROLE %I', role);
	BEGIN
		EXECUTE 'SELECT string_agg(x::text, '','' ORDER BY x::text) FROM (SELECT ' || statement || ') AS s(x)' INTO result;
	EXCEPTION WHEN OTHERS THEN
		result := SQLSTATE || ': ' || SQLERRM;
	END;
	RESET ROLE;
	RETURN coalesce(result, 'nothing');
END $$;

\echo '# privileges: each function by each role'
SET ROLE lr_owner;
SELECT inbox_create('q', max_attempts => 1);
SELECT inbox_create('kept', retention => '1 h');
GRANT INSERT ON q, kept TO lr_producer;
GRANT SELECT ON q, kept TO lr_observer;
GRANT SELECT, UPDATE, DELETE ON q, kept TO lr_worker;
GRANT SELECT, UPDATE ON q, kept TO lr_nodelete;
RESET ROLE;
CREATE FUNCTION refill(q text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r text;
BEGIN
	EXECUTE format('DELETE FROM %s', q);
	DELETE FROM q_dead;
	EXECUTE format('INSERT INTO %s(id, payload) VALUES (1, ''1''), (2, ''2''), (3, ''3'')', q);
	SELECT receipt INTO r FROM inbox_claim(q);
	RETURN r;
END $$;
CREATE FUNCTION each(q text) RETURNS TABLE (role text, call text, result text) LANGUAGE plpgsql AS $$
BEGIN
	FOREACH role IN ARRAY '{lr_owner,lr_worker,lr_nodelete,lr_observer,lr_producer,lr_outsider}'::text[] LOOP
		FOREACH call IN ARRAY ARRAY['id FROM inbox_claim($q)', 'id FROM inbox_claim_ids($q)', 'id FROM inbox_claim(NULL::$n)', 'id FROM inbox_stamp($q, ''{2,3}'')',
			'id FROM inbox_next($q)', 'id FROM inbox_next($q, ARRAY[$r])', '(inbox_extend($q, $r, ''1 h'')).verdict', 'verdict FROM inbox_extend_batch($q, ARRAY[$r])',
			'inbox_settle($q, $r)', 'inbox_settle($q, $r, ''retry'')', 'inbox_settle($q, $r, ''release'')', 'inbox_settle($q, $r, ''dead'')', 'verdict FROM inbox_settle_batch($q, ARRAY[$r])',
			'inbox_settle($q, ''garbage'')', 'id FROM inbox_claim($q, 0)'] LOOP
			CONTINUE WHEN q = 'kept' AND call ~ '''dead''|retry|ids|NULL|_batch|garbage|, 0|stamp';
			result := by(role, replace(replace(replace(call, '$r', quote_literal(refill(q))), '$q', quote_literal('lease_rights.' || q)), '$n', 'lease_rights.' || q));
			RETURN NEXT;
		END LOOP;
	END LOOP;
END $$;
SELECT * FROM each('q');
SELECT * FROM each('kept');
-- a consumer needs no rights on the dead-letter table, and gets none
SELECT by('lr_worker', 'count(*) FROM lease_rights.q_dead');
SELECT by('lr_worker', format('inbox_settle(''q'', %L, ''retry'')', refill('q')));
SELECT cause FROM q_dead;
-- EXECUTE is everybody's, since the rights are the table's
SELECT proname, proacl FROM pg_proc WHERE proname ~ '^inbox_(claim|claim_ids|stamp|next|extend|extend_batch|settle|settle_batch|receipt)$' AND proacl IS NOT NULL ORDER BY 1;
-- taken away from all but one
BEGIN;
REVOKE EXECUTE ON FUNCTION inbox_claim(text, bigint, interval, text, interval) FROM PUBLIC;
SELECT by('lr_worker', 'id FROM inbox_claim(''q'')');
ROLLBACK;

\echo '# privileges that come and go between calls of one session'
SELECT refill('q') IS NOT NULL;
SELECT by('lr_outsider', 'id FROM inbox_claim(''q'')');
GRANT SELECT, UPDATE, DELETE ON q TO lr_outsider;
SELECT by('lr_outsider', 'id FROM inbox_claim(''q'')');
REVOKE UPDATE ON q FROM lr_outsider;
SELECT by('lr_outsider', 'id FROM inbox_claim(''q'')');
REVOKE ALL ON q FROM lr_outsider;
REVOKE USAGE ON SCHEMA lease_rights FROM PUBLIC;
SELECT by('lr_worker', 'id FROM inbox_claim(''lease_rights.q'')');
GRANT USAGE ON SCHEMA lease_rights TO PUBLIC;

\echo '# privileges on columns'
CREATE FUNCTION columns(what text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r text := refill('q');
BEGIN
	RETURN concat_ws(E'\n  ', what, by('lr_columns', 'payload FROM inbox_claim(''q'')'), by('lr_columns', 'id FROM inbox_claim_ids(''q'')'), by('lr_columns', 'payload FROM inbox_claim(NULL::lease_rights.q)'),
		by('lr_columns', format('(inbox_extend(''q'', %L, ''1 h'')).verdict', r)), by('lr_columns', format('inbox_settle(''q'', %L, ''release'')', r)), by('lr_columns', 'payload FROM inbox_stamp(''q'', ''{1}'')'));
END $$;
GRANT UPDATE (locked_until, claimed_at, attempt, due_at) ON q TO lr_columns;
SELECT columns('update of the lease columns');
GRANT SELECT (id, locked_until, claimed_at, attempt, due_at, priority) ON q TO lr_columns;
SELECT columns('and select of what a claim needs');
GRANT SELECT (tableoid, ctid) ON q TO lr_columns;
SELECT columns('and of where a row is');
GRANT SELECT (headers, enqueued_at, group_key, partition_key) ON q TO lr_columns;
SELECT columns('and all a delivery shows but the payload');
GRANT SELECT (payload) ON q TO lr_columns;
SELECT columns('and the payload');
GRANT SELECT (last_error, dedup_key) ON q TO lr_columns;
SELECT columns('and all the others');
GRANT SELECT ON q TO lr_columns;
SELECT columns('and the whole table');
REVOKE UPDATE (attempt) ON q FROM lr_columns;
SELECT columns('without update of attempt');

\echo '# row security: tenants'
SET ROLE lr_owner;
CREATE TABLE tenants (id int PRIMARY KEY, tenant name DEFAULT current_user, due_at timestamptz DEFAULT '2000-01-01', locked_until timestamptz, claimed_at timestamptz, attempt int DEFAULT 1, payload text);
SELECT inbox_adopt('tenants', claimed_at => 'claimed_at', attempt => 'attempt', due_at => 'due_at', payload => 'payload');
ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON tenants USING (tenant = current_user);
GRANT SELECT, INSERT, UPDATE, DELETE ON tenants TO lr_a, lr_b;
RESET ROLE;
INSERT INTO tenants(id, tenant, payload) SELECT i, CASE WHEN i % 2 = 0 THEN 'lr_a' ELSE 'lr_b' END, 'p' || i FROM generate_series(1, 6) i;
SELECT by('lr_a', 'id || '' '' || payload FROM inbox_claim(''tenants'', 2)');
SELECT by('lr_a', 'id FROM inbox_stamp(''tenants'', ''{1,2,3,4,5,6}'')');
SELECT by('lr_b', 'id FROM inbox_claim(''tenants'', 2)');
SELECT id, tenant, locked_until > now() FROM tenants ORDER BY id;
SELECT array_agg(inbox_receipt(t) ORDER BY id) AS rs FROM tenants t WHERE locked_until IS NOT NULL \gset
SELECT by('lr_a', format('verdict || '' '' || split_part(receipt, ''@'', 1) FROM inbox_extend_batch(''tenants'', %L, ''1 h'')', :'rs'));
SELECT by('lr_a', format('verdict || '' '' || split_part(receipt, ''@'', 1) FROM inbox_settle_batch(''tenants'', %L)', :'rs'));
SELECT id, tenant, locked_until > now() + interval '59 min' FROM tenants ORDER BY id;
SELECT by('lr_b', format('verdict || '' '' || split_part(receipt, ''@'', 1) FROM inbox_settle_batch(''tenants'', %L, ''{release}'')', :'rs'));
-- the owner is not bound, unless it says so
SELECT by('lr_owner', 'id FROM inbox_claim(''tenants'', 1)');
ALTER TABLE tenants FORCE ROW LEVEL SECURITY;
SELECT by('lr_owner', 'id FROM inbox_claim(''tenants'', 10)');
ALTER TABLE tenants NO FORCE ROW LEVEL SECURITY;
SELECT by('lr_owner', 'id FROM inbox_claim(''tenants'', 10)');
-- row_security = off: an error rather than a silent filter
SET row_security = off;
SELECT by('lr_a', 'id FROM inbox_claim(''tenants'', 10)');
SELECT by('lr_a', 'inbox_settle(''tenants'', ''6@1'')');
RESET row_security;
-- may see more than it may change
UPDATE tenants SET locked_until = NULL;
DROP POLICY own ON tenants;
CREATE POLICY see ON tenants FOR SELECT USING (true);
CREATE POLICY change ON tenants FOR UPDATE USING (tenant = current_user);
CREATE POLICY finish ON tenants FOR DELETE USING (tenant = current_user AND id <> 6);
SELECT by('lr_a', 'id FROM inbox_claim(''tenants'', 10)');
SELECT id FROM tenants WHERE locked_until IS NOT NULL;
SELECT count(*) FROM inbox_claim('tenants', 10);
SELECT array_agg(inbox_receipt(t) ORDER BY id) AS rs FROM tenants t WHERE locked_until IS NOT NULL \gset
SELECT by('lr_a', format('inbox_settle(''tenants'', (%L::text[])[1], ''release'')', :'rs'));
SELECT by('lr_a', format('inbox_settle(''tenants'', (%L::text[])[%s], ''release'')', :'rs', 4));
-- a new version that the policy would not let in
DROP POLICY change ON tenants;
CREATE POLICY change ON tenants FOR UPDATE USING (true) WITH CHECK (attempt < 4);
UPDATE tenants SET locked_until = NULL, attempt = id;
SELECT by('lr_a', 'id FROM inbox_claim(''tenants'', 2)');
SELECT by('lr_a', 'id FROM inbox_claim(''tenants'', 10)');
-- no policy, nothing
DROP POLICY see ON tenants;
DROP POLICY change ON tenants;
UPDATE tenants SET locked_until = NULL;
SELECT by('lr_a', 'id FROM inbox_claim(''tenants'', 10)');
-- a policy that asks the session, and one of a partitioned table
DROP POLICY finish ON tenants;
CREATE POLICY own ON tenants USING (tenant::text = current_setting('lease_rights.tenant', true));
SET lease_rights.tenant = 'lr_b';
SELECT by('lr_a', 'id FROM inbox_claim(''tenants'', 1)');
SET lease_rights.tenant = 'lr_a';
SELECT by('lr_a', 'id FROM inbox_claim(''tenants'', 1)');
CREATE TABLE ptenants (id int, tenant name, locked_until timestamptz, claimed_at timestamptz, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE ptenants_1 PARTITION OF ptenants FOR VALUES FROM (1) TO (3);
CREATE TABLE ptenants_2 PARTITION OF ptenants FOR VALUES FROM (3) TO (10);
SELECT inbox_adopt('ptenants', claimed_at => 'claimed_at');
ALTER TABLE ptenants ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON ptenants USING (tenant = current_user);
GRANT SELECT, UPDATE, DELETE ON ptenants TO lr_a, lr_b;
INSERT INTO ptenants SELECT i, CASE WHEN i % 2 = 0 THEN 'lr_a' ELSE 'lr_b' END FROM generate_series(1, 6) i;
SELECT by('lr_a', 'id FROM inbox_claim(''ptenants'', 10)');
SELECT by('lr_b', 'id FROM inbox_claim(''ptenants'', 10)');
SELECT array_agg(inbox_receipt(t) ORDER BY id) AS rs FROM ptenants t \gset
SELECT by('lr_a', format('verdict || '' '' || split_part(receipt, ''@'', 1) FROM inbox_settle_batch(''ptenants'', %L)', :'rs'));
-- a plan made for one role is not another's
CREATE OR REPLACE FUNCTION by_plan(role text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('SET LOCAL ROLE %I', role);
	SELECT string_agg(id, ',') INTO result FROM inbox_claim('tenants', 1);
	RESET ROLE;
	RETURN result;
END $$;
DROP POLICY own ON tenants;
CREATE POLICY own ON tenants USING (tenant = current_user);
UPDATE tenants SET locked_until = NULL, attempt = 1;
SELECT by_plan('lr_a'), by_plan('lr_b'), by_plan('lr_a'), by_plan('lr_owner'), by_plan('lr_b');

\echo '# security definer'
SET ROLE lr_owner;
CREATE FUNCTION take_one() RETURNS text LANGUAGE sql SECURITY DEFINER SET search_path = lease_rights, public, pg_temp AS $$ SELECT id FROM inbox_claim('q') $$;
RESET ROLE;
SELECT refill('q') IS NOT NULL;
SELECT by('lr_outsider', 'lease_rights.take_one()');
SELECT by('lr_outsider', 'id FROM inbox_claim(''q'')');
-- a consumer's trigger and index code runs as the consumer
CREATE TABLE whoami (who name);
GRANT INSERT ON whoami TO PUBLIC;
CREATE FUNCTION whoami() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO lease_rights.whoami VALUES (current_user); RETURN NEW; END $$;
CREATE TRIGGER t AFTER UPDATE ON q FOR EACH ROW EXECUTE FUNCTION whoami();
SELECT refill('q') IS NOT NULL;
SELECT by('lr_worker', 'id FROM inbox_claim(''q'')');
SELECT DISTINCT who FROM whoami WHERE who <> session_user;

DROP SCHEMA lease_rights CASCADE;
DROP ROLE lr_owner, lr_producer, lr_observer, lr_worker, lr_nodelete, lr_columns, lr_outsider, lr_a, lr_b, lr_b2;
