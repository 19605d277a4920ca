# Claims and extensions alone do not wait for the disk; whatever else a
# transaction writes makes its commit as durable as the session asks.
#
# Nothing but a commit that waits flushes the WAL here: the WAL writer sleeps
# and no checkpoint comes.  So a crash loses exactly what did not wait.

use strict;
use warnings;
use InboxTest;
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

q1("CREATE EXTENSION inbox; SELECT inbox_create('q'); CREATE TABLE other (n int)");
q1("INSERT INTO q(payload) SELECT '1' FROM generate_series(1, 20)");

# what the connection's last statement has left unflushed, in one session
sub leaves_unflushed
{
	my (@sql) = @_;
	my $out = q1(join(";\n", 'CHECKPOINT', @sql, $flushed));
	return (split /\n/, $out)[-1] eq 'f';
}

clean();
ok(leaves_unflushed("SELECT id FROM inbox_claim('q')"), 'a claim does not wait');
ok(leaves_unflushed("BEGIN; SELECT id FROM inbox_claim('q'); SELECT id FROM inbox_claim('q'); COMMIT"),
	'nor do two');
ok( leaves_unflushed(
		"CREATE TEMP TABLE r AS SELECT receipt FROM inbox_claim('q')",
		"SELECT verdict FROM r, inbox_extend('q', r.receipt, '1 h')"),
	'nor does an extension');
ok(leaves_unflushed("BEGIN; SAVEPOINT s; SELECT id FROM inbox_claim('q'); RELEASE s; COMMIT"),
	'nor does one in a savepoint');
ok(!leaves_unflushed("SET inbox.async_claim = off; SELECT id FROM inbox_claim('q')"),
	'it waits when told to');
ok( !leaves_unflushed(
		"CREATE TEMP TABLE r AS SELECT receipt FROM inbox_claim('q')",
		"SELECT verdict FROM r, inbox_settle('q', r.receipt)"),
	'a settlement waits');
ok(!leaves_unflushed("SELECT count(*) FROM inbox_next('q', (SELECT array_agg(receipt) FROM inbox_claim('q')))"),
	'so does inbox_next');
ok(!leaves_unflushed("SELECT inbox_send('q', '2')"), 'and a send');
for my $case (
	[ 'before', "INSERT INTO other VALUES (1); SELECT id FROM inbox_claim('q')" ],
	[ 'after', "SELECT id FROM inbox_claim('q'); INSERT INTO other VALUES (1)" ],
	[ 'between', "SELECT id FROM inbox_claim('q'); INSERT INTO other VALUES (1); SELECT id FROM inbox_claim('q')" ],
	[ 'in a savepoint between', "SELECT id FROM inbox_claim('q'); SAVEPOINT s; INSERT INTO other VALUES (1); RELEASE s; SELECT id FROM inbox_claim('q')" ])
{
	my ($where, $sql) = @$case;
	ok(!leaves_unflushed("BEGIN; $sql; COMMIT"), "an INSERT $where claims waits");
}
ok(!leaves_unflushed("BEGIN; SELECT id FROM inbox_claim('q'); COMMIT AND CHAIN; INSERT INTO other VALUES (2); COMMIT"),
	'what follows in a chained transaction waits');
q1("CREATE PROCEDURE p() LANGUAGE plpgsql AS \$\$ BEGIN
	PERFORM inbox_claim('q'); COMMIT; INSERT INTO other VALUES (3); COMMIT; END \$\$");
ok(!leaves_unflushed('CALL p()'), 'and in a procedure');
is(q1("BEGIN; SELECT FROM inbox_claim('q'); COMMIT; SHOW synchronous_commit"), 'on',
	"the session's setting is back after a commit");
is(q1("BEGIN; SELECT FROM inbox_claim('q'); ROLLBACK; SHOW synchronous_commit"), 'on',
	'and after a rollback');

# what a crash does to them
q1("TRUNCATE q, other; INSERT INTO q(payload) SELECT '1' FROM generate_series(1, 4)");
clean();
q1('CHECKPOINT');
q1("SELECT id FROM inbox_claim('q', 1, '1 h')");
crash();
is(q1('SELECT count(*), count(locked_until) FROM q'), '4|0',
	'a claim lost in a crash only frees its row');
q1("SELECT id FROM inbox_claim('q', 1, '1 h')");
crash();
is(q1('SELECT count(locked_until), max(attempt) FROM q'), '1|2',
	'after a crash claims are durable: the one that crashes the server is counted');
clean();
q1("SELECT inbox_settle('q', receipt) FROM inbox_claim('q', 1, '1 h')");
q1("BEGIN; SELECT id FROM inbox_claim('q', 1, '1 h'); INSERT INTO other VALUES (1); COMMIT");
crash();
is(q1('SELECT (SELECT count(*) FROM q), (SELECT count(*) FROM other)'), '3|1',
	'what waited is there: a settlement, an INSERT beside a claim');

$node->stop;
done_testing();
