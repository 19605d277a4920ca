# A server that falls in the middle of everything: what it had confirmed is
# there, what it had not is whole or not at all.
#
# Each client works on rows of its own, one call after the other, and writes
# down what it is about to do and what came back.  So when the server is gone
# all is known about its rows, but for the one call that got no answer.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use IO::Handle;
use InboxTest;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $clients = 4;
my $rounds = 3;
my $calls = 60;    # of each client, before the server is stopped

my $folder = PostgreSQL::Test::Utils::tempdir();
my $json = JSON::PP->new->canonical;
# what a crash may undo that did not wait for the disk is in 050_async.pl
my $node = new_node('crash', "synchronous_commit = on", "inbox.async_claim = off");

$node->safe_psql('postgres', q{
	CREATE EXTENSION inbox;
	SELECT inbox_create('jobs', lease => '1 h', max_attempts => 1000);
	SELECT inbox_create('kept', lease => '1 h');
	SELECT inbox_send_batch('kept', array_fill('1'::jsonb, '{5}'))});
my $kept = connect_db($node)->selectcol_arrayref(q{SELECT receipt FROM inbox_claim('kept', 5)});

# --- what a client does, and how its rows look after it

sub call
{
	my ($db, $op, @args) = @_;
	my %sql = (
		send => q{SELECT id FROM inbox_send_batch('jobs', ?::jsonb[], group_keys => ?) id},
		claim => q{SELECT id, receipt FROM inbox_claim('jobs', ?, group_key => ?)},
		extend => q{SELECT receipt, verdict FROM inbox_extend_batch('jobs', ?, '2 h')},
		settle => q{SELECT id, verdict FROM inbox_settle_batch('jobs', ?, ?, '{1 day}')});

	return $db->selectall_arrayref($sql{$op}, undef, @args);
}

