# Subscriptions: what handlers get, and what becomes of messages that cannot
# be decoded or whose handler fails.

use strict;
use warnings;
use lib 't', 'test/t';
use InboxTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('handlers', 'inbox.max_subscription_workers = 4');
my $db = 'postgres';

$node->safe_psql($db, q{
	CREATE EXTENSION inbox;
	CREATE TABLE eff (k text, v text, pid int DEFAULT pg_backend_pid());
});

# Wait until a query gives this.
sub becomes { return query_becomes($node, $db, @_); }

# A queue with one subscription, and messages; done when the queue is empty.
sub handled
{
	my ($queue, $messages, $subscribe, $name, %opt) = @_;

	$node->safe_psql($db, "SELECT inbox_create('$queue', lease => '5 s', max_attempts => 2, backoff => '0 s')");
	$node->safe_psql($db, $opt{before}) if $opt{before};
	$node->safe_psql($db, "INSERT INTO $queue (payload) VALUES $messages");
	$node->safe_psql($db, "SELECT inbox_subscribe('$queue', '$queue', $subscribe)");
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	becomes("SELECT count(*) FROM $queue", 0, "$name: all dealt with");
	becomes("SELECT running FROM inbox_subscriptions WHERE name = '$queue'", 1, "$name: its process lives on");
	return;
}

sub unsubscribe
{
	my ($queue) = @_;
	$node->safe_psql($db, "SELECT inbox_unsubscribe('$queue')");
	return;
}

sub dead
{
	my ($queue) = @_;
	return $node->safe_psql($db, "SELECT cause || ' ' || attempt || ' ' || left(coalesce(last_error, ''), 60) FROM ${queue}_dead ORDER BY id");
}

# ---------------------------------------------------------------------------
# What a handler can take

$node->safe_psql($db, q{
	CREATE FUNCTION h_jsonb(j jsonb) RETURNS void LANGUAGE sql AS $$ INSERT INTO eff VALUES ('jsonb', j::text) $$;
	CREATE TYPE job AS (n int, k text);
	CREATE FUNCTION h_composite(j job) RETURNS void LANGUAGE plpgsql AS $$ BEGIN INSERT INTO eff VALUES ('composite', j.n || ' ' || coalesce(j.k, 'null')); END $$;
	CREATE DOMAIN small AS int CHECK (VALUE < 100);
	CREATE FUNCTION h_domain(s small) RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO eff VALUES ('domain', s::text); RETURN 1; END $$;
	CREATE DOMAIN withkey AS jsonb CHECK (VALUE ? 'k');
	CREATE FUNCTION h_jsondomain(s withkey) RETURNS void LANGUAGE sql AS $$ INSERT INTO eff VALUES ('jsondomain', s->>'k') $$;
	CREATE DOMAIN full_job AS job CHECK ((VALUE).n > 0);
	CREATE PROCEDURE h_procedure(j full_job) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO eff VALUES ('procedure', j.n::text); END $$;
	CREATE FUNCTION h_delivery(d inbox_delivery) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN INSERT INTO eff VALUES ('delivery', d.id || ' ' || d.attempt || ' ' || d.max_attempts || ' ' || d.payload::text || ' ' || (d.locked_until > clock_timestamp())); END $$;
});

handled('q_jsonb', q{('{"a":1}'), ('3'), ('null')}, "'h_jsonb(jsonb)'", 'jsonb');
is($node->safe_psql($db, "SELECT string_agg(v, ' ' ORDER BY v) FROM eff WHERE k = 'jsonb'"), '3 null {"a": 1}', 'jsonb: as it is');
unsubscribe('q_jsonb');

handled('q_delivery', q{('{"a":1}')}, "'h_delivery(inbox_delivery)'", 'inbox_delivery');
is($node->safe_psql($db, "SELECT v FROM eff WHERE k = 'delivery'"), '1 1 2 {"a": 1} true', 'inbox_delivery: all of it');
unsubscribe('q_delivery');

handled('q_row', q{('{"a":1}')}, "'h_row(q_row)'", "the queue's row type",
	before => q{CREATE FUNCTION h_row(r q_row) RETURNS void LANGUAGE plpgsql AS $$
		BEGIN INSERT INTO eff VALUES ('row', r.id || ' ' || r.attempt || ' ' || r.payload::text || ' ' || (r.locked_until > clock_timestamp())); END $$});
is($node->safe_psql($db, "SELECT v FROM eff WHERE k = 'row'"), '1 1 {"a": 1} true', 'row type: as it is now');
unsubscribe('q_row');

