# Many clients at once, with transactions that roll back, savepoints, rows
# changed by hand and leases that end; now and then all of them stop, and
# claims must then find every row there is, with nobody looking for what was
# missed: the worker's own looking around is switched off.
#
# INBOX_SEED repeats the clients' dice, INBOX_SECONDS makes it longer.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $seed = $ENV{INBOX_SEED} // 1 + int rand 1_000_000;
my $seconds = $ENV{INBOX_SECONDS} // 8;
my $clients = 6;
my $folder = PostgreSQL::Test::Utils::tempdir();
my $node = new_node('hidden', "inbox.reap_interval = '1h'", 'log_min_messages = warning',
	'max_prepared_transactions = 20');

sub pick { return $_[ rand @_ ] }

# The rows come and go, at most a few hundred of them: they meet often.
$node->safe_psql('postgres', q{
	CREATE EXTENSION inbox;
	SELECT inbox_create('jobs', lease => '1 s');
	ALTER TABLE jobs SET (fillfactor = 100);
	SET client_min_messages = error;
	CREATE TABLE notes (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), locked_until timestamptz,
		payload jsonb, priority int, due_at timestamptz DEFAULT now());
	CREATE INDEX ON notes (priority, due_at, id);
	SELECT inbox_adopt('notes', payload => 'payload', priority => 'priority', due_at => 'due_at', lease => '1 s');
	INSERT INTO jobs (payload) SELECT '1' FROM generate_series(1, 150);
	INSERT INTO notes (payload) SELECT '1' FROM generate_series(1, 150)});

sub work
{
	my ($db, $queue, $held) = @_;
	my $dice = rand;

	if ($dice < 0.2)
	{
		return $db->do(qq{INSERT INTO $queue (payload, priority, due_at)
			SELECT to_jsonb(repeat('x', ?)), ?, clock_timestamp() - random() * interval '@{[ pick(1, 100) ]} s'
			FROM generate_series(1, ?)}, undef, pick(1, 500), pick(0, 0, 0, 1, 7), pick(1, 2, 5))
		  if $db->selectrow_array("SELECT count(*) < 300 FROM $queue");
	}
	if ($dice < 0.25 && $queue eq 'jobs')
	{
		return $db->do(q{SELECT inbox_send_batch('jobs', ?, due_at => clock_timestamp() - random() * interval '10 s', priority => ?)},
			undef, [ ('1') x pick(1, 2, 5) ], pick(0, 0, 2))
		  if $db->selectrow_array("SELECT count(*) < 300 FROM $queue");
	}
	if ($dice < 0.55)
	{
		$db->do('SET inbox.direct = ' . pick('on', 'on', 'on', 'off'));
		my $r = $db->selectcol_arrayref("SELECT receipt FROM inbox_claim_ids('$queue', ?)",
			undef, pick(1, 1, 3, 20));
		push @$held, @$r;
		splice @$held, 0, @$held - 40 if @$held > 40;
		return;
	}
	if ($dice < 0.8 && @$held)
	{
		my @batch = splice @$held, int rand @$held, pick(1, 1, 5);
		return $db->do("SELECT inbox_settle_batch('$queue', ?, ?, ?)",
			undef, \@batch, [ pick(qw(done retry release release)) ], [ pick('0', '0.01 s') ]);
	}
	if ($dice < 0.85 && @$held)
	{
		my $i = int rand @$held;
		my ($new) = $db->selectrow_array("SELECT new_receipt FROM inbox_extend('$queue', ?)", undef, $held->[$i]);
		$held->[$i] = $new if defined $new;
		return;
	}
	return $db->do("UPDATE $queue SET " . pick(
			q{payload = to_jsonb(repeat('y', (random() * 900)::int))}, q{payload = to_jsonb(repeat('y', (random() * 900)::int))},
			q{due_at = clock_timestamp() - random() * interval '100 s'},
			q{priority = 1}, q{locked_until = NULL}, q{locked_until = clock_timestamp() + interval '0.3 s'})
		  . " WHERE id = (SELECT id FROM $queue OFFSET ? LIMIT 1 FOR UPDATE SKIP LOCKED)", undef, int rand 50)
	  if $dice < 0.95;
	return $db->do("DELETE FROM $queue WHERE id = (SELECT id FROM $queue OFFSET ? LIMIT 1 FOR UPDATE SKIP LOCKED)",
		undef, int rand 50) if $dice < 0.97;
	return $db->selectall_arrayref("SELECT id FROM $queue ORDER BY id LIMIT 3 FOR UPDATE SKIP LOCKED");
}

