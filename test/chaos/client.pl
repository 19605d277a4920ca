#!/usr/bin/perl
# client.pl NAME FOLDER SEED: one client of the invariant checker.
#
# It sends, claims, extends and settles at random until FOLDER/stop exists,
# and expects to be killed at any instant.  What the checker needs to know it
# writes twice: to the table "journal", in the very transaction that changes
# the queue, and to FOLDER/NAME.seen, after the server has confirmed that
# transaction.

use strict;
use warnings;
use DBI;
use IO::Handle;
use Time::HiRes qw(sleep);

my ($name, $folder, $seed) = @ARGV;
my $parent = getppid();
my $claim = q{FROM inbox_claim('jobs', $1, lease => make_interval(secs => $2)) c};
my $db;

srand($seed);
open my $seen, '>>', "$folder/$name.seen" or die $!;
open my $wrong, '>>', "$folder/$name.errors" or die $!;
$_->autoflush(1) for $seen, $wrong;

while (!-e "$folder/stop" && getppid() == $parent)
{
	eval { $db //= connect_db(); step(); 1 } or failed();
}

# ---------------------------------------------------------------------------

sub connect_db
{
	return DBI->connect('dbi:Pg:', undef, undef,
		{ AutoCommit => 1, RaiseError => 1, PrintError => 0, PrintWarn => 0,
			pg_server_prepare => int(rand 2) });
}

# What may go wrong without anybody's fault: the server is down or ended this
# connection, or a lease was lost.
sub failed
{
	my $state = $DBI::state // '';
	my $text = $@;

	eval { $db->rollback unless $db->{AutoCommit} } if $db;
	return if $db && $state eq 'IB001';
	print $wrong "$state $text" =~ s/\n/ /gr . "\n"
	  unless $state =~ /^(08...|57P0[1-3])$/ || ($db && !$db->ping) || !$db;
	eval { $db->disconnect } if $db;
	undef $db;
	sleep 0.05;
	return;
}

sub step
{
	my $dice = rand;

	return send_some() if $dice < 0.15;
	return $db->do(q{SELECT inbox_reap('jobs')}) if $dice < 0.17;
	return $db->do(q{SELECT inbox_redrive('jobs', 3)}) if $dice < 0.18;

	my @held = rand() < 0.2 ? claim_plain() : claim_journaled();
	# one in thirty holders is forgetful, one in thirty is late
	return if rand() < 0.03;
	nap(rand() < 0.03 ? 2 : 0.02);
	@held = extend(@held) if @held && rand() < 0.4;
	nap(0.01);
	settle_all(@held) if @held;
	nap(0.2) unless @held;
	return;
}

sub nap { return sleep rand shift }

# Runs its argument in a transaction; what it returns are the lines for the
# client's own file.
sub transaction
{
	my $work = shift;

	$db->begin_work;
	my @lines = $work->();
	nap(0.005) if rand() < 0.2;
	$db->commit;
	print $seen map { "$_\n" } @lines;
	return;
}

sub send_some
{
	my $n = 1 + int rand 20;
	my @payloads = map { qq({"n": $_}) } 1 .. $n;
	# an INSERT is as good a way in as a call
	my $send = rand() < 0.3
	  ? 'i AS (INSERT INTO jobs (payload) SELECT unnest($1::jsonb[]) RETURNING id::text)'
	  : q{i AS (SELECT * FROM inbox_send_batch('jobs', $1))};

	transaction(
		sub {
			my $ids = $db->selectcol_arrayref(
				"WITH $send INSERT INTO sent SELECT * FROM i RETURNING id",
				undef, \@payloads);
			return map { "$_ - sent" } @$ids;
		});
	return;
}

sub claim_journaled
{
	my ($rows, $lease) = (1 + int(rand 10), 1 + int(rand 3));
	my @held;

	transaction(
		sub {
			@held = @{
				$db->selectall_arrayref(qq{
					INSERT INTO journal (id, receipt, what, attempt, began, ends, client)
					SELECT c.id, c.receipt, 'claim', c.attempt,
						c.locked_until - make_interval(secs => \$2), c.locked_until, \$3
					$claim RETURNING id, receipt}, { Slice => {} }, $rows, $lease, $name) };
			return map { "$_->{id} $_->{receipt} claim" } @held;
		});
	return @held;
}

# The way most clients will claim.  Such a lease may be lost in a crash, and
# the journal does not know it: what it says then is less, never wrong.
sub claim_plain
{
	my ($rows, $lease) = (1 + int(rand 10), 1 + int(rand 3));

	my $from = rand() < 0.5 ? $claim
	  : q{FROM inbox_next('jobs', NULL, $1, make_interval(secs => $2)) c};

	return @{ $db->selectall_arrayref("SELECT c.id, c.receipt $from",
			{ Slice => {} }, $rows, $lease) };
}

# Returns those that are still held.
sub extend
{
	my @held = @_;
	my @batch = rand() < 0.3 ? @held : ($held[0]);
	my @lost;

	transaction(
		sub {
			my $verdicts = $db->selectall_arrayref(
				q{SELECT verdict, new_receipt, locked_until
				  FROM inbox_extend_batch('jobs', $1, make_interval(secs => $2))},
				undef, [ map { $_->{receipt} } @batch ], 1 + int rand 3)
			  if @batch > 1;
			$verdicts //= $db->selectall_arrayref(
				q{SELECT verdict, new_receipt, locked_until
				  FROM inbox_extend('jobs', $1, make_interval(secs => $2))},
				undef, $batch[0]->{receipt}, 1 + int rand 3);
			my @lines;
			foreach my $one (@batch)
			{
				my ($verdict, $new, $until) = @{ shift @$verdicts };

				push(@lost, $one), next if $verdict ne 'ok';
				$db->do(q{INSERT INTO journal (id, receipt, what, ends, client) VALUES ($1, $2, 'extend', $3, $4)},
					undef, $one->{id}, $one->{receipt}, $until, $name);
				$one->{receipt} = $new;
				push @lines, "$one->{id} $one->{receipt} extend";
			}
			return @lines;
		});
	return grep { my $one = $_; !grep { $_ == $one } @lost } @held;
}

