# The totals of queues: they add up under load, begin anew with the server,
# and there are none where there is no room.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('totals', 'inbox.max_queues = 2');

sub sql { return $node->safe_psql('postgres', $_[0]); }

sub totals
{
	my ($queue) = @_;
	return sql(qq{SELECT sent, claimed, done, dropped, retried, released, settled_dead, buried, extended
		FROM inbox_queues WHERE queue = '$queue'});
}

# Each transaction writes down what it has done, so that what is rolled back is
# in neither.
sql(q{
	CREATE EXTENSION inbox;
	SELECT inbox_create('jobs', lease => '1 h', max_attempts => 3);
	CREATE TABLE done (what text, n bigint);
	CREATE FUNCTION work(seed int) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		outcomes text[] = '{done,drop,retry,release,dead}';
		r record;
		v text;
	BEGIN
		INSERT INTO done SELECT 'sent', count(*)
		FROM inbox_send_batch('jobs', array_fill('1'::jsonb, ARRAY[1 + seed % 3]));
		FOR r IN SELECT * FROM inbox_claim('jobs', 1 + seed % 4) LOOP
			INSERT INTO done VALUES ('claimed', 1);
			BEGIN
				IF seed % 7 = 0 THEN
					INSERT INTO done SELECT 'extended', 1 FROM inbox_extend('jobs', r.receipt) WHERE verdict = 'ok';
				END IF;
				v = inbox_settle('jobs', r.receipt, outcomes[1 + seed % 5], delay => '0');
				INSERT INTO done VALUES (CASE v WHEN 'dead' THEN v ELSE outcomes[1 + seed % 5] END, 1);
				IF seed % 11 = 0 THEN RAISE division_by_zero; END IF;
			EXCEPTION WHEN division_by_zero THEN NULL;
			END;
			seed = seed + 1;
		END LOOP;
	END $$});
$node->pgbench('-n -c 6 -j 2 -t 150', 0, [qr{processed: 900/900}], [], 'load', {
	'043_totals' => q{
\set seed random(1, 1000000)
\set end random(1, 5)
BEGIN;
SELECT work(:seed);
\if :end = 1
ROLLBACK;
\else
COMMIT;
\endif
}});
my $expected = sql(q{
	SELECT string_agg((SELECT coalesce(sum(n), 0) FROM done WHERE what = k)::text, '|' ORDER BY i)
	FROM unnest('{sent,claimed,done,drop,retry,release,dead,dead,extended}'::text[]) WITH ORDINALITY u(k, i)});
unlike($expected, qr/\b0\b/, 'something of each kind was done');
is(totals('public.jobs'), $expected, 'the totals are the sums of what was committed');
is(sql(q{SELECT sent - done - dropped - buried FROM inbox_queues WHERE queue = 'public.jobs'}),
	sql(q{SELECT count(*) FROM jobs}), 'and what was sent and not settled is there');
is(sql(q{SELECT walk_taken >= claimed AND walk_entries >= walk_taken + walk_dead_entries AND walks > 0
		FROM inbox_queues WHERE queue = 'public.jobs'}), 't', 'walks are counted, also those rolled back');

# --- room

sql(q{SELECT inbox_create('second'); SELECT inbox_create('third');
	INSERT INTO third(payload) SELECT '1' FROM generate_series(1, 3); SELECT count(*) FROM inbox_claim('third')});
is(sql(q{SELECT queue, sent, send_rate, stats_since, position_falls, uses_hints, no_hints_because, ready
		FROM inbox_queues WHERE queue = 'public.third'}),
	'public.third|||||f|inbox.max_queues is too low|2', 'a queue too many has none, and says why');

# --- a restart

is(sql(q{SELECT stats_since < pg_postmaster_start_time() FROM inbox_queues WHERE queue = 'public.jobs'}), 'f',
	'counted since the server is up');
$node->restart;
is(sql(q{SELECT sent, claimed, walks, send_rate, stats_since >= pg_postmaster_start_time()
		FROM inbox_queues WHERE queue = 'public.jobs'}), '0|0|0|0|t', 'a restart begins anew');
sql(q{SELECT inbox_send('jobs', '1')});
is(sql(q{SELECT sent FROM inbox_queues WHERE queue = 'public.jobs'}), 1, 'and counts');

# --- a queue that is not committed yet keeps its place

sql(q{DROP TABLE third; SELECT inbox_drop('second'); CREATE TABLE late (id bigint PRIMARY KEY, locked_until timestamptz)});
ok(ticks_on($node, 'postgres', 'postgres'), 'the place of a dropped queue is free');
my $open = connect_db($node, 'postgres');
$open->begin_work;
$open->do(q{SELECT inbox_create('early', lease => '1 h')});
$open->do(q{INSERT INTO early(payload) SELECT '1' FROM generate_series(1, 5)});
$open->do(q{SELECT inbox_claim('early', 2)});
ok(ticks_on($node, 'postgres', 'postgres'), 'while the worker goes by');
sql(q{SELECT inbox_adopt('late', triggers => false)});
is(sql(q{SELECT no_hints_because FROM inbox_queues WHERE queue = 'public.late'}),
	'inbox.max_queues is too low', 'nobody else gets it');
$open->commit;
is(sql(q{SELECT sent, claimed, uses_hints FROM inbox_queues WHERE queue = 'public.early'}), '5|2|t',
	'and what it counted is there');
is($open->selectrow_array(q{SELECT count(*) FROM inbox_claim('early', 5)}), 3, 'as are its messages');
$open->disconnect;
sql(q{SELECT inbox_drop('early')});
ok($node->poll_query_until('postgres', q{SELECT uses_hints FROM inbox_queues WHERE queue = 'public.late'}),
	'a place that is free goes to the next');

done_testing();
