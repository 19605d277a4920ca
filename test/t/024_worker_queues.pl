# What the worker does to queues, with no client's help, and what must not
# stop it.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('queues', "track_counts = on");
my ($pid, $receipt, $session);

# A queue with one message that has had its only delivery, for one second;
# $sql is run before there is a message.
sub spent_queue
{
	my ($db, $name, $sql) = @_;
	$sql //= '';
	$node->safe_psql($db, qq{
		SELECT inbox_create('$name', lease => '1 s', max_attempts => 1);
		$sql;
		INSERT INTO $name(payload) VALUES ('{"n": 1}');
		SELECT FROM inbox_claim('$name')});
	return;
}

sub buried
{
	my ($db, $name) = @_;
	return $node->poll_query_until($db, "SELECT count(*) = 1 FROM ${name}_dead");
}

$node->safe_psql('postgres', "CREATE DATABASE d1");
$node->safe_psql('d1', 'CREATE EXTENSION inbox');
isnt(wait_worker($node, 'd1'), '', 'a worker is there');

# --- its work

spent_queue('d1', 'jobs');
ok(buried('d1', 'jobs'), 'a spent message is buried');
is($node->safe_psql('d1', "SELECT cause, attempt FROM jobs_dead"), 'lease lost|1',
	'with its cause');
is($node->safe_psql('d1', "SELECT count(*) FROM jobs"), 0, 'it is in one place');
ok($node->poll_query_until('d1', "SELECT buried = 1 AND queues = 1 FROM inbox_workers WHERE database = 'd1'"),
	'inbox_workers counts it');
ok($node->poll_query_until('d1', "SELECT n_tup_del = 1 FROM pg_stat_user_tables WHERE relname = 'jobs'"),
	'so do the statistics that autovacuum reads');

$node->safe_psql('d1', q{
	SELECT inbox_create('kept', retention => '1 s');
	INSERT INTO kept(payload) VALUES ('1');
	SELECT verdict FROM inbox_claim('kept') c, inbox_settle('kept', c.receipt)});
ok($node->poll_query_until('d1', "SELECT count(*) = 0 FROM kept"),
	'a finished message is purged after its retention');

# more than one pass takes, and several queues at a time
$node->safe_psql('d1', q{SELECT inbox_create('many' || i, lease => '1 s', max_attempts => 1) FROM generate_series(1, 20) i});
$node->append_conf('postgresql.conf', "inbox.reap_rows = 10");
$node->reload;
$node->safe_psql('d1', q{
	DO $$ BEGIN FOR i IN 1..20 LOOP
		EXECUTE format('INSERT INTO many%s(payload) SELECT ''1'' FROM generate_series(1, 200)', i);
	END LOOP; END $$;
	SELECT count(*) FROM generate_series(1, 20) i, inbox_claim('many' || i, 200)});
ok($node->poll_query_until('d1', "SELECT buried = 4001 FROM inbox_workers WHERE database = 'd1'"),
	'twenty queues of 200 spent messages each');

# --- what must not stop it