# ---------------------------------------------------------------------------
# Decoding

handled('q_composite', q{('{"n":1,"k":"x"}'), ('{"n":2,"k":null,"more":true}'), ('{"n":3}'), ('{"n":"four","k":"x"}'),
	('{"n":99999999999,"k":"x"}'), ('[1]'), ('7'), ('null'), ('{"n":{"a":1},"k":"x"}')},
	"'h_composite(job)', on_decode_error => 'dead'", 'composite');
is($node->safe_psql($db, "SELECT string_agg(v, ', ' ORDER BY v) FROM eff WHERE k = 'composite'"), '1 x, 2 null', 'composite: only what decodes is handled');
my $dead = dead('q_composite');
my $undecodable = () = $dead =~ /^undecodable 1 /mg;
is($undecodable, 7, 'composite: what misses a field, mistypes one, is out of range, or no object') or diag($dead);
like($dead, qr/payload has no field "k"/, 'a missing field is named');
becomes("SELECT handled || ' ' || failed || ' ' || undecodable FROM inbox_subscriptions WHERE name = 'q_composite'", '2 0 7', 'and counted');
unsubscribe('q_composite');

handled('q_domain', q{('5'), ('500'), ('"x"'), ('null')}, "'h_domain(small)', on_decode_error => 'dead'", 'domain');
is($node->safe_psql($db, "SELECT string_agg(coalesce(v, 'null'), ' ' ORDER BY v) FROM eff WHERE k = 'domain'"), '5 null', 'domain: its check decides, and it allows null');
like(dead('q_domain'), qr/undecodable 1 value for domain small violates check constraint.*undecodable 1 invalid input syntax/s, 'domain: why');
unsubscribe('q_domain');

handled('q_strict', q{('5'), ('null')}, "'h_strict(small)', on_decode_error => 'dead'", 'strict',
	before => q{CREATE FUNCTION h_strict(s small) RETURNS void STRICT LANGUAGE sql AS 'SELECT'});
like(dead('q_strict'), qr/^undecodable 1 payload is null/, 'a strict handler gets no null');
unsubscribe('q_strict');

handled('q_jsondomain', q{('{"k":"yes"}'), ('{"l":"no"}')}, "'h_jsondomain(withkey)'", 'domain over jsonb');
is($node->safe_psql($db, "SELECT string_agg(v, ' ') FROM eff WHERE k = 'jsondomain'"), 'yes', 'domain over jsonb: its check decides');
is(dead('q_jsondomain'), '', 'drop: the default for what cannot be decoded');
unsubscribe('q_jsondomain');

handled('q_procedure', q{('{"n":1,"k":"x"}'), ('{"n":-1,"k":"x"}')}, "'h_procedure(full_job)', on_decode_error => 'retry', decode_delay => '0'", 'procedure');
is($node->safe_psql($db, "SELECT string_agg(v, ' ') FROM eff WHERE k = 'procedure'"), '1', 'a procedure with a domain over a composite type');
like(dead('q_procedure'), qr/^undecodable 2 /, 'retry: up to the cap, then a dead letter that says so');
unsubscribe('q_procedure');

# a payload column that cannot be read: json with what jsonb cannot hold
$node->safe_psql($db, q{
	CREATE TABLE unreadable (id bigserial PRIMARY KEY, body json, locked_until timestamptz, claimed_at timestamptz, attempt int NOT NULL DEFAULT 1, last_error text);
	SELECT inbox_adopt('unreadable', payload => 'body', claimed_at => 'claimed_at', attempt => 'attempt', last_error => 'last_error');
	INSERT INTO unreadable (body) VALUES ('{"a":"\u0000"}'), ('{"a":"fine"}'), ('{"a":"\u0000"}');
	SELECT inbox_subscribe('unreadable', 'unreadable', 'h_jsonb(jsonb)');
});
becomes('SELECT count(*) FROM unreadable', 0, 'an unreadable payload does not stop the rest');
is($node->safe_psql($db, q{SELECT count(*) FROM eff WHERE v = '{"a": "fine"}'}), 1, 'which is handled');
becomes("SELECT undecodable FROM inbox_subscriptions WHERE name = 'unreadable'", 2, 'and the others counted');
unsubscribe('unreadable');

# ---------------------------------------------------------------------------
# Failures

