# The clock is set back, and on again, under a server that runs: nothing is
# lost, no receipt fits a later lease, and nobody sleeps until the clock is
# where it was.

use strict;
use warnings;
use DBD::Pg qw(:async);
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $folder = PostgreSQL::Test::Utils::tempdir();
my $library = "$folder/clock.so";

command_ok([ $ENV{CC} // 'gcc', '-O1', '-shared', '-fPIC', "$FindBin::RealBin/../unit/clock.c", '-o', $library, '-ldl' ],
	'the clock compiles');

sub set_clock
{
	my ($seconds) = @_;

	# at once, for those who are reading
	append_to_file("$folder/new", "$seconds\n");
	rename "$folder/new", "$folder/clock" or die;
	return;
}
set_clock(0);

my $node = PostgreSQL::Test::Cluster->new('clock');
$node->init;
$node->append_conf('postgresql.conf', join("\n", conf_lines(), "inbox.reap_interval = '200ms'", ''));
{
	local $ENV{CLOCK_FILE} = "$folder/clock";
	local $ENV{LD_PRELOAD} = $library;
	$node->start;
}

sub sql { return $node->safe_psql('postgres', $_[0]); }
sub number { return (split /@/, $_[0])[1]; }

my $day = 86400;

sql(q{
	CREATE EXTENSION inbox;
	SELECT inbox_create('jobs', lease => '1 h', max_attempts => 100);
	SELECT inbox_create('spent', lease => '1 s', max_attempts => 1);
	SELECT inbox_send_batch('jobs', '{1,2,3}')});
isnt(wait_worker($node, 'postgres'), '', 'a worker is there');
ok(ticks_on($node, 'postgres', 'postgres'), 'it ticks');

my $first = sql(q{SELECT receipt FROM inbox_claim('jobs')});
my $second = sql(q{SELECT receipt FROM inbox_claim('jobs')});
# one that waits meanwhile
my $waiter = connect_db($node);
$waiter->do(q{SELECT id FROM inbox_claim('jobs', wait => '2 s', group_key => 'none')}, { pg_async => PG_ASYNC });
$node->poll_query_until('postgres', "SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $waiter->{pg_pid}");
# a row that is locked when a claim passes it is looked at again a moment later
my $locker = connect_db($node);
$locker->begin_work;
$locker->do('SELECT FROM jobs WHERE id = 3 FOR UPDATE');
is(sql(q{SELECT count(*) FROM inbox_claim('jobs')}), 0, 'all is leased or locked');

# --- back by a day

set_clock(-$day);
is(sql(q{SELECT clock_timestamp() < now() - interval '1 h' OR clock_timestamp() < pg_postmaster_start_time() - interval '1 h'}),
	't', 'the clock is set back');
ok(ticks_on($node, 'postgres', 'postgres'), 'the worker ticks on');
usleep(20_000) until $waiter->pg_ready;
is($waiter->pg_result + 0, 0, 'a wait ends in its time');

# what is leased, or due by the other clock, is not handed out before
$locker->rollback;
is(sql(q{SELECT count(*) FROM inbox_claim('jobs', 10)}), 0, 'leases run on, and what was sent before is not due');
is(sql(q{SELECT inbox_send('jobs', '"new"'); SELECT payload FROM inbox_claim('jobs')}), qq{4\n"new"},
	'what is sent now is due now');
is(sql(qq{SELECT inbox_settle('jobs', '$first', 'release')}), 'ok', 'a receipt from before releases');
sql('UPDATE jobs SET due_at = clock_timestamp() WHERE id = 1');
my $third = sql(q{SELECT receipt FROM inbox_claim('jobs')});
cmp_ok(number($third), '>', number($first), "the message's next number is greater even so");
is(sql(qq{SELECT inbox_settle('jobs', '$first')}), 'stale', 'the old one is void');
is(sql(qq{SELECT verdict FROM inbox_extend('jobs', '$second', '1 h')}), 'ok', 'a lease from before can be extended');
is(sql(qq{SELECT locked_until > clock_timestamp() + interval '20 h' FROM jobs WHERE id = 2}), 't', 'and is not shortened');
is(sql(qq{SELECT inbox_settle('jobs', '$third', 'retry', '0')}), 'ok', 'retried');
is(sql(qq{SELECT id FROM inbox_claim('jobs')}), 1, 'and handed out');

# a worker that ends now comes back
my $pid = wait_worker($node, 'postgres');
sql("SELECT pg_terminate_backend($pid)");
set_clock(-2 * $day);
isnt(wait_worker($node, 'postgres', $pid), '', 'a worker that has to wait a second comes back, though the clock goes back meanwhile');
sql(q{INSERT INTO spent (payload) VALUES ('1'); SELECT inbox_claim('spent')});
ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM spent_dead}), 'and buries');

# --- and on again

set_clock($day);
is(sql(q{SELECT string_agg(id, ' ') FROM inbox_claim('jobs', 10)}), '4 1 2 3',
	'back where it was, and a day on: all leases have ended, all is due');
is(sql(qq{SELECT inbox_settle('jobs', '$second')}), 'stale', 'to whom the rows belonged before, they do no more');
ok(ticks_on($node, 'postgres', 'postgres'), 'the worker ticks on');

# --- a prepared transaction, which nobody tells the end of: it is asked for again
# and again, with the clock set back as well

set_clock(0);
$node->append_conf('postgresql.conf', "inbox.reap_interval = '1h'");
$node->reload;
sql(q{SELECT inbox_create('locked'); INSERT INTO locked (id, payload, due_at) SELECT i, '1', now() - interval '3 days' FROM generate_series(1, 3) i});
is(sql(q{BEGIN; SELECT id FROM inbox_claim('locked'); PREPARE TRANSACTION 'p'}), 1, 'a claim is prepared');
is(sql(q{SELECT string_agg(id, ' ') FROM inbox_claim('locked', 10)}), '2 3', 'another passes its row');
set_clock(-$day);
sql(q{ROLLBACK PREPARED 'p'});
is(sql(q{SELECT pg_sleep(0.2); SELECT string_agg(id, ' ') FROM inbox_claim('locked', 10)}) =~ s/^\n//r, '1',
	'which is found when it is free');

# a shortened interval is heard by a worker that sleeps for an hour
$node->append_conf('postgresql.conf', "inbox.reap_interval = '100ms'");
$node->reload;
ok(ticks_on($node, 'postgres', 'postgres'), 'a shortened interval wakes the worker');

$node->stop('fast');
done_testing();
