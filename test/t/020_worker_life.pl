# A worker's life: it comes with the extension, comes back when it is ended
# from outside, and goes with the extension.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('life');
my ($pid, $new);

# --- it comes

ok($node->poll_query_until('postgres',
		"SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'inbox launcher'"),
	'there is a launcher');
is( $node->safe_psql('postgres',
		"SELECT datname IS NULL FROM pg_stat_activity WHERE backend_type = 'inbox launcher'"),
	't', 'the launcher is in no database');

ok(wait_looked($node, 'postgres'), 'it looks around');
$node->safe_psql('postgres', "CREATE DATABASE $_") for qw(rolled saved prepared d1);

# the launcher looked into what there was at its start; these it has not seen
$node->safe_psql('rolled', 'BEGIN; CREATE EXTENSION inbox; ROLLBACK');
$node->safe_psql('saved',
	'BEGIN; SAVEPOINT s; CREATE EXTENSION inbox; ROLLBACK TO s; COMMIT');
$node->safe_psql('prepared',
	"BEGIN; CREATE EXTENSION inbox; PREPARE TRANSACTION 'p'");
$node->safe_psql('d1', 'CREATE EXTENSION inbox');
$pid = wait_worker($node, 'd1');
isnt($pid, '', 'CREATE EXTENSION brings a worker');
is(starts_of($node, 'rolled'), 0, 'one that was rolled back does not');
is(starts_of($node, 'saved'), 0, 'nor one taken back by a savepoint');
is(starts_of($node, 'prepared'), 0, 'nor one that is only prepared');
$node->safe_psql('prepared', "COMMIT PREPARED 'p'");
isnt(wait_worker($node, 'prepared'), '', 'COMMIT PREPARED brings it');

# --- it can be seen

ok(ticks_on($node, 'd1', 'd1'), 'it ticks');
is( $node->safe_psql('d1',
		"SELECT pid, state IN ('idle', 'sweeping'), started_at <= last_tick, last_tick <= clock_timestamp(),
			tick_duration >= '0', queues, expired, buried, purged, set_aside, last_error IS NULL, last_error_at IS NULL
		 FROM inbox_workers WHERE database = 'd1'"),
	"$pid|t|t|t|t|0|0|0|0|0|t|t", 'inbox_workers shows it');
is( $node->safe_psql('d1',
		"SELECT string_agg(database, ' ' ORDER BY database) FROM inbox_workers"),
	'd1 prepared', 'and no database without it');

# --- it comes back

for my $i (1 .. 3)
{
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
	$new = wait_worker($node, 'd1', $pid);
	isnt($new, '', "terminated ($i): back");
	$pid = $new;
}
ok(ticks_on($node, 'd1', 'd1'), 'and ticks');

$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
ok(ticks_on($node, 'd1', 'd1'), 'a cancel request does nothing to a worker');
is(worker_pid($node, 'd1'), $pid, 'it is the same one');

my $launcher = launcher_pid($node);
$node->safe_psql('postgres', "SELECT pg_cancel_backend($launcher)");
$node->safe_psql('postgres', "SELECT pg_terminate_backend($launcher)");
ok( $node->poll_query_until('postgres',
		"SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'inbox launcher' AND pid <> $launcher"),
	'the launcher comes back');
$node->safe_psql('postgres', "CREATE DATABASE d2");
$node->safe_psql('d2', 'CREATE EXTENSION inbox');
isnt(wait_worker($node, 'd2'), '', 'and does its work');
is(worker_pid($node, 'd1'), $pid, 'workers live on meanwhile');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
$new = wait_worker($node, 'd1', $pid);
isnt($new, '', 'and are looked after by the new launcher');
$pid = $new;

# the server treats it as any crash
kill 'KILL', $pid;
# the server may not have noticed yet, so look for what only a restart brings
select(undef, undef, undef, 0.05) while eval { connect_db($node)->selectrow_array('SELECT 1 FROM pg_stat_activity WHERE pid = ?', undef, $pid) };
wait_up($node);
ok( $node->poll_query_until('postgres',
		"SELECT count(*) = 3 FROM pg_stat_activity WHERE backend_type = 'inbox worker'
		 AND datname IN ('d1', 'd2', 'prepared') AND pid <> $pid"),
	'after kill -9 all come back');

$node->restart;
isnt(wait_worker($node, $_), '', "after a restart there is one in $_") for qw(d1 d2 prepared);
$node->stop('immediate');
$node->start;
isnt(wait_worker($node, $_), '', "after an immediate stop there is one in $_") for qw(d1 d2 prepared);
ok(starts_of($node, 'template0') == 0, 'template0 was never looked into');

# --- it goes

$node->safe_psql('d1', 'DROP EXTENSION inbox');
ok(wait_no_worker($node, 'd1'), 'DROP EXTENSION ends it');
is($node->safe_psql('d2', "SELECT count(*) FROM inbox_workers WHERE database = 'd1'"),
	0, 'and its row in the view');

$node->safe_psql('d1', 'CREATE SCHEMA q; CREATE EXTENSION inbox SCHEMA q');
isnt(wait_worker($node, 'd1'), '', 'it comes with an extension in another schema');
$node->safe_psql('d1', 'DROP SCHEMA q CASCADE');
ok(wait_no_worker($node, 'd1'), 'DROP SCHEMA CASCADE ends it');

$node->safe_psql('d1', 'CREATE ROLE boss SUPERUSER; SET ROLE boss; CREATE EXTENSION inbox');
isnt(wait_worker($node, 'd1'), '', 'it comes with an extension of another owner');
$node->safe_psql('d1', 'DROP OWNED BY boss');
ok(wait_no_worker($node, 'd1'), 'DROP OWNED ends it');

# gone and back before the worker can have looked
for my $i (1 .. 5)
{
	$node->safe_psql('d1', 'CREATE EXTENSION inbox');
	$node->safe_psql('d1', 'DROP EXTENSION inbox');
}
$node->safe_psql('d1', 'CREATE EXTENSION inbox');
isnt(wait_worker($node, 'd1'), '', 'dropped and created in haste: there is one');
ok(ticks_on($node, 'd1', 'd1'), 'and it ticks');

# a long interval does not make it deaf
$node->append_conf('postgresql.conf', "inbox.reap_interval = '1h'");
$node->reload;
$pid = wait_worker($node, 'd1');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
isnt(wait_worker($node, 'd1', $pid), '', 'with an hour between ticks: back');
$node->safe_psql('d1', 'DROP EXTENSION inbox');
ok(wait_no_worker($node, 'd1'), 'with an hour between ticks: gone');

$node->stop('fast');

# --- no slot left: one for the launcher, one for core's own, one for us

$node = new_node('slots', 'max_worker_processes = 3');
$node->safe_psql('postgres', "CREATE DATABASE $_") for qw(d1 d2);
$node->safe_psql('d1', 'CREATE EXTENSION inbox');
isnt(wait_worker($node, 'd1'), '', 'the first database gets the slot');
$node->safe_psql('d2', 'CREATE EXTENSION inbox');
ok($node->wait_for_log(qr/LOG:.*no background worker slot left.*HINT:[^\n]*max_worker_processes/s),
	'the second does not, and the log says why');
$node->safe_psql('d1', 'DROP EXTENSION inbox');
isnt(wait_worker($node, 'd2'), '', 'when the slot is free it does');
my $complaints = () = slurp_file($node->logfile) =~ /no background worker slot left/g;
is($complaints, 1, 'one line in the log');
$node->stop('fast');

done_testing();
