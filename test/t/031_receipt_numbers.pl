# Receipts over restarts: a row's number only grows, whatever the clock and
# the shared counter do, so no receipt from before ever fits a later lease.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('numbers');

sub restart
{
	my ($mode) = @_;
	$node->stop($mode);
	$node->start;
	return;
}

# the receipt of one message, or ''
sub claim
{
	my ($queue) = @_;
	return $node->safe_psql('postgres', "SELECT receipt FROM inbox_claim('$queue')");
}

sub settle
{
	my ($queue, $receipt, $outcome) = @_;
	return $node->safe_psql('postgres', "SELECT inbox_settle('$queue', '$receipt', '$outcome')");
}

sub number { return (split /@/, $_[0])[1]; }

$node->safe_psql('postgres', q{
	CREATE EXTENSION inbox;
	SELECT inbox_create('jobs', lease => '1 h');
	SELECT inbox_send('jobs', '1');
	CREATE TABLE morgue (LIKE jobs);
	CREATE TABLE plain (id int PRIMARY KEY, locked_until timestamptz);
	SELECT inbox_adopt('plain');
	INSERT INTO plain VALUES (1)});

# --- from claim to claim

my $last = claim('jobs');
for my $mode ('fast', 'immediate', 'fast')
{
	is(settle('jobs', $last, 'release'), 'ok', "released before a restart ($mode)");
	my $old = $last;
	restart($mode);
	$last = claim('jobs');
	cmp_ok(number($last), '>', number($old), "the next number is greater ($mode)");
	is(settle('jobs', $old, 'done'), 'stale', 'the old one is stale');
}

# --- a lease from before the restart

for my $mode ('fast', 'immediate')
{
	restart($mode);
	is(claim('jobs'), '', "a lease from before is in force ($mode)");
	is( $node->safe_psql('postgres', "SELECT verdict, new_receipt FROM inbox_extend('jobs', '$last')"),
		"ok|$last", 'and its receipt extends it');
}
is(settle('jobs', $last, 'release'), 'ok', 'and gives it back');

# --- a row that is ahead of the clock, as after a clock was set back

$node->safe_psql('postgres', q{UPDATE jobs SET claimed_at = now() + '1 day'});
my $ahead = $node->safe_psql('postgres',
	q{SELECT id || '@' || (extract(epoch FROM claimed_at) * 1000000)::bigint FROM jobs});
$last = claim('jobs');
is(number($last), number($ahead) + 1, 'a row ahead of the clock: one more');
is(settle('jobs', $ahead, 'done'), 'stale', 'the hand-made number is stale');
$node->safe_psql('postgres', q{SELECT inbox_send('jobs', '2')});
my $other = claim('jobs');
cmp_ok(number($other), '<', number($ahead), 'other rows stay with the clock');
for my $mode ('fast', 'immediate')
{
	is(settle('jobs', $last, 'release'), 'ok', 'released');
	my $old = $last;
	restart($mode);
	$last = claim('jobs');
	is(number($last), number($old) + 1, "and one more after a restart ($mode)");
	is(settle('jobs', $old, 'done'), 'stale', 'the old one is stale');
}
is(settle('jobs', $other, 'done'), 'ok', 'the other row settles');

# --- retried

$node->safe_psql('postgres', q{SELECT inbox_alter('jobs', max_attempts => 100, dead_letter => 'morgue')});
is(settle('jobs', $last, 'retry'), 'ok', 'retried');
restart('immediate');
$node->poll_query_until('postgres', 'SELECT due_at <= clock_timestamp() FROM jobs');
my $old = $last;
$last = claim('jobs');
cmp_ok(number($last), '>', number($old), 'and grown');

# --- buried and brought back

is(settle('jobs', $last, 'dead'), 'dead', 'buried');
restart('immediate');
is($node->safe_psql('postgres', q{SELECT inbox_redrive('jobs')}), 1, 'brought back');
$old = $last;
$last = claim('jobs');
is(number($last), number($old) + 1, 'and one more, as it is still ahead of the clock');
is(settle('jobs', $old, 'done'), 'stale', 'the old one is stale');

# --- without claimed_at the number is the expiry

$last = claim('plain');
restart('immediate');
is(claim('plain'), '', 'adopted without claimed_at: the lease is in force after a crash');
is( $node->safe_psql('postgres', "SELECT verdict FROM inbox_extend('plain', '$last', '1 h')"),
	'ok', 'and its receipt extends it');
is(settle('plain', $last, 'done'), 'stale', 'once');
$last = $node->safe_psql('postgres', 'SELECT inbox_receipt(plain) FROM plain');
restart('immediate');
is(settle('plain', $last, 'done'), 'ok', 'the new one settles it after another crash');

$node->stop('fast');
done_testing();
