# A queue as a published table: sends, claims, and settlements replicate, and
# the copy can take over.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $here = new_node('here', 'wal_level = logical');
my $there = new_node('there');

my $rows = q{SELECT string_agg(t::text, E'\n' ORDER BY id) FROM jobs t};
my $dead = q{SELECT string_agg(t::text, E'\n' ORDER BY id) FROM jobs_dead t};

$here->safe_psql('postgres', q{
	CREATE EXTENSION inbox;
	SELECT inbox_create('jobs', lease => '1 h', max_attempts => 2);
	SELECT inbox_send_batch('jobs', array_fill('"x"'::jsonb, '{20}'))});

# The copy is a plain table, without labels, until it takes over: a worker
# there would bury and purge on its own.  The triggers come with the table.
my $connection = $here->connstr . ' dbname=postgres';
my $schema = `pg_dump -s -t jobs -t jobs_dead --no-security-labels '$connection'`;
$there->safe_psql('postgres', "CREATE EXTENSION inbox;\n$schema");
$here->safe_psql('postgres', 'CREATE PUBLICATION queues FOR TABLE jobs, jobs_dead');
$there->safe_psql('postgres',
	"CREATE SUBSCRIPTION queues CONNECTION '$connection' PUBLICATION queues");
ok( $there->poll_query_until('postgres', q{
		SELECT count(*) = 2 FROM pg_subscription_rel WHERE srsubstate = 'r'}), 'the tables are copied');

sub same
{
	my ($name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	# a claim's commit may not be on disk yet
	$here->wait_for_catchup('queues', 'replay', $here->lsn('insert'));
	is($there->safe_psql('postgres', $rows), $here->safe_psql('postgres', $rows), $name);
	is($there->safe_psql('postgres', $dead), $here->safe_psql('postgres', $dead), "$name: dead letters too");
	return;
}

$here->safe_psql('postgres', q{SELECT inbox_send('jobs', '"one"'); INSERT INTO jobs (payload) VALUES ('"two"')});
same('sends');
my $receipts = $here->safe_psql('postgres', q{SELECT string_agg(receipt, ',') FROM inbox_claim('jobs', 12)});
my @receipts = split /,/, $receipts;
same('claims');
$here->safe_psql('postgres', "SELECT inbox_extend_batch('jobs', string_to_array('$receipts', ','), '2 h')");
same('extensions');
$here->safe_psql('postgres', qq{
	SELECT inbox_settle('jobs', '$receipts[0]');
	SELECT inbox_settle('jobs', '$receipts[1]', 'retry', '1 day', 'no');
	SELECT inbox_settle('jobs', '$receipts[2]', 'release');
	SELECT inbox_settle('jobs', '$receipts[3]', 'dead', error => 'never');
	SELECT inbox_settle('jobs', '$receipts[4]', 'dead')});
same('settlements');
$here->safe_psql('postgres', q{SELECT inbox_redrive('jobs', 1)});
same('a redrive');
$here->safe_psql('postgres', q{UPDATE jobs SET attempt = 3, locked_until = now() WHERE id = 12});
$here->poll_query_until('postgres', 'SELECT count(*) = 2 FROM jobs_dead');
same('a bury by the worker');

# --- the copy takes over

$here->stop('immediate');
$there->safe_psql('postgres', q{
	ALTER SUBSCRIPTION queues DISABLE;
	ALTER SUBSCRIPTION queues SET (slot_name = NONE);
	DROP SUBSCRIPTION queues});
$there->safe_psql('postgres', q{
	SELECT inbox_adopt('jobs', claimed_at => 'claimed_at', attempt => 'attempt', payload => 'payload',
		headers => 'headers', due_at => 'due_at', priority => 'priority', group_key => 'group_key',
		partition_key => 'partition_key', enqueued_at => 'enqueued_at', last_error => 'last_error',
		dedup_key => 'dedup_key', lease => '1 h', max_attempts => 2, dead_letter => 'jobs_dead')});
my @live = @receipts[ 5 .. 10 ];
is( $there->safe_psql('postgres', "SELECT verdict, count(*) FROM inbox_settle_batch('jobs', string_to_array('"
		. join(',', @live) . "', ',')) GROUP BY 1"),
	'ok|' . @live, 'receipts from before settle at the copy');
is( $there->safe_psql('postgres', "SELECT verdict FROM inbox_settle_batch('jobs', string_to_array('"
		. join(',', @receipts[ 0, 2 ]) . "', ','))"),
	"gone\nstale", 'and those without a lease do not');
is($there->safe_psql('postgres', q{SELECT count(*) FROM inbox_claim('jobs', 100)}), 12, 'claims go on');
is($there->safe_psql('postgres', q{SELECT inbox_redrive('jobs')}), 2, 'dead letters come back');
isnt(wait_worker($there, 'postgres'), '', 'a worker is there');

# logical replication brings rows, not sequences
is($there->safe_psql('postgres', q{SELECT inbox_send('jobs', '"new"')}), 1, 'the ids of the copy begin at 1');
$there->safe_psql('postgres', q{SELECT setval(pg_get_serial_sequence('jobs', 'id'), (SELECT max(id) FROM jobs))});
is($there->safe_psql('postgres', q{SELECT inbox_send('jobs', '"new"')}), 23, 'unless told to go on');

# --- no replica identity: the server's own error, before anything is written

$there->stop('fast');
$here->start;
$here->safe_psql('postgres', q{
	CREATE TABLE keyless (id int NOT NULL UNIQUE, locked_until timestamptz, claimed_at timestamptz);
	INSERT INTO keyless VALUES (1);
	SELECT inbox_adopt('keyless', claimed_at => 'claimed_at');
	CREATE PUBLICATION keyless FOR TABLE keyless});
my ($state, $text) = sqlstate($here, 'postgres', q{SELECT inbox_claim('keyless')});
is($state, '55000', 'a published table without replica identity cannot be claimed from');
like($text, qr/replica identity.*HINT:.*REPLICA IDENTITY/s, 'the server says why');
$here->safe_psql('postgres', q{ALTER TABLE keyless REPLICA IDENTITY USING INDEX keyless_id_key});
is($here->safe_psql('postgres', q{SELECT count(*) FROM inbox_claim('keyless')}), 1, 'with one it can');

$here->stop('fast');
done_testing();
