# Settings out of their range: refused where they are set, and in
# postgresql.conf left out with a warning, by a server that comes up and works.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my @settings = (
	[ 'max_queues', '0', '256' ], [ 'max_lease', '0', '7d' ], [ 'reap_interval', '1ms', '1s' ],
	[ 'reap_rows', '0', '1000' ], [ 'reap_pages', '-1', '4096' ], [ 'reap_timeout', '-1', '1min' ],
	[ 'direct', 'perhaps', 'on' ], [ 'async_claim', '2', 'on' ], [ 'notify', 'never', 'off' ]);
my $node = new_node('range', map { "inbox.$_->[0] = '$_->[1]'" } @settings);

$node->safe_psql('postgres', q{CREATE EXTENSION inbox; SELECT inbox_create('q'); SELECT inbox_send('q', '1')});
for (@settings)
{
	my ($name, $value, $default) = @$_;

	is($node->safe_psql('postgres', "SHOW inbox.$name"), $default, "$name: the default stands in");
	like(slurp_file($node->logfile), qr/WARNING:  (\S+ \w* ?is outside the valid range for parameter|invalid value for parameter|parameter) "inbox\.$name"/,
		"$name: the log tells");
}
isnt(wait_worker($node, 'postgres'), '', 'the worker is there');
ok(ticks_on($node, 'postgres', 'postgres'), 'and ticks');
is($node->safe_psql('postgres', q{SELECT id, inbox_settle('q', receipt) FROM inbox_claim('q')}), '1|ok', 'the queue works');

# --- set by a session

my %state = (
	'inbox.max_lease = 0' => '22023', q{inbox.max_lease = '3651d'} => '22023',
	'inbox.reap_rows = 0' => '22023', 'inbox.reap_rows = 1000001' => '22023',
	'inbox.reap_pages = 0' => '22023', q{inbox.direct = 'perhaps'} => '22023',
	q{inbox.reap_interval = '5s'} => '55P02', 'inbox.max_queues = 10' => '55P02',
	q{inbox.nonsense = 1} => '42602');
for my $set (sort keys %state)
{
	is((sqlstate($node, 'postgres', "SET $set"))[0], $state{$set}, "SET $set: refused");
}

# --- by a reload: the one before stays

$node->append_conf('postgresql.conf', "inbox.reap_interval = '2h'\ninbox.max_queues = 99");
my $log = -s $node->logfile;
$node->reload;
ok($node->wait_for_log(qr/is outside the valid range for parameter "inbox\.reap_interval"/, $log), 'a reload that is refused is told of');
is($node->safe_psql('postgres', 'SHOW inbox.reap_interval'), '1s', 'and changes nothing');
ok(ticks_on($node, 'postgres', 'postgres'), 'the worker ticks on');

$node->stop('fast');
done_testing();
