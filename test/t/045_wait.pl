# Waiting: a wake comes at the sender's commit, to as many as there are rows,
# and is passed on by those who cannot use it; all that makes a row claimable
# ends a wait, and so does whatever ends any statement.

use strict;
use warnings;
use DBD::Pg qw(:async);
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $LONG = '10 min';

# no test waits for less; ticks come after a second, to most after four
my $WOKEN = 3.5;

my $node = new_node('wait', 'max_connections = 300');
my $main = connect_db($node);
$node->safe_psql('postgres', q{
	CREATE EXTENSION inbox;
	SELECT inbox_create('q', lease => '30 s', backoff => '1 s', max_attempts => 5)});

# --- waiters

my @all;

# A session that has begun to wait; the process sleeps.
sub waiter
{
	my ($sql) = @_;
	my $w = { db => connect_db($node) };

	$w->{pid} = $w->{db}->{pg_pid};
	$w->{sth} = $w->{db}->prepare($sql, { pg_async => PG_ASYNC, pg_server_prepare => 0 });
	$w->{sth}->execute;
	$node->poll_query_until('postgres', qq{SELECT state = 'active' AND wait_event_type = 'Extension'
		FROM pg_stat_activity WHERE pid = $w->{pid}}) or die "not asleep: $sql";
	push @all, $w;
	return $w;
}

