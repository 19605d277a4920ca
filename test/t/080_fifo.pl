# FIFO groups under many claimers, with releases, retries, leases that end,
# savepoints, entries ahead of the head, clients that die, and a server that is
# stopped at once: never two messages of a group in work, each in its order,
# each settled once, no group forgotten.
#
# INBOX_SEED repeats the clients' dice, INBOX_SECONDS makes it longer,
# INBOX_CLIENTS takes other than a dozen clients.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $seed = $ENV{INBOX_SEED} // 1 + int rand 1_000_000;
my $seconds = $ENV{INBOX_SECONDS} // 10;
my $clients = $ENV{INBOX_CLIENTS} // 12;
my $groups = 20;
my $messages = 300 * $seconds;
my $folder = PostgreSQL::Test::Utils::tempdir();
my $node = new_node('fifo', 'log_min_messages = warning', 'autovacuum = on', 'max_connections = 120');

sub pick { return $_[ rand @_ ] }

# "done" has what was settled, in the order of each group; a message that was
# sent ahead of others has no number
$node->safe_psql('postgres', q{
	CREATE EXTENSION inbox;
	SELECT inbox_create('jobs', fifo => true, lease => '1 s', backoff => '0.02 s');
	CREATE SEQUENCE numbers;
	CREATE TABLE done (at bigserial, k text, n bigint);
	CREATE VIEW twice AS SELECT group_key, count(*) FROM jobs
		WHERE locked_until > clock_timestamp() AND claimed_at < locked_until AND group_key IS NOT NULL
		GROUP BY 1 HAVING count(*) > 1});

# due times follow the numbers, as in a queue that is sent to by one producer
sub send_some
{
	my ($db, $n) = @_;

	$db->do(q{INSERT INTO jobs (payload, group_key, due_at)
		SELECT to_jsonb(n), 'k' || n % ?, '2001-01-01'::timestamptz + n * interval '1 ms'
		FROM (SELECT nextval('numbers') AS n FROM generate_series(1, ?)) s}, undef, $groups, $n);
	return;
}

sub begin
{
	my ($db) = @_;

	$db->do('SET inbox.direct = ' . pick('on', 'on', 'on', 'off'));
	$db->do('BEGIN ISOLATION LEVEL '
		  . pick('READ COMMITTED', 'READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'));
	return;
}

# Settle, and write down what is done, as one.
sub settle
{
	my ($db, $d, $outcome) = @_;

	my ($verdict) = $db->selectrow_array(q{SELECT inbox_settle('jobs', ?, ?, ?)},
		undef, $d->{receipt}, $outcome, pick('0', '0.05 s', undef));
	$db->do('INSERT INTO done (k, n) VALUES (?, ?)', undef, $d->{group_key}, $d->{payload})
	  if $verdict eq 'ok' && $outcome eq 'done' && $d->{payload} ne 'null';
	return;
}

sub turn
{
	my ($db) = @_;
	my $dice = rand;
	my $one = pick(0, 0, 1);

	# ahead of all
	return $db->do(q{INSERT INTO jobs (payload, group_key, due_at) VALUES ('null', ?, '2000-01-01')},
		undef, 'k' . int rand $groups) if $dice < 0.02;
	# and without a group
	return $db->do(q{INSERT INTO jobs (payload) VALUES ('null')}) if $dice < 0.04;
	begin($db);
	$db->do('SAVEPOINT a') if $dice < 0.15;
	my $got = $db->selectall_arrayref(q{SELECT receipt, payload, group_key FROM inbox_claim('jobs', ?, group_key => ?)},
		{ Slice => {} }, pick(1, 1, 3, 10), $dice > 0.9 ? 'k' . int rand $groups : undef);
	$db->do('ROLLBACK TO a') if $dice < 0.1;
	return $db->do('ROLLBACK') if $dice < 0.12;
	# the row-lock form
	if ($one) { settle($db, $_, 'done') for $dice < 0.1 ? () : @$got; }
	$db->do('COMMIT');
	return if $one || $dice < 0.1;
	my ($twice) = $db->selectrow_array('SELECT string_agg(group_key, \' \') FROM twice');
	append_to_file("$folder/errors", "two messages of $twice in work\n") if defined $twice;
	# dies with its leases, or is late
	POSIX::_exit(0) if rand() < 0.005;
	usleep(1_050_000) if rand() < 0.005;
	for my $d (@$got)
	{
		$db->selectrow_array(q{SELECT verdict FROM inbox_extend('jobs', ?)}, undef, $d->{receipt}) if rand() < 0.1;
		next if rand() < 0.01;
		$db->do('BEGIN');
		settle($db, $d, pick(qw(done done done done release retry)));
		$db->do(rand() < 0.05 ? 'ROLLBACK' : 'COMMIT');
	}
	return;
}

