# Subscriptions: who runs, with what rights, and how definitions travel.

use strict;
use warnings;
use lib 't', 'test/t';
use InboxTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = new_node('rights', 'inbox.max_subscription_workers = 8');
my $db = 'd1';
my $login_needed = $node->safe_psql('postgres', 'SHOW server_version_num') < 170000;

$node->safe_psql('postgres', 'CREATE DATABASE d1');
$node->safe_psql($db, q{
	CREATE EXTENSION inbox;
	CREATE ROLE alice LOGIN; CREATE ROLE bob LOGIN; CREATE ROLE crew; CREATE ROLE nobody_in;
	GRANT crew TO alice;
	CREATE SCHEMA alice AUTHORIZATION alice; CREATE SCHEMA bob AUTHORIZATION bob; CREATE SCHEMA crew AUTHORIZATION crew;
	ALTER ROLE alice SET search_path = alice, public;
	ALTER ROLE alice SET application_name = 'set for alice';
	CREATE TABLE public.secret (s text); INSERT INTO public.secret VALUES ('x');
});

# what comes first when a role runs SQL
sub as { my ($role, $sql) = @_; return "SET SESSION AUTHORIZATION $role; SET search_path = $role, public; $sql"; }

sub becomes { return query_becomes($node, $db, @_); }

# ---------------------------------------------------------------------------
# As whom a handler runs

