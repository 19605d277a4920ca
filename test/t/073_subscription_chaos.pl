# Exactly-once effects: processes of subscriptions die at random, the server is
# stopped immediately five times, handlers fail, and at the end the table of
# effects equals the messages.  INBOX_SECONDS lengthens each of the lives.

use strict;
use warnings;
use lib 't', 'test/t';
use InboxTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $seconds = $ENV{INBOX_SECONDS} // 1.5;
my $seed = $ENV{INBOX_SEED} // int(rand(1e9));
srand($seed);
note("INBOX_SEED=$seed");

my $node = new_node('chaos', 'inbox.max_subscription_workers = 6');

# one queue plain, one that is written by SQL, one by key
$node->safe_psql('postgres', q{
	CREATE EXTENSION inbox;
	CREATE TABLE effect (queue text, n int);
	CREATE TABLE sent (queue text, n int);
	CREATE TABLE balance (k int PRIMARY KEY, n int NOT NULL);
	INSERT INTO balance SELECT k, 0 FROM generate_series(0, 4) k;
	CREATE TABLE later (queue text, n int, UNIQUE (queue, n) DEFERRABLE INITIALLY DEFERRED);
	CREATE FUNCTION handle(d inbox_delivery) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		m int = (d.payload->>'n')::int;
		q text = d.payload->>'q';
	BEGIN
		INSERT INTO effect VALUES (q, m);
		INSERT INTO later VALUES (q, m);
		-- rows that handlers of one transaction lock in any order
		UPDATE balance SET n = n + 1 WHERE k = (m * 7) % 5;
		-- the first of them go well, and so without a lease
		IF m <= 1500 THEN RETURN; END IF;
		IF m % 50 = 0 THEN PERFORM pg_sleep(0.05); END IF;
		IF random() < 0.02 THEN RAISE EXCEPTION 'bad luck'; END IF;
		IF random() < 0.01 THEN INSERT INTO later VALUES (q, m); END IF;
	END $$;
	CREATE FUNCTION send(q text, n int) RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		last int = (SELECT coalesce(max(s.n), 0) FROM sent s WHERE queue = q);
	BEGIN
		EXECUTE format('INSERT INTO %I (payload, partition_key) SELECT jsonb_build_object(''q'', $1, ''n'', g), g %% 20 FROM generate_series($2, $3) g', q) USING q, last + 1, last + n;
		INSERT INTO sent SELECT q, g FROM generate_series(last + 1, last + n) g;
	END $$;
});
for my $queue ('direct', 'sql', 'keyed')
{
	$node->safe_psql('postgres', "SELECT inbox_create('$queue', lease => '1 s', backoff => '0 s')");
	$node->safe_psql('postgres', q{CREATE FUNCTION same() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
		CREATE TRIGGER same BEFORE UPDATE ON sql FOR EACH ROW EXECUTE FUNCTION same()}) if $queue eq 'sql';
	$node->safe_psql('postgres', "SELECT inbox_subscribe('$queue', '$queue', 'handle(inbox_delivery)', workers => 2, by_key => " . ($queue eq 'keyed' ? 'true' : 'false') . ')');
}

my $kills = 0;
for my $life (1 .. 6)
{
	my $end = time() + $seconds;
	my $messages = $life == 1 ? 1500 : 300;

	$node->safe_psql('postgres', "SELECT send(queue, $messages) FROM unnest('{direct,sql,keyed}'::text[]) queue");
	# so many, however long the machine takes for each
	while (time() < $end || $kills < 2 * $life)
	{
		my $how = rand() < 0.7 ? 'terminate' : 'cancel';
		$kills += $node->safe_psql('postgres', "SELECT count(pg_${how}_backend(pid)) FROM (SELECT pid FROM pg_stat_activity WHERE backend_type IN ('inbox subscription', 'inbox keeper') ORDER BY random() LIMIT 1) p");
		usleep(int(rand(300_000)));
	}
	last if $life == 6;
	$node->stop('immediate');
	$node->start;
}
cmp_ok($kills, '>=', 12, 'processes were told to end');

ok($node->poll_query_until('postgres', 'SELECT (SELECT count(*) FROM direct) + (SELECT count(*) FROM sql) + (SELECT count(*) FROM keyed) = 0'), 'all queues are empty in the end')
	or diag($node->safe_psql('postgres', 'SELECT * FROM inbox_subscriptions'), $node->safe_psql('postgres', 'SELECT id, attempt, locked_until, due_at, now() FROM direct LIMIT 5'));
is($node->safe_psql('postgres', '(TABLE sent EXCEPT ALL TABLE effect) UNION ALL (TABLE effect EXCEPT ALL TABLE sent)'), '', 'the effects equal the messages');
is($node->safe_psql('postgres', '(TABLE sent EXCEPT ALL TABLE later) UNION ALL (TABLE later EXCEPT ALL TABLE sent)'), '', 'those with a deferred constraint, too');
is($node->safe_psql('postgres', 'SELECT sum(n) - (SELECT count(*) FROM sent) FROM balance'), 0, 'and nothing was counted twice');
is($node->safe_psql('postgres', 'SELECT count(*) FROM sent'), 9000, 'of all that was sent');

$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'nothing crashed by itself');
done_testing();
