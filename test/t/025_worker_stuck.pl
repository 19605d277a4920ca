# A trigger without end on one queue's dead letters does not keep the worker
# from the other queues.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('stuck', "inbox.reap_timeout = '1s'");

# a message that has had its only delivery
sub spent_queue
{
	my ($name, $sql) = @_;
	$node->safe_psql('postgres', qq{
		SELECT inbox_create('$name', lease => '1 s', max_attempts => 1);
		$sql;
		INSERT INTO $name(payload) VALUES ('1');
		SELECT FROM inbox_claim('$name')});
	return;
}

$node->safe_psql('postgres', q{
	CREATE EXTENSION inbox;
	CREATE FUNCTION forever() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN PERFORM pg_sleep(86400); RETURN NEW; END $$});
isnt(wait_worker($node, 'postgres'), '', 'a worker is there');
spent_queue('stuck', 'CREATE TRIGGER t BEFORE INSERT ON stuck_dead FOR EACH ROW EXECUTE FUNCTION forever()');
ok($node->poll_query_until('postgres',
	"SELECT last_error LIKE 'canceling statement due to%' FROM inbox_workers WHERE database = 'postgres'"),
	'a trigger without end is broken off');
spent_queue('behind', '');
ok($node->poll_query_until('postgres', 'SELECT count(*) = 1 FROM behind_dead'), 'the other queues get their turn');
is($node->safe_psql('postgres', 'SELECT count(*) FROM stuck'), 1, 'nothing of the pass has stayed');

$node->stop;
done_testing();
