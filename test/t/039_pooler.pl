# Behind PgBouncer in transaction mode: claim, extend and settle are calls of
# their own, each on another server connection, and nothing that matters is
# kept in a session.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $folder = PostgreSQL::Test::Utils::tempdir_short();
my $port = PostgreSQL::Test::Cluster::get_free_port();
my ($pgbouncer) = grep { -x } map { "$_/pgbouncer" } split(/:/, $ENV{PATH}), '/usr/sbin';

die "there is no pgbouncer; test/run installs it" if !$pgbouncer;

my $node = new_node('pooler');
my $superuser = $node->safe_psql('postgres', q{
	CREATE EXTENSION inbox;
	SELECT inbox_create('jobs', lease => '1 h', max_attempts => 3);
	CREATE ROLE producer LOGIN;
	CREATE ROLE consumer LOGIN;
	CREATE ROLE outsider LOGIN;
	GRANT INSERT ON jobs TO producer;
	GRANT SELECT, UPDATE, DELETE ON jobs TO consumer;
	CREATE ROLE app LOGIN NOINHERIT;
	CREATE ROLE red IN ROLE consumer;
	CREATE ROLE blue IN ROLE consumer;
	GRANT red, blue TO app;
	CREATE TABLE tenants (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant name,
		locked_until timestamptz, claimed_at timestamptz);
	SELECT inbox_adopt('tenants', claimed_at => 'claimed_at');
	GRANT SELECT, UPDATE, DELETE ON tenants TO consumer;
	ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
	CREATE POLICY own ON tenants TO consumer USING (tenant = current_user);
	INSERT INTO tenants (tenant) SELECT t FROM unnest('{red,blue}'::name[]) t, generate_series(1, 5);
	SELECT current_user}) =~ s/.*\n//sr;

append_to_file("$folder/users", join '', map { qq("$_" ""\n) } qw(producer consumer outsider app), $superuser);
append_to_file("$folder/ini", qq{[databases]
* = host=${\$node->host} port=${\$node->port}
[pgbouncer]
listen_addr =
listen_port = $port
unix_socket_dir = $folder
pool_mode = transaction
default_pool_size = 3
server_round_robin = 1
auth_type = trust
auth_file = $folder/users
admin_users = $superuser
logfile = $folder/log
pidfile = $folder/pid
});
my $pooler = IPC::Run::start([ $pgbouncer, '-q', "$folder/ini" ], '<', \'', '>', "$folder/out", '2>&1');

END { $pooler->kill_kill if $pooler; }

sub client
{
	my ($user) = @_;

	# what this driver has to be told behind this PgBouncer: no named prepared
	# statements
	return DBI->connect("dbi:Pg:dbname=postgres;host=$folder;port=$port", $user, '',
		{ AutoCommit => 1, RaiseError => 1, PrintError => 0, pg_server_prepare => 0 });
}

my $db;
for (1 .. 5000)
{
	last if $db = eval { client('consumer') };
	usleep(20_000);
}
isnt($db, undef, 'the pooler is up') or die slurp_file("$folder/log");

# --- three server connections for one client, in turn

my @hold = map { client('consumer') } 1 .. 3;
$_->begin_work for @hold;
my %pids = map { $_->selectrow_array('SELECT pg_backend_pid()') => 1 } @hold;
$_->commit for @hold;
$_->disconnect for @hold;
is(scalar keys %pids, 3, 'three server connections');

my $producer = client('producer');
is($producer->selectrow_array(q{SELECT inbox_send('jobs', '{"n": 1}')}), 1, 'a producer may send');
is( join(' ', @{ $producer->selectcol_arrayref(
			q{SELECT inbox_send_batch('jobs', ?::jsonb[], delay => ?::interval)}, undef,
			[ '{"n": 2}', '{"n": 3}' ], '0 s') }),
	'2 3', 'and send many');
eval { $producer->do(q{SELECT inbox_claim('jobs')}) };
is($producer->state, '42501', 'but not claim');

