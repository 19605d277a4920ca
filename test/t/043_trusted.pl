# CREATE EXTENSION by a role that is no superuser, into a schema in which
# somebody has planted objects for the script to trip over.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('trusted');
my @admin = (extra_params => [ '-U', 'admin' ]);
my @other = (extra_params => [ '-U', 'other' ]);

$node->safe_psql('postgres', 'CREATE ROLE admin LOGIN; CREATE ROLE other LOGIN; CREATE DATABASE d1');
$node->safe_psql('d1', q{
	CREATE SCHEMA planted;
	GRANT ALL ON SCHEMA planted TO PUBLIC;
	REVOKE CREATE ON DATABASE d1 FROM PUBLIC});

my ($rc, $out, $err) = $node->psql('d1', 'CREATE EXTENSION inbox SCHEMA planted', @admin);
like($err, qr/permission denied/, 'it takes CREATE on the database');
$node->safe_psql('d1', 'GRANT CREATE ON DATABASE d1 TO admin');

# Everything the script might look up, as overloads, operators and types; each
# function tells who has run it.
$node->safe_psql('d1', q{
	CREATE TABLE planted.caught(who name, what text);
	GRANT INSERT ON planted.caught TO PUBLIC;
	CREATE FUNCTION planted.caught(what text) RETURNS boolean LANGUAGE plpgsql AS $$
	BEGIN INSERT INTO planted.caught VALUES (current_user, what); RETURN true; END $$;
	CREATE FUNCTION planted.inbox_create(x text) RETURNS boolean LANGUAGE sql AS $$SELECT planted.caught('create')$$;
	CREATE FUNCTION planted.inbox_drop(x int) RETURNS boolean LANGUAGE sql AS $$SELECT planted.caught('drop')$$;
	CREATE FUNCTION planted.now() RETURNS timestamptz LANGUAGE sql AS $$SELECT CASE WHEN planted.caught('now') THEN pg_catalog.now() END$$;
	CREATE DOMAIN planted.text AS pg_catalog.text CHECK (planted.caught('text'));
	CREATE DOMAIN planted."interval" AS pg_catalog."interval" CHECK (planted.caught('interval'));
	CREATE DOMAIN planted.jsonb AS pg_catalog.jsonb CHECK (planted.caught('jsonb'));
	CREATE DOMAIN planted.int4 AS pg_catalog.int4 CHECK (planted.caught('int4'));
	CREATE FUNCTION planted.equal(pg_catalog.text, pg_catalog.text) RETURNS boolean LANGUAGE sql AS $$SELECT planted.caught('=')$$;
	CREATE OPERATOR planted.= (FUNCTION = planted.equal, LEFTARG = pg_catalog.text, RIGHTARG = pg_catalog.text)}, @other);

# One that the script calls without arguments can be made ambiguous; then the
# command fails, and nothing has run.
for my $name ('inbox_tell_preload', 'inbox_worker_status', 'inbox_dead_letters')
{
	$node->safe_psql('d1', qq{
		CREATE FUNCTION planted.$name(x int DEFAULT 1) RETURNS boolean LANGUAGE sql AS \$\$SELECT planted.caught('$name')\$\$}, @other);
	($rc, $out, $err) = $node->psql('d1', 'CREATE EXTENSION inbox SCHEMA planted', @admin);
	like($err, qr/function $name\(\) is not unique/, "a planted $name is in the way");
	$node->safe_psql('d1', "DROP FUNCTION planted.$name(int)", @other);
}

$node->safe_psql('d1', 'CREATE EXTENSION inbox SCHEMA planted', @admin);
is($node->safe_psql('d1', "SELECT pg_get_userbyid(extowner) FROM pg_extension WHERE extname = 'inbox'"),
	'admin', 'a role that is no superuser can create it, with a schema full of traps');
is($node->safe_psql('d1', 'SELECT count(*) FROM planted.caught'), 0, 'nobody runs what was planted');
is($node->safe_psql('d1', q{
	SELECT count(*) FROM pg_proc p, unnest(proallargtypes || proargtypes::oid[]) a
	WHERE p.probin IS NOT NULL AND p.pronamespace = 'planted'::regnamespace
	AND a IN (SELECT oid FROM pg_type WHERE typnamespace = 'planted'::regnamespace AND typname <> 'inbox_delivery'
		AND typname <> '_inbox_delivery')}), 0, 'nor are planted types in the signatures');
is($node->safe_psql('d1', q{
	SELECT count(*) FROM pg_depend d JOIN pg_proc p ON p.oid = d.refobjid
	WHERE d.classid = 'pg_rewrite'::regclass AND p.pronamespace = 'planted'::regnamespace AND p.probin IS NULL}), 0,
	'or planted functions in the views');
is($node->safe_psql('d1', q{
	SELECT string_agg(DISTINCT pg_get_userbyid(p.proowner), ',') FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid
	JOIN pg_extension e ON e.oid = d.refobjid
	WHERE d.classid = 'pg_proc'::regclass AND d.deptype = 'e' AND e.extname = 'inbox'}),
	$node->safe_psql('d1', 'SELECT rolname FROM pg_roles WHERE oid = 10'), 'the functions are not his to replace');

# its owner is a user like others
is($node->safe_psql('d1', q{
	SET search_path = pg_catalog;
	CREATE SCHEMA mine;
	SELECT planted.inbox_create('mine.jobs', max_attempts => 1)}, @admin), 'mine.jobs', 'it works');
is($node->safe_psql('d1', q{
	SELECT planted.inbox_send('mine.jobs', '1');
	SELECT verdict FROM planted.inbox_claim('mine.jobs') c, planted.inbox_settle('mine.jobs', c.receipt, 'dead');
	SELECT queue, id, cause FROM planted.inbox_dead}, @admin), "1\ndead\nmine.jobs|1|buried", 'with its dead letters');
($rc, $out, $err) = $node->psql('d1', 'DROP EXTENSION inbox', @other);
like($err, qr/must be owner of extension/, 'nobody else can drop it');
($rc, $out, $err) = $node->psql('d1', 'ALTER FUNCTION planted.inbox_settle(text, text, text, interval, text, boolean) SECURITY DEFINER', @admin);
like($err, qr/must be owner of function/, 'nor its owner change a function');
$node->safe_psql('d1', 'DROP EXTENSION inbox', @admin);
is($node->safe_psql('d1', "SELECT count(*) FROM pg_proc WHERE probin LIKE '%inbox%'"), 0, 'its owner can drop it');

done_testing();
