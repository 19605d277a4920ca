# Subscriptions: the life of their processes, and the leases of what they have
# in work.

use strict;
use warnings;
use lib 't', 'test/t';
use InboxTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = new_node('life', 'inbox.max_subscription_workers = 4');
my $db = 'd1';

$node->safe_psql('postgres', 'CREATE DATABASE d1');
$node->safe_psql($db, q{
	CREATE EXTENSION inbox;
	CREATE TABLE eff (n int, pid int DEFAULT pg_backend_pid(), note text, at timestamptz DEFAULT clock_timestamp());
	CREATE FUNCTION h(j jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO eff (n) VALUES ((j->>'n')::int);
		PERFORM pg_sleep(coalesce((j->>'s')::float, 0)); END $$;
	SELECT inbox_create('q', lease => '2 s', max_attempts => 3, backoff => '0 s');
});

sub becomes { return query_becomes($node, $db, @_); }

sub send_n
{
	my ($from, $to, $sleep) = @_;
	$node->safe_psql($db, "INSERT INTO q (payload, partition_key) SELECT jsonb_build_object('n', n, 's', $sleep), 'k' || n % 7 FROM generate_series($from, $to) n");
	return;
}

# every message handled once, and none left
sub all_once
{
	my ($from, $to, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	becomes('SELECT count(*) FROM q', 0, "$name: the queue is empty");
	is($node->safe_psql($db, "SELECT count(DISTINCT n) || ' ' || count(*) FROM eff WHERE n BETWEEN $from AND $to"),
		join(' ', ($to - $from + 1) x 2), "$name: each handled once");
	return;
}

sub pids { return split /,/, $node->safe_psql($db, "SELECT array_to_string(pids, ',') FROM inbox_subscriptions WHERE name = '$_[0]'"); }

# ---------------------------------------------------------------------------
# The limit

is((sqlstate($node, $db, "SELECT inbox_subscribe('a', 'q', 'h(jsonb)', workers => 5)"))[0], '53400', 'more workers than the limit: refused');
like((sqlstate($node, $db, "SELECT inbox_subscribe('a', 'q', 'h(jsonb)', workers => 5)"))[1], qr/needs 5 workers.*only 4 of 4 left/, 'with both numbers');
$node->safe_psql($db, "SELECT inbox_subscribe('a', 'q', 'h(jsonb)', workers => 4)");
pass('an exact fit is fine');
becomes("SELECT running || ' ' || state FROM inbox_subscriptions", '4 idle', 'and runs');
is((sqlstate($node, $db, "SELECT inbox_subscribe('b', 'q', 'h(jsonb)')"))[0], '53400', 'one more is refused');
$node->safe_psql('postgres', "CREATE DATABASE d2");
$node->safe_psql('d2', "CREATE EXTENSION inbox; SELECT inbox_create('q'); CREATE FUNCTION h(j jsonb) RETURNS void LANGUAGE sql AS 'SELECT'");
is((sqlstate($node, 'd2', "SELECT inbox_subscribe('b', 'q', 'h(jsonb)')"))[0], '53400', 'in another database, too');
$node->safe_psql($db, "BEGIN; SELECT inbox_alter_subscription('a', workers => 3); SELECT inbox_subscribe('b', 'q', 'h(jsonb)'); ROLLBACK");
is((sqlstate($node, 'd2', "SELECT inbox_subscribe('b', 'q', 'h(jsonb)')"))[0], '53400', 'what is rolled back changes nothing');
$node->safe_psql($db, "SELECT inbox_alter_subscription('a', workers => 3)");
$node->safe_psql('d2', "SELECT inbox_subscribe('b', 'q', 'h(jsonb)')");
pass('what one gives up another may have');
$node->safe_psql('d2', "SELECT inbox_unsubscribe('b')");
becomes("SELECT running FROM inbox_subscriptions", 3, 'fewer workers run');

# ---------------------------------------------------------------------------
# Processes that end

is($node->safe_psql($db, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'inbox subscription' AND datname = '$db' AND usename = current_user"), 3, 'seen in pg_stat_activity, as their owner');
send_n(1, 60, 0.05);
my ($victim) = pids('a');
$node->safe_psql($db, "SELECT pg_terminate_backend($victim)");
all_once(1, 60, 'one terminated');
becomes("SELECT running FROM inbox_subscriptions", 3, 'and replaced');
is($node->safe_psql($db, "SELECT count(*) FROM eff WHERE n < 100 AND n IN (SELECT n FROM eff GROUP BY n HAVING count(*) > 1)"), 0, 'nothing is done twice');

send_n(101, 160, 0.05);
becomes("SELECT count(*) > 5 FROM eff WHERE n > 100", 'true', 'under way');
$node->restart;
becomes('SELECT count(*) FROM q', 0, 'after a restart: the queue is empty');
all_once(101, 160, 'server restarted');

send_n(201, 260, 0.05);
becomes("SELECT count(*) > 5 FROM eff WHERE n > 200", 'true', 'under way');
$node->stop('immediate');
$node->start;
all_once(201, 260, 'server stopped immediately');

send_n(301, 360, 0.05);
becomes("SELECT count(*) > 5 FROM eff WHERE n > 300", 'true', 'under way');
($victim) = pids('a');
kill 'KILL', $victim;
wait_up($node);
all_once(301, 360, 'a process killed, and the server with it');

# ---------------------------------------------------------------------------
# Pause, alter, definitions that do not hold any more

$node->safe_psql($db, "SELECT inbox_pause_subscription('a')");
becomes("SELECT state || running FROM inbox_subscriptions", 'paused0', 'paused: nobody runs');
send_n(401, 410, 0);
usleep(300_000);
is($node->safe_psql($db, "SELECT count(*) FROM q"), 10, 'nor is anything handled');
$node->safe_psql($db, "SELECT inbox_resume_subscription('a')");
all_once(401, 410, 'resumed');

$node->safe_psql($db, "DROP FUNCTION h(jsonb)");
send_n(501, 510, 0);
becomes("SELECT state || ': ' || problem FROM inbox_subscriptions", 'broken: the handler does not exist', 'handler dropped: it says so');
becomes("SELECT running FROM inbox_subscriptions", 0, 'and does nothing');
is($node->safe_psql($db, "SELECT count(*) || ' ' || max(attempt) FROM q"), '10 1', 'no attempt is spent');
$node->safe_psql($db, q{CREATE FUNCTION g(j jsonb) RETURNS void LANGUAGE sql AS $$ INSERT INTO eff (n, note) VALUES ((j->>'n')::int, 'g') $$});
$node->safe_psql($db, "SELECT inbox_alter_subscription('a', handler => 'g(jsonb)', workers => 2)");
all_once(501, 510, 'another handler named');
$node->safe_psql($db, q{CREATE OR REPLACE FUNCTION g(j jsonb) RETURNS void LANGUAGE sql AS $$ INSERT INTO eff (n, note) VALUES ((j->>'n')::int, 'replaced') $$});
$node->safe_psql($db, 'ALTER FUNCTION g(jsonb) RENAME TO g2; ALTER TABLE q RENAME TO q2; ALTER TABLE q2 RENAME TO q');
send_n(601, 610, 0);
all_once(601, 610, 'function replaced and renamed, queue renamed and back');
is($node->safe_psql($db, "SELECT count(*) FROM eff WHERE note = 'replaced'"), 10, 'the new body runs');
becomes("SELECT handler FROM inbox_subscription", 'public.g2(pg_catalog.jsonb)', 'and a dump would have the new name');
$node->safe_psql($db, 'ALTER TABLE q RENAME TO "Q 2"');
$node->safe_psql($db, q{INSERT INTO "Q 2" (payload) VALUES ('{"n": 620}')});
becomes('SELECT count(*) FROM eff WHERE n = 620', 1, 'a renamed queue goes on');
is($node->safe_psql($db, 'SELECT queue FROM inbox_subscriptions'), 'public."Q 2"', 'under its new name');
$node->safe_psql($db, 'ALTER TABLE "Q 2" RENAME TO q');
$node->safe_psql($db, "ALTER TABLE q ADD COLUMN more text DEFAULT 'x'; ALTER TABLE q ALTER COLUMN partition_key TYPE varchar");
send_n(630, 640, 0);
all_once(630, 640, 'queue altered');

# ---------------------------------------------------------------------------
# Leases

$node->safe_psql($db, q{
	CREATE FUNCTION long(j jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
		IF j ? 'lock' THEN PERFORM FROM q WHERE id = (j->>'lock')::bigint FOR UPDATE; END IF;
		PERFORM pg_sleep((j->>'s')::float);
		INSERT INTO eff (n) VALUES ((j->>'n')::int); END $$;
	SELECT inbox_alter_subscription('a', handler => 'long(jsonb)', workers => 1, lease => '1 s');
});
becomes("SELECT running FROM inbox_subscriptions", 1, 'one process');
send_n(701, 703, 3);
becomes("SELECT count(*) FROM eff WHERE n BETWEEN 701 AND 703", 3, 'handlers that outlive their lease by far');
is($node->safe_psql($db, "SELECT lost || ' ' || failed FROM inbox_subscriptions"), '0 0', 'keep it');
all_once(701, 703, 'long handlers');

my $id = $node->safe_psql($db, q{INSERT INTO q (payload) VALUES ('{}') RETURNING id});
$node->safe_psql($db, "DELETE FROM q WHERE id = $id; INSERT INTO q (id, payload) OVERRIDING SYSTEM VALUE VALUES ($id, jsonb_build_object('n', 710, 's', 2.5, 'lock', $id))");
all_once(710, 710, 'a handler that locks its own row');

# a lease lost: somebody takes the row by force
$node->safe_psql($db, q{INSERT INTO q (payload) VALUES ('{"n": 720, "s": 60}'), ('{"n": 721, "s": 0}')});
becomes("SELECT state FROM inbox_subscriptions", 'handling', 'a handler at work');
$node->safe_psql($db, "DELETE FROM q WHERE payload->>'n' = '720'");
becomes("SELECT lost FROM inbox_subscriptions", 1, 'its lease lost: it is cancelled');
all_once(721, 721, 'the next message');
is($node->safe_psql($db, "SELECT count(*) FROM eff WHERE n = 720"), 0, 'and nothing of it stays');

# messages behind a slow one are handed to others
$node->safe_psql($db, "SELECT inbox_alter_subscription('a', workers => 2, lease => '30 s')");
becomes("SELECT running FROM inbox_subscriptions", 2, 'two processes');
send_n(731, 800, 0);
becomes('SELECT count(*) FROM q', 0, 'fast ones, by many at once');
$node->safe_psql($db, q{INSERT INTO q (payload) SELECT jsonb_build_object('n', n, 's', CASE n WHEN 810 THEN 60 ELSE 0 END) FROM generate_series(801, 860) n});
becomes("SELECT count(*) FROM q WHERE payload->>'n' <> '810'", 0, 'messages behind a slow one do not wait for it');
is($node->safe_psql($db, "SELECT count(*) FROM q"), 1, 'which is still at work');
$node->safe_psql($db, "SELECT pg_cancel_backend(pid) FROM (SELECT unnest(pids) pid FROM inbox_subscriptions) p");
becomes('SELECT attempt FROM q', 3, 'a handling can be cancelled, and has failed then');
$node->safe_psql($db, "SELECT inbox_pause_subscription('a')");
becomes('SELECT state FROM inbox_subscriptions', 'pausing', 'paused in mid-work: that is finished first');
$node->safe_psql($db, "SELECT pg_cancel_backend(pid) FROM (SELECT unnest(pids) pid FROM inbox_subscriptions) p");
becomes('SELECT count(*) FROM inbox_leases', 0, 'or cancelled, and handed back');
is($node->safe_psql($db, 'SELECT attempt FROM q'), 2, 'as if it had not been tried again');
$node->safe_psql($db, "TRUNCATE q; SELECT inbox_resume_subscription('a')");

# ---------------------------------------------------------------------------
# Commands that need the database empty

$node->safe_psql('d2', "SELECT inbox_subscribe('b', 'q', 'h(jsonb)')");
$node->poll_query_until('d2', 'SELECT running = 1 FROM inbox_subscriptions');
goes_through($node, 'CREATE DATABASE d3 TEMPLATE d2', 'copy of a database with a subscription');
ok($node->poll_query_until('d2', 'SELECT running = 1 FROM inbox_subscriptions'), 'which comes back');
is($node->safe_psql('d3', 'SELECT state FROM inbox_subscriptions'), 'restored', 'the copy waits to be resumed');
$node->safe_psql('d3', "SELECT inbox_resume_subscription('b')");
ok($node->poll_query_until('d3', 'SELECT running = 1 FROM inbox_subscriptions'), 'and then runs');
goes_through($node, 'ALTER DATABASE d3 RENAME TO d4', 'renaming');
ok($node->poll_query_until('d4', 'SELECT running = 1 FROM inbox_subscriptions'), 'runs again under the new name');
$node->safe_psql('d4', q{CREATE OR REPLACE FUNCTION h(j jsonb) RETURNS void LANGUAGE sql AS 'SELECT pg_sleep(60)'; INSERT INTO q (payload) VALUES ('1')});
ok($node->poll_query_until('d4', "SELECT state = 'handling' FROM inbox_subscriptions"), 'a handler at work');
goes_through($node, 'DROP DATABASE d4', 'dropping the database under it');
$node->safe_psql('d2', 'DROP EXTENSION inbox CASCADE');
ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = 'd2' AND backend_type LIKE 'inbox %'"), 'DROP EXTENSION: all leave');

# a dropped queue takes its subscriptions along
$node->safe_psql($db, q{
	SELECT inbox_create('x'); SELECT inbox_create('y');
	SELECT inbox_subscribe('x', 'x', 'g2(jsonb)'); SELECT inbox_subscribe('y', 'y', 'g2(jsonb)');
	SELECT inbox_drop('x');
});
is($node->safe_psql($db, "SELECT count(*) FROM inbox_subscriptions WHERE name = 'x'"), 0, 'inbox_drop: the subscription goes at once');
$node->safe_psql($db, 'DROP TABLE y');
becomes("SELECT count(*) FROM inbox_subscriptions WHERE name = 'y'", 0, 'DROP TABLE: it goes, too');

# ---------------------------------------------------------------------------
# Promotion

$node->backup('b');
my $standby = PostgreSQL::Test::Cluster->new('life_standby');
$standby->init_from_backup($node, 'b', has_streaming => 1);
$standby->start;
is($standby->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'inbox %'"), 0, 'nobody runs on a standby');
is($standby->safe_psql($db, "SELECT state FROM inbox_subscriptions WHERE name = 'a'"), 'waiting', 'whose view works');
$node->safe_psql($db, "SELECT inbox_pause_subscription('a'); INSERT INTO q (payload) VALUES ('{\"n\": 900, \"s\": 0}'); SELECT inbox_resume_subscription('a')");
all_once(900, 900, 'on the primary');
$node->wait_for_catchup($standby);
$node->stop('immediate');
$standby->promote;
$standby->safe_psql($db, q{INSERT INTO q (payload) VALUES ('{"n": 901, "s": 0}')});
ok($standby->poll_query_until($db, 'SELECT count(*) = 1 FROM eff WHERE n = 901'), 'after promotion it runs there');
$standby->stop;

done_testing();