$node->safe_psql($db, as('alice', q{
	SELECT inbox_create('q', backoff => '0 s', max_attempts => 1);
	CREATE TABLE seen (what text, value text);
	CREATE FUNCTION try(j jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
		EXECUTE j->>'run';
		INSERT INTO seen VALUES (j->>'run', concat_ws(' ', session_user, current_user, current_setting('is_superuser'), current_setting('search_path'), current_setting('application_name')));
	END $$;
	SELECT inbox_subscribe('a', 'q', 'try(jsonb)');
	INSERT INTO q (payload) VALUES ('{"run":"SELECT"}');
}));
becomes('SELECT value FROM alice.seen', 'alice alice off alice, public set for alice', 'a handler runs as its owner, with his settings');
is($node->safe_psql($db, "SELECT usename FROM pg_stat_activity WHERE backend_type = 'inbox subscription'"), 'alice', 'who is who is connected');

my @escapes = (
	'RESET ROLE; SELECT * FROM public.secret', 'RESET SESSION AUTHORIZATION; SELECT * FROM public.secret',
	'SET ROLE postgres', 'SET SESSION AUTHORIZATION postgres', 'SET ROLE bob',
	"SELECT set_config('role', 'none', false); SELECT * FROM public.secret",
	"SELECT set_config('session_authorization', 'postgres', false)",
	'SELECT * FROM public.secret', "SELECT pg_read_file('postgresql.conf')", "COPY public.secret TO PROGRAM 'true'",
	"UPDATE public.inbox_subscription SET owner = 'postgres'", "INSERT INTO public.inbox_subscription SELECT * FROM public.inbox_subscription",
	'DELETE FROM public.inbox_subscription');
for my $escape (@escapes)
{
	(my $json = $escape) =~ s/'/''/g;
	$node->safe_psql($db, "INSERT INTO alice.q (payload) VALUES (jsonb_build_object('run', '$json'))");
}
becomes('SELECT count(*) FROM alice.q', 0, 'attempts to get other rights');
is($node->safe_psql($db, 'SELECT count(*) FROM alice.q_dead'), scalar(@escapes), 'all fail')
	or diag($node->safe_psql($db, 'SELECT * FROM alice.seen'));
is($node->safe_psql($db, "SELECT count(*) FROM alice.q_dead WHERE last_error NOT LIKE '%SQLSTATE 42501%'"), 0, 'for want of privileges')
	or diag($node->safe_psql($db, "SELECT payload, last_error FROM alice.q_dead WHERE last_error NOT LIKE '%SQLSTATE 42501%'"));

# what the database's or role's owner sets, must not change it
$node->safe_psql($db, "ALTER ROLE alice SET role = 'crew'; ALTER DATABASE d1 SET statement_timeout = '1ms'; ALTER DATABASE d1 SET default_transaction_read_only = on; ALTER DATABASE d1 SET default_transaction_isolation = 'serializable'");
$node->safe_psql($db, 'SET default_transaction_read_only = off; SET statement_timeout = 0; ' . as('alice', "SELECT inbox_pause_subscription('a')"));
$node->safe_psql($db, 'SET default_transaction_read_only = off; SET statement_timeout = 0; ' . as('alice', q{DELETE FROM seen; SELECT inbox_resume_subscription('a'); INSERT INTO q (payload) VALUES ('{"run":"SELECT pg_sleep(0.1)"}')}));
$node->safe_psql('postgres', 'ALTER DATABASE d1 RESET ALL; ALTER ROLE alice RESET role');
becomes('SELECT value FROM alice.seen', 'alice alice off alice, public set for alice', 'settings of the database do not stop it');

# ---------------------------------------------------------------------------
# Who may subscribe, and change what

is((sqlstate($node, $db, as('bob', q{CREATE FUNCTION h(j jsonb) RETURNS void LANGUAGE sql AS 'SELECT'; SELECT inbox_subscribe('b', 'alice.q', 'h(jsonb)')})))[0], '42501', 'no rights on the schema');
$node->safe_psql($db, 'GRANT USAGE ON SCHEMA alice TO bob; GRANT SELECT, UPDATE ON alice.q TO bob');
is((sqlstate($node, $db, as('bob', "SELECT inbox_subscribe('b', 'alice.q', 'bob.h(jsonb)')")))[0], '42501', 'nor to delete, as a settlement does');
$node->safe_psql($db, 'GRANT DELETE ON alice.q TO bob; REVOKE EXECUTE ON FUNCTION alice.try(jsonb) FROM PUBLIC');
is((sqlstate($node, $db, as('bob', "SELECT inbox_subscribe('b', 'alice.q', 'alice.try(jsonb)')")))[0], '42501', 'nor to execute the handler');
$node->safe_psql($db, as('alice', "SELECT inbox_pause_subscription('a')"));
$node->safe_psql($db, as('bob', "SELECT inbox_subscribe('b', 'alice.q', 'bob.h(jsonb)')"));
pass('with all of them it works');
$node->safe_psql($db, q{INSERT INTO alice.q (payload) VALUES ('{"run":"SELECT"}')});
becomes('SELECT count(*) FROM alice.q', 0, 'and runs');
$node->safe_psql($db, 'REVOKE DELETE ON alice.q FROM bob');
$node->safe_psql($db, q{INSERT INTO alice.q (payload) VALUES ('{"run":"SELECT"}')});
becomes("SELECT last_error FROM inbox_subscriptions WHERE name = 'b'", 'permission denied for table q', 'rights taken away: it says so');
is($node->safe_psql($db, 'SELECT attempt FROM alice.q'), 1, 'and claims nothing');
$node->safe_psql($db, 'GRANT DELETE ON alice.q TO bob');
becomes('SELECT count(*) FROM alice.q', 0, 'given back: it goes on');

for my $call ("inbox_alter_subscription('b', workers => 2)")
{
	is((sqlstate($node, $db, as('alice', "SELECT $call")))[0], '42501', 'the owner of the queue may not alter another\'s subscription');
}
is((sqlstate($node, $db, as('bob', "SELECT inbox_unsubscribe('a')")))[0], '42501', 'nor a stranger end one');
is((sqlstate($node, $db, as('bob', "SELECT * FROM inbox_subscription FOR UPDATE")))[0], '42501', 'nor lock the definitions');
like($node->safe_psql($db, as('bob', "SELECT last_error FROM inbox_subscriptions WHERE name = 'a'")), qr/insufficient privilege/, 'nor read its errors');
$node->safe_psql($db, as('alice', "SELECT inbox_unsubscribe('b')"));
pass('the owner of the queue may end it');

# roles that may not log in
my ($state) = sqlstate($node, $db, q{SET ROLE crew; SET search_path = crew, public; SELECT inbox_create('q');
	CREATE FUNCTION h(j jsonb) RETURNS void LANGUAGE sql AS 'SELECT'; SELECT inbox_subscribe('c', 'q', 'h(jsonb)')});
is($state, $login_needed ? '0P000' : '00000', 'an owner who may not log in');
$node->safe_psql($db, 'ALTER ROLE crew LOGIN; ' . as('crew', q{SELECT inbox_subscribe('c', 'q', 'h(jsonb)')})) if $login_needed;
$node->safe_psql($db, as('alice', "SELECT inbox_alter_subscription('c', workers => 2)"));
becomes("SELECT running FROM inbox_subscriptions WHERE name = 'c'", 2, 'a member may alter it');
$node->safe_psql('postgres', 'REVOKE CONNECT ON DATABASE d1 FROM PUBLIC; GRANT CONNECT ON DATABASE d1 TO alice, crew');
is((sqlstate($node, $db, 'SET ROLE bob; ' . q{SELECT inbox_subscribe('d', 'alice.q', 'bob.h(jsonb)')}))[0], '42501', 'nor one who may not connect');

# the owner goes, or gets another name
$node->safe_psql($db, 'ALTER ROLE crew RENAME TO gang');
becomes("SELECT owner FROM inbox_subscriptions WHERE name = 'c'", 'gang', 'the owner renamed');
$node->safe_psql($db, 'REASSIGN OWNED BY gang TO alice; DROP OWNED BY gang; DROP ROLE gang');
becomes("SELECT state || running || problem FROM inbox_subscriptions WHERE name = 'c'", 'broken0the owner does not exist', 'the owner dropped');
$node->safe_psql($db, "SELECT inbox_unsubscribe('c')");

# ---------------------------------------------------------------------------
# Dumps

my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump';
$node->safe_psql($db, as('alice', "SELECT inbox_alter_subscription('a', workers => 2, lease => '45 s', on_error => 'dead', on_decode_error => 'retry', decode_delay => '1 min', time_limit => '1 h'); SELECT inbox_resume_subscription('a')"));
my $definition = q{SELECT name, queue, replace(handler, 'pg_catalog.', ''), owner, workers, by_key, lease, on_error, on_decode_error, decode_delay, group_key, time_limit, paused FROM inbox_subscriptions};
my $before = $node->safe_psql($db, $definition);
is($before, 'a|alice.q|alice.try(jsonb)|alice|2|f|00:00:45|dead|retry|00:01:00||01:00:00|f', 'a definition');
$node->command_ok([ 'pg_dump', '-f', $dump, $db ], 'dumped');
$node->safe_psql('postgres', 'CREATE DATABASE d2');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-o', "$dump.out", '-d', 'd2', '-f', $dump ], 'and restored');
is($node->safe_psql('d2', $definition), $before, 'the same definition');
is($node->safe_psql('d2', 'SELECT state FROM inbox_subscriptions'), 'restored', 'which waits');
$node->safe_psql('d2', "SELECT inbox_resume_subscription('a')");
ok($node->poll_query_until('d2', 'SELECT running = 2 FROM inbox_subscriptions'), 'and runs when resumed');

# pg_upgrade refuses tables with types whose OIDs it does not keep
is($node->safe_psql($db, q{SELECT count(*) FROM pg_attribute WHERE attrelid = 'inbox_subscription'::regclass
	AND atttypid::regtype::text IN ('regproc', 'regprocedure', 'regoper', 'regoperator', 'regconfig', 'regdictionary', 'regnamespace', 'regcollation')}), 0, 'nothing keeps pg_upgrade from it');

$node->stop;

# ---------------------------------------------------------------------------
# No room for processes; no preload

my $full = new_node('full', 'max_worker_processes = 4', 'max_parallel_workers = 0', 'max_logical_replication_workers = 0', 'inbox.max_subscription_workers = 4');
$full->safe_psql('postgres', q{CREATE EXTENSION inbox; SELECT inbox_create('q');
	CREATE FUNCTION h(j jsonb) RETURNS void LANGUAGE sql AS 'SELECT'; SELECT inbox_subscribe('a', 'q', 'h(jsonb)', workers => 3)});
ok($full->poll_query_until('postgres', q{SELECT problem LIKE '%max_worker_processes' AND running BETWEEN 1 AND 2 FROM inbox_subscriptions}), 'no background worker slot left: it says so')
	or diag($full->safe_psql('postgres', 'SELECT * FROM inbox_subscriptions'));
$full->safe_psql('postgres', q{INSERT INTO q (payload) VALUES ('1')});
ok($full->poll_query_until('postgres', 'SELECT handled = 1 FROM inbox_subscriptions'), 'those there are handle');
is($full->safe_psql('postgres', q{SELECT problem LIKE '%max_worker_processes' FROM inbox_subscriptions}), 't', 'and do not hide it');
$full->stop;
my $log = slurp_file($full->logfile);
my $lines = () = $log =~ /no background worker slot left/g;
cmp_ok($lines, '<=', 2, 'with one line in the log');

# what one database had and has no more, another may have
my $turns = 0;
my $one = new_node('one', 'inbox.max_subscription_workers = 1');
for my $d ('e1', 'e2', 'e3')
{
	$one->safe_psql('postgres', "CREATE DATABASE $d");
	$one->safe_psql($d, q{CREATE EXTENSION inbox; SELECT inbox_create('q');
		CREATE FUNCTION h(j jsonb) RETURNS void LANGUAGE sql AS 'SELECT'});
}
# again and again: the keeper may look while the last process leaves, or before, or after
for my $d (map { ('e1', 'e2', 'e3') } 1 .. 20)
{
	for (1 .. 600)
	{
		last if (sqlstate($one, $d, "SELECT inbox_subscribe('a', 'q', 'h(jsonb)')"))[0] ne '53400';
		usleep(100_000);
	}
	$one->poll_query_until($d, 'SELECT running = 1 FROM inbox_subscriptions') or last;
	$one->safe_psql($d, "SELECT inbox_unsubscribe('a')");
	$turns++;
}
is($turns, 60, 'the only one runs, where it is wanted last');
$one->stop;

my $plain = PostgreSQL::Test::Cluster->new('plain');
$plain->init;
$plain->start;
$plain->safe_psql('postgres', q{CREATE EXTENSION inbox; SELECT inbox_create('q'); CREATE FUNCTION h(j jsonb) RETURNS void LANGUAGE sql AS 'SELECT'});
my ($code, $text) = sqlstate($plain, 'postgres', "SELECT inbox_subscribe('a', 'q', 'h(jsonb)')");
is($code, '55000', 'not preloaded: refused');
like($text, qr/shared_preload_libraries/, 'with the cure');
is($plain->safe_psql('postgres', 'SELECT count(*) FROM inbox_subscriptions'), 0, 'the view works');
$plain->stop;

done_testing();
