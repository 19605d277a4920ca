# A message whose consumers die: three deliveries, then it is dead without
# anybody's help, and never handed out a fourth time.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

# in seconds; far more than the reaper's period of 100 ms, and than a busy
# machine makes of it
my $prompt = 60;

my $node = new_node('lost');
my @queues = qw(killed ended gone crashed);

$node->safe_psql('postgres', 'CREATE EXTENSION inbox');
for my $queue (@queues)
{
	$node->safe_psql('postgres', qq{
		SELECT inbox_create('$queue', lease => '1 s', max_attempts => 3);
		SELECT inbox_send('$queue', '"work"')});
}

# A process that claims as soon as there is something, says which attempt it
# got, in which backend and until when, and works forever.  Returns its pid,
# the backend's, the attempt, and the end of the lease in seconds.
sub consumer
{
	my ($queue) = @_;
	pipe(my $in, my $out);
	my $pid = fork_client(
		sub {
			my $db = connect_db($node);
			my @row;

			usleep(20_000) until @row = $db->selectrow_array("SELECT attempt, extract(epoch FROM locked_until) FROM inbox_claim('$queue')");
			syswrite $out, "$db->{pg_pid} @row\n";
			sleep 1000;
		});
	close $out;
	return ($pid, split ' ', <$in>);
}

# All deliveries so far, then death; while a client goes on asking.
sub dies
{
	my ($queue, $lease_end) = @_;
	my $db = connect_db($node);
	my $fourth = 0;

	until ($db->selectrow_array("SELECT count(*) FROM ${queue}_dead"))
	{
		$fourth++ if $db->selectrow_array("SELECT 1 FROM inbox_claim('$queue')");
		usleep(10_000);
	}
	is($fourth, 0, "$queue: no fourth delivery");
	is( join('|', $db->selectrow_array("SELECT payload, attempt, cause FROM ${queue}_dead")),
		'"work"|3|lease lost', "$queue: dead after three");
	is($db->selectrow_array("SELECT count(*) FROM $queue"), 0, "$queue: and gone from the queue");
	my ($late, $down) = $db->selectrow_array("SELECT extract(epoch FROM died_at) - $lease_end,
		greatest(extract(epoch FROM pg_postmaster_start_time()) - $lease_end, 0) FROM ${queue}_dead");
	cmp_ok($late, '>=', 0, "$queue: not before its lease had ended");
	cmp_ok($late - $down, '<', $prompt, "$queue: but soon after");
	return;
}

# --- client killed, backend terminated, client that leaves in good order

my %end = (
	killed => sub { kill_client($_[0]) },
	ended => sub {
		$node->safe_psql('postgres', "SELECT pg_terminate_backend($_[1], 10000)");
		kill_client($_[0]);
	},
	gone => sub { kill 'TERM', $_[0]; waitpid($_[0], 0); });
my %attempts;
my %lease_end;

for my $round (1 .. 3)
{
	my %consumer = map { $_ => [ consumer($_) ] } sort keys %end;

	for my $queue (sort keys %end)
	{
		my ($pid, $backend, $attempt, $until) = @{ $consumer{$queue} };

		$attempts{$queue} .= " $attempt";
		$lease_end{$queue} = $until;
		$end{$queue}->($pid, $backend);
	}
}
for my $queue (sort keys %end)
{
	is($attempts{$queue}, ' 1 2 3', "$queue: three deliveries");
	dies($queue, $lease_end{$queue});
}

# --- the whole server: the first crash may undo the claim, which does not wait
# for the disk; after a crash claims do

for my $round (1 .. 4)
{
	my ($pid, $backend, $attempt, $until) = consumer('crashed');

	$attempts{crashed} .= " $attempt";
	$lease_end{crashed} = $until;
	$node->stop('immediate');
	kill_client($pid);
	$node->start;
	last if $attempt == 3;
}
like($attempts{crashed}, qr/^ 1( 1)? 2 3$/, 'crashed: three deliveries, or one more');
dies('crashed', $lease_end{crashed});

# --- a cap that was lowered meanwhile

$node->safe_psql('postgres', q{
	SELECT inbox_create('lowered', lease => '1 s', max_attempts => 5);
	SELECT inbox_send('lowered', i::text::jsonb) FROM generate_series(1, 3) i;
	SELECT inbox_settle_batch('lowered', array_agg(receipt), '{release}') FROM inbox_claim('lowered', 3);
	UPDATE lowered SET attempt = 3 WHERE payload = '1';
	UPDATE lowered SET attempt = 3, locked_until = now() + '1 h', claimed_at = now() WHERE payload = '2'});
$node->safe_psql('postgres', q{SELECT inbox_alter('lowered', max_attempts => 2)});
ok($node->poll_query_until('postgres', 'SELECT count(*) = 1 FROM lowered_dead'),
	'cap lowered below what a message has had: it is buried');
is( $node->safe_psql('postgres', 'SELECT payload, attempt, cause FROM lowered_dead'),
	'1|2|lease lost', 'with the count of its deliveries');
ok(ticks_on($node, 'postgres', 'postgres'), 'the worker goes on');
is( $node->safe_psql('postgres',
		"SELECT payload FROM lowered WHERE locked_until > now()"),
	'2', 'one with a live lease stays');
is( $node->safe_psql('postgres', q{SELECT payload, attempt, max_attempts FROM inbox_claim('lowered', 10)}),
	'3|1|2', 'one with attempts left is handed out');
is( $node->safe_psql('postgres', q{SELECT inbox_settle('lowered', inbox_receipt(lowered), 'retry', '0', 'no good')
		FROM lowered WHERE payload = '2'}),
	'dead', 'the holder of the second can still settle it; a retry buries it');
is( $node->safe_psql('postgres', q{SELECT attempt, cause, last_error FROM lowered_dead WHERE payload = '2'}),
	'2|failed|no good', 'with its error');

$node->stop('fast');
done_testing();