sub claimer
{
	my ($wait, $more) = @_;
	return waiter("SELECT id, receipt, locked_until "
		  . "FROM inbox_claim('q', wait => '" . ($wait // $LONG) . "'" . ($more // '') . ')');
}

# Whoever is last on the list looks once a second; each was when it came.  This
# ends that sleep, and begins one of at least four.
sub no_longer_last
{
	kill 'USR1', map { $_->{pid} } @_;
	usleep(200_000);
	return;
}

sub ready
{
	my ($w) = @_;
	# true as well when the connection is gone
	return eval { $w->{db}->pg_ready } // 1;
}

# Wait for the waiter's end; its first row, or undef, and its SQLSTATE.
sub result
{
	my ($w, $seconds) = @_;
	my $deadline = time() + ($seconds // $InboxTest::LONG);
	my $row;

	usleep(5_000) while !ready($w) && time() < $deadline;
	if (!ready($w))
	{
		$w->{state} = 'late';
		return wantarray ? (undef, 'late') : undef;
	}
	eval {
		$w->{db}->pg_result;
		$row = $w->{sth}->fetchrow_arrayref if $w->{sth}->{NUM_OF_FIELDS};
		$row = [@$row] if $row;
	};
	$w->{state} = $w->{db}->state;
	$w->{db}->disconnect if $w->{db}->ping > 0;
	return wantarray ? ($row, $w->{state}) : $row;
}

sub do_sql { return $node->safe_psql('postgres', $_[0]); }

sub fresh { do_sql('SELECT inbox_resume(\'q\'); DELETE FROM q; DELETE FROM q_dead'); return; }

# Something makes a row claimable, and tells of it; the waiter gets it in time.
# The last of those who wait would look for itself after a second, so that one
# is kept from it.
sub wakes
{
	my ($name, $act) = @_;
	my $w = claimer();
	my $keeper = claimer();
	my $row;

	stop_asleep($main, $keeper->{pid});
	no_longer_last($w);
	my $before = do_sql('SELECT clock_timestamp()');
	$act->();
	$row = result($w, $WOKEN);
	do_sql("SELECT pg_terminate_backend($keeper->{pid})");
	kill 'CONT', $keeper->{pid};
	result($keeper);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	check($name, $w, $row, $before);
	return;
}

# Something makes a row claimable, but does not tell, or not then.
sub served
{
	my ($name, $act) = @_;
	my $w = claimer();
	my $before = do_sql('SELECT clock_timestamp()');

	$act->();
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	check($name, $w, scalar result($w), $before);
	return;
}

sub check
{
	my ($name, $w, $row, $before) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok($row && $row->[0], "$name wakes") or diag($w->{state});
	ok(begins_after($row, $before), "$name: the lease is whole") if $row;
	fresh();
	return;
}

# The lease of half a minute begins when the row is claimed, not when the wait
# began.
sub begins_after
{
	my ($row, $before) = @_;
	return do_sql("SELECT '$row->[2]'::timestamptz - interval '30 s' >= '$before'") eq 't';
}

# --- one row, one commit, one waiter

{
	my @w = map { claimer() } 1 .. 3;
	# a look of theirs might come first
	stop_asleep($main, map { $_->{pid} } @w[1, 2]);
	$main->begin_work;
	my ($id) = $main->selectrow_array(q{SELECT inbox_send('q', '1')});
	do_sql('SELECT pg_sleep(0.3)');
	is(scalar(grep { ready($_) } @w), 0, 'an insert wakes nobody');
	my $before = do_sql('SELECT clock_timestamp()');
	$main->commit;
	my $first = result($w[0]);
	is($first->[0], $id, 'its commit wakes who has waited longest');
	ok(begins_after($first, $before), 'the lease begins then');
	kill 'CONT', map { $_->{pid} } @w[1, 2];
	is(scalar(grep { ready($_) } @w[1, 2]), 0, 'the others wait');
	for (@w[1, 2])
	{
		do_sql("SELECT pg_terminate_backend($_->{pid})");
		result($_);
	}
	my $w = claimer('1 s');
	is(scalar result($w), undef, 'one returns empty when its time is over');
	is($w->{state}, '', 'without an error');
	fresh();
}

{
	my @w = map { claimer() } 1 .. 4;
	stop_asleep($main, $w[3]{pid});
	no_longer_last(@w[0 .. 2]);
	do_sql(q{INSERT INTO q (payload) VALUES ('1'), ('2'), ('3')});
	my %ids = map { my $r = result($_, $WOKEN); ($r ? $r->[0] : 'none') => 1 } @w[0 .. 2];
	is(scalar(keys %ids), 3, 'three rows in one statement wake three');
	ok(!$ids{none}, 'each gets one');
	do_sql("SELECT pg_terminate_backend($w[3]{pid})");
	kill 'CONT', $w[3]{pid};
	result($w[3]);
	fresh();
}

{
	do_sql(q{SELECT inbox_send_batch('q', '{1,2,3}', delay => '2 s')});
	my @w = map { claimer() } 1 .. 3;
	no_longer_last(@w[0, 1]);
	$node->poll_query_until('postgres', 'SELECT max(due_at) <= clock_timestamp() FROM q');
	my @late = grep { !result($_, $WOKEN) } @w;
	is(scalar(@late), 0, 'three rows that come due at once are handed out one after the other');
	fresh();
}

# --- all that makes a row claimable

wakes('INSERT', sub { do_sql(q{INSERT INTO q (payload) VALUES ('1')}) });
wakes('COPY', sub { do_sql("COPY q (payload) FROM stdin;\n1\n\\.\n") });
wakes('a large payload', sub { do_sql(q{SELECT inbox_send('q', to_jsonb(repeat('x', 100000)))}) });
wakes('a batch', sub { do_sql(q{SELECT inbox_send_batch('q', '{1}')}) });
served('a delay that is over', sub { do_sql(q{SELECT inbox_send('q', '1', delay => '300 ms')}) });

{
	my $receipt;
	my $lease = sub { my ($lease) = @_;
		do_sql(q{SELECT inbox_send('q', '1')});
		$receipt = do_sql("SELECT receipt FROM inbox_claim('q', lease => '$lease')"); };

	$lease->('1 s');
	served('the end of a lease', sub { });
	$lease->('1 h');
	wakes('release', sub { do_sql("SELECT inbox_settle('q', '$receipt', 'release')") });
	$lease->('1 h');
	wakes('retry', sub { do_sql("SELECT inbox_settle('q', '$receipt', 'retry', delay => '0')") });
	$lease->('1 h');
	served('a retry after its delay', sub { do_sql("SELECT inbox_settle('q', '$receipt', 'retry', delay => '300 ms')") });
	$lease->('1 h');
	wakes('an UPDATE by hand', sub { do_sql('UPDATE q SET locked_until = NULL') });
	$lease->('1 h');
	do_sql("SELECT inbox_settle('q', '$receipt', 'dead')");
	wakes('redrive', sub { do_sql(q{SELECT inbox_redrive('q')}) });
}

do_sql(q{SELECT inbox_send('q', '1')});
$main->begin_work;
$main->do(q{SELECT * FROM inbox_claim('q')});
wakes('the rollback of a claim', sub { $main->rollback });

do_sql(q{SELECT inbox_send('q', '1')});
$main->begin_work;
$main->do('SAVEPOINT s');
$main->do(q{SELECT * FROM inbox_claim('q')});
wakes('a savepoint rolled back', sub { $main->do('ROLLBACK TO s') });
$main->rollback;

do_sql(q{SELECT inbox_pause('q'); SELECT inbox_send('q', '1')});
wakes('resume', sub { do_sql(q{SELECT inbox_resume('q')}) });

$main->begin_work;
$main->do(q{SELECT inbox_send('q', '1')});
$main->do(q{PREPARE TRANSACTION 'p'});
$main->commit;
served('COMMIT PREPARED', sub { do_sql(q{COMMIT PREPARED 'p'}) });

do_sql(q{ALTER TABLE q DISABLE TRIGGER USER});
served('what nobody tells of', sub { do_sql(q{INSERT INTO q (payload) VALUES ('1')}) });
do_sql(q{ALTER TABLE q ENABLE TRIGGER USER});

{
	my $w = claimer();
	do_sql(q{SELECT inbox_pause('q'); SELECT inbox_send('q', '1')});
	do_sql('SELECT pg_sleep(1.2)');
	ok(!ready($w), 'a queue paused meanwhile hands nothing out');
	do_sql(q{SELECT inbox_resume('q')});
	ok(result($w), 'until it is resumed');
	fresh();
}

# a stopped worker is missed by nobody who waits
{
	my $worker = wait_worker($node, 'postgres');
	stop_asleep($main, $worker);
	served('a delay, without the worker,', sub { do_sql(q{SELECT inbox_send('q', '1', delay => '300 ms')}) });
	kill 'CONT', $worker;
}

# the other ways to claim
{
	my ($row, $w);
	for my $call (q{inbox_claim_ids('q', wait => '10 min')}, q{inbox_next('q', wait => '10 min')},
		q{inbox_claim(NULL::q, wait => '10 min')})
	{
		$w = waiter("SELECT id FROM $call");
		do_sql(q{SELECT inbox_send('q', '1')});
		ok($row = result($w), "$call waits");
		fresh();
	}
	# a search by SQL wakes as well
	$w = waiter(q{SELECT id FROM inbox_claim('q', wait => '10 min'), set_config('inbox.direct', 'off', false)});
	do_sql(q{SELECT inbox_send('q', '1')});
	ok(result($w), 'after the walk is switched off, too');
	fresh();
}

# --- a wake that cannot be used is passed on

{
	my @w = (claimer(undef, q{, group_key => 'x'}), claimer(undef, q{, group_key => 'z'}),
		claimer(undef, q{, group_key => 'y'}), claimer(undef, q{, group_key => 'z'}));
	no_longer_last(@w[0 .. 2]);
	do_sql(q{SELECT inbox_send('q', '1', group_key => 'y')});
	ok(result($w[2], $WOKEN), 'a filter passes on what it hides');
	ok(!ready($w[0]) && !ready($w[1]) && !ready($w[3]), 'the others wait');
	$_->{db}->pg_cancel, $_->{db}->disconnect for @w[0, 1, 3];
	fresh();
}

for my $how ('pg_terminate_backend', 'pg_cancel_backend')
{
	my @w = map { claimer() } 1 .. 3;

	# the first is woken and cannot move; nor can the last, who keeps the time
	stop_asleep($main, map { $_->{pid} } @w[0, 2]);
	no_longer_last($w[1]);
	do_sql(q{SELECT inbox_send('q', '1')});
	do_sql("SELECT $how($w[0]{pid})");
	kill 'CONT', $w[0]{pid};
	my ($row, $state) = result($w[0]);
	like($state, qr/^(57|08)/, "$how ends a wait");
	ok(result($w[1], $WOKEN), 'its wake is passed on');
	kill 'CONT', $w[2]{pid};
	ok(!ready($w[2]), 'to one');
	do_sql("SELECT pg_terminate_backend($w[2]{pid})");
	result($w[2]);
	fresh();
}

# --- what ends a wait

{
	my $w = claimer();
	do_sql("SELECT pg_cancel_backend($w->{pid})");
	my ($row, $state) = result($w);
	is($state, '57014', 'cancel');

	$w = { db => connect_db($node) };
	eval { $w->{db}->do(q{SET statement_timeout = '300 ms'});
		$w->{db}->do(q{SELECT * FROM inbox_claim('q', wait => '10 min')}); };
	is($w->{db}->state, '57014', 'statement_timeout');

	# a client that is gone gets no message
	my $client = fork_client(sub { connect_db($node)->do(
		q{SELECT * FROM inbox_claim('q', wait => '10 min') /* to be lost */}) });
	my $lost = q{FROM pg_stat_activity WHERE query LIKE '%to be lost%' AND pid <> pg_backend_pid()};
	$node->poll_query_until('postgres', "SELECT count(*) = 1 $lost AND wait_event IS NOT NULL AND state = 'active'");
	my $pid = do_sql("SELECT pid $lost");
	kill_client($client);
	do_sql(q{SELECT inbox_send('q', '1')});
	ok(wait_pid_gone($node, $pid), 'a session whose client has gone ends');
	is(do_sql(q{SELECT count(*) FROM q WHERE locked_until IS NULL}), 1, 'and leases nothing');
	fresh();
}

# --- the procedure

{
	my $w = waiter(q{CALL inbox_wait('q', '10 min')});
	# it has both for a moment once a second, when it looks
	ok( $node->poll_query_until('postgres', qq{SELECT wait_event_type = 'Extension' AND backend_xmin IS NULL AND backend_xid IS NULL
			FROM pg_stat_activity WHERE pid = $w->{pid}}),
		'CALL inbox_wait holds no snapshot');
	ok( $node->poll_query_until('postgres',
			"SELECT count(*) = 0 FROM pg_locks WHERE pid = $w->{pid} AND locktype = 'relation'"),
		'and no lock');
	do_sql(q{SELECT inbox_send('q', '1')});
	my ($row, $state) = result($w);
	is($state, '', 'it returns when there is something to claim');

	do_sql(q{SET statement_timeout = '3min'; CALL inbox_wait('q', '10 min')});
	pass('at once if there is something already');

	$main->begin_work;
	$main->do(q{SELECT * FROM inbox_claim('q')});
	$w = waiter(q{CALL inbox_wait('q', '10 min')});
	do_sql('SELECT pg_sleep(0.3)');
	ok(!ready($w), 'a locked row is nothing to claim');
	$main->rollback;
	($row, $state) = result($w);
	is($state, '', 'until its lock is gone');

	do_sql(q{SELECT inbox_create('doomed')});
	$w = waiter(q{CALL inbox_wait('doomed', '10 min')});
	do_sql('DROP TABLE doomed CASCADE');
	($row, $state) = result($w);
	is($state, '42P01', 'a dropped queue ends it');
	fresh();
}

# --- 250 idle waiters cost nothing to speak of

{
	my @idle = map { connect_db($node) } 1 .. 250;
	my $pids = join ', ', map { $_->{pg_pid} } @idle;
	my @calls = (q{SELECT id FROM inbox_claim('q', wait => '10 min')}, q{CALL inbox_wait('q', '10 min')});
	my $asleep = q{FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND query LIKE '%10 min%'};
	my $clock = POSIX::sysconf(&POSIX::_SC_CLK_TCK);

	$idle[$_]->do($calls[ $_ % 2 ], { pg_async => PG_ASYNC }) for 0 .. $#idle;
	ok($node->poll_query_until('postgres', "SELECT count(*) = 250 $asleep"), '250 wait');
	# one or two of them may be looking
	ok($node->poll_query_until('postgres', "SELECT count(*) >= 120 $asleep AND query LIKE 'CALL%' AND backend_xmin IS NULL"),
		'in the procedure they hold no snapshot');
	my $used = sub {
		my $ticks = 0;
		for my $db (@idle)
		{
			my @stat = split ' ', slurp_file("/proc/$db->{pg_pid}/stat") =~ s/.*\) //sr;
			$ticks += $stat[11] + $stat[12];
		}
		return $ticks / $clock;
	};
	my ($start, $before) = (time(), $used->());
	do_sql('SELECT pg_sleep(6)');
	my $share = ($used->() - $before) / (time() - $start);
	note(sprintf 'they use %.1f %% of a processor', 100 * $share);
	# polling a hundred times a second would be all of it
	cmp_ok($share, '<', 0.2, 'they use next to no time');

	ok($node->stop('fast', fail_ok => 1), 'a fast shutdown ends them');
	eval { $idle[0]->pg_result };
	like($idle[0]->state, qr/^(57P01|08|S1|22)/, 'with an error');
	eval { $_->disconnect } for @idle;
}

# --- without preload a wait polls

$node->append_conf('postgresql.conf', q{shared_preload_libraries = ''});
$node->start;
served('INSERT, without preload,', sub { do_sql(q{INSERT INTO q (payload) VALUES ('1')}) });
{
	my $w = waiter(q{CALL inbox_wait('q', '10 min')});
	do_sql(q{INSERT INTO q (payload) VALUES ('1')});
	my ($row, $state) = result($w);
	is($state, '', 'so does the procedure');
}

$node->stop;
done_testing();