# A client; errors that a transaction may meet end it, and it goes on.
sub client
{
	my ($number, $until) = @_;
	my $db = connect_db($node, 'postgres', pg_server_prepare => 1);
	my $held = { jobs => [], notes => [] };
	my $n = 0;

	srand($seed * 100 + $number);
	$db->do(q{SET lock_timeout = '100ms'});
	while (time() < $until)
	{
		my $queue = pick(qw(jobs jobs notes));
		my $alone = rand() < 0.5;
		my $ended = eval {
			$db->do('BEGIN ISOLATION LEVEL '
				  . pick('READ COMMITTED', 'READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')) unless $alone;
			for (1 .. $alone ? 1 : pick(1, 2, 5))
			{
				my $save = !$alone && rand() < 0.4;

				$db->do('SAVEPOINT a') if $save;
				my @before = @{ $held->{$queue} };
				my $back = eval { work($db, $queue, $held->{$queue}); rand() < 0.4 } // 1;
				die $@ if $@ && !$save;
				next unless $save;
				$db->do($back ? 'ROLLBACK TO a' : 'RELEASE a');
				$held->{$queue} = \@before if $back;
			}
			usleep(rand 20_000) if rand() < 0.1;
			return 1 if $alone;
			if (rand() < 0.05)
			{
				my $name = "p$number-" . $n++;
				$db->do("PREPARE TRANSACTION '$name'");
				usleep(rand 300_000);
				$db->do(pick('COMMIT', 'ROLLBACK') . " PREPARED '$name'");
			}
			else { $db->do(pick('COMMIT', 'COMMIT', 'ROLLBACK')) }
			1;
		};
		$db->do('ROLLBACK') unless $ended || $alone;
		if (!$ended && $@ !~ /lock timeout|could not serialize|deadlock|aborted/)
		{
			append_to_file("$folder/errors", "$@\n");
		}
	}
	$db->disconnect;
	return;
}

my $end = time() + $seconds;
my $round = 0;
my $found = 0;
my $hidden = '';

while (time() < $end && $hidden eq '')
{
	my $until = time() + 1.5;
	my @pids = map { my $i = $round * $clients + $_; fork_client(sub { client($i, $until) }) } 1 .. $clients;

	waitpid $_, 0 for @pids;
	$round++;
	my $db = connect_db($node);
	for my $queue (qw(jobs notes))
	{
		# what a prepared transaction made claimable is opened a little later
		$db->do(qq{SELECT pg_sleep(greatest(0.11, extract(epoch FROM max(locked_until) - clock_timestamp()) + 0.01))
			FROM $queue});
		my $n;
		do
		{
			$n = @{ $db->selectall_arrayref("SELECT id FROM inbox_claim_ids('$queue', ?, '1 h')", undef, pick(3, 100)) };
			$found += $n;
		} while ($n > 0);
		my $left = $db->selectall_arrayref(
			"SELECT * FROM $queue WHERE locked_until IS NULL OR locked_until < clock_timestamp()", { Slice => {} });
		for my $row (@$left)
		{
			delete $row->{payload};
			$hidden .= "$queue: " . join(', ', map { "$_ " . ($row->{$_} // '-') } sort keys %$row) . "\n";
		}
		# back they go, for the next round
		$db->do(qq{WITH r AS MATERIALIZED (SELECT array_agg(inbox_receipt(q)) AS r FROM $queue q WHERE locked_until IS NOT NULL)
			SELECT inbox_settle_batch('$queue', r.r, '{release}') FROM r WHERE r.r IS NOT NULL});
	}
	$db->disconnect;
}
is($hidden, '', "nothing hidden after $round rounds, seed $seed");
cmp_ok($found, '>', 10 * $round, 'and there was something to find');
is(-e "$folder/errors" ? slurp_file("$folder/errors") : '', '', 'no client met an error that it should not');
$node->stop;
done_testing();
