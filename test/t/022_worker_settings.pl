# Settings and roles that are meant for people must not stop a worker.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = new_node('settings');

# what a session of ours needs to get anything done in between
$ENV{PGOPTIONS} = '-c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=0 '
  . '-c default_transaction_read_only=off '
  . '-c default_transaction_isolation=read\ committed -c search_path=public '
  . '-c default_transaction_deferrable=off';

$node->safe_psql('postgres', 'CREATE DATABASE d1');
$node->safe_psql('d1', 'CREATE EXTENSION inbox');
my $pid = wait_worker($node, 'd1');

my @hostile = (
	"default_transaction_read_only = on",
	"default_transaction_isolation = serializable",
	"default_transaction_deferrable = on",
	"lock_timeout = '1ms'",
	"statement_timeout = '1ms'",
	"idle_in_transaction_session_timeout = '1ms'",
	"search_path = 'nowhere'",
	"row_security = off",
	"session_preload_libraries = 'auto_explain'",
	"synchronous_commit = remote_apply",
	"standard_conforming_strings = off");
# connecting is a transaction too, and no session's own setting reaches that
push @hostile, "transaction_timeout = '20s'"
  if $node->pg_version >= 17;
$ENV{PGOPTIONS} .= ' -c transaction_timeout=0' if $node->pg_version >= 17;

$node->append_conf('postgresql.conf', join("\n", @hostile, ''));
$node->reload;
ok(ticks_on($node, 'd1', 'd1'), 'hostile settings by reload: it ticks');
$node->restart;
isnt(wait_worker($node, 'd1'), '', 'hostile settings from the start: it is there');
ok(ticks_on($node, 'd1', 'd1'), 'and it ticks');

# a serializable transaction would make a deferrable one wait for it
my $session = $node->background_psql('postgres');
$session->query_safe('BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM pg_class; CREATE TABLE t ()');
$node->safe_psql('postgres', 'CREATE DATABASE d2 TEMPLATE template0');
$node->safe_psql('d2', 'CREATE EXTENSION inbox');
isnt(wait_worker($node, 'd2'), '', 'the launcher waits for no serializable transaction');
$session->query_safe('ROLLBACK');
$session->quit;

# --- the same, by database

$node->safe_psql('postgres', q{
	CREATE ROLE boss SUPERUSER LOGIN;
	CREATE ROLE nobody;
	ALTER DATABASE d1 SET default_transaction_read_only = on;
	ALTER DATABASE d1 SET search_path = '';
	ALTER DATABASE d1 SET role = 'nobody';
	ALTER DATABASE d2 SET session_authorization = 'nobody';
	ALTER ROLE ALL SET statement_timeout = '1ms';
});
$ENV{PGUSER} = 'boss';
for my $db (qw(d1 d2))
{
	$pid = wait_worker($node, $db);
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
	isnt(wait_worker($node, $db, $pid), '', "$db: a new worker comes");
}
$node->safe_psql('postgres', 'ALTER DATABASE d1 RESET role; ALTER DATABASE d2 RESET session_authorization');
ok(ticks_on($node, 'd1', 'd1'), 'another role by default: it ticks');
ok(ticks_on($node, 'd1', 'd2'), 'another session user by default: it ticks');

# --- the superuser of the beginning may not log in, or has another name

my $bootstrap = $node->safe_psql('postgres', 'SELECT rolname FROM pg_roles WHERE oid = 10');
$node->safe_psql('postgres', qq{
	ALTER ROLE "$bootstrap" NOLOGIN CONNECTION LIMIT 0;
	ALTER ROLE "$bootstrap" RENAME TO "some one";
	ALTER DATABASE d1 CONNECTION LIMIT 0;
	REVOKE ALL ON DATABASE d1 FROM PUBLIC;
});
$pid = wait_worker($node, 'd1');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
isnt(wait_worker($node, 'd1', $pid), '', 'nobody may log in, yet a worker comes');
ok(ticks_on($node, 'd2', 'd1'), 'and it ticks');

is($node->safe_psql('d2', "SELECT coalesce(string_agg(last_error, ','), 'none') FROM inbox_workers"),
	'none', 'no worker had any trouble');
unlike(slurp_file($node->logfile), qr/(ERROR|FATAL):  (?!terminating)[^\n]*(timeout|read-only|role|permission)/,
	'nor does the log tell of any');

# --- an error's text is for those who may read statistics

my $oid = $node->safe_psql('postgres', "SELECT oid FROM pg_database WHERE datname = 'd1'");
my $path = $node->data_dir . "/base/$oid/PG_VERSION";
rename $path, "$path.away" or die;
$pid = wait_worker($node, 'd1');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
ok($node->poll_query_until('d2',
		"SELECT state = 'failed' FROM inbox_workers WHERE database = 'd1' AND last_error IS NOT NULL"),
	'a database that cannot be connected to shows as failed');
my @fatals;
until (@fatals >= 3)
{
	usleep(100_000);
	@fatals = slurp_file($node->logfile) =~ /(\d+):(\d+):([\d.]+) \w+ \[\d+\][^\n]* FATAL:  [^\n]* is not a valid data directory/g;
	@fatals = map { $fatals[ $_ * 3 ] * 3600 + $fatals[ $_ * 3 + 1 ] * 60 + $fatals[ $_ * 3 + 2 ] } 0 .. @fatals / 3 - 1;
}
# one second, then two; midnight may lie in between
cmp_ok(($fatals[2] - $fatals[0]) % 86400, '>=', 2.9 - 1, 'attempts get rarer');
like($node->safe_psql('d2', "SELECT last_error FROM inbox_workers WHERE database = 'd1'"),
	qr/server log/, 'a superuser sees the error');
like($node->safe_psql('d2', "SET ROLE nobody; SELECT last_error FROM inbox_workers WHERE database = 'd1'"),
	qr/insufficient privilege/, 'an ordinary user does not');
$node->safe_psql('postgres', 'GRANT pg_monitor TO nobody');
like($node->safe_psql('d2', "SET ROLE nobody; SELECT last_error FROM inbox_workers WHERE database = 'd1'"),
	qr/server log/, 'a monitor does');
rename "$path.away", $path or die;
isnt(wait_worker($node, 'd1', 0, 60), '', 'when the cause is cured it comes back by itself');

$node->stop('fast');
done_testing();
