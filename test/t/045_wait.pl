# Waiting: a wake comes at the sender's commit, to as many as there are rows,
# and is passed on by those who cannot use it; all that makes a row claimable
# ends a wait, and so does whatever ends any statement.

use strict;
use warnings;
use DBD::Pg qw(:async);
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $LONG = '60 s';

# no test waits for less; ticks come after a second, to most after four
my $WOKEN = 3.5;

my $node = new_node('wait', 'max_connections = 80');
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
	$node->poll_query_until('postgres', qq{SELECT state = 'active' AND wait_event IS NOT NULL
		FROM pg_stat_activity WHERE pid = $w->{pid}}) or die "not asleep: $sql";
	push @all, $w;
	return $w;
}

sub claimer
{
	my ($wait, $more) = @_;
	return waiter("SELECT id, receipt, extract(epoch FROM locked_until - clock_timestamp()) "
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
	my $deadline = time() + ($seconds // 30);
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

	kill 'STOP', $keeper->{pid};
	no_longer_last($w);
	$act->();
	$row = result($w, $WOKEN);
	do_sql("SELECT pg_terminate_backend($keeper->{pid})");
	kill 'CONT', $keeper->{pid};
	result($keeper);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	check($name, $w, $row);
	return;
}

# Something makes a row claimable, but does not tell, or not then.
sub served
{
	my ($name, $act) = @_;
	my $w = claimer();

	$act->();
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	check($name, $w, scalar result($w, $WOKEN));
	return;
}

sub check
{
	my ($name, $w, $row) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok($row && $row->[0], "$name wakes") or diag($w->{state});
	# to the millisecond: the clock of the lease is read before this column
	cmp_ok($row->[2], '>', 29, "$name: the lease is whole") if $row;
	fresh();
	return;
}

# --- one row, one commit, one waiter

{
	my @w = map { claimer('4 s') } 1 .. 3;
	$main->begin_work;
	my ($id) = $main->selectrow_array(q{SELECT inbox_send('q', '1')});
	do_sql('SELECT pg_sleep(0.3)');
	is(scalar(grep { ready($_) } @w), 0, 'an insert wakes nobody');
	$main->commit;
	my $first = result($w[0], $WOKEN);
	is($first->[0], $id, 'its commit wakes who has waited longest');
	cmp_ok($first->[2], '>', 29, 'the lease begins then');
	my @others = map { scalar result($_) } @w[1, 2];
	is_deeply(\@others, [undef, undef], 'the others return empty when their time is over');
	is($w[1]{state} . $w[2]{state}, '', 'without an error');
	fresh();
}

{
	my @w = map { claimer() } 1 .. 4;
	kill 'STOP', $w[3]{pid};
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
	ok(result($w, $WOKEN), 'until it is resumed');
	fresh();
}

# a stopped worker is missed by nobody who waits
{
	my $worker = wait_worker($node, 'postgres');
	kill 'STOP', $worker;
	served('a delay, without the worker,', sub { do_sql(q{SELECT inbox_send('q', '1', delay => '300 ms')}) });
	kill 'CONT', $worker;
}

# the other ways to claim
{
	my ($row, $w);
	for my $call (q{inbox_claim_ids('q', wait => '1 min')}, q{inbox_next('q', wait => '1 min')},
		q{inbox_claim(NULL::q, wait => '1 min')})
	{
		$w = waiter("SELECT id FROM $call");
		do_sql(q{SELECT inbox_send('q', '1')});
		ok($row = result($w, $WOKEN), "$call waits");
		fresh();
	}
	# a search by SQL wakes as well
	$w = waiter(q{SELECT id FROM inbox_claim('q', wait => '1 min'), set_config('inbox.direct', 'off', false)});
	do_sql(q{SELECT inbox_send('q', '1')});
	ok(result($w, $WOKEN), 'after the walk is switched off, too');
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
	kill 'STOP', $w[0]{pid}, $w[2]{pid};
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
	my ($row, $state) = result($w, 5);
	is($state, '57014', 'cancel');

	$w = { db => connect_db($node) };
	my $start = time();
	eval { $w->{db}->do(q{SET statement_timeout = '300 ms'});
		$w->{db}->do(q{SELECT * FROM inbox_claim('q', wait => '60 s')}); };
	is($w->{db}->state, '57014', 'statement_timeout');
	cmp_ok(time() - $start, '<', 10, 'at once');

	# a client that is gone gets no message
	my $client = fork_client(sub { connect_db($node)->do(
		q{SELECT * FROM inbox_claim('q', wait => '1 min') /* to be lost */}) });
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
	my $w = waiter(q{CALL inbox_wait('q', '1 min')});
	is(do_sql("SELECT backend_xmin IS NULL AND backend_xid IS NULL FROM pg_stat_activity WHERE pid = $w->{pid}"),
		't', 'CALL inbox_wait holds no snapshot');
	is(do_sql("SELECT count(*) FROM pg_locks WHERE pid = $w->{pid} AND locktype = 'relation'"), 0, 'and no lock');
	do_sql(q{SELECT inbox_send('q', '1')});
	my ($row, $state) = result($w, $WOKEN);
	is($state, '', 'it returns when there is something to claim');

	my $start = time();
	do_sql(q{CALL inbox_wait('q', '1 min')});
	cmp_ok(time() - $start, '<', 10, 'at once if there is something already');

	$main->begin_work;
	$main->do(q{SELECT * FROM inbox_claim('q')});
	$w = waiter(q{CALL inbox_wait('q', '1 min')});
	do_sql('SELECT pg_sleep(0.3)');
	ok(!ready($w), 'a locked row is nothing to claim');
	$main->rollback;
	($row, $state) = result($w, $WOKEN);
	is($state, '', 'until its lock is gone');

	do_sql(q{SELECT inbox_create('doomed')});
	$w = waiter(q{CALL inbox_wait('doomed', '1 min')});
	do_sql('DROP TABLE doomed CASCADE');
	($row, $state) = result($w);
	is($state, '42P01', 'a dropped queue ends it');
	fresh();
}

# --- idle waiters cost nothing to speak of

{
	my @w = map { claimer() } 1 .. 40;
	my $used = sub {
		my $ticks = 0;
		for my $w (@w)
		{
			my @stat = split ' ', slurp_file("/proc/$w->{pid}/stat") =~ s/.*\) //sr;
			$ticks += $stat[11] + $stat[12];
		}
		return $ticks;
	};
	my $before = $used->();
	do_sql('SELECT pg_sleep(4)');
	# in hundredths of a second
	cmp_ok($used->() - $before, '<', 20, '40 idle waiters use no time');

	my $start = time();
	$node->stop('fast');
	cmp_ok(time() - $start, '<', 20, 'a fast shutdown ends them');
	my ($row, $state) = result($w[0], 10);
	isnt($state, '', 'with an error');
}

# --- without preload a wait polls

$node->append_conf('postgresql.conf', q{shared_preload_libraries = ''});
$node->start;
served('INSERT, without preload,', sub { do_sql(q{INSERT INTO q (payload) VALUES ('1')}) });
{
	my $w = waiter(q{CALL inbox_wait('q', '1 min')});
	do_sql(q{INSERT INTO q (payload) VALUES ('1')});
	my ($row, $state) = result($w, $WOKEN);
	is($state, '', 'so does the procedure');
}

$node->stop;
done_testing();