# The rows after a call: id => state, from the rows before it.
sub apply
{
	my ($rows, $op, $args, $answer) = @_;
	my %state = (done => 'gone', drop => 'gone', dead => 'dead',
		retry => 'delayed', release => 'ready');
	my %after = %$rows;

	if ($op eq 'send') { $after{ $_->[0] } = 'ready' for @$answer }
	elsif ($op eq 'claim') { $after{ $_->[0] } = "leased $_->[1]" for @$answer }
	elsif ($op eq 'settle')
	{
		for my $i (0 .. $#$answer)
		{
			die "settle: $answer->[$i][1]" if $answer->[$i][1] !~ /^(ok|dead)$/;
			$after{ $answer->[$i][0] } = $state{ $args->[1][$i] };
		}
	}
	elsif (grep { $_->[1] ne 'ok' } @$answer) { die "extend: not ok" }
	return \%after;
}

sub random_call
{
	my ($me, $rows) = @_;
	my @held = map { /^leased (.*)/ ? $1 : () } map { $rows->{$_} } sort keys %$rows;
	my $ready = grep { $_ eq 'ready' } values %$rows;

	return ('send', [ map { qq({"n": $_}) } 1 .. 5 ], [ ($me) x 5 ]) if $ready < 3;
	return ('claim', 3, $me) if @held < 3;
	return ('extend', \@held) if rand() < 0.2;
	return ('settle', \@held, [ map { (qw(done drop dead retry release))[ rand 5 ] } @held ]);
}

# Runs until the connection breaks.
sub client
{
	my ($me, $file, $rows) = @_;
	open my $out, '>>', $file or die;
	$out->autoflush(1);
	my $db = connect_db($node);

	srand($$);
	for (;;)
	{
		my ($op, @args) = random_call($me, $rows);

		print $out $json->encode([ 'asked', $op, @args ]), "\n";
		my $answer = eval { call($db, $op, @args) };
		if (!$answer)
		{
			print $out $json->encode([ 'refused', $@ ]), "\n" if $db->ping;
			return;
		}
		$rows = apply($rows, $op, \@args, $answer);
		print $out $json->encode([ 'answered', $answer ]), "\n";
	}
}

# --- after the server is back

# What a client's file says: its rows, and the call without an answer.
sub replay
{
	my ($file, $rows) = @_;
	my $asked;

	for (split /\n/, slurp_file($file))
	{
		my ($what, @rest) = @{ $json->decode($_) };

		if ($what eq 'asked') { $asked = \@rest; next; }
		die "a call failed: @rest" if $what eq 'refused';
		my ($op, @args) = @$asked;
		$rows = apply($rows, $op, \@args, $rest[0]);
		$asked = undef;
	}
	return ($rows, $asked);
}

sub rows_of
{
	my ($me) = @_;
	my $db = connect_db($node);
	my %rows = map { $_->[0] => $_->[1] } @{
		$db->selectall_arrayref(q{
			SELECT id, CASE WHEN locked_until IS NOT NULL THEN 'leased ' || inbox_receipt(jobs)
				WHEN due_at > now() THEN 'delayed' ELSE 'ready' END
			FROM jobs WHERE group_key = $1
			UNION ALL SELECT id, 'dead' FROM jobs_dead WHERE group_key = $1}, undef, $me) };
	return \%rows;
}

sub without_gone
{
	my ($rows) = @_;
	return { map { $_ => $rows->{$_} } grep { $rows->{$_} ne 'gone' } keys %$rows };
}

# How the call without an answer would look if it had been done: its answer,
# made up from what is there now.
sub if_done
{
	my ($before, $now, $op, @args) = @_;
	my @answer;

	if ($op eq 'send')
	{
		@answer = map { [$_] } grep { !exists $before->{$_} } keys %$now;
		return undef if @answer != 5;
	}
	elsif ($op eq 'claim')
	{
		my $ready = grep { $_ eq 'ready' } values %$before;
		@answer = map { [ $_, $now->{$_} =~ s/^leased //r ] }
		  grep { $before->{$_} eq 'ready' && ($now->{$_} // '') =~ /^leased/ } keys %$before;
		return undef if @answer != ($ready < 3 ? $ready : 3);
	}
	elsif ($op eq 'settle') { @answer = map { [ s/@.*//r, 'ok' ] } @{ $args[0] } }
	else { @answer = map { [ $_, 'ok' ] } @{ $args[0] } }
	return without_gone(apply($before, $op, \@args, \@answer));
}

my @rows = map { {} } 1 .. $clients;
my %unanswered;

for my $round (1 .. $rounds)
{
	my @files = map { "$folder/$round-$_" } 1 .. $clients;
	my @pids;

	for my $me (1 .. $clients)
	{
		push @pids, fork_client(sub { client("c$me", $files[$me - 1], $rows[$me - 1]) });
	}
	for my $file (@files)
	{
		my $text = '';

		while ((() = $text =~ /answered/g) < $calls)
		{
			usleep(10_000);
			$text = slurp_file($file) if -e $file;
			die $text if $text =~ /refused/;
		}
	}
	$node->stop('immediate');
	waitpid($_, 0) for @pids;
	$node->start;

	my ($whole, $half) = (0, 0);
	for my $me (1 .. $clients)
	{
		my ($before, $asked) = replay($files[ $me - 1 ], $rows[ $me - 1 ]);
		my $now = rows_of("c$me");

		$before = without_gone($before);
		my $done = $asked ? if_done($before, $now, @$asked) : undef;
		my $text = $json->encode($now);
		my $ok = $text eq $json->encode($before) || ($done && $text eq $json->encode($done));

		$ok ? $whole++ : $half++;
		$unanswered{ $asked->[0] }++ if $asked;
		diag("asked: " . $json->encode($asked), "\nbefore: " . $json->encode($before), "\nnow: $text")
		  unless $ok;
		$rows[ $me - 1 ] = $now;
	}
	is("$whole whole, $half half", "$clients whole, 0 half",
		"crash $round: what was confirmed is there, the rest whole or not at all");
}
note("calls without an answer: " . $json->encode(\%unanswered));

# --- leases outlive every crash

my $db = connect_db($node);
is(scalar @$kept, 5, 'leases from before the first crash');
is($db->selectrow_array(q{SELECT count(*) FROM inbox_claim('kept', 1000)}), 0, 'which nobody else gets');
is( join(' ', map { $_->[0] } @{ $db->selectall_arrayref(
			q{SELECT verdict FROM inbox_settle_batch('kept', $1)}, undef, $kept) }),
	'ok ok ok ok ok', 'and whose receipts settle');

# --- an open transaction is none

$db->do(q{SELECT inbox_create('moves', lease => '1 h', max_attempts => 3)});
$db->do(q{SELECT inbox_send_batch('moves', array_fill('1'::jsonb, '{3000}'))});
my $receipts = $db->selectcol_arrayref(q{SELECT receipt FROM inbox_claim_ids('moves', 3000)});
$db->begin_work;
is( $db->selectrow_array(
		q{SELECT count(*) FROM inbox_settle_batch('moves', $1, '{dead}') WHERE verdict = 'dead'},
		undef, $receipts),
	3000, 'buries under way');
$node->stop('immediate');
eval { $db->rollback };
$node->start;
is($node->safe_psql('postgres', 'SELECT count(*) FROM moves_dead'), 0, 'crash: none is done');
$db = connect_db($node);
is( $db->selectrow_array(
		q{SELECT count(*) FROM inbox_settle_batch('moves', $1, '{dead}') WHERE verdict = 'dead'},
		undef, $receipts),
	3000, 'and all can be done again');
is($node->safe_psql('postgres', 'SELECT count(*) FROM moves_dead'), 3000, 'once');

$db->begin_work;
is($db->selectrow_array(q{SELECT inbox_redrive('moves')}), 3000, 'a redrive under way');
$node->stop('immediate');
eval { $db->rollback };
$node->start;
is( $node->safe_psql('postgres', 'SELECT (SELECT count(*) FROM moves), (SELECT count(*) FROM moves_dead)'),
	'0|3000', 'crash: it has not begun');
$db = connect_db($node);
is($db->selectrow_array(q{SELECT inbox_redrive('moves')}), 3000, 'and can be done again');
$node->stop('immediate');
$node->start;
is( $node->safe_psql('postgres', 'SELECT (SELECT count(*) FROM moves), (SELECT count(*) FROM moves_dead)'),
	'3000|0', 'once done, it stays');
$db = connect_db($node);

# --- a worker at its work

$db->do(q{SELECT inbox_create('spent', max_attempts => 1)});
$db->do(q{ALTER TABLE spent SET (autovacuum_enabled = off)});
$db->do(q{INSERT INTO spent (payload, attempt, locked_until)
	SELECT to_jsonb(i), 2, now() FROM generate_series(1, 20000) i});
$node->poll_query_until('postgres', 'SELECT count(*) > 0 FROM spent_dead');
$node->stop('immediate');
$node->start;
is( $node->safe_psql('postgres', q{
		SELECT count(*), count(DISTINCT id), count(DISTINCT payload)
		FROM (SELECT id, payload FROM spent UNION ALL SELECT id, payload FROM spent_dead) a}),
	'20000|20000|20000', 'the worker died burying: each message is in one place');
ok($node->poll_query_until('postgres', 'SELECT count(*) = 20000 FROM spent_dead'),
	'and the next one ends the work');

# --- an unlogged queue

$node->safe_psql('postgres', q{
	CREATE UNLOGGED TABLE quick (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
		locked_until timestamptz, claimed_at timestamptz, body jsonb);
	SELECT inbox_adopt('quick', claimed_at => 'claimed_at', payload => 'body');
	SELECT inbox_send_batch('quick', array_fill('1'::jsonb, '{10}'));
	SELECT inbox_claim('quick', 5)});
my $old = $node->safe_psql('postgres', q{SELECT receipt FROM inbox_claim('quick')});
$node->stop('immediate');
$node->start;
is($node->safe_psql('postgres', 'SELECT count(*) FROM quick'), 0, 'an unlogged queue is empty');
is($node->safe_psql('postgres', "SELECT inbox_settle('quick', '$old')"), 'gone', 'its receipts are void');
$node->safe_psql('postgres', q{SELECT inbox_send('quick', '"again"')});
is( $node->safe_psql('postgres', q{SELECT payload, inbox_settle('quick', receipt) FROM inbox_claim('quick')}),
	'"again"|ok', 'and it works');

$node->stop('fast');
done_testing();
