# FIFO groups under many claimers, with releases, retries, leases that end,
# savepoints, entries ahead of the head, clients that die, and a server that is
# stopped at once, until the last message is settled: never two messages of a
# group in work, each in its order, each settled once, no group forgotten, and
# groups served in turn.  FifoHistory.pm says what is judged, and by what.
#
# INBOX_SEED repeats the clients' dice.  INBOX_ROWS, INBOX_CLIENTS and
# INBOX_CRASHES take other than 2000 messages, a dozen clients and one crash;
# "make chaos-fifo" is a million, 32 and five.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FifoHistory;
use IO::Handle;
use InboxTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $seed = $ENV{INBOX_SEED} // 1 + int rand 1_000_000;
my $messages = $ENV{INBOX_ROWS} // 2000;
my $clients = $ENV{INBOX_CLIENTS} // 12;
my $crashes = $ENV{INBOX_CRASHES} // 1;
my $groups = 20;
# of what takes a group out of work for a second there is less in a long run
my $rare = $messages > 50_000 ? 0.1 : 1;
# and who found nothing takes his time, or 32 would get one message each
my $hurry = $messages > 50_000 ? 10 : 1;
# so many are left to a last part in which nobody sends or dies, and a third of
# the clients take one at a time, which tells whether groups have their turns
my $quiet = $messages / ($messages > 50_000 ? 100 : 3);
my $folder = PostgreSQL::Test::Utils::tempdir();
my $node = new_node('fifo', 'log_min_messages = warning', 'autovacuum = on', 'max_connections = 120',
	'shared_buffers = 512MB', 'autovacuum_naptime = 3s');

sub pick { return $_[ rand @_ ] }

$node->safe_psql('postgres', q{
	CREATE EXTENSION inbox;
	SELECT inbox_create('jobs', fifo => true, lease => '1 s', backoff => '0.02 s')} . ';' . history_setup($groups));

# due times follow the numbers, as in a queue that is sent to by one producer;
# what is sent ahead of others has no number
$node->safe_psql('postgres', qq{
	INSERT INTO jobs (payload, group_key, due_at)
		SELECT to_jsonb(n), 'k' || n % $groups, '2001-01-01'::timestamptz + n * interval '1 ms' FROM generate_series(1, $messages) n;
	INSERT INTO expected SELECT generate_series(1, $messages)});

my $me;
my $file;
my $ending = 0;

sub note_down
{
	print $file map { "$_ .\n" } @_;
	return;
}

sub begin
{
	my ($db) = @_;

	$db->do('SET inbox.direct = ' . (rand() < 0.3 * $rare + 0.05 ? 'off' : 'on')) if rand() < 0.2;
	$db->do('BEGIN ISOLATION LEVEL '
		  . pick('READ COMMITTED', 'READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'));
	return;
}

# Returns the deliveries, each with when the claim was back.
sub claim
{
	my ($db, $journaled) = @_;
	my $rows = $ending ? 1 : pick(1, 3, 10, 20, 20, 20);
	my $only = rand() < 0.03 ? 'k' . int rand $groups : undef;
	my $wait = rand() < 0.3 ? '0.2 s' : undef;
	my $from = q{FROM inbox_claim('jobs', $1, group_key => $2, wait => $3) c};
	my $start = time();
	my $got = $db->selectall_arrayref($journaled ? qq{
			INSERT INTO journal (what, k, id, n, receipt, began, back, ends, client)
			SELECT 'claim', c.group_key, c.id::bigint, nullif(c.payload, 'null')::bigint, c.receipt,
				c.locked_until - interval '1 s', clock_timestamp(), c.locked_until, \$4 $from
			RETURNING k, id, n, receipt, back} : qq{
			SELECT c.group_key AS k, c.id, nullif(c.payload, 'null') AS n, c.receipt, clock_timestamp() AS back $from},
		{ Slice => {} }, $rows, $only, $wait, $journaled ? $me : ());
	my $back = time();

	note_down(map { "c $_->{k} $start $back " . (defined $only ? 0 : 1) } grep { defined $_->{k} } @$got);
	return @$got;
}

sub extend
{
	my ($db, @held) = @_;

	$db->do(q{INSERT INTO journal (what, k, id, n, receipt, back, stmt, ends, client)
		SELECT 'extend', d.k, d.id, d.n, d.receipt, d.back, statement_timestamp(), e.locked_until, $6
		FROM (SELECT * FROM inbox_extend_batch('jobs', $1)) e
		JOIN unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::timestamptz[]) d(receipt, k, id, n, back) USING (receipt)
		WHERE e.verdict = 'ok'}, undef, columns(@held), $me);
	return;
}