$node->safe_psql($db, q{
	CREATE SEQUENCE calls;
	CREATE FUNCTION h_fail(j jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO eff VALUES ('fail', j->>'n');
		IF (j->>'n')::int % 3 = 0 THEN RAISE EXCEPTION 'unlucky %', j->>'n' USING ERRCODE = 'XX123'; END IF; END $$;
});
handled('q_fail', "('{}')", "'h_fail(jsonb)'", 'failing handler',
	before => q{INSERT INTO q_fail (payload) SELECT jsonb_build_object('n', n) FROM generate_series(1, 300) n});
is($node->safe_psql($db, "SELECT count(*) || ' ' || count(DISTINCT v) FROM eff WHERE k = 'fail' AND v IS NOT NULL"), '200 200', 'effects once, those of failed handlings undone');
is($node->safe_psql($db, "SELECT count(*) || ' ' || min(attempt) || ' ' || max(attempt) || ' ' || min(cause) FROM q_fail_dead"), '100 2 2 failed', 'the others are dead letters after two attempts');
like($node->safe_psql($db, "SELECT last_error FROM q_fail_dead LIMIT 1"), qr/^unlucky \d+ \(SQLSTATE XX123\)\nCONTEXT:  PL\/pgSQL function h_fail\(jsonb\) line/, 'message, SQLSTATE and context are kept');
becomes("SELECT handled || ' ' || failed FROM inbox_subscriptions WHERE name = 'q_fail'", '201 200', 'and counted');
like($node->safe_psql($db, "SELECT last_error FROM inbox_subscriptions WHERE name = 'q_fail' AND last_error_at > now() - interval '1 minute'"), qr/^unlucky/, 'and shown');
$node->safe_psql($db, "SELECT inbox_alter_subscription('q_fail', on_error => 'dead')");
$node->safe_psql($db, q{INSERT INTO q_fail (payload) VALUES ('{"n":9}')});
becomes("SELECT attempt || cause FROM q_fail_dead WHERE payload->>'n' = '9' ORDER BY id DESC LIMIT 1", '1buried', 'on_error => dead: at once');
unsubscribe('q_fail');

# Deferred constraints, seen as the handler's failure
$node->safe_psql($db, q{
	CREATE TABLE parent (id int PRIMARY KEY);
	CREATE TABLE child (id int REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
	CREATE FUNCTION h_deferred(j jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO child VALUES ((j->>'n')::int);
		IF (j->>'n')::int % 10 <> 0 THEN INSERT INTO parent VALUES ((j->>'n')::int); END IF; END $$;
});
handled('q_deferred', "('{\"n\":0}')", "'h_deferred(jsonb)'", 'deferred constraint',
	before => q{INSERT INTO q_deferred (payload) SELECT jsonb_build_object('n', n) FROM generate_series(1, 99) n});
is($node->safe_psql($db, "SELECT count(*) FROM child"), 90, 'deferred constraint: what keeps it is done');
is($node->safe_psql($db, "SELECT count(*) || ' ' || min(cause) FROM q_deferred_dead WHERE last_error LIKE '%violates foreign key%'"), '10 failed', 'deferred constraint: what breaks it has failed');
unsubscribe('q_deferred');

# Things that one handling leaves in its transaction
$node->safe_psql($db, q{
	CREATE FUNCTION h_temp(j jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
		CREATE TEMP TABLE scratch (v text) ON COMMIT DROP;
		INSERT INTO scratch VALUES (j->>'n');
		INSERT INTO eff SELECT 'temp', v FROM scratch; END $$;
	CREATE FUNCTION h_set(j jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO eff VALUES ('set', current_setting('my.var', true));
		PERFORM set_config('my.var', 'left over', true), set_config('work_mem', '99MB', false);
		INSERT INTO eff VALUES ('set', current_setting('work_mem')); END $$;
	CREATE PROCEDURE h_commit(j jsonb) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO eff VALUES ('commit'); COMMIT; END $$;
	CREATE FUNCTION h_slow(j jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO eff VALUES ('slow', j->>'n'); PERFORM pg_sleep((j->>'s')::float); END $$;
});
handled('q_temp', "('{\"n\":0}')", "'h_temp(jsonb)'", 'temporary table',
	before => q{INSERT INTO q_temp (payload) SELECT jsonb_build_object('n', n) FROM generate_series(1, 49) n});
is($node->safe_psql($db, "SELECT count(DISTINCT v) || ' ' || count(*) FROM eff WHERE k = 'temp'"), '50 50', 'a temporary table to be dropped at commit is no trouble');
is($node->safe_psql($db, "SELECT failed FROM inbox_subscriptions WHERE name = 'q_temp'"), 0, 'nor counted as one');
unsubscribe('q_temp');

handled('q_set', "('{}')", "'h_set(jsonb)'", 'settings',
	before => q{INSERT INTO q_set (payload) SELECT '{}' FROM generate_series(1, 49) n});
is($node->safe_psql($db, "SELECT count(*) FROM eff WHERE k = 'set' AND v = 'left over'"), 0, 'settings end with the handling that made them');
unsubscribe('q_set');

handled('q_commit', "('{}')", "'h_commit(jsonb)'", 'procedure that commits');
like(dead('q_commit'), qr/^failed 2 invalid transaction termination \(SQLSTATE 2D000\)/, 'a procedure may not commit');
is($node->safe_psql($db, "SELECT count(*) FROM eff WHERE k = 'commit'"), 0, 'and nothing of it stays');
unsubscribe('q_commit');

handled('q_slow', q{('{"n":1,"s":0}'), ('{"n":2,"s":60}'), ('{"n":3,"s":0}')}, "'h_slow(jsonb)', time_limit => '2 s'", 'time limit');
is($node->safe_psql($db, "SELECT string_agg(v, ' ' ORDER BY v) FROM eff WHERE k = 'slow'"), '1 3', 'a handling over its limit is undone, the next is not harmed');
like(dead('q_slow'), qr/^failed 2 canceling statement due to statement timeout/, 'and fails');
unsubscribe('q_slow');

# ---------------------------------------------------------------------------
# Short handlings that go well need no lease

$node->safe_psql($db, q{
	CREATE FUNCTION h_quick(j jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO eff SELECT CASE WHEN locked_until IS NULL THEN 'quick' ELSE 'leased' END, j->>'n' FROM q_quick WHERE id = (j->>'n')::int;
		IF j->>'n' = '700' AND (SELECT locked_until IS NULL FROM q_quick WHERE id = 700) THEN PERFORM pg_sleep(60); END IF;
		IF j->>'n' IN ('500', '900') THEN RAISE EXCEPTION 'not this one'; END IF;
		END $$;
});
handled('q_quick', "('{\"n\":1000}')", "'h_quick(jsonb)'", 'without a lease',
	before => q{INSERT INTO q_quick (payload) SELECT jsonb_build_object('n', n) FROM generate_series(1, 999) n});
cmp_ok($node->safe_psql($db, "SELECT count(*) FROM eff WHERE k = 'quick'"), '>', 100, 'some were handled without');
is($node->safe_psql($db, "SELECT count(*) || ' ' || count(DISTINCT v) FROM eff WHERE k IN ('quick', 'leased')"), '998 998', 'each once');
is($node->safe_psql($db, "SELECT string_agg(id || cause || attempt, ' ' ORDER BY id) FROM q_quick_dead"), '500failed2 900failed2', 'what fails is counted');
is($node->safe_psql($db, "SELECT k FROM eff WHERE v = '700' AND k IN ('quick', 'leased')"), 'leased', 'what takes long gets a lease');
is($node->safe_psql($db, "SELECT sent || ' ' || done || ' ' || settled_dead FROM inbox_queues WHERE queue = 'public.q_quick'"), '1000 998 2', 'and all are counted')
	or diag($node->safe_psql($db, "SELECT claimed, done, lost, failed, handled FROM inbox_queues, inbox_subscriptions WHERE name = 'q_quick' AND inbox_queues.queue = 'public.q_quick'"));
unsubscribe('q_quick');

# one that fails only without a lease has not failed, and nobody else has
$node->safe_psql($db, q{
	CREATE SEQUENCE unleased_calls;
	CREATE SEQUENCE unleased_raised;
	CREATE TABLE unleased (n int, leased boolean, xid xid8 DEFAULT pg_current_xact_id());
	CREATE FUNCTION h_unleased(j jsonb) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		free bool = (SELECT locked_until IS NULL FROM q_unleased WHERE id = (j->>'n')::int);
	BEGIN
		PERFORM nextval('unleased_calls');
		INSERT INTO unleased VALUES ((j->>'n')::int, NOT free);
		IF free AND (j->>'n')::int IN (300, 400, 500) THEN PERFORM nextval('unleased_raised'); RAISE EXCEPTION 'not without a lease'; END IF;
	END $$;
});
handled('q_unleased', "('{\"n\":3000}')", "'h_unleased(jsonb)'", 'failing without a lease',
	before => q{INSERT INTO q_unleased (payload) SELECT jsonb_build_object('n', n) FROM generate_series(1, 2999) n});
is($node->safe_psql($db, 'SELECT is_called FROM unleased_raised'), 't', 'that has happened');
is($node->safe_psql($db, 'SELECT count(*) || \' \' || count(DISTINCT n) FROM unleased'), '3000 3000', 'each is handled once');
cmp_ok($node->safe_psql($db, 'SELECT last_value FROM unleased_calls'), '>', 3000, 'though what shared the transaction was called again');
is($node->safe_psql($db, "SELECT count(*) FROM unleased WHERE n IN (300, 400, 500) AND NOT leased"), 0, 'those that failed had a lease then');
cmp_ok($node->safe_psql($db, 'SELECT max(c) FROM (SELECT count(*) c FROM unleased WHERE NOT leased GROUP BY xid) x'), '>', 1, 'several share a transaction');
is($node->safe_psql($db, "SELECT count(*) FROM unleased WHERE NOT leased AND xmin::text <> xid::text"), 0, 'without subtransactions');
is($node->safe_psql($db, "SELECT failed || ' ' || handled FROM inbox_subscriptions WHERE name = 'q_unleased'"), '0 3000', 'no failure is counted');
is($node->safe_psql($db, "SELECT count(*) FROM q_unleased_dead"), 0, 'and no attempt was in vain');
unsubscribe('q_unleased');

# ---------------------------------------------------------------------------
# by SQL, and where extensions change the receipt

$node->safe_psql($db, q{
	CREATE TABLE plain (id text PRIMARY KEY, body jsonb, key text, locked_until timestamptz) PARTITION BY HASH (id);
	CREATE TABLE plain_1 (more int, key text, locked_until timestamptz, body jsonb, id text NOT NULL);
	ALTER TABLE plain_1 DROP COLUMN more;
	ALTER TABLE plain ATTACH PARTITION plain_1 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
	CREATE TABLE plain_2 PARTITION OF plain FOR VALUES WITH (MODULUS 2, REMAINDER 1);
	SELECT inbox_adopt('plain', payload => 'body', partition_key => 'key', lease => '1 s');
	INSERT INTO plain SELECT 'id' || n, jsonb_build_object('n', 'p' || n, 's', CASE n WHEN 5 THEN 2.5 ELSE 0 END), 'k' || n % 5 FROM generate_series(1, 100) n;
	SELECT inbox_subscribe('plain', 'plain', 'h_slow(jsonb)', workers => 2, by_key => true);
});
becomes('SELECT count(*) FROM plain', 0, 'partitioned table: all dealt with');
is($node->safe_psql($db, "SELECT count(DISTINCT v) || ' ' || count(*) FROM eff WHERE v LIKE 'p%' AND k = 'slow'"), '100 100', 'each once, though one outlived two leases');
is($node->safe_psql($db, "SELECT max(n) FROM (SELECT count(DISTINCT pid) n FROM eff WHERE v LIKE 'p%' AND k = 'slow' GROUP BY substr(v, 2)::int % 5) x"), 1, 'a key stays with one process');
unsubscribe('plain');

# ---------------------------------------------------------------------------
# FIFO groups, over several processes, with failures in between

$node->safe_psql($db, q{
	CREATE TABLE done_in (g text, n int, at timestamptz DEFAULT clock_timestamp());
	CREATE FUNCTION h_group(j jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO done_in VALUES (j->>'g', (j->>'n')::int);
		IF random() < 0.03 THEN RAISE EXCEPTION 'once more'; END IF; END $$;
	SELECT inbox_create('q_fifo', fifo => true, backoff => '0 s');
	INSERT INTO q_fifo (payload, group_key) SELECT jsonb_build_object('g', n % 13, 'n', n), n % 13 FROM generate_series(1, 600) n;
	SELECT inbox_subscribe('q_fifo', 'q_fifo', 'h_group(jsonb)', workers => 3);
});
becomes('SELECT count(*) FROM q_fifo', 0, 'FIFO groups: all dealt with');
is($node->safe_psql($db, 'SELECT count(*), count(DISTINCT n) FROM done_in'), '600|600', 'each once');
is($node->safe_psql($db, 'SELECT count(*) FROM (SELECT n < lag(n) OVER (PARTITION BY g ORDER BY at) bad FROM done_in) x WHERE bad'), 0, 'and each group in order');
unsubscribe('q_fifo');

$node->stop;
done_testing();
