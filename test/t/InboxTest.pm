# InboxTest: what the TAP tests share.
#
# Where the library lies is the runner's business: PostgreSQL::Test::Cluster
# adds the file that TEMP_CONFIG names to each server's configuration.

package InboxTest;

use strict;
use warnings;
use DBI;
use Exporter 'import';
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

our @EXPORT = qw(new_node conf_lines worker_pid wait_worker wait_no_worker
  wait_pid_gone launcher_pid wait_looked ticks_on starts_of goes_through connect_db
  fork_client kill_client stop_asleep sqlstate wait_up query_becomes);

# in seconds, what nothing takes even on a machine that has much else to do
our $LONG = 180;

# A running server that preloads the library, with extra lines of
# configuration; a later line overrides an earlier one.
sub new_node
{
	my ($name, @conf) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(allows_streaming => 1);
	$node->append_conf('postgresql.conf', join("\n", conf_lines(), @conf, ''));
	$node->start;
	return $node;
}

sub conf_lines
{
	return (
		"shared_preload_libraries = 'inbox'",
		"inbox.reap_interval = '100ms'",
		"max_worker_processes = 20",
		"max_prepared_transactions = 5",
		"autovacuum = off",
		"restart_after_crash = on",
		# tells of each start of a background worker
		"log_min_messages = debug1");
}

# pid of a database's worker, or ''
sub worker_pid
{
	my ($node, $db) = @_;
	return $node->safe_psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE backend_type = 'inbox worker' AND datname = '$db'");
}

sub launcher_pid
{
	my ($node) = @_;
	return $node->safe_psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE backend_type = 'inbox launcher'");
}

# Wait until the launcher has begun to look into the databases there were when
# it started: those that come later it has to be told of.
sub wait_looked
{
	my ($node, $db) = @_;

	for (1 .. $LONG * 20)
	{
		return 1 if starts_of($node, $db) > 0;
		usleep(50_000);
	}
	return 0;
}

# A test: the query's value is, or becomes, the one that is wanted.
sub query_becomes
{
	my ($node, $db, $sql, $want, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 2;
	$node->poll_query_until($db, "SELECT ($sql)::text IS NOT DISTINCT FROM '$want'") and return pass($name);
	is($node->safe_psql($db, $sql), $want, $name);
	return 0;
}

# Wait until the database has a worker that has looked around, with another
# pid than the given one; returns its pid, or '' after $seconds.
sub wait_worker
{
	my ($node, $db, $not_pid, $seconds) = @_;
	my $deadline = time() + ($seconds // $LONG);
	my $pid;

	$not_pid ||= 0;
	do
	{
		$pid = $node->safe_psql('postgres', qq{
			SELECT a.pid FROM pg_stat_activity a, pg_database d
			WHERE a.backend_type = 'inbox worker' AND a.datname = '$db'
			  AND a.datname = d.datname AND a.pid <> $not_pid AND a.state IS NOT NULL});
		return $pid if $pid ne '';
		usleep(50_000);
	} while (time() < $deadline);
	return '';
}

# Wait until the database has no worker and none is being started.
sub wait_no_worker
{
	my ($node, $db, $seconds) = @_;
	my $deadline = time() + ($seconds // $LONG);

	do
	{
		return 1 if worker_pid($node, $db) eq '';
		usleep(50_000);
	} while (time() < $deadline);
	return 0;
}

sub wait_pid_gone
{
	my ($node, $pid) = @_;
	return $node->poll_query_until('postgres',
		"SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid");
}

# Does the worker of this database complete ticks?  Asked of a database that
# has the extension.
sub ticks_on
{
	my ($node, $asked, $db) = @_;
	my $ticks = $node->safe_psql($asked,
		"SELECT coalesce(max(ticks), 0) FROM inbox_workers WHERE database = '$db'");
	return $node->poll_query_until($asked,
		"SELECT count(*) = 1 FROM inbox_workers WHERE database = '$db' AND ticks > $ticks + 1");
}

# How many workers were ever asked for in a database, by the server's log.
sub starts_of
{
	my ($node, $db) = @_;
	my $oid = $node->safe_psql('postgres',
		"SELECT oid FROM pg_database WHERE datname = '$db'");
	my $log = slurp_file($node->logfile);
	my $n = () = $log =~ /registering background worker "inbox worker for database $oid"/g;
	return $n;
}

# The command succeeds.  Where a worker of ours did not leave, the server would
# give up after some seconds; how long it takes otherwise is the machine's matter.
sub goes_through
{
	my ($node, $sql, $name, %params) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', $sql, %params);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($rc, 0, "$name: done") or diag($err);
	return;
}

# A DBI connection; errors die.
sub connect_db
{
	my ($node, $db, %attributes) = @_;
	return DBI->connect(
		'dbi:Pg:dbname=' . ($db // 'postgres') . ';host=' . $node->host . ';port=' . $node->port,
		undef, undef,
		{ AutoCommit => 1, RaiseError => 1, PrintError => 0, PrintWarn => 0, %attributes });
}

# Wait until a server that is coming up again takes connections.  A psql that
# is refused ends before it has read its statement, which IPC::Run takes ill.
sub wait_up
{
	my ($node) = @_;

	for (1 .. 1800)
	{
		my $db = eval { connect_db($node) };

		if ($db)
		{
			$db->disconnect;
			return;
		}
		usleep(100_000);
	}
	die 'the server does not come up';
}

# A process that runs the code and ends, whatever happens in there; returns
# its pid.
sub fork_client
{
	my ($code) = @_;
	my $pid = fork() // die "fork: $!";

	return $pid if $pid;
	eval { $code->(); };
	POSIX::_exit(0);
}

# The death of a client that has no time for a goodbye.
sub kill_client
{
	my ($pid) = @_;
	kill 'KILL', $pid;
	waitpid($pid, 0);
	return;
}

# Stop a process of ours where it sleeps, as $db sees it: one that is stopped
# while it has a lock would stop the others too.
sub stop_asleep
{
	my ($db, @pids) = @_;

	for my $pid (@pids)
	{
		for (;;)
		{
			kill 'STOP', $pid;
			last if $db->selectrow_array(
				"SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $pid");
			kill 'CONT', $pid;
			usleep(10_000);
		}
	}
	return;
}

# Run SQL; its SQLSTATE ('00000' when it works) and the error's text.
sub sqlstate
{
	my ($node, $db, $sql) = @_;
	my ($rc, $out, $err) = $node->psql($db, "\\set VERBOSITY verbose\n$sql");

	return ('00000', '') if $rc == 0 && $err !~ /ERROR:/;
	return $err =~ /ERROR:  ([0-9A-Z]{5}): (.*)/s ? ($1, $2) : ('?', $err);
}

1;