sub columns
{
	my @held = @_;
	return map { my $name = $_; [ map { $_->{$name} } @held ] } qw(receipt k id n back);
}

# Settle, and write it down, as one; returns what a client may say once that is
# confirmed.
sub settle
{
	my ($db, $outcomes, @held) = @_;
	my $before = time();
	my @delays = map { $_ eq 'retry' ? pick('0', '0.05 s', undef) : undef } @$outcomes;
	my $done = $db->selectall_arrayref(q{
		INSERT INTO journal (what, k, id, n, receipt, back, stmt, ends, client)
		SELECT d.outcome, d.k, d.id, d.n, d.receipt, d.back, statement_timestamp(),
			statement_timestamp() + coalesce(d.delay, '0.015 s'), $8
		FROM (SELECT * FROM inbox_settle_batch('jobs', $1, $6, $7)) s
		JOIN unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::timestamptz[], $6::text[], $7::interval[])
			d(receipt, k, id, n, back, outcome, delay) USING (receipt)
		WHERE s.verdict = 'ok' RETURNING receipt, what, k, n, ends = stmt OR what <> 'retry' AS free},
		{ Slice => {} }, columns(@held), $outcomes, \@delays, $me);
	my $told = sub {
		my $now = time();
		note_down(map { ("t $_->{receipt} $_->{what}",
			defined $_->{k} && $_->{free} ? "f $_->{k} $before $now " . ($_->{n} // 0) : ()) } @$done);
	};
	return $told;
}

sub outcome
{
	my $dice = rand;
	return $dice < 0.9 ? 'done' : $dice < 0.95 ? 'release' : $dice < 0.95 + 0.05 * $rare ? 'retry' : 'done';
}

sub turn
{
	my ($db) = @_;
	my $dice = rand;

	if ($dice < 0.03 && !$ending)
	{
		my $k = $dice < 0.02 ? 'k' . int rand $groups : undef;
		my ($id) = $db->selectrow_array(q{INSERT INTO jobs (payload, group_key, due_at)
			VALUES ('null', $1, '2000-01-01') RETURNING id}, undef, $k);
		return note_down(defined $k ? "a $id $k " . time() : ());
	}
	# the row-lock form, or a claim that is taken back, whole or to a savepoint
	if ($dice < 0.15)
	{
		begin($db);
		$db->do('SAVEPOINT a') if $dice < 0.1;
		my @got = claim($db, 1);
		my $before = time();
		$db->do('ROLLBACK TO a') if $dice < 0.06;
		if ($dice < 0.05) { $db->do('ROLLBACK'); return note_freed($before, @got); }
		my $told = @got && $dice >= 0.06 ? settle($db, [ map { 'done' } @got ], @got) : sub { };
		$db->do('COMMIT');
		note_freed($before, @got) if $dice < 0.06;
		return $told->();
	}
	my @got;
	if ($dice < 0.3)
	{
		begin($db);
		@got = claim($db, 1);
		$db->do('COMMIT');
	}
	else { @got = claim($db, $dice < 0.65); }
	return usleep(rand 20_000 * $hurry) unless @got;
	# dies with its leases, or is late, or forgets one
	POSIX::_exit(0) if !$ending && rand() < 0.003 * $rare;
	usleep(1_050_000) if rand() < 0.005 * $rare;
	extend($db, @got) if rand() < 0.1;
	@got = grep { rand() > 0.005 * $rare } @got;
	my @parts = rand() < 0.1 ? map { [$_] } @got : [@got];
	for my $part (grep { @$_ } @parts)
	{
		my $whole = rand() < 0.3;
		begin($db) if $whole;
		my $told = settle($db, [ map { outcome() } @$part ], @$part);
		if ($whole && rand() < 0.03) { $db->do('ROLLBACK'); next; }
		$db->do('COMMIT') if $whole;
		$told->();
	}
	return;
}

sub note_freed
{
	my ($before, @got) = @_;
	my $now = time();
	note_down(map { "f $_->{k} $before $now " . ($_->{n} // 0) } grep { defined $_->{k} } @got);
	return;
}

sub client
{
	my ($number) = @_;
	my $db = connect_db($node, 'postgres', pg_server_prepare => 1);

	$me = $number;
	srand($seed * 100 + $number);
	open $file, '>', "$folder/client.$number" or die $!;
	$file->autoflush(1);
	while (!-e "$folder/end")
	{
		last if $ending && $number % 3 > 0;
		if (!$ending && -e "$folder/ending")
		{
			$ending = 1;
			# what the dead have left is over then
			usleep(2_500_000);
			next;
		}
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
my %alive;
my $number = 0;
my $killed = 0;
my $crashed = 0;
my @troubled;
my $began = time();
my $left = $messages;
my $look_at = 0;
my $limit = time() + 600 + $messages / 200;

sub keep_alive
{
	while (keys %alive < ($left > $quiet ? $clients : 1))
	{
		my $i = $number++;
		$alive{ fork_client(sub { client($i) }) } = 1;
	}
	# one that left by itself, or whom the crash took
	for (grep { waitpid($_, 1) == $_ } keys %alive)
	{
		push @troubled, [ time() - 1, time() + 1.5 ] if $left > $quiet;
		delete $alive{$_};
	}
	return;
}

sub crash
{
	my $since = time() - 1;

	$node->stop('immediate');
	waitpid $_, 0 for keys %alive;
	%alive = ();
	$node->start;
	wait_up($node);
	$db = connect_db($node);
	$crashed++;
	push @troubled, [ $since, time() + 1.5 ];
	return;
}

while ($left > 0 && time() < $limit)
{
	keep_alive();
	usleep(50_000);
	if ($left > $quiet && (rand() < 0.05 * $rare || ($killed == 0 && $left < $messages)))
	{
		my $pid = pick(keys %alive);

		kill_client($pid);
		delete $alive{$pid};
		$killed++;
		push @troubled, [ time() - 0.5, time() + 1.5 ];
	}
	next if time() < $look_at;
	($left) = $db->selectrow_array('SELECT count(*) FROM jobs');
	append_to_file("$folder/ending", '') if $left <= $quiet;
	$look_at = time() + ($messages > 50_000 ? 5 : 0.05);
	crash() if $crashed < $crashes && $left < $messages - ($messages - $quiet) * ($crashed + 1) / ($crashes + 1);
	diag(sprintf '%d s: %d left, %d killed, %d crashes', time() - $began, $left, $killed, $crashed)
	  if $messages > 50_000;
}
append_to_file("$folder/end", '');
waitpid $_, 0 for keys %alive;
my $took = time() - $began;

note(sprintf 'seed %d: %d messages in %d s, %d clients killed, %d crashes', $seed, $messages, $took, $killed, $crashed);
is($db->selectrow_array('SELECT count(*) FROM jobs'), 0, 'no group is forgotten');
is($crashed, $crashes, 'the server was stopped');
cmp_ok($killed, '>', 0, 'clients were killed');

my ($served, $freed) = history_load($db, glob "$folder/client.*");
for (history_invariants($db))
{
	my ($i, $name, $broken) = @$_;

	is($broken, 0, $name);
}

# groups in turn, as far as claimers at the same time can tell
my ($rounds, $longest) = history_rounds($served, $freed, \@troubled, $messages - 2 * $groups);
my $waits = 0;
$waits += $_ for values %$rounds;
note('waits by how often another group was served meanwhile: ' . join ', ', map { "$_: $rounds->{$_}" } sort { $a <=> $b } keys %$rounds);
note(sprintf 'longest wait %.3f s', $longest);
cmp_ok($waits, '>', $quiet / 4, 'groups have waited');
# one round, and what claims that ran at the same time have served of a second
my $unfair = 0;
$unfair += $rounds->{$_} for grep { $_ > 2 } keys %$rounds;
cmp_ok($unfair, '<=', $waits / 100, 'no group waits for long while others are served');

# would it have been noticed?
for (history_breaks())
{
	my ($i, $sql) = @$_;

	$db->begin_work;
	$db->do($sql);
	my ($broken) = $db->selectrow_array('SELECT broken FROM invariant WHERE i = ?', undef, $i);
	cmp_ok($broken, '>', 0, "checker notices: not invariant $i");
	$db->rollback;
}
is($db->selectrow_array(q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'}), 0, 'no lock is left');
is(-e "$folder/errors" ? slurp_file("$folder/errors") : '', '', 'no error that should not be');
$node->stop;
done_testing();
