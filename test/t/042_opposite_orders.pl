# Batches that name the same rows in opposite orders, with the worker and a
# purge over them: nobody waits for somebody who waits for him.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $rows = 200;
my $rounds = 60;    # of settling, each with some extensions before it

my $node = new_node('orders', "deadlock_timeout = 10ms", "inbox.reap_interval = '10ms'");
my $folder = PostgreSQL::Test::Utils::tempdir();

# finished messages are purged at once; spent ones are buried
$node->safe_psql('postgres', q{
	CREATE EXTENSION inbox;
	SELECT inbox_create('jobs', lease => '1 h', max_attempts => 1, retention => '0');
	CREATE TABLE rounds (n int PRIMARY KEY, receipts text[])});

# Take part in every round: extend, then settle, all in one's own order.
# Leaves behind what it saw.
sub client
{
	my ($name, $order) = @_;
	my $db = connect_db($node);
	my %seen;

	for my $round (1 .. $rounds)
	{
		my $receipts;
		until ($receipts = $db->selectrow_array(
				"SELECT array_agg(r ORDER BY o $order) FROM rounds, unnest(receipts) WITH ORDINALITY u (r, o) WHERE n = $round"))
		{
			usleep(1_000);
		}
		for my $sql ((q{SELECT verdict FROM inbox_extend_batch('jobs', $1)}) x 5,
			q{SELECT verdict FROM inbox_settle_batch('jobs', $1)})
		{
			my $what = $sql =~ /extend/ ? 'extend' : 'settle';
			my $answer = eval { $db->selectcol_arrayref($sql, undef, $receipts) };

			$seen{ $answer ? "$what $_" : 'error ' . $db->state }++ for $answer ? @$answer : 1;
		}
	}
	append_to_file("$folder/$name.part", join '', map { "$_: $seen{$_}\n" } sort keys %seen);
	rename "$folder/$name.part", "$folder/$name";
}

my %order = (up => 'ASC', down => 'DESC');
my @pids = map { my $name = $_; fork_client(sub { client($name, $order{$name}) }) } sort keys %order;

# spent and finished rows among the others, for the worker and for a reaper by
# hand
my $db = connect_db($node);
my $errors = 0;
for my $round (1 .. $rounds)
{
	$db->do(qq{SELECT inbox_send_batch('jobs', array_fill('1'::jsonb, '{$rows}'))});
	$db->do(qq{INSERT INTO jobs (payload, attempt) SELECT '2', 2 FROM generate_series(1, 50)});
	$db->do(qq{INSERT INTO jobs (payload, processed_at) SELECT '3', now() FROM generate_series(1, 50)});
	$db->do(qq{INSERT INTO rounds SELECT $round, array_agg(receipt) FROM inbox_claim('jobs', $rows)});
	eval { $db->do(q{SELECT inbox_reap('jobs')}); 1 } or $errors++ for 1 .. 3;
	# both have to be at it before the next
	usleep(1_000) until $db->selectrow_array('SELECT count(*) = 0 FROM jobs WHERE locked_until IS NOT NULL');
}
waitpid($_, 0) for @pids;

my %sum;
for my $name (sort keys %order)
{
	ok(-e "$folder/$name", "$name: came to the end") or next;
	my %seen = slurp_file("$folder/$name") =~ /^(.*): (\d+)$/mg;

	is(join(' ', grep { /^error/ } sort keys %seen), '', "$name: no deadlock, nor any error");
	is(($seen{'extend ok'} // 0) + ($seen{'extend gone'} // 0), 5 * $rows * $rounds, "$name: each extension has its verdict");
	is(($seen{'settle ok'} // 0) + ($seen{'settle gone'} // 0), $rows * $rounds, "$name: each settlement too");
	$sum{$_} += $seen{$_} for keys %seen;
}
is($sum{'settle ok'}, $rows * $rounds, 'each message was settled once');
is($errors, 0, 'the reaper by hand had no error');
ok($node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM jobs'), 'all are gone');
is($node->safe_psql('postgres', 'SELECT count(*) FROM jobs_dead'), 50 * $rounds, 'the spent ones are dead');
unlike(slurp_file($node->logfile), qr/deadlock detected/, 'nor has the worker met a deadlock');
is($node->safe_psql('postgres', 'SELECT set_aside FROM inbox_workers'), 0, 'or set anything aside');

$node->stop('fast');
done_testing();