# One by one or all at once; always strict, the effect in the same
# transaction.  The settlement comes before the journal's row, so that the
# numbers of the journal follow the order of the row's locks.
sub settle_all
{
	my @held = @_;

	if (rand() < 0.3)
	{
		my @outcome = map { outcome() } @held;
		settle(\@held, \@outcome, sub {
			$db->do(q{SELECT FROM inbox_settle_batch('jobs', $1, $2, delays => '{1 s}', strict => true)},
				undef, [ map { $_->{receipt} } @held ], \@outcome);
		});
		return;
	}
	foreach my $one (@held)
	{
		my $outcome = outcome();
		settle([$one], [$outcome], sub {
			$db->do(q{SELECT inbox_settle('jobs', $1, $2, delay => '1 s', strict => true)},
				undef, $one->{receipt}, $outcome);
		});
	}
	return;
}

sub outcome
{
	my $dice = rand;

	return
	    $dice < 0.6  ? 'done'
	  : $dice < 0.7  ? 'drop'
	  : $dice < 0.85 ? 'retry'
	  : $dice < 0.95 ? 'release'
	  :                'dead';
}

sub settle
{
	my ($held, $outcome, $call) = @_;

	transaction(
		sub {
			my @lines;

			$call->();
			foreach my $i (0 .. $#$held)
			{
				my ($id, $receipt) = @{ $held->[$i] }{qw(id receipt)};

				$db->do(q{INSERT INTO journal (id, receipt, what, ends, client) VALUES ($1, $2, $3, '-infinity', $4)},
					undef, $id, $receipt, $outcome->[$i], $name);
				$db->do(q{INSERT INTO effect (id, client) VALUES ($1, $2)}, undef, $id, $name)
				  if $outcome->[$i] =~ /^(done|drop)$/;
				push @lines, "$id $receipt $outcome->[$i]";
			}
			return @lines;
		});
	return;
}
