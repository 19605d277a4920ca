# Claims and extensions alone do not wait for the disk; whatever else a
# transaction writes makes its commit as durable as the session asks.
#
# Nothing but a commit that waits flushes the WAL here: the WAL writer sleeps
# and no checkpoint comes.  So a crash loses exactly what did not wait.  Now
# and then the WAL writer has to wake even so, and others write a record of
# their own; what would be spoilt by that is tried some times.

use strict;
use warnings;
use DBD::Pg qw(:async);
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(
	'async',
	"wal_writer_delay = '10s'", "wal_writer_flush_after = '1GB'",
	"checkpoint_timeout = '1h'", "bgwriter_lru_maxpages = 0",
	# the worker's own commits would flush
	"inbox.reap_interval = '1h'", 'max_prepared_transactions = 5');

sub q1 { return $node->safe_psql('postgres', $_[0]); }

sub crash
{
	$node->stop('immediate');
	$node->start;
	return;
}

# as after a clean start: a crash makes claims durable for a while
sub clean { $node->stop('fast'); $node->start; return; }

# is the last commit on disk?
my $flushed = 'SELECT pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn()';
my $fresh = q{TRUNCATE q, other; INSERT INTO q (payload) SELECT '1' FROM generate_series(1, 4)};

q1(q{CREATE EXTENSION inbox; SELECT inbox_create('q'); CREATE TABLE other (n int)});

# Is the commit of the last of these on disk when it returns (t), or not (f)?
sub shows
{
	my ($expected, @sql) = @_;

	for (1 .. 5)
	{
		my $out = q1(join(";\n", $fresh, 'CHECKPOINT', @sql, $flushed));
		return 1 if (split /\n/, $out)[-1] eq $expected;
	}
	return 0;
}
sub quick { return shows('f', @_) }
sub waits { return shows('t', @_) }

my $claim = q{SELECT id FROM inbox_claim('q', 1, '1 h')};

clean();
ok(quick($claim), 'a claim does not wait');
ok(quick("BEGIN; $claim; $claim; COMMIT"), 'nor do two');
ok( quick(
		"CREATE TEMP TABLE r AS SELECT receipt FROM inbox_claim('q')",
		"SELECT verdict FROM r, inbox_extend('q', r.receipt, '1 h')"),
	'nor does an extension');
ok(quick("BEGIN; SAVEPOINT s; $claim; RELEASE s; COMMIT"), 'nor does one in a savepoint');
ok(quick("BEGIN; $claim; COMMIT AND CHAIN; $claim; COMMIT"), 'nor does one in a chained transaction');
ok(waits("SET inbox.async_claim = off; $claim"), 'it waits when told to');
ok( waits(
		"CREATE TEMP TABLE r AS SELECT receipt FROM inbox_claim('q')",
		"SELECT verdict FROM r, inbox_settle('q', r.receipt)"),
	'a settlement waits');
ok(waits("SELECT count(*) FROM inbox_next('q', (SELECT array_agg(receipt) FROM inbox_claim('q')))"),
	'so does inbox_next');
ok(waits("SELECT inbox_send('q', '2')"), 'and a send');
my $insert = 'INSERT INTO other VALUES (1)';
for my $case (
	[ 'before', "$insert; $claim" ],
	[ 'after', "$claim; $insert" ],
	[ 'between', "$claim; $insert; $claim" ],
	[ 'in a savepoint between', "$claim; SAVEPOINT s; $insert; RELEASE s; $claim" ],
	[ 'before a savepoint with', "$insert; SAVEPOINT s; $claim; ROLLBACK TO s" ],
	[ 'after a savepoint with', "SAVEPOINT s; $claim; ROLLBACK TO s; $insert" ])
{
	my ($where, $sql) = @$case;
	ok(waits("BEGIN; $sql; COMMIT"), "an INSERT $where claims waits");
}
ok(waits("BEGIN; $claim; COMMIT AND CHAIN; $insert; COMMIT"), 'what follows in a chained transaction waits');
ok(waits("BEGIN; $insert; COMMIT AND CHAIN; $claim; $insert; COMMIT"), 'and what comes before');
q1(qq{
	CREATE PROCEDURE last_write() LANGUAGE plpgsql AS \$\$ BEGIN
		PERFORM inbox_claim('q'); COMMIT; $insert; COMMIT; END \$\$;
	CREATE PROCEDURE last_claim() LANGUAGE plpgsql AS \$\$ BEGIN
		$insert; COMMIT; PERFORM inbox_claim('q'); COMMIT; END \$\$});
