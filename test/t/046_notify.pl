# NOTIFY by the worker: opt-in, one for each queue and tick while there is
# something to claim, never one by a sender.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $node = new_node('notify', 'inbox.notify = on');
my $long = 'q' x 60;

$node->safe_psql('postgres', qq{
	CREATE EXTENSION inbox;
	SELECT inbox_create('"Qu eue"'), inbox_create('other'), inbox_create('$long')});
ok(wait_worker($node, 'postgres'), 'the worker is there');

my $db = connect_db($node);
$db->do(q{LISTEN "public.""Qu eue"""});
$db->do(q{LISTEN "public.other"});

# The first notification within some seconds, as [channel, pid, payload].
sub heard
{
	my ($seconds) = @_;
	my $deadline = time() + $seconds;

	do
	{
		$db->ping;
		my $n = $db->pg_notifies;
		return $n if $n;
		usleep(20_000);
	} while (time() < $deadline);
	return;
}

# Whole ticks, in which the worker had the occasion.
sub ticks
{
	ticks_on($node, 'postgres', 'postgres') for 1 .. 2;
	return;
}

# what was sent up to now is read away
sub silence
{
	ticks();
	1 while heard(0);
	ticks();
	return !heard(0);
}

ok(silence(), 'an empty queue is silent');
$node->safe_psql('postgres', q{SELECT inbox_send('"Qu eue"', '1')});
my $n = heard($InboxTest::LONG);
is($n->[0], 'public."Qu eue"', 'a message is told of, on the channel named like the queue');
is($n->[1], worker_pid($node, 'postgres'), 'by the worker');
ok(heard($InboxTest::LONG), 'and again while it is there');
$node->safe_psql('postgres', q{SELECT inbox_claim('"Qu eue"')});
ok(silence(), 'not once it is leased');
$node->safe_psql('postgres', q{SELECT inbox_send('other', '1', delay => '300 ms')});
$n = heard($InboxTest::LONG);
is($n->[0], 'public.other', 'a delay that is over is told of');
$node->safe_psql('postgres', q{SELECT inbox_pause('other')});
ok(silence(), 'a paused queue is silent');
$node->safe_psql('postgres', q{SELECT inbox_resume('other')});
ok(heard($InboxTest::LONG), 'until it is resumed');

$node->safe_psql('postgres', "SELECT inbox_send('$long', '1')");
ticks();
my $count = () = slurp_file($node->logfile) =~ /name of queue public\.$long is too long for a channel/g;
is($count, 1, 'a name that makes no channel is refused, once');
is($node->safe_psql('postgres', "SELECT count(*) FROM inbox_workers WHERE last_error IS NOT NULL"), 0, 'without an error');

$node->append_conf('postgresql.conf', 'inbox.notify = off');
$node->reload;
$node->poll_query_until('postgres', q{SELECT NOT current_setting('inbox.notify')::bool});
ok(silence(), 'switched off, all is silent');

$node->stop;
done_testing();
