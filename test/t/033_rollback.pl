# A claim that is rolled back has not happened: the message is free at once,
# its attempt is not counted, and its receipt is void.  So claim and settle in
# one transaction are the row-lock form, in which no lease has to run out.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('rollback');
my $db;

$node->safe_psql('postgres', q{
	CREATE EXTENSION inbox;
	SELECT inbox_create('jobs', lease => '1 h', max_attempts => 3);
	CREATE TABLE plain (id int PRIMARY KEY, locked_until timestamptz, n smallint DEFAULT 0);
	CREATE TABLE plain_dead (LIKE plain);
	SELECT inbox_adopt('plain', attempt => 'n', max_attempts => 3, dead_letter => 'plain_dead');
	CREATE TABLE effects (id text, how text)});

# Nobody else sees the claim's effects, or is kept from the message, after it.
sub unclaimed
{
	my ($queue, $receipt, $name) = @_;
	my $verdict = $queue eq 'jobs' ? 'stale' : '(stale|gone)';

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	like($node->safe_psql('postgres', "SELECT inbox_settle('$queue', '$receipt')"),
		qr/^$verdict$/, "$name: the receipt is void");
	is($node->safe_psql('postgres', "SELECT count(*) FROM $queue WHERE locked_until IS NULL"),
		1, "$name: the message is free");
	return;
}

# --- handler errors, more of them than the cap allows attempts

for my $queue ('jobs', 'plain')
{
	$node->safe_psql('postgres', $queue eq 'jobs'
		? q{SELECT inbox_send('jobs', '"work"')} : q{INSERT INTO plain VALUES (1)});
	$db = connect_db($node);
	for my $turn (1 .. 4)
	{
		$db->begin_work;
		my ($receipt, $attempt) = $db->selectrow_array("SELECT receipt, attempt FROM inbox_claim('$queue')");
		is($attempt, 1, "$queue: claim $turn is the first");
		eval { $db->do('SELECT 1/0') };
		is($db->state, '22012', 'the handler fails');
		$db->rollback;
		unclaimed($queue, $receipt, "$queue, after rollback $turn");
	}

	# a savepoint is as good
	$db->begin_work;
	$db->do('SAVEPOINT s');
	my ($receipt) = $db->selectrow_array("SELECT receipt FROM inbox_claim('$queue')");
	$db->do('ROLLBACK TO s');
	is($db->selectrow_array("SELECT attempt FROM inbox_claim('$queue')"), 1, "$queue: after a savepoint too");
	is($db->selectrow_array("SELECT inbox_settle('$queue', ?)", undef, $receipt),
		'stale', "$queue: its receipt is void for the claimer as well")
	  if $queue eq 'jobs';
	$db->rollback;
}

# --- the transaction's end comes from outside

my %end = (
	'client killed' => sub { kill_client($_[0]) },
	'backend terminated' => sub {
		$node->safe_psql('postgres', "SELECT pg_terminate_backend($_[1], 10000)");
		kill_client($_[0]);
	},
	'server stopped immediately' => sub {
		$node->stop('immediate');
		kill_client($_[0]);
		$node->start;
	});

for my $how (sort keys %end)
{
	pipe(my $in, my $out);
	my $pid = fork_client(
		sub {
			my $own = connect_db($node);
			$own->begin_work;
			my ($id, $receipt, $attempt) = $own->selectrow_array(
				q{SELECT id, receipt, attempt FROM inbox_claim('jobs')});
			$own->do('INSERT INTO effects VALUES (?, ?)', undef, $id, $how);
			my ($verdict) = $own->selectrow_array(q{SELECT inbox_settle('jobs', ?)}, undef, $receipt);
			syswrite $out, "$own->{pg_pid} $receipt $attempt $verdict\n";
			sleep 1000;
		});
	close $out;
	my ($backend, $receipt, $attempt, $verdict) = split ' ', <$in>;

	is("$attempt $verdict", '1 ok', "claimed and settled, $how before the commit");
	is($node->safe_psql('postgres', q{SELECT count(*) FROM inbox_claim('jobs')}), 0,
		'nobody else gets it meanwhile');
	$end{$how}->($pid, $backend);
	wait_pid_gone($node, $backend);
	unclaimed('jobs', $receipt, $how);
}
is($node->safe_psql('postgres', 'SELECT count(*) FROM effects'), 0, 'no effect was left');

# --- and at last it works

$db = connect_db($node);
$db->begin_work;
my ($id, $receipt, $attempt) = $db->selectrow_array(q{SELECT id, receipt, attempt FROM inbox_claim('jobs')});
is($attempt, 1, 'after all this it is still the first attempt');
$db->do('INSERT INTO effects VALUES (?, ?)', undef, $id, 'done');
is($db->selectrow_array(q{SELECT inbox_settle('jobs', ?, strict => true)}, undef, $receipt), 'ok', 'settled');
$db->commit;
$node->stop('immediate');
$node->start;
is($node->safe_psql('postgres', q{SELECT how, (SELECT count(*) FROM jobs) FROM effects}),
	'done|0', 'effect and settlement are there after a crash, both');

$node->stop('fast');
done_testing();
