# Parts of a database: one queue, rows without their table, a schema.  And
# what a restore without the library, or without a queue's dead letters,
# leaves to do.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('parts');
my $folder = PostgreSQL::Test::Utils::tempdir();
my @psql = ('psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-o', "$folder/out");

sub dump_to { $node->command_ok([ 'pg_dump', '-f', "$folder/$_[0]", @_[ 1 .. $#_ ], 'source' ], "dumped: @_"); return; }

sub target
{
	my ($db, $sql) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql($db, "CREATE EXTENSION inbox;" . ($sql // ''));
	isnt(wait_worker($node, $db), '', "$db: has a worker");
	return;
}

sub restore
{
	my ($db, $file) = @_;
	$node->command_ok([ @psql, '-d', $db, '-f', "$folder/$file" ], "$file: restored into $db");
	return;
}

my $states = q{SELECT count(*), count(*) FILTER (WHERE locked_until > now()), count(*) FILTER (WHERE due_at > now()),
	count(*) FILTER (WHERE last_error IS NOT NULL), sum(attempt) FROM jobs};

$node->safe_psql('postgres', 'CREATE DATABASE source');
$node->safe_psql('source', q{
	CREATE EXTENSION inbox;
	SELECT inbox_create('jobs', lease => '1 h', max_attempts => 2);
	SELECT inbox_create('other');
	SELECT inbox_send_batch('jobs', array_fill('"x"'::jsonb, '{40}'));
	SELECT inbox_settle_batch('jobs', array_agg(receipt), '{dead}') FROM inbox_claim('jobs', 10);
	SELECT inbox_settle_batch('jobs', array_agg(receipt), '{retry}', '{1 day}', '{no}') FROM inbox_claim('jobs', 10);
	SELECT inbox_claim('jobs', 10)});
my $before = $node->safe_psql('source', $states);
my $receipts = $node->safe_psql('source', q{
	SELECT string_agg(inbox_receipt(jobs), ',') FROM jobs WHERE locked_until IS NOT NULL});
is($before, '30|10|10|10|50', 'the source');

sub same_and_alive
{
	my ($db, $queue) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($node->safe_psql($db, $states =~ s/jobs/$queue/r), $before, "$db: the same messages");
	is( $node->safe_psql($db, qq{SELECT count(*), min(verdict), max(verdict)
			FROM inbox_settle_batch('$queue', string_to_array('$receipts', ','))}),
		'10|ok|ok', "$db: receipts of live leases settle");
	is($node->safe_psql($db, "SELECT inbox_send('$queue', '1')"), 41, "$db: ids go on");
	return;
}

# --- one queue with its dead letters, into a database that has others

target('pair', q{SELECT inbox_create('mine', max_attempts => 1)});
dump_to('pair', '-t', 'jobs', '-t', 'jobs_dead');
restore('pair', 'pair');
same_and_alive('pair', 'jobs');
is($node->safe_psql('pair', q{SELECT inbox_redrive('jobs')}), 10, 'pair: dead letters come back');
ok( $node->poll_query_until('pair', q{SELECT queues = 2 FROM inbox_workers WHERE database = 'pair'}),
	'pair: the worker has found it');
$node->safe_psql('pair', q{UPDATE jobs SET attempt = 3, locked_until = now() WHERE id = 1});
ok($node->poll_query_until('pair', 'SELECT count(*) = 1 FROM jobs_dead'), 'pair: and buries there');

# --- the queue alone: it works, but for what needs the dead letters

target('alone');
dump_to('alone', '-t', 'jobs');
restore('alone', 'alone');
same_and_alive('alone', 'jobs');
my ($state, $text) = sqlstate($node, 'alone',
	q{SELECT inbox_settle('jobs', receipt, 'dead') FROM inbox_claim('jobs')});
is($state, '55000', 'alone: a bury is refused');
like($text, qr/dead-letter table does not exist.*HINT:.*inbox_alter/s, 'alone: with the reason and the cure');
$node->safe_psql('alone', q{UPDATE jobs SET attempt = 3, locked_until = NULL WHERE id = 40});
is($node->safe_psql('alone', q{SELECT count(*) FROM inbox_claim('jobs', 100) WHERE id = '40'}),
	0, 'alone: a spent message stays, and is not handed out');
# its dead letters may follow, into a session that knows the queue already
my $db = connect_db($node, 'alone');
eval { $db->do(q{SELECT inbox_settle('jobs', receipt, 'dead') FROM inbox_claim('jobs', 1)}) };
dump_to('dead', '-t', 'jobs_dead');
restore('alone', 'dead');
ok($node->poll_query_until('alone', 'SELECT count(*) = 1 FROM jobs_dead WHERE id = 40'),
	'alone: the dead letters have followed, and the spent message is buried');
is($db->selectrow_array(q{SELECT inbox_redrive('jobs')}), 11, 'alone: they all come back');
$db->disconnect;

# --- pg_restore -t gives the table and its label, not indexes

target('few');
$node->command_ok([ 'pg_dump', '-Fc', '-f', "$folder/all", 'source' ], 'dumped: all');
$node->command_ok([ 'pg_restore', '--exit-on-error', '-t', 'jobs', '-d', 'few', "$folder/all" ],
	'pg_restore -t jobs');
is($node->safe_psql('few', $states), $before, 'few: the same messages');
is( $node->safe_psql('few', qq{SELECT verdict, count(*)
		FROM inbox_settle_batch('jobs', string_to_array('$receipts', ',')) GROUP BY 1}),
	'ok|10', 'few: a queue even so');
is((sqlstate($node, 'few', q{SELECT inbox_send('jobs', '1')}))[0], '23502', 'few: but without the sequence of its ids');

# --- beside the tables it was taken from: one label is in one place

$node->safe_psql('few', q{
	ALTER TABLE jobs RENAME TO old;
	SELECT inbox_pause('old')});
my (undef, undef, $refused) = $node->psql('few', slurp_file("$folder/pair"), on_error_stop => 0);
like($refused, qr/ERROR:  "jobs" cannot have the inbox label of "old".*HINT: .*inbox_forget\('public\.old'\)/s,
	'beside: the label is refused, with the cure');
is((sqlstate($node, 'few', q{SELECT inbox_claim('jobs')}))[0], 'IB002', 'beside: so this is a plain table');
is($node->safe_psql('few', $states), $before, 'beside: with all rows');
$node->safe_psql('few', q{SELECT inbox_forget('old'); DROP TABLE jobs, jobs_dead});
$node->command_ok([ @psql, '-d', 'few', '-f', "$folder/pair" ], 'beside: the other one forgotten, it is restored');
is( $node->safe_psql('few', q{SELECT inbox_claim('jobs'); SELECT inbox_redrive('jobs')}) =~ s/.*\n//sr,
	10, 'beside: as a queue');

# --- rows alone, into a queue of the same shape

target('rows', q{SELECT inbox_create('jobs', lease => '5 s', max_attempts => 2); SELECT inbox_create('other')});
dump_to('rows', '--data-only');
restore('rows', 'rows');
is($node->safe_psql('rows', q{SELECT count(*) FROM jobs_dead}), 10, 'rows: dead letters');
same_and_alive('rows', 'jobs');
is($node->safe_psql('rows', q{SELECT inbox_redrive('jobs')}), 10, 'rows: they come back');
is($node->safe_psql('rows', q{SELECT label::jsonb ->> 'lease' FROM pg_seclabels WHERE objname = 'public.jobs' OR objname = 'jobs' AND objsubid = 0}),
	5, 'rows: settings are those of the place');

# --- another schema: the queue's, the extension's

target('schemas');
restore('schemas', 'pair');
my $session = connect_db($node, 'schemas');
$session->do(q{SELECT inbox_claim('jobs', 0)});
$node->safe_psql('schemas', q{
	ALTER SCHEMA public RENAME TO "my Jobs";
	CREATE SCHEMA public;
	ALTER TABLE "my Jobs".jobs_dead SET SCHEMA public});
$session->do(q{SET search_path = "my Jobs"});
is( $session->selectrow_array(q{SELECT count(*) FROM inbox_claim('jobs', 1)}), 1,
	'schemas: a session that knows the queue follows the rename');
is( $session->selectrow_array(q{SELECT inbox_settle('jobs', inbox_receipt(jobs), 'release') FROM jobs
		WHERE locked_until IS NOT NULL AND id > 30 LIMIT 1}),
	'ok', 'schemas: and settles');
$session->disconnect;
$node->safe_psql('postgres', q{ALTER DATABASE schemas SET search_path = "my Jobs", public});
same_and_alive('schemas', 'jobs');
is($node->safe_psql('schemas', q{SELECT inbox_redrive('jobs')}), 10, 'schemas: dead letters come back');
$node->command_ok([ 'pg_dump', '-f', "$folder/schemas", 'schemas' ], 'dumped: schemas');
$node->safe_psql('postgres', 'CREATE DATABASE again');
restore('again', 'schemas');
is( $node->safe_psql('again', q{SET search_path = "my Jobs"; SELECT inbox_send('"my Jobs".jobs', '2')}),
	'42', 'and on to the next');
($state, $text) = sqlstate($node, 'again', q{ALTER EXTENSION inbox SET SCHEMA public});
is($state, '0A000', 'the extension itself stays where it is');

# --- a label needs the library

my $plain = PostgreSQL::Test::Cluster->new('plain');
$plain->init;
$plain->start;
$plain->safe_psql('postgres', 'CREATE EXTENSION inbox');
my ($rc, $out, $err) = $plain->psql('postgres', slurp_file("$folder/pair"));
like($err, qr/security label provider "inbox" is not loaded/,
	'not preloaded, and a dump without the extension: the server says what is missing');
$plain->safe_psql('postgres', 'DROP TABLE IF EXISTS jobs, jobs_dead');
is($plain->psql('postgres', "LOAD 'inbox';" . slurp_file("$folder/pair")), 0, 'LOAD cures it');
is( $plain->safe_psql('postgres', qq{SELECT verdict, count(*)
		FROM inbox_settle_batch('jobs', string_to_array('$receipts', ',')) GROUP BY 1}),
	'ok|10', 'and receipts settle');

$_->stop('fast') for $node, $plain;
done_testing();
