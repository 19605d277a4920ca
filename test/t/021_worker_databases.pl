# Databases come, go, and change their names with workers running.  The
# server fails such commands after five seconds when anybody is connected;
# our workers must not be.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('databases');
my ($pid, $rc, $err);

$node->safe_psql('postgres', "CREATE DATABASE d1");
$node->safe_psql('d1', 'CREATE EXTENSION inbox');
$pid = wait_worker($node, 'd1');
isnt($pid, '', 'a worker is there');

# --- each command that wants the database empty

goes_through($node, 'ALTER DATABASE d1 RENAME TO d2', 'RENAME');
$pid = wait_worker($node, 'd2');
isnt($pid, '', 'RENAME: the worker is back');

goes_through($node, 'CREATE DATABASE clone TEMPLATE d2', 'CREATE DATABASE');
isnt(wait_worker($node, 'd2'), '', 'CREATE DATABASE: the worker is back');
is(starts_of($node, 'clone'), 0, 'nobody has told of the clone yet');
$node->safe_psql('clone', 'SELECT * FROM inbox_workers');
isnt(wait_worker($node, 'clone'), '', 'the first call in the clone brings a worker');
ok(ticks_on($node, 'clone', 'clone'), 'and it ticks');

my $tablespace = PostgreSQL::Test::Utils::tempdir();
$node->safe_psql('postgres', "CREATE TABLESPACE ts LOCATION '$tablespace'");
goes_through($node, 'ALTER DATABASE d2 SET TABLESPACE ts', 'SET TABLESPACE');
isnt(wait_worker($node, 'd2'), '', 'SET TABLESPACE: the worker is back');
ok(ticks_on($node, 'd2', 'd2'), 'and it ticks');

goes_through($node, 'DROP DATABASE d2', 'DROP DATABASE');
is($node->safe_psql('clone', "SELECT count(*) FROM inbox_workers WHERE database = 'd2'"),
	0, 'and no row is left of it');
goes_through($node, 'DROP DATABASE clone WITH (FORCE)', 'DROP DATABASE with force');
goes_through($node, 'DROP DATABASE IF EXISTS clone', 'DROP DATABASE of none');

# --- while the worker is still on its way in

for my $i (1 .. 5)
{
	$node->safe_psql('postgres', "CREATE DATABASE d$i");
	$node->safe_psql("d$i", 'CREATE EXTENSION inbox');
	goes_through($node, "DROP DATABASE d$i", "dropped at once ($i)");
}
unlike(slurp_file($node->logfile), qr/FATAL:  database \d+ does not exist/,
	'no worker ran into a database that was gone');

# --- a hold lasts as long as the command, and no longer

$node->safe_psql('postgres', "CREATE DATABASE d1");
$node->safe_psql('d1', 'CREATE EXTENSION inbox');
$pid = wait_worker($node, 'd1');

my $session = $node->background_psql('postgres', on_error_stop => 0);
$session->query_safe('BEGIN; ALTER DATABASE d1 RENAME TO d2');
is(worker_pid($node, 'd1'), '', 'a renaming not yet committed keeps the worker away');
$session->query_safe('ROLLBACK');
isnt(wait_worker($node, 'd1'), '', 'rolled back: the worker is back');

$session->query_safe('BEGIN; ALTER DATABASE d1 RENAME TO d2');
is(worker_pid($node, 'd1'), '', 'again');
$session->query_safe('COMMIT');
isnt(wait_worker($node, 'd2'), '', 'committed: the worker is back');

$session->query_safe('BEGIN; ALTER DATABASE d2 RENAME TO d1');
my $holder = $node->safe_psql('postgres',
	"SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction'");
$node->safe_psql('postgres', "SELECT pg_terminate_backend($holder)");
isnt(wait_worker($node, 'd2'), '', 'holder terminated: the worker is back');
eval { $session->quit };

$session = $node->background_psql('postgres', on_error_stop => 0);
$session->query(q{
	BEGIN;
	DO $$ BEGIN ALTER DATABASE d2 RENAME TO postgres;
		EXCEPTION WHEN duplicate_database THEN NULL; END $$});
isnt(wait_worker($node, 'd2'), '', 'command failed, transaction open: the worker is back');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'"),
	1, 'the transaction is open');
$session->query('ROLLBACK');
$session->quit;

