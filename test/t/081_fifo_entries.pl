# Entries of what was settled stay in front of a group's head until a vacuum
# goes by, and once they are marked as dead nothing tells of them but the pages
# they fill.  A claim must not go to all of them: not in one large group, nor in
# several, nor behind an old snapshot.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use JSON::PP;
use Test::More;

my $node = new_node('entries', "inbox.reap_interval = '1h'", 'log_min_messages = warning', 'synchronous_commit = off');
my $db = connect_db($node);

$db->do($_) for q{CREATE EXTENSION inbox}, q{SELECT inbox_create('jobs', fifo => true, lease => '1 h')},
  q{CREATE PROCEDURE work_off(n int) LANGUAGE plpgsql AS $$ DECLARE r text; BEGIN
	FOR i IN 1 .. n LOOP
		SELECT receipt INTO STRICT r FROM inbox_claim('jobs');
		PERFORM inbox_settle('jobs', r);
		COMMIT;
	END LOOP; END $$};

# pages that a claim goes to, in a session that has made some before
sub pages
{
	my ($plan) = $db->selectrow_array(q{EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT receipt FROM inbox_claim('jobs')});
	my $node = decode_json($plan)->[0]{Plan};

	$db->do(q{SELECT inbox_settle('jobs', inbox_receipt(jobs)) FROM jobs WHERE locked_until IS NOT NULL});
	return $node->{'Shared Hit Blocks'} + $node->{'Shared Read Blocks'};
}

sub fill
{
	my ($rows, $key) = @_;

	$db->do('TRUNCATE jobs');
	$db->do(qq{INSERT INTO jobs (payload, group_key, due_at)
		SELECT '1', $key, now() - interval '1 h' + n * interval '1 ms' FROM generate_series(1, $rows) n});
	return;
}

sub flat
{
	my ($cycles, $name) = @_;

	$db->do('CALL work_off(50)');
	my $before = pages();
	$db->do("CALL work_off($cycles)");
	# what is remembered becomes too old after a second, again and again
	my ($after) = sort { $a <=> $b } map { pages() } 1 .. 10;
	cmp_ok($after, '<', 60, "$name: a claim after $cycles settlements goes to few pages");
	note("$before pages, then $after");
	return;
}

fill(8000, q{'g'});
flat(6000, 'one group');
fill(12000, q{'g' || n % 5});
flat(10000, 'five groups');
fill(4000, q{'g'});
my $old = connect_db($node);
$old->begin_work;
$old->do('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ');
$old->do('SELECT 1');
flat(3000, 'one group behind an old snapshot');
$old->rollback;

$node->stop;
done_testing();