sub client
{
	my ($number, $until) = @_;
	my $db = connect_db($node, 'postgres', pg_server_prepare => 1);

	srand($seed * 100 + $number);
	while (time() < $until)
	{
		next if eval { turn($db); 1 };
		my $error = $@;
		# other than on the direct way, statements run; the server goes away
		return unless $db->ping;
		append_to_file("$folder/errors", $error) unless $error =~ /could not serialize|aborted/;
		$db->do('ROLLBACK');
	}
	return;
}

my $db = connect_db($node);
send_some($db, $messages);
my $end = time() + $seconds;
my $stop_at = time() + $seconds / 2;
my %alive;
my $number = 0;
# on a machine that has much else to do it takes longer to get anything done
while (time() < $end
	|| (time() < $end + $InboxTest::LONG && $db->selectrow_array('SELECT count(*) <= 100 FROM done')))
{
	while (keys %alive < $clients)
	{
		my $i = $number++;
		my $until = time() < $end - 1 ? $end : time() + 1;
		$alive{ fork_client(sub { client($i, $until) }) } = 1;
	}
	usleep(50_000);
	kill_client($_), delete $alive{$_} for rand() < 0.05 ? pick(keys %alive) : ();
	delete $alive{$_} for grep { waitpid($_, 1) == $_ } keys %alive;
	if (defined $stop_at && time() > $stop_at)
	{
		$node->stop('immediate');
		waitpid $_, 0 for keys %alive;
		%alive = ();
		$node->start;
		wait_up($node);
		$db = connect_db($node);
		$stop_at = undef;
	}
}
waitpid $_, 0 for keys %alive;

my ($during) = $db->selectrow_array('SELECT count(*) FROM done');
cmp_ok($during, '>', 100, "some work was done, seed $seed");

# drained by many at once, all of it is served
my @pids = map { fork_client(sub {
	my $own = connect_db($node);
	my $until = time() + 2 * $InboxTest::LONG;
	while (time() < $until && $own->selectrow_array('SELECT EXISTS (SELECT FROM jobs)'))
	{
		begin($own);
		my $got = $own->selectall_arrayref(q{SELECT receipt, payload, group_key FROM inbox_claim('jobs', 10)}, { Slice => {} });
		my $ok = eval { settle($own, $_, 'done') for @$got; $own->do('COMMIT'); 1 };
		$own->do('ROLLBACK') unless $ok;
		usleep(20_000) unless @$got;
	} }) } 1 .. 8;
waitpid $_, 0 for @pids;
is($db->selectrow_array('SELECT count(*) FROM jobs'), 0, 'no group is forgotten');
is($db->selectrow_array(q{SELECT count(*) FROM generate_series(1, ?) n
	WHERE (SELECT count(*) FROM done d WHERE d.n = n.n) <> 1}, undef, $messages), 0, 'each message was settled once')
  or diag(join "\n", map { "@$_" } @{ $db->selectall_arrayref('SELECT n, count(*) FROM done GROUP BY 1 HAVING count(*) > 1 LIMIT 10') });
is($db->selectrow_array(q{SELECT count(*) FROM (SELECT n < lag(n) OVER (PARTITION BY k ORDER BY at) AS bad FROM done) s WHERE bad}),
	0, 'in the order of its group');
is($db->selectrow_array(q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'}), 0, 'no lock is left');
is(-e "$folder/errors" ? slurp_file("$folder/errors") : '', '', 'never two of a group, and no error that should not be');
$node->stop;
done_testing();