ok(waits('CALL last_write()'), 'in a procedure a write waits');
ok(quick('CALL last_claim()'), 'and a claim does not');
ok(waits("BEGIN; $claim; PREPARE TRANSACTION 'p'; COMMIT PREPARED 'p'"), 'what is prepared waits');
for my $end ('COMMIT', 'ROLLBACK')
{
	is(q1("BEGIN; SELECT FROM inbox_claim('q'); $end; SHOW synchronous_commit"), 'on',
		"the session's setting is back after a " . lc $end);
}

# --- what a crash does to them

# Once in a while even this one reaches the disk.
my $lost = 0;
for (1 .. 5)
{
	clean();
	q1($fresh);
	q1('CHECKPOINT');
	q1($claim);
	crash();
	my $left = q1('SELECT count(*), count(locked_until) FROM q');
	like($left, qr/^4\|[01]$/, 'a claim alone, and a crash: all rows are there');
	$lost = $left eq '4|0';
	last if $lost;
}
ok($lost, 'a claim lost in a crash only frees its row');
is(q1($claim) ne '', 1, 'which goes to the next');
crash();
is(q1('SELECT count(locked_until), max(attempt) FROM q'), '1|2',
	'after a crash claims are durable: the one that crashes the server is counted');
clean();
q1($fresh);
q1("SELECT inbox_settle('q', receipt) FROM inbox_claim('q', 1, '1 h')");
q1("BEGIN; $claim; $insert; COMMIT");
q1("BEGIN; $insert; $claim; COMMIT");
q1("BEGIN; $claim; $insert; SAVEPOINT s; $claim; ROLLBACK TO s; COMMIT");
q1('CALL last_write()');
crash();
is(q1('SELECT (SELECT count(*) FROM q), (SELECT count(*) FROM other)'), '3|4',
	'what waited is there: a settlement, an INSERT beside claims');

# --- a message that takes the server down each time: its consumer's process
# crashes, and the server starts anew

clean();
q1(q{SELECT inbox_create('poison', lease => '1 s', max_attempts => 3); SELECT inbox_send('poison', '"bad"')});
my @attempts;
while (@attempts < 4)
{
	my $db = eval { connect_db($node) } or next;
	my ($attempt) = eval { $db->selectrow_array(q{SELECT attempt FROM inbox_claim('poison')}) };

	if (defined $attempt)
	{
		push @attempts, $attempt;
		kill 'KILL', $db->{pg_pid};
		eval { 1 while $db->do('SELECT 1') };
		wait_up($node);
	}
	eval { $db->disconnect };
	# its lease ends, and then it is spent, or not
	last if @attempts && $attempts[-1] == 3;
	select undef, undef, undef, 0.05;
}
# only the first may be lost: nobody had crashed before
like("@attempts", qr/^1( 1)? 2 3$/, 'each of its deliveries is counted');
ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM poison WHERE attempt = 4 AND locked_until <= clock_timestamp()}),
	'its last lease ends');
is(q1(q{SELECT count(*) FROM inbox_claim('poison')}), 0, 'it is not handed out again');
q1(q{SELECT inbox_reap('poison')});
is(q1(q{SELECT attempt, cause FROM poison_dead}), '3|lease lost', 'but buried');

# --- a synchronous standby that is not there

clean();
q1($fresh);
$node->append_conf('postgresql.conf', "synchronous_standby_names = 'nobody'");
$node->reload;
$node->poll_query_until('postgres', q{SELECT current_setting('synchronous_standby_names') = 'nobody'});

# Does the commit wait for it?
sub waits_for_standby
{
	my ($sql) = @_;
	my $db = connect_db($node);
	my $answer;

	$db->do($sql, { pg_async => PG_ASYNC });
	until (defined $answer)
	{
		$answer = 0 if $db->pg_ready;
		my ($waits) = q1("SELECT wait_event = 'SyncRep' FROM pg_stat_activity WHERE pid = $db->{pg_pid}");
		$answer = 1 if ($waits // '') eq 't';
	}
	$db->pg_cancel if $answer;
	eval { $db->pg_result } unless $answer;
	eval { $db->disconnect };
	return $answer;
}

ok(!waits_for_standby($claim), 'a claim does not wait for a synchronous standby');
ok(waits_for_standby("BEGIN; $claim; $insert; COMMIT"), 'with an INSERT it does');
ok(waits_for_standby(q{SELECT inbox_settle('q', inbox_receipt(q)) FROM q WHERE locked_until IS NOT NULL LIMIT 1}),
	'and so does a settlement');

$node->stop('immediate');
done_testing();
