# Subscriptions: what a handler does to its own message, errors that could be
# taken for something else, and definitions that change under its feet.

use strict;
use warnings;
use lib 't', 'test/t';
use InboxTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('own', 'inbox.max_subscription_workers = 8');
my $db = 'postgres';

$node->safe_psql($db, q{
	CREATE EXTENSION inbox;
	CREATE TABLE eff (k text, v text);
});

# Wait until a query gives this.
sub becomes { return query_becomes($node, $db, @_); }

# What a subscription has done with so many messages, when it is through.
sub counts
{
	my ($queue, $want, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	becomes("SELECT handled || ' ' || failed || ' ' || undecodable || ' ' || lost FROM inbox_subscriptions WHERE name = '$queue'", $want, $name);
	return;
}

# ---------------------------------------------------------------------------
# A handler that settles or deletes its own message: that is its decision.  On a
# plain queue; on one that is written by SQL; on one where extensions make
# another receipt.

$node->safe_psql($db, q{
	CREATE FUNCTION own(d inbox_delivery) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		q text = d.payload->>'q';
	BEGIN
		INSERT INTO eff VALUES (q, d.payload->>'do');
		CASE d.payload->>'do'
			WHEN 'delete' THEN EXECUTE format('DELETE FROM %I WHERE id = $1', q) USING d.id::bigint;
			WHEN 'done' THEN PERFORM inbox_settle(q, d.receipt);
			WHEN 'retry' THEN PERFORM inbox_settle(q, d.receipt, 'retry', delay => '1 h', error => 'later');
			WHEN 'dead' THEN PERFORM inbox_settle(q, d.receipt, 'dead', error => 'enough');
			WHEN 'extend' THEN PERFORM inbox_extend(q, d.receipt, '1 h');
			WHEN 'change' THEN EXECUTE format('UPDATE %I SET payload = ''{}'' WHERE id = $1', q) USING d.id::bigint;
			WHEN 'undone' THEN
				BEGIN
					PERFORM inbox_settle(q, d.receipt, 'retry', delay => '1 h');
					RAISE EXCEPTION 'never mind';
				EXCEPTION WHEN raise_exception THEN NULL;
				END;
			ELSE NULL;
		END CASE;
	END $$;
	CREATE FUNCTION same() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
	CREATE TABLE by_expiry (id bigserial PRIMARY KEY, payload jsonb, due_at timestamptz DEFAULT now(), attempt int NOT NULL DEFAULT 1, locked_until timestamptz, last_error text);
	CREATE TABLE by_expiry_dead (LIKE by_expiry, died_at timestamptz, cause text);
	SELECT inbox_create('direct', max_attempts => 5);
	SELECT inbox_create('by_sql', max_attempts => 5);
	CREATE TRIGGER same BEFORE UPDATE OR DELETE ON by_sql FOR EACH ROW WHEN (false) EXECUTE FUNCTION same();
	SELECT inbox_adopt('by_expiry', payload => 'payload', due_at => 'due_at', attempt => 'attempt', last_error => 'last_error', max_attempts => 5, dead_letter => 'by_expiry_dead');
});
for my $queue ('direct', 'by_sql', 'by_expiry')
{
	$node->safe_psql($db, qq{
		INSERT INTO $queue (payload) SELECT jsonb_build_object('q', '$queue', 'do', what)
			FROM generate_series(1, 3), unnest('{delete,done,retry,dead,extend,change,undone,nothing}'::text[]) what;
		SELECT inbox_subscribe('$queue', '$queue', 'own(inbox_delivery)');
	});
	counts($queue, '24 0 0 0', "$queue: all are handled, none failed or lost");
	is($node->safe_psql($db, "SELECT count(*) || ' ' || count(DISTINCT v) FROM eff WHERE k = '$queue'"), '24 8', "$queue: each once");
	is($node->safe_psql($db, "SELECT string_agg((payload->>'do') || attempt || last_error || (locked_until IS NULL) || (due_at > now() + interval '50 min'), ' ') FROM $queue"),
		join(' ', ('retry2latertruetrue') x 3), "$queue: what the handler wants retried stays, and rests");
	is($node->safe_psql($db, "SELECT string_agg((payload->>'do') || last_error, ' ') FROM ${queue}_dead"), join(' ', ('deadenough') x 3), "$queue: and what it buries is buried");
	$node->safe_psql($db, "SELECT inbox_unsubscribe('$queue')");
}

# Messages that are handled without a lease at first
$node->safe_psql($db, q{
	CREATE FUNCTION own_quick(j jsonb) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		INSERT INTO eff VALUES ('quick', j->>'n');
		IF (j->>'n')::int % 100 = 0 THEN DELETE FROM quick WHERE payload = j; END IF;
	END $$;
	SELECT inbox_create('quick', max_attempts => 1);
	INSERT INTO quick (payload) SELECT jsonb_build_object('n', n) FROM generate_series(1, 1000) n;
	SELECT inbox_subscribe('quick', 'quick', 'own_quick(jsonb)');
});
counts('quick', '1000 0 0 0', 'without a lease, too');
is($node->safe_psql($db, "SELECT count(*) || ' ' || count(DISTINCT v) FROM eff WHERE k = 'quick'"), '1000 1000', 'each once');
$node->safe_psql($db, "SELECT inbox_unsubscribe('quick')");

# A handler that deletes others' messages handles them as little as if each had
# a transaction to itself
$node->safe_psql($db, q{
	CREATE FUNCTION collapse(d inbox_delivery) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		INSERT INTO eff VALUES ('collapse', d.id);
		DELETE FROM collapse WHERE id <> d.id::bigint AND payload = d.payload;
	END $$;
	SELECT inbox_create('collapse', max_attempts => 1);
	SELECT inbox_subscribe('collapse', 'collapse', 'collapse(inbox_delivery)');
	INSERT INTO collapse (payload) SELECT to_jsonb(n) FROM generate_series(1, 300) n;
});
becomes('SELECT count(*) FROM collapse', 0, 'many different messages, quickly handled');
$node->safe_psql($db, q{DELETE FROM eff WHERE k = 'collapse'; INSERT INTO collapse (payload) SELECT to_jsonb(n % 5) FROM generate_series(1, 60) n});
becomes('SELECT count(*) FROM collapse', 0, 'and such as make each other needless');
is($node->safe_psql($db, "SELECT count(*) FROM eff WHERE k = 'collapse'"), 5, 'one of each is handled');
$node->safe_psql($db, "SELECT inbox_unsubscribe('collapse')");

# ---------------------------------------------------------------------------
# Errors that look like something else

# another settlement's IB001 is an error like any other
$node->safe_psql($db, q{
	CREATE FUNCTION strict_one(j jsonb) RETURNS void LANGUAGE sql AS $$ SELECT inbox_settle('direct', '1@1', strict => true) $$;
	SELECT inbox_create('q_strict', max_attempts => 2, backoff => '0 s');
	SELECT inbox_send('q_strict', '1');
	SELECT inbox_subscribe('q_strict', 'q_strict', 'strict_one(jsonb)');
});
counts('q_strict', '0 2 0 0', 'a strict settlement that fails in a handler fails the handling');
like($node->safe_psql($db, 'SELECT cause || last_error FROM q_strict_dead'), qr/^failed.*SQLSTATE IB001/, 'with its text');
$node->safe_psql($db, "SELECT inbox_unsubscribe('q_strict')");

# what happens while a payload is decoded is not always the payload's fault
$node->safe_psql($db, q{
	CREATE SEQUENCE decoded;
	CREATE FUNCTION slow_once(n int) RETURNS bool LANGUAGE plpgsql AS $$
	BEGIN
		IF n = 1 AND nextval('decoded') = 1 THEN PERFORM pg_sleep(60); END IF;
		IF n = 2 AND nextval('decoded') < 4 THEN RAISE EXCEPTION 'no room' USING ERRCODE = 'out_of_memory'; END IF;
		RETURN n < 3;
	END $$;
	CREATE DOMAIN slow AS int CHECK (slow_once(VALUE));
	CREATE FUNCTION h_slow(s slow) RETURNS void LANGUAGE plpgsql AS $$ BEGIN INSERT INTO eff VALUES ('slow', s::text); END $$;
	SELECT inbox_create('q_slow', backoff => '0 s');
	INSERT INTO q_slow (payload) VALUES ('1');
	SELECT inbox_subscribe('q_slow', 'q_slow', 'h_slow(slow)', time_limit => '300 ms');
});
counts('q_slow', '1 1 0 0', 'decoding that was broken off is a failure, and tried again');
$node->safe_psql($db, q{INSERT INTO q_slow (payload) VALUES ('2')});
counts('q_slow', '2 2 0 0', 'so is one that found no memory');
$node->safe_psql($db, q{INSERT INTO q_slow (payload) VALUES ('3')});
counts('q_slow', '2 2 1 0', 'a check that is violated is not');
is($node->safe_psql($db, "SELECT string_agg(v, ' ' ORDER BY v) FROM eff WHERE k = 'slow'"), '1 2', 'nothing was dropped but what cannot be decoded');
$node->safe_psql($db, "SELECT inbox_unsubscribe('q_slow')");

# an array's error names the payload
$node->safe_psql($db, q{
	CREATE DOMAIN numbers AS int[];
	CREATE FUNCTION h_numbers(n numbers) RETURNS void LANGUAGE sql AS 'SELECT';
	SELECT inbox_create('q_numbers', max_attempts => 1);
	INSERT INTO q_numbers (payload) VALUES ('5');
	SELECT inbox_subscribe('q_numbers', 'q_numbers', 'h_numbers(numbers)', on_decode_error => 'dead');
});
becomes('SELECT count(*) FROM q_numbers_dead', 1, 'no array where one is needed');
like($node->safe_psql($db, 'SELECT last_error FROM q_numbers_dead'), qr/expected JSON array.*key "payload"/s, 'it says so');
$node->safe_psql($db, "SELECT inbox_unsubscribe('q_numbers')");

# ---------------------------------------------------------------------------
# A claim that fails does not end the process

$node->safe_psql($db, q{
	CREATE ROLE carl LOGIN; CREATE ROLE eve LOGIN;
	CREATE SCHEMA carl AUTHORIZATION carl;
	SELECT inbox_create('shared', backoff => '0 s');
	CREATE TABLE carls (v text);
	GRANT SELECT, UPDATE, DELETE ON shared TO carl;
	GRANT INSERT ON carls TO PUBLIC;
	SET SESSION AUTHORIZATION carl;
	CREATE FUNCTION carl.h(j jsonb) RETURNS void LANGUAGE sql AS $$ INSERT INTO public.carls VALUES ('first ' || j::text) $$;
	SELECT inbox_subscribe('shared', 'shared', 'carl.h(jsonb)');
});
becomes("SELECT running FROM inbox_subscriptions", 1, 'it runs');
my $pid = $node->safe_psql($db, 'SELECT pids[1] FROM inbox_subscriptions');
$node->safe_psql($db, q{REVOKE DELETE ON shared FROM carl; INSERT INTO shared (payload) VALUES ('1')});
becomes('SELECT last_error FROM inbox_subscriptions', 'permission denied for table shared', 'a right revoked: it says so');
is($node->safe_psql($db, 'SELECT state || pids[1] FROM inbox_subscriptions'), "idle$pid", 'the same process tries again');
$node->safe_psql($db, 'GRANT DELETE ON shared TO carl');
becomes('SELECT count(*) FROM shared', 0, 'and goes on when it may');
is($node->safe_psql($db, 'SELECT pids[1] FROM inbox_subscriptions'), $pid, 'the same');

# An owner who may not connect, a handler that may not be called
for my $case (['ALTER ROLE carl NOLOGIN', 'ALTER ROLE carl LOGIN', 'the owner may not log in'],
	['REVOKE CONNECT ON DATABASE postgres FROM PUBLIC', 'GRANT CONNECT ON DATABASE postgres TO PUBLIC', 'the owner may not connect to this database'],
	['REVOKE EXECUTE ON FUNCTION carl.h(jsonb) FROM PUBLIC, carl', 'GRANT EXECUTE ON FUNCTION carl.h(jsonb) TO carl', 'the owner may not execute the handler'])
{
	my ($before, $after, $problem) = @$case;

	next if $problem =~ /log in/ && $node->safe_psql($db, 'SHOW server_version_num') >= 170000;
	$node->safe_psql($db, "$before; INSERT INTO shared (payload) VALUES ('2')");
	becomes("SELECT state || ' ' || running || ' ' || problem FROM inbox_subscriptions", "waiting 0 $problem", "$problem: it says so");
	is($node->safe_psql($db, 'SELECT count(*) FROM inbox_leases'), 0, 'and nothing is claimed');
	$node->safe_psql($db, $after);
	becomes('SELECT count(*) FROM shared', 0, 'it goes on when he may');
}

# ---------------------------------------------------------------------------
# A handler dropped and made anew

$node->safe_psql($db, 'BEGIN; DROP FUNCTION carl.h(jsonb); ' .
	q{SET LOCAL SESSION AUTHORIZATION carl; CREATE FUNCTION carl.h(k jsonb) RETURNS int LANGUAGE sql AS $$ INSERT INTO public.carls VALUES ('second') RETURNING 1 $$; COMMIT});
$node->safe_psql($db, q{INSERT INTO shared (payload) VALUES ('3')});
becomes("SELECT count(*) FROM carls WHERE v = 'second'", 1, 'a handler made anew by the owner is taken up');
$node->safe_psql($db, 'DROP FUNCTION carl.h(jsonb); GRANT USAGE, CREATE ON SCHEMA carl TO eve');
becomes("SELECT state || ' ' || problem FROM inbox_subscriptions", 'broken the handler does not exist', 'it is dropped');
$node->safe_psql($db, q{INSERT INTO shared (payload) VALUES ('4'); SET SESSION AUTHORIZATION eve; CREATE FUNCTION carl.h(j jsonb) RETURNS void LANGUAGE sql AS $$ INSERT INTO public.carls VALUES (current_user) $$});
ok(ticks_on($node, $db, $db), 'time goes by');
is($node->safe_psql($db, "SELECT state || ' ' || (SELECT count(*) FROM shared) FROM inbox_subscriptions"), 'broken 1', 'one that somebody else has put there is not');
$node->safe_psql($db, q{ALTER FUNCTION carl.h(jsonb) OWNER TO carl});
becomes("SELECT count(*) FROM carls WHERE v = 'carl'", 1, 'until he owns it');
is($node->safe_psql($db, 'SELECT attempt FROM shared'), '', 'nothing is left');

# ---------------------------------------------------------------------------
# From the commit on

$node->safe_psql($db, q{
	CREATE FUNCTION which(j jsonb) RETURNS void LANGUAGE sql AS $$ INSERT INTO eff VALUES ('which', 'old ' || j::text) $$;
	CREATE FUNCTION other(j jsonb) RETURNS void LANGUAGE sql AS $$ INSERT INTO eff VALUES ('which', 'new ' || j::text) $$;
	SELECT inbox_create('now');
	SELECT inbox_subscribe('now', 'now', 'which(jsonb)');
	INSERT INTO now (payload) SELECT '0' FROM generate_series(1, 500);
});
becomes('SELECT count(*) FROM now', 0, 'at work');
my $wrong = 0;
for my $i (1 .. 20)
{
	my ($old, $new) = $i % 2 ? ('which', 'other') : ('other', 'which');

	# in one connection, so that the message follows at once
	$node->safe_psql($db, "SELECT inbox_alter_subscription('now', handler => '$new(jsonb)');\nINSERT INTO now (payload) VALUES ('$i')");
	$node->poll_query_until($db, 'SELECT count(*) = 0 FROM now');
	$wrong++ if $node->safe_psql($db, "SELECT v FROM eff WHERE v LIKE '% $i'") ne ($i % 2 ? "new $i" : "old $i");
}
is($wrong, 0, 'what is sent after an alteration the new handler gets');
$node->safe_psql($db, "SELECT inbox_pause_subscription('now');\nINSERT INTO now (payload) SELECT '99' FROM generate_series(1, 10)");
becomes("SELECT state FROM inbox_subscriptions WHERE name = 'now'", 'paused', 'paused');
is($node->safe_psql($db, "SELECT count(*) || ' ' || max(attempt) FROM now"), '10 1', 'what is sent after a pause nobody handles');

# a handler that ends its subscription has handled the last message
$node->safe_psql($db, q{
	CREATE FUNCTION last(j jsonb) RETURNS void LANGUAGE sql AS $$ INSERT INTO eff VALUES ('last', j::text); SELECT inbox_unsubscribe('now') $$;
	SELECT inbox_alter_subscription('now', handler => 'last(jsonb)');
	SELECT inbox_resume_subscription('now');
});
becomes("SELECT count(*) FROM inbox_subscriptions WHERE name = 'now'", 0, 'a handler ends its own subscription');
becomes("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'inbox subscription' AND usename <> 'carl'", 0, 'the process leaves');
is($node->safe_psql($db, "SELECT (SELECT count(*) FROM eff WHERE k = 'last') || ' ' || count(*) || ' ' || max(attempt) FROM now"), '1 9 1', 'after the message at hand');

$node->stop;
done_testing();
