# DROP EXTENSION leaves tables and their registration; the extension created
# again takes the same queues on.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use QueueZoo;
use Test::More;

my $node = new_node('dropped');

make_zoo($node, 'zoo');
my $picture = picture($node, 'zoo');
my $leases = leases($node, 'zoo');

# --- the user's own objects on ours

my %dependent = (
	'a view on a view' => [
		'CREATE VIEW mine AS SELECT database, state FROM inbox_functions.inbox_workers',
		'view mine', 'DROP VIEW mine', 'SELECT count(*) = 1 FROM mine' ],
	'a view with a function' => [
		q{CREATE VIEW mine AS SELECT id, inbox_functions.inbox_receipt(j) FROM app.jobs j},
		'view mine', 'DROP VIEW mine', 'SELECT count(*) > 1 FROM mine' ],
	'a column of a type' => [
		'CREATE TABLE mine (d inbox_functions.inbox_delivery)',
		'column d of table mine', 'DROP TABLE mine', 'SELECT count(*) = 0 FROM mine' ]);

for my $name (sort keys %dependent)
{
	my ($make, $detail, $drop, $use) = @{ $dependent{$name} };

	$node->safe_psql('zoo', $make);
	my ($state, $text) = sqlstate($node, 'zoo', 'DROP EXTENSION inbox');
	is($state, '2BP01', "$name: DROP EXTENSION is refused");
	like($text, qr/DETAIL:  $detail depends on/, "$name: and names it");
	is($node->safe_psql('zoo', $use), 't', "$name: it still works");
	$node->safe_psql('zoo', $drop);
}

# --- gone

my $worker = wait_worker($node, 'zoo');
my $session = connect_db($node, 'zoo');
$session->do(q{SELECT inbox_functions.inbox_claim('app.jobs', 0)});
$node->safe_psql('zoo', 'DROP EXTENSION inbox');
ok(wait_pid_gone($node, $worker), 'the worker has left');
is(picture($node, 'zoo'), $picture, 'labels and rows are as before');
is( $node->safe_psql('zoo', q{INSERT INTO app.jobs (payload) VALUES ('"meanwhile"') RETURNING id > 70}),
	't', 'the tables are ordinary tables');
$node->safe_psql('zoo', q{DELETE FROM app.jobs WHERE payload = '"meanwhile"'});
eval { $session->do(q{SELECT inbox_functions.inbox_claim('app.jobs')}) };
is($session->state, '42883', 'the functions are gone');

# --- back, elsewhere

$node->safe_psql('zoo', 'DROP SCHEMA inbox_functions; CREATE SCHEMA inbox_functions; CREATE EXTENSION inbox SCHEMA inbox_functions');
is(picture($node, 'zoo'), $picture, 'created again: nothing to repair');
is($session->selectrow_array(q{SELECT count(*) FROM inbox_functions.inbox_claim('app.jobs', 0)}), 0,
	'a session from before goes on');
$session->disconnect;
isnt(wait_worker($node, 'zoo'), '', 'a worker comes');
zoo_is_alive($node, 'zoo', $leases, 1);

# --- all or nothing

$node->safe_psql('zoo', 'BEGIN; DROP EXTENSION inbox; ROLLBACK');
is(picture($node, 'zoo') =~ tr/\n//, $picture =~ tr/\n//, 'rolled back: all is there');
isnt(wait_worker($node, 'zoo'), '', 'with its worker');
$node->safe_psql('zoo', 'BEGIN; DROP EXTENSION inbox; CREATE EXTENSION inbox; COMMIT');
is($node->safe_psql('zoo', q{SELECT inbox_send('app.kept', '1') IS NOT NULL}), 't', 'dropped and created at once');
isnt(wait_worker($node, 'zoo'), '', 'there is a worker');

# --- the triggers went with it

my $lost = q{SELECT count(*) FROM pg_trigger WHERE tgrelid = 'app.kept'::regclass AND NOT tgisinternal};
is($node->safe_psql('zoo', $lost), '0', 'no triggers');
$node->safe_psql('zoo', q{SELECT inbox_alter('app.kept')});
is($node->safe_psql('zoo', $lost), '2', 'inbox_alter makes them anew');

$node->stop('fast');
done_testing();
