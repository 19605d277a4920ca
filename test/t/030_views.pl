# The views on a standby, and who holds the oldest snapshot from there.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = new_node('primary');
$primary->safe_psql('postgres', q{
	CREATE EXTENSION inbox;
	SELECT inbox_create('emails', max_attempts => 3);
	INSERT INTO emails(payload) SELECT '1' FROM generate_series(1, 5);
	SELECT inbox_claim('emails', 2, lease => '1 h');
	SELECT pg_create_physical_replication_slot('reserve')});

$primary->backup('b');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'b', has_streaming => 1);
$standby->append_conf('postgresql.conf', q{
hot_standby_feedback = on
wal_receiver_status_interval = 1
max_standby_streaming_delay = -1
});
$standby->start;
$primary->wait_for_catchup($standby);

is($standby->safe_psql('postgres',
		'SELECT queue, ready, leased, dead, estimated, oldest_snapshot_holder IS NULL, problem IS NULL FROM inbox_queues'),
	'public.emails|3|2|0|f|t|t', 'a standby counts');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM inbox_leases'), 2,
	'and lists the leases');

# a snapshot of the standby, handed on by feedback
my $reader = $standby->background_psql('postgres');
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
$reader->query_safe('SELECT count(*) FROM emails');
$primary->safe_psql('postgres', 'SELECT pg_current_xact_id()');

sub holder_is
{
	my ($pattern, $extra, $name) = @_;

	ok($primary->poll_query_until('postgres', qq{
		SELECT count(*) > 0 FROM inbox_queues
		WHERE oldest_snapshot_holder ~ '$pattern' AND oldest_snapshot_xids > 0 AND $extra}),
		$name);
}

holder_is('^walsender$',
	"oldest_snapshot_pid = (SELECT pid FROM pg_stat_replication)",
	'without a slot its walsender holds the snapshot');

$standby->append_conf('postgresql.conf', "primary_slot_name = 'reserve'");
$standby->reload;
holder_is("^replication slot ''reserve''\$",
	"oldest_snapshot_pid = (SELECT active_pid FROM pg_replication_slots WHERE slot_name = 'reserve')",
	'with one, the slot does');

# the slot goes on holding it when nobody is connected
$standby->stop('immediate');
$primary->poll_query_until('postgres',
	"SELECT active_pid IS NULL FROM pg_replication_slots WHERE slot_name = 'reserve'");
holder_is("^replication slot ''reserve''\$",
	'oldest_snapshot_pid IS NULL AND oldest_snapshot_age IS NULL',
	'and goes on when the standby is gone');

$primary->stop;
done_testing();