# an error in one queue
$node->safe_psql('d1', q{
	CREATE FUNCTION boom() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''boom''; END'});
spent_queue('d1', 'broken',
	'CREATE TRIGGER t BEFORE DELETE ON broken FOR EACH ROW EXECUTE FUNCTION boom()');
ok($node->poll_query_until('d1',
		"SELECT set_aside > 0 OR last_error = 'boom' FROM inbox_workers WHERE database = 'd1'"),
	'a queue whose trigger raises is noticed');
spent_queue('d1', 'zz_after');
ok(buried('d1', 'zz_after'), 'and does not stop the others');
$node->safe_psql('d1', 'DROP TRIGGER t ON broken');
ok(buried('d1', 'broken'), 'nor itself, once the trigger is gone');

# a lock, and behind it a message that claims have spent
$node->safe_psql('d1', "SELECT inbox_create('locked', lease => '1 s', max_attempts => 1)");
$session = $node->background_psql('d1');
$session->query_safe(q{
	BEGIN;
	LOCK locked;
	INSERT INTO locked(payload, attempt, locked_until) VALUES ('1', 2, now() - interval '1 s')});
spent_queue('d1', 'zz_free');
ok(buried('d1', 'zz_free'), 'a locked queue does not stop the others');
$session->query_safe('COMMIT');
$session->quit;
ok(buried('d1', 'locked'), 'nor itself, once the lock is gone');

# the end of a worker in mid-work
spent_queue('d1', 'slow', q{
	CREATE FUNCTION nap() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_catalog.pg_sleep(600); RETURN OLD; END';
	CREATE TRIGGER t BEFORE DELETE ON slow FOR EACH ROW EXECUTE FUNCTION nap()});
my $napping = "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'inbox worker' AND wait_event = 'PgSleep'";
ok($node->poll_query_until('postgres', $napping), 'a trigger keeps the worker busy');
is($node->safe_psql('d1', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'inbox worker' AND datname = 'd1' AND state = 'active' AND query LIKE '%slow'"),
	1, 'pg_stat_activity names the queue');
$pid = wait_worker($node, 'd1');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
isnt(wait_worker($node, 'd1', $pid), '', 'terminated in mid-work: back');
is($node->safe_psql('d1', 'SELECT (SELECT count(*) FROM slow), (SELECT count(*) FROM slow_dead)'),
	'1|0', 'and nothing is half done');
ok($node->poll_query_until('postgres', $napping), 'busy again');
goes_through($node, 'ALTER DATABASE d1 RENAME TO d2', 'RENAME with a busy worker');
isnt(wait_worker($node, 'd2'), '', 'the worker is back');
ok($node->poll_query_until('postgres', $napping), 'busy again');
goes_through($node, 'CREATE DATABASE clone TEMPLATE d2', 'CREATE DATABASE with a busy worker');
my $wake = q{CREATE OR REPLACE FUNCTION nap() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END'};
$node->safe_psql('d2', $wake);
ok($node->poll_query_until('d2', q{
		SELECT (SELECT count(*) FROM slow_dead) = 1 OR 0 * count(pg_cancel_backend(pid)) > 0
		FROM pg_stat_activity WHERE backend_type = 'inbox worker' AND wait_event = 'PgSleep'}),
	'a cancelled nap is over, and the message is buried in the end');

# --- clones

$node->safe_psql('clone', $wake);
is($node->safe_psql('clone', 'SELECT count(*) FROM slow_dead'), 0, 'nobody reaps in a clone');
$node->safe_psql('clone', "SELECT count(*) FROM inbox_claim('slow')");
ok(buried('clone', 'slow'), 'until the first call there');

# --- whose rights a bury has

$node->safe_psql('d2', q{
	CREATE ROLE keeper;
	GRANT CREATE ON SCHEMA public TO keeper;
	SET ROLE keeper;
	CREATE TABLE who (name name, path text);
	CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN INSERT INTO public.who VALUES (current_user, current_setting(''search_path'')); RETURN OLD; END';
	SELECT inbox_create('owned', lease => '1 s', max_attempts => 1);
	CREATE TRIGGER t BEFORE DELETE ON owned FOR EACH ROW EXECUTE FUNCTION note();
	INSERT INTO owned(payload) VALUES ('1');
	SELECT FROM inbox_claim('owned')});
ok(buried('d2', 'owned'), 'another role owns a queue');
is($node->safe_psql('d2', 'SELECT * FROM who'), 'keeper|pg_catalog, pg_temp',
	"its trigger runs as the owner, on a fixed search path");

# --- the extension goes, the tables stay

$node->safe_psql('d2', q{
	CREATE TABLE mine (id bigint PRIMARY KEY, locked_until timestamptz, body jsonb);
	SELECT inbox_adopt('mine', payload => 'body');
	INSERT INTO mine VALUES (1, NULL, '"x"')});
$node->safe_psql('d2', 'DROP EXTENSION inbox CASCADE');
ok(wait_no_worker($node, 'd2'), 'DROP EXTENSION: the worker is gone');
is($node->safe_psql('d2', 'SELECT id, body FROM mine'), '1|"x"', 'an adopted table stays as it is');
is($node->safe_psql('d2', 'SELECT count(*) FROM slow_dead'), 1, 'and so do created ones');

# --- hostile settings

$node->safe_psql('postgres', 'CREATE DATABASE d3 TEMPLATE template0');
$node->safe_psql('d3', 'CREATE EXTENSION inbox');
$node->append_conf('postgresql.conf', "default_transaction_read_only = on\nlock_timeout = '1ms'\n"
	  . "statement_timeout = '1ms'\nsearch_path = ''\nrow_security = off\ndefault_transaction_isolation = serializable");
$node->restart;
{
	local $ENV{PGOPTIONS} = '-c default_transaction_read_only=off -c lock_timeout=0 -c statement_timeout=0 -c search_path=public -c default_transaction_isolation=read\ committed';
	$node->safe_psql('d3', q{
		CREATE ROLE nobody;
		ALTER DATABASE d3 SET session_authorization = 'nobody';
		ALTER DATABASE d3 SET role = 'nobody';
		CREATE TABLE who (session name);
		CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN INSERT INTO public.who VALUES (session_user); RETURN OLD; END'});
	my $bootstrap = $node->safe_psql('postgres', 'SELECT rolname FROM pg_roles WHERE oid = 10');
	$pid = wait_worker($node, 'd3');
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
	isnt(wait_worker($node, 'd3', $pid), '', 'a new worker comes to hostile settings');
	$node->safe_psql('postgres', 'ALTER DATABASE d3 RESET ALL');
	spent_queue('d3', 'jobs',
		'CREATE TRIGGER t BEFORE DELETE ON jobs FOR EACH ROW EXECUTE FUNCTION note()');
	ok(buried('d3', 'jobs'), 'they do not stop it');
	is($node->safe_psql('d3', 'SELECT * FROM who'), $bootstrap, 'it is who it should be');
}
$node->stop('fast');

# --- standby and promotion

# what a standby has is what the primary has on disk
my $primary = new_node('primary', 'inbox.async_claim = off');
$node = $primary;
$node->safe_psql('postgres', 'CREATE EXTENSION inbox');
$node->backup('b');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'b', has_streaming => 1);
$standby->start;

spent_queue('postgres', 'jobs');
ok(buried('postgres', 'jobs'), 'buried on the primary');
$receipt = $node->safe_psql('postgres', q{
	SELECT inbox_create('held', lease => '1 h');
	INSERT INTO held(payload) VALUES ('1');
	SELECT receipt FROM inbox_claim('held')});
$receipt =~ s/.*\n//s;
$node->wait_for_catchup($standby);
my (undef, undef, $err) = $standby->psql('postgres', "SELECT inbox_send('held', '2')");
like($err, qr/read-only|recovery/, 'on a standby a send says why not');
(undef, undef, $err) = $standby->psql('postgres', "SELECT * FROM inbox_claim('held')");
like($err, qr/read-only|recovery/, 'and a claim');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM jobs_dead'), 1, 'it shows what the primary did');

# the synchronous standby goes away while the worker has work
$node->append_conf('postgresql.conf', "synchronous_standby_names = 'standby'");
$node->reload;
$node->poll_query_until('postgres', "SELECT sync_state = 'sync' FROM pg_stat_replication");
$standby->stop('immediate');
{
	local $ENV{PGOPTIONS} = '-c synchronous_commit=local';
	spent_queue('postgres', 'alone');
	ok(buried('postgres', 'alone'), 'synchronous standby gone: the worker goes on');
}
ok($node->stop('fast', fail_ok => 1), 'and a fast shutdown ends');

$standby->start;
$standby->promote;
isnt(wait_worker($standby, 'postgres'), '', 'promotion brings the worker');
is($standby->safe_psql('postgres', "SELECT inbox_settle('held', '$receipt')"), 'ok',
	'receipts live on');
$node = $standby;
spent_queue('postgres', 'promoted');
ok(buried('postgres', 'promoted'), 'and it works');
$standby->stop('fast');

done_testing();
