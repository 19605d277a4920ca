# QueueZoo: a database with queues of every kind and messages in every state,
# for tests that carry a database elsewhere and look at what has arrived.

package QueueZoo;

use strict;
use warnings;
use Exporter 'import';
use InboxTest;
use Test::More;

our @EXPORT = qw(make_zoo in_zoo picture leases zoo_is_alive);

# The names that a table came to the world with are not all that it may have.
my $odd = q{"Odd ""Schema"" \;'%s"."We're ""odd"" $1"};
my $odd_dead = q{"Odd ""Schema"" \;'%s"."dead % letters"};
my $odd_text = $odd =~ s/'/''/gr;
my $odd_dead_text = $odd_dead =~ s/'/''/gr;

# Every queue, as text for SQL.
my %text = ((map { $_ => "'app.$_'" } qw(jobs after kept paused grouped parts)), odd => "'$odd_text'");
my $all = join ', ', map { $text{$_} } sort keys %text;
my $without_parts = join ', ', map { $text{$_} } grep { $_ ne 'parts' } sort keys %text;
my $burying = join ', ', @text{qw(jobs after kept grouped odd)};

my $tables = qq{
	CREATE SCHEMA app;
	SET search_path = app, inbox_functions, public;

	-- with what a user may add
	SELECT inbox_create('app.jobs', lease => '1 h', max_attempts => 3,
		backoff => '1.5 s', backoff_max => '5 min 0.25 s');
	ALTER TABLE jobs ADD COLUMN tenant int NOT NULL DEFAULT 7;
	ALTER TABLE jobs_dead ADD COLUMN tenant int;

	-- renamed all over
	SELECT inbox_create('app.before', lease => '1 h', max_attempts => 2);
	ALTER TABLE before RENAME COLUMN payload TO body;
	ALTER TABLE before RENAME COLUMN locked_until TO "busy till";
	ALTER TABLE before RENAME TO after;
	ALTER TABLE before_dead RENAME COLUMN payload TO body;
	ALTER TABLE before_dead RENAME COLUMN cause TO why;
	ALTER TABLE before_dead RENAME TO graveyard;
	CREATE SCHEMA elsewhere;
	ALTER TABLE graveyard SET SCHEMA elsewhere;

	-- finished messages stay, dead ones go to another queue
	SELECT inbox_create('app.kept', lease => '1 h', retention => '30 days',
		max_attempts => 2, dead_letter => 'app.jobs');
	SELECT inbox_create('app.paused', lease => '1 h');
	SELECT inbox_create('app.grouped', lease => '1 h', max_attempts => 2, dead_group => 'the dead');

	CREATE SCHEMA "Odd ""Schema"" \\;'%s";
	CREATE TABLE $odd (
		"Key!" uuid PRIMARY KEY DEFAULT gen_random_uuid(),
		"locked until" timestamptz, "SELECT" timestamptz, """n""" smallint DEFAULT 0,
		"pay load" json, "when" timestamptz DEFAULT now(), "done at" timestamptz);
	CREATE INDEX ON $odd ("when", "Key!") WHERE "done at" IS NULL;
	CREATE TABLE $odd_dead (LIKE $odd, rest jsonb);
	SELECT inbox_adopt($text{odd}, id => 'Key!', locked_until => 'locked until',
		claimed_at => 'SELECT', attempt => '"n"', payload => 'pay load', due_at => 'when',
		processed_at => 'done at', lease => '1 h', max_attempts => 2, retention => '7 days',
		dead_letter => '$odd_dead_text');

	-- partitioned, without claimed_at
	CREATE TABLE parts (id bigint PRIMARY KEY, locked_until timestamptz, body text)
		PARTITION BY RANGE (id);
	CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (100);
	CREATE TABLE parts_2 (body text, locked_until timestamptz, id bigint NOT NULL);
	ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM (100) TO (200);
	SELECT inbox_adopt('parts', payload => 'body', lease => '1 h');
};

# Ten in each state: finished or gone, waiting for a retry, dead, leased (half
# of these spent), delayed, ready.
my $messages = qq{
	SELECT inbox_send_batch(q, array_fill('{"a": "b"}'::jsonb, '{60}'))
		FROM unnest(ARRAY[$without_parts]) q;
	INSERT INTO parts SELECT i, NULL, 'part ' || i FROM generate_series(50, 149) i;
	SELECT inbox_send('jobs', '"dedup"', headers => '{"h": 1}', dedup_key => 'the one', priority => 5);

	CREATE TEMP TABLE l AS
		SELECT q, receipt, row_number() OVER (PARTITION BY q) AS n
		FROM unnest(ARRAY[$without_parts]) q, inbox_claim(q, 40);
	SELECT inbox_settle_batch(q, array_agg(receipt), '{done}') FROM l WHERE n <= 10 GROUP BY q;
	SELECT inbox_settle_batch(q, array_agg(receipt), '{retry}', '{1 day}', '{"it failed"}')
		FROM l WHERE n BETWEEN 11 AND 20 GROUP BY q;
	SELECT inbox_settle_batch(q, array_agg(receipt), '{dead}', errors => '{"no good"}')
		FROM l WHERE n BETWEEN 21 AND 30 AND q IN ($burying) GROUP BY q;
	SELECT inbox_claim('parts', 10);
	UPDATE jobs SET attempt = 4 WHERE id % 2 = 0 AND locked_until IS NOT NULL;
	UPDATE after SET attempt = 3 WHERE id % 2 = 0 AND "busy till" IS NOT NULL;
	SELECT inbox_send(q, '"later"', delay => '1 day')
		FROM unnest(ARRAY[$without_parts]) q, generate_series(1, 10);
	SELECT inbox_pause('paused');
};

