# The hints over the life of tables, databases and servers: whatever happens
# to them, a claim finds what is claimable at once.  The worker's own looking
# for rows that the hints have missed is switched off, but where a part needs
# the worker.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('life', "inbox.reap_interval = '1h'", 'inbox.max_queues = 4', 'log_min_messages = log');
my $db;

sub connect_again { $db = connect_db($node); return }
sub ids { my ($sql) = @_; return join ' ', @{ $db->selectcol_arrayref($sql) } }
sub claim { my ($queue, $n) = @_; return ids("SELECT id FROM inbox_claim('$queue', @{[ $n // 10 ]}, '1 h')") }
sub release
{
	my ($queue, @ids) = @_;

	$db->do("SELECT inbox_settle('$queue', inbox_receipt(q), 'release') FROM $queue q WHERE id = ANY (?)",
		undef, \@ids);
	return;
}

# A new worker looks around at once.
sub look_around
{
	my $pid = wait_worker($node, 'postgres');

	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
	return $node->poll_query_until('postgres', qq{
		SELECT count(*) = 1 FROM inbox_workers
		WHERE database = 'postgres' AND pid <> $pid AND last_tick >= started_at
		  AND state = 'idle'});
}

sub make
{
	my ($queue) = @_;

	$db->do("SELECT inbox_create('$queue')");
	$db->do("INSERT INTO $queue (id, payload, due_at)
		SELECT i, '1', now() - make_interval(secs => 100 - i) FROM generate_series(1, 4) i");
	return;
}

connect_again();
$db->do('CREATE EXTENSION inbox');

# --- another shape of the table

make('shape');
is(claim('shape', 3), '1 2 3', 'claimed');
$db->do('DROP INDEX shape_priority_due_at_id_idx');
release('shape', 1);
$db->do('CREATE INDEX ON shape (priority, due_at, id)');
is(claim('shape'), '1 4', 'released while there was no index');
release('shape', 2);
$db->do('ALTER TABLE shape DROP COLUMN due_at');
$db->do('CREATE INDEX ON shape (priority, id)');
is(claim('shape'), '2', 'a column of the order dropped');
release('shape', 1, 2, 3, 4);
is(claim('shape'), '1 2 3 4', 'claimed');
$db->do('ALTER TABLE shape ALTER id TYPE bigint USING 10 - id');
$db->do('UPDATE shape SET locked_until = NULL WHERE id = 6');
is(claim('shape'), '6', 'a column of the order rewritten');
$db->do(q{INSERT INTO shape (id, payload) VALUES (1, '1')});
is(claim('shape'), '1', 'a row in front of them');
$db->do('DROP TABLE shape');

# --- who only looks passes nothing that can be claimed

make('looked');
$db->do(q{CALL inbox_wait('looked', '1 min')}) for 1 .. 2;
is(claim('looked', 3), '1 2 3', 'what a look has found is there');
$db->do(q{CALL inbox_wait('looked', '1 min')});
is(claim('looked'), '4', 'and the rest');
$db->do('DROP TABLE looked');

# --- the lowest and the highest priority

$db->do('CREATE TABLE ends (id bigint PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz,
	priority bigint NOT NULL)');
$db->do('CREATE INDEX ON ends (priority, id)');
$db->do(q{SELECT inbox_adopt('ends', claimed_at => 'claimed_at', priority => 'priority')});
$db->do(q{INSERT INTO ends (id, priority) VALUES (1, 9223372036854775807), (2, -9223372036854775808), (3, 0)});
$db->do(q{SET statement_timeout = '60s'});
is(claim('ends'), '2 3 1', 'from end to end');
is(claim('ends'), '', 'and nothing more');
release('ends', 1, 2);
is(claim('ends'), '2 1', 'released at both ends');
$db->do('DROP TABLE ends');

# --- more places are opened than there is room for: some of what is known is given up

$db->do(q{CREATE TABLE crammed (id bigint PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz)});
$db->do(q{SELECT inbox_adopt('crammed', claimed_at => 'claimed_at')});
$db->do(q{INSERT INTO crammed SELECT i FROM generate_series(1, 1000) i});
$db->do(q{SELECT count(*) FROM inbox_claim('crammed', 1000, '1 h')});
my $falls = q{SELECT position_falls FROM inbox_queues WHERE queue = 'public.crammed'};
my $before = $db->selectrow_array($falls);
$db->do("UPDATE crammed SET locked_until = NULL WHERE id = $_ * 7") for 1 .. 100;
cmp_ok($db->selectrow_array($falls), '>', $before, 'it is counted');
is($db->selectrow_array(q{SELECT count(*) FROM inbox_claim('crammed', 1000)}), 100, 'and hides nothing');
$db->do('DROP TABLE crammed');
ok(look_around(), 'the worker has looked around');

# --- a queue that is being created is nobody else's

$db->begin_work;
make('slow');
is(claim('slow', 2), '1 2', 'claimed where it was made');
ok(look_around(), 'the worker has looked around meanwhile');
$db->commit;
my $other = connect_db($node);
for my $i (1 .. 3)
{
	$other->do("SELECT inbox_create('other$i')");
}
is(join(' ', @{ $other->selectcol_arrayref(q{SELECT id FROM inbox_claim('slow', 10)}) }), '3 4',
	'another session claims the rest');
release('slow', 1);
is(join(' ', @{ $other->selectcol_arrayref(q{SELECT id FROM inbox_claim('slow', 10)}) }), '1',
	'and learns what the first one releases');

# --- more queues than fit

my $log = -s $node->logfile;
make('fifth');
is(claim('fifth', 2), '1 2', 'a queue without hints');
release('fifth', 1);
is(claim('fifth'), '1 3 4', 'walks from the left');
make('sixth');
is(claim('sixth'), '1 2 3 4', 'so does another one');
my @said = slurp_file($node->logfile, $log) =~ /no room for the hints of queue/g;
is(scalar @said, 1, 'which is said once');

# a place becomes free: whoever was refused one must not stay silent
$db->do('DROP TABLE other1');
ok(look_around(), 'the worker has looked around');
$other->do(q{SELECT id FROM inbox_claim('fifth', 10)});
release('fifth', 2);
is(join(' ', @{ $other->selectcol_arrayref(q{SELECT id FROM inbox_claim('fifth', 10)}) }), '2',
	'told by a session that had been refused a place');
$other->disconnect;

# --- a database that is gone leaves no places behind

$db->do("DROP TABLE $_") for qw(other2 other3 slow fifth sixth);
$node->restart;
connect_again();
for my $i (1 .. 3)
{
	$log = -s $node->logfile;
	$db->do('CREATE DATABASE gone');
	my $there = connect_db($node, 'gone');
	$there->do('CREATE EXTENSION inbox');
	$there->do("SELECT inbox_create('q$_'), inbox_send('q$_', '1')") for 1 .. 2;
	$there->do("SELECT inbox_claim('q$_')") for 1 .. 2;
	$there->disconnect;
	$db->do('DROP DATABASE gone');
	unlike(slurp_file($node->logfile, $log), qr/no room for the hints/, "room in database $i");
}

# --- a server that falls forgets the hints, not the rows

# The second lease has to outlive the restart, however long that takes here.
my $until;
for my $lease (1, 5, 25, 125)
{
	make('crash');
	is(claim('crash', 2), '1 2', 'claimed');
	$db->do("UPDATE crash SET locked_until = clock_timestamp() + interval '$lease s' WHERE id = 2");
	$db->begin_work;
	is(claim('crash', 1), '3', 'claimed in an open transaction');
	$node->stop('immediate');
	$node->start;
	eval { $db->disconnect };
	connect_again();
	my $got = claim('crash', 1);
	$until = $db->selectrow_array(q{SELECT locked_until FROM crash WHERE id = 2 AND locked_until > clock_timestamp()
		AND locked_until < clock_timestamp() + interval '10 min'});
	is($got, '3', 'the open claim is undone') if $until;
	last if $until;
	$db->do('DROP TABLE crash');
}
ok($until, 'a lease from before the crash is among those of after it');
$db->do(q{SELECT pg_sleep(greatest(0, extract(epoch FROM locked_until - clock_timestamp()) + 0.01)) FROM crash WHERE id = 2});
is(claim('crash', 1), '2', 'a lease of before the crash ends');
release('crash', 1);
is(claim('crash', 1), '1', 'a receipt of before the crash is released');

$node->stop;
done_testing();
