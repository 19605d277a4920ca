# Standby, promotion, binary upgrade, and a server that does not preload us.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $ours = "SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'inbox%'";

my $primary = new_node('primary');
$primary->safe_psql('postgres', 'CREATE DATABASE d1');
$primary->safe_psql('d1', 'CREATE EXTENSION inbox');
isnt(wait_worker($primary, 'd1'), '', 'the primary has a worker');

# --- a standby is silent

$primary->backup('b');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'b', has_streaming => 1);
$standby->start;
$primary->wait_for_catchup($standby);
is($standby->safe_psql('d1', 'SELECT count(*) FROM inbox_workers'), 0,
	'on a standby the view is empty');
is($standby->safe_psql('postgres', $ours), 0, 'and there is no process of ours');
unlike(slurp_file($standby->logfile), qr/(LOG|WARNING|ERROR|FATAL):  (?!statement)[^\n]*inbox/,
	'nor a word in the log');

# --- the synchronous standby is gone

$primary->append_conf('postgresql.conf', "synchronous_standby_names = 'standby'");
$primary->reload;
$primary->poll_query_until('postgres',
	"SELECT sync_state = 'sync' FROM pg_stat_replication");
$standby->stop('immediate');
ok(ticks_on($primary, 'd1', 'd1'), 'synchronous standby gone: the worker ticks on');
ok($primary->stop('fast', fail_ok => 1), 'and a fast shutdown ends');

# --- promotion

$standby->start;
is($standby->safe_psql('postgres', $ours), 0, 'still silent');
$standby->promote;
isnt(wait_worker($standby, 'd1'), '', 'promotion brings the worker');
ok(ticks_on($standby, 'd1', 'd1'), 'and it ticks');
$standby->stop('fast');

# --- binary upgrade: the database must not change under pg_upgrade

$primary->append_conf('postgresql.conf', "synchronous_standby_names = ''");
my @ctl = ('pg_ctl', '-D', $primary->data_dir, '-l', $primary->logfile, '-w');
system_or_bail(@ctl, '-o', '-b', 'start');
is($primary->safe_psql('postgres', $ours), 0, 'silent in binary upgrade mode');
is($primary->safe_psql('d1', 'SELECT count(*) FROM inbox_workers'), 0, 'the view is empty');
system_or_bail(@ctl, 'stop');

# --- not preloaded

$primary->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$primary->start;
is($primary->safe_psql('postgres', $ours), 0, 'without preload there is no process of ours');
is($primary->safe_psql('d1', 'SELECT count(*) FROM inbox_workers'), 0, 'and the view is empty');
$primary->safe_psql('postgres', 'CREATE DATABASE d2');
$primary->safe_psql('d2', 'CREATE EXTENSION inbox');
$primary->safe_psql('d2', "LOAD 'inbox'; DROP EXTENSION inbox");
$primary->safe_psql('postgres', "LOAD 'inbox'; DROP DATABASE d2");
pass('the extension can be created, loaded and dropped');

$primary->append_conf('postgresql.conf', "shared_preload_libraries = 'inbox'");
$primary->restart;
isnt(wait_worker($primary, 'd1'), '', 'with preload the worker is back');
$primary->stop('fast');

done_testing();