# somebody else is connected: the command fails as it always did
$session = $node->background_psql('d2');
($rc, undef, $err) = $node->psql('postgres', 'DROP DATABASE d2');
like($err, qr/is being accessed by other users/, 'another session still stops DROP DATABASE');
isnt(wait_worker($node, 'd2'), '', 'and the worker is back after it');
$session->quit;

$pid = wait_worker($node, 'd2');
($rc, undef, $err) = $node->psql('postgres', 'BEGIN; DROP DATABASE d2');
like($err, qr/cannot run inside a transaction block/, 'in a transaction block');
is(worker_pid($node, 'd2'), $pid, 'no need to leave');

# --- who may ask the worker to leave

$node->safe_psql('postgres', q{
	CREATE ROLE nobody LOGIN;
	CREATE ROLE owner LOGIN CREATEDB;
	CREATE ROLE maker LOGIN CREATEDB;
});
my %as_nobody = (extra_params => [ '-U', 'nobody' ]);
my %as_owner = (extra_params => [ '-U', 'owner' ]);
my %as_maker = (extra_params => [ '-U', 'maker' ]);

for my $command (
	'DROP DATABASE d2',
	'ALTER DATABASE d2 RENAME TO d3',
	'ALTER DATABASE d2 SET TABLESPACE pg_default',
	'CREATE DATABASE d3 TEMPLATE d2')
{
	($rc) = $node->psql('postgres', $command, %as_nobody);
	isnt($rc, 0, "nobody may not: $command");
}
($rc) = $node->psql('postgres', 'CREATE DATABASE d3 TEMPLATE d2', %as_maker);
isnt($rc, 0, 'CREATEDB is not enough to copy what is not a template');
is(worker_pid($node, 'd2'), $pid, 'and none of it moves the worker');

$node->safe_psql('postgres', 'ALTER DATABASE d2 OWNER TO owner');
goes_through($node, 'ALTER DATABASE d2 RENAME TO "D 2"', 'its owner may', %as_owner);
isnt(wait_worker($node, 'D 2'), '', 'the worker is back in "D 2"');
goes_through($node, 'CREATE DATABASE d3 TEMPLATE "D 2"', 'its owner may copy it', %as_owner);
isnt(wait_worker($node, 'D 2'), '', 'the worker is back after the copy');
goes_through($node, 'DROP DATABASE "D 2" WITH (FORCE)',
	'force does not meet a process of a superuser', %as_owner);

# --- templates, and databases that take no connections

$node->safe_psql('template1', 'CREATE EXTENSION inbox');
$node->safe_psql('postgres', 'CREATE DATABASE shut; CREATE DATABASE open; CREATE DATABASE bare TEMPLATE template0;');
ok(wait_looked($node, 'template1'), 'template1 with the extension was looked into');
ok(wait_no_worker($node, 'template1'), 'and got no standing worker');
goes_through($node, 'CREATE DATABASE d4', 'copying template1');
$node->safe_psql('postgres', 'ALTER DATABASE shut ALLOW_CONNECTIONS false');
$node->restart;

isnt(wait_worker($node, 'open'), '', 'at start, a database with the extension is found');
ok($node->poll_query_until('open',
		"SELECT count(*) = 3 FROM inbox_workers WHERE database IN ('open', 'd3', 'd4') AND ticks > 0"),
	'and so is every other');
ok(wait_looked($node, 'bare'), 'one without is looked into');
ok(wait_no_worker($node, 'bare'), 'and left');
is(starts_of($node, 'shut'), 0, 'one that takes no connections is not');
goes_through($node, 'CREATE DATABASE d5', 'copying template1 again');

$node->safe_psql('postgres', 'ALTER DATABASE open ALLOW_CONNECTIONS false');
ok(wait_no_worker($node, 'open'), 'one that stops taking connections is left');
$node->safe_psql('postgres', 'ALTER DATABASE open ALLOW_CONNECTIONS true');
$node->safe_psql('open', 'SELECT * FROM inbox_workers');
isnt(wait_worker($node, 'open'), '', 'and found again by the first call');

is($node->safe_psql('d4', "SELECT coalesce(string_agg(last_error, ','), 'none') FROM inbox_workers"),
	'none', 'no worker had any trouble');
unlike(slurp_file($node->logfile), qr/FATAL:  (?!terminating)[^\n]*database/,
	'nor does the log tell of any');

$node->stop('fast');
done_testing();