for my $n (1 .. 3)
{
	my @pid;
	my ($receipt, $payload, $verdict, $new);

	($pid[0], $receipt, $payload) = $db->selectrow_array(
		q{SELECT pg_backend_pid(), receipt, payload FROM inbox_claim('jobs', ?, ?::interval)}, undef, 1, '20 s');
	is($payload, qq({"n": $n}), "message $n: claimed");
	($pid[1], $verdict, $new) = $db->selectrow_array(
		q{SELECT pg_backend_pid(), verdict, new_receipt FROM inbox_extend('jobs', ?, ?::interval)}, undef,
		$receipt, '1 h');
	is("$verdict $new", "ok $receipt", "message $n: extended");
	($pid[2], $verdict) = $db->selectrow_array(
		q{SELECT pg_backend_pid(), verdict FROM inbox_settle('jobs', ?) verdict}, undef, $receipt);
	is($verdict, 'ok', "message $n: settled");
	is(scalar keys %{ { map { $_ => 1 } @pid } }, 3, "message $n: each on a connection of its own");
}

# --- as the handler's transaction: one connection from begin to commit

$producer->do(q{SELECT inbox_send('jobs', '"handled"')});
$db->begin_work;
my ($receipt) = $db->selectrow_array(q{SELECT receipt FROM inbox_claim('jobs')});
is($db->selectrow_array(q{SELECT inbox_settle('jobs', ?, strict => true)}, undef, $receipt), 'ok',
	'claim and settle in one transaction');
$db->commit;
is($db->selectrow_array('SELECT count(*) FROM jobs'), 0, 'all done');

# --- the loop that is recommended

$producer->do(q{SELECT inbox_send_batch('jobs', array_fill('1'::jsonb, '{10}'))});
my ($receipts, $seen) = ([], 0);
do
{
	$receipts = $db->selectcol_arrayref(q{SELECT receipt FROM inbox_next('jobs', ?, 3)}, undef, $receipts);
	$seen += @$receipts;
} while (@$receipts);
is("$seen " . $db->selectrow_array('SELECT count(*) FROM jobs'), '10 0', 'inbox_next drains the queue');

# --- another role on a connection that has served somebody else

my $app = client('app');
my %got;
for my $turn (1 .. 12)
{
	my $role = $turn % 2 ? 'red' : 'blue';

	$app->begin_work;
	$app->do("SET LOCAL ROLE $role");
	my ($id) = $app->selectrow_array(q{SELECT id FROM inbox_claim('tenants')});
	$got{$role} .= " $id" if defined $id;
	$app->commit;
}
is($got{red}, ' 1 2 3 4 5', 'under row security each role gets its own rows');
is($got{blue}, ' 6 7 8 9 10', 'and no other');
eval { $app->do(q{SELECT inbox_claim('tenants')}) };
is($app->state, '42501', 'without a role, none');

my $outsider = client('outsider');
for my $call (q{inbox_send('jobs', '1')}, q{inbox_claim('jobs')}, q{inbox_settle('jobs', '1@1')},
	q{inbox_extend('jobs', '1@1')}, q{inbox_next('jobs')}, q{inbox_drop('jobs')})
{
	eval { $outsider->do("SELECT $call") };
	is($outsider->state, '42501', "an outsider may not: $call");
}

# --- what a pooler in session mode does between two clients

$db->disconnect;
my $direct = connect_db($node, 'postgres');
$direct->do(q{SELECT inbox_send_batch('jobs', array_fill('1'::jsonb, '{5}'))});
for my $n (1 .. 5)
{
	$direct->do('DISCARD ALL');
	my ($r) = $direct->selectrow_array(q{SELECT receipt FROM inbox_claim('jobs')});
	$direct->do('DISCARD ALL');
	is($direct->selectrow_array(q{SELECT inbox_settle('jobs', ?)}, undef, $r), 'ok', "DISCARD ALL between calls, $n");
}

$_->disconnect for $app, $outsider, $producer, $direct;
$pooler->kill_kill;
undef $pooler;
$node->stop('fast');
done_testing();