# Labels and rows of every queue and dead-letter table.
my $picture = q{
	SELECT concat_ws(' ', objtype, objname, label) AS line FROM pg_seclabels WHERE provider = 'inbox'
	ORDER BY concat_ws(' ', objtype, objname, label) COLLATE "C";
	SELECT format('SELECT concat_ws('' '', %1$L, count(*), md5(string_agg(t::text, NULL ORDER BY t::text COLLATE "C"))) FROM %1$s t',
		l.objoid::regclass)
	FROM pg_seclabel l WHERE l.classoid = 'pg_class'::regclass AND l.objsubid = 0 AND l.provider = 'inbox'
	ORDER BY l.objoid::regclass::text COLLATE "C" \gexec
};

sub make_zoo
{
	my ($node, $db) = @_;

	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql($db, qq{
		CREATE SCHEMA inbox_functions;
		CREATE EXTENSION inbox SCHEMA inbox_functions;
		$tables $messages});
	return;
}

# Run SQL where names need no schema.
sub in_zoo
{
	my ($node, $db, $sql) = @_;
	return $node->safe_psql($db, "SET search_path = app, inbox_functions, public; $sql");
}

sub picture
{
	my ($node, $db) = @_;
	return $node->safe_psql($db, "SET search_path = pg_catalog; SET TimeZone = UTC; $picture");
}

# The receipts of all live leases, as an SQL condition's list: (queue, receipt).
sub leases
{
	my ($node, $db) = @_;
	my @pairs;

	for my $queue (sort keys %text)
	{
		my $table = $queue eq 'odd' ? $odd : "app.$queue";
		push @pairs, map { "($text{$queue}, '$_')" } split /\n/, in_zoo($node, $db,
			"SELECT inbox_receipt(t) FROM $table t WHERE inbox_receipt(t) IS NOT NULL");
	}
	return join ', ', @pairs;
}

# Do the queues that arrived in this database go on where they were?  With
# what leases() said at the place they come from.
sub zoo_is_alive
{
	my ($node, $db, $leases, $worker) = @_;
	my $held = () = $leases =~ /@/g;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is( in_zoo($node, $db, qq{SELECT count(*) > 0, count(*) FILTER (WHERE (q, id) IN
				(SELECT q, split_part(r, '\@', 1) FROM (VALUES $leases) l (q, r)))
			FROM unnest(ARRAY[$all]) q, inbox_claim(q, 1000)}),
		't|0', "$db: claims go on, and no lease is given to somebody else");
	is( in_zoo($node, $db, qq{SELECT string_agg(DISTINCT verdict, ' ') || ' ' || count(*)
			FROM (VALUES $leases) l (q, r), inbox_settle(q, r) verdict}),
		"ok $held", "$db: every live lease settles by its receipt");
	is( in_zoo($node, $db, q{SELECT bool_and(inbox_send(q, '"new"')::bigint > n)
			FROM (SELECT 'jobs', max(id) FROM (SELECT id FROM jobs UNION ALL SELECT id FROM jobs_dead) a
				UNION ALL SELECT 'kept', max(id) FROM kept) m (q, n)}),
		't', "$db: ids go on");
	is(in_zoo($node, $db, q{SELECT count(*) FROM inbox_claim('paused')}), 0, "$db: paused is paused");
	is( in_zoo($node, $db, qq{SELECT string_agg(inbox_redrive(q)::text, ' ')
			FROM unnest(ARRAY['jobs', 'after', 'grouped', $text{odd}]) q}),
		'10 10 10 10', "$db: dead letters find their way back");
	return if !$worker;

	in_zoo($node, $db, q{UPDATE jobs SET locked_until = now(), claimed_at = now(), attempt = 4 WHERE id = 60});
	ok($node->poll_query_until($db, 'SELECT count(*) = 1 FROM app.jobs_dead WHERE id = 60'),
		"$db: a worker buries");
	ok( $node->poll_query_until($db,
			"SELECT queues = 7 FROM inbox_functions.inbox_workers WHERE database = '$db'"),
		"$db: it knows all queues");
	return;
}

1;
