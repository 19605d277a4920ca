# A standby: what only reads works there, what writes says clearly that it
# can't, and after promotion leases hold and claims go on.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use QueueZoo;
use Test::More;

# what a standby has is what the primary has on disk
my $primary = new_node('primary', 'inbox.async_claim = off');
make_zoo($primary, 'zoo');
my $picture = picture($primary, 'zoo');
my $leases = leases($primary, 'zoo');

$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;

# --- it follows

my $receipt = in_zoo($primary, 'zoo', q{SELECT receipt FROM inbox_claim('jobs')});
$primary->wait_for_catchup($standby);
is( in_zoo($standby, 'zoo', q{SELECT count(*) FROM jobs WHERE inbox_receipt(jobs) = '} . $receipt . q{'}),
	1, 'a claim arrives, and reads as the same receipt');
is(leases($standby, 'zoo'), leases($primary, 'zoo'), 'as do all leases');
in_zoo($primary, 'zoo', "SELECT inbox_settle('jobs', '$receipt', 'release')");
$primary->wait_for_catchup($standby);
is(picture($standby, 'zoo'), picture($primary, 'zoo'), 'labels and rows are the same');

# --- reading: every view there is

my $views = $primary->safe_psql('zoo', q{
	SELECT c.oid::regclass FROM pg_depend d JOIN pg_class c ON c.oid = d.objid
	JOIN pg_extension e ON e.oid = d.refobjid
	WHERE d.classid = 'pg_class'::regclass AND d.deptype = 'e' AND e.extname = 'inbox' AND c.relkind = 'v'
	ORDER BY 1});
for my $view (split /\n/, $views)
{
	is((sqlstate($standby, 'zoo', "SELECT * FROM $view"))[0], '00000', "$view can be read");
	if ($view =~ /inbox_dead$/)
	{
		my $sql = "SELECT count(*) FROM $view";
		is($standby->safe_psql('zoo', $sql), $primary->safe_psql('zoo', $sql), "$view shows the same");
	}
}

# --- writing: every function that does

my %call = (
	inbox_create => q{inbox_create('app.n')},
	inbox_adopt => q{inbox_adopt('app.graveyard')},
	inbox_alter => q{inbox_alter('jobs', lease => '5 s')},
	inbox_drop => q{inbox_drop('jobs')},
	inbox_forget => q{inbox_forget('jobs')},
	inbox_pause => q{inbox_pause('jobs')},
	inbox_resume => q{inbox_resume('paused')},
	inbox_send => q{inbox_send('jobs', '1')},
	inbox_send_batch => q{inbox_send_batch('jobs', '{1}')},
	inbox_claim => q{inbox_claim('jobs')},
	'inbox_claim, waiting' => q{inbox_claim('paused', wait => '1 h')},
	'inbox_claim, by row' => q{inbox_claim(NULL::app.jobs)},
	inbox_claim_ids => q{inbox_claim_ids('jobs')},
	inbox_stamp => q{inbox_stamp('jobs', '{1}')},
	inbox_next => q{inbox_next('jobs')},
	inbox_extend => q{inbox_extend('jobs', '1@1')},
	inbox_extend_batch => q{inbox_extend_batch('jobs', '{1@1}')},
	inbox_settle => q{inbox_settle('jobs', '1@1')},
	inbox_settle_batch => q{inbox_settle_batch('jobs', '{1@1}')},
	inbox_reap => q{inbox_reap('jobs')},
	'inbox_reap, all' => q{inbox_reap()},
	inbox_redrive => q{inbox_redrive('jobs')},
	inbox_purge => q{inbox_purge('jobs')},
	inbox_subscribe => q{inbox_subscribe('s', 'jobs', 'jsonb_typeof(jsonb)')},
	inbox_alter_subscription => q{inbox_alter_subscription('s', workers => 2)},
	inbox_unsubscribe => q{inbox_unsubscribe('s')},
	inbox_pause_subscription => q{inbox_pause_subscription('s')},
	inbox_resume_subscription => q{inbox_resume_subscription('s')},
	inbox_wait => q{inbox_wait('jobs', '1 s')});

# a function that is new is either for reading, or a trigger's, or to be added here
my %reads = map { $_ => 1 } qw(inbox_receipt inbox_changed);
my $functions = $primary->safe_psql('zoo', q{
	SELECT DISTINCT p.proname FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid
	JOIN pg_extension e ON e.oid = d.refobjid
	WHERE d.classid = 'pg_proc'::regclass AND d.deptype = 'e' AND e.extname = 'inbox' AND p.provolatile = 'v'
	  AND p.prorettype <> 'trigger'::regtype
	  AND NOT EXISTS (SELECT FROM pg_depend v WHERE v.refobjid = p.oid AND v.classid = 'pg_rewrite'::regclass)});
is(join(' ', grep { !$call{$_} && !$reads{$_} } split /\n/, $functions), '', 'no function is forgotten here');

for my $name (sort keys %call)
{
	my ($function) = $name =~ /^(\w+)/;
	my $statement = ($name eq 'inbox_wait' ? 'CALL ' : 'SELECT * FROM ') . $call{$name};
	my ($state, $text) = sqlstate($standby, 'zoo',
		"SET search_path = app, inbox_functions; $statement");

	is($state, '25006', "$name: refused");
	like($text, qr/^cannot execute $function\(\) during recovery\n/, "$name: says why");
	($state, $text) = sqlstate($primary, 'zoo',
		"SET search_path = app, inbox_functions; SET default_transaction_read_only = on; $statement");
	is($state, '25006', "$name: refused in a read-only transaction");
	like($text, qr/^cannot execute $function\(\) in a read-only transaction\n/, "$name: says why");
}
is(picture($primary, 'zoo'), picture($standby, 'zoo'), 'nothing has changed');

# --- promotion

# sessions that were there before have to do as well
my $session = connect_db($standby, 'zoo');
$session->do('SET search_path = app, inbox_functions');
eval { $session->do(q{SELECT inbox_claim('jobs')}) };
is($session->state, '25006', 'a session from before the promotion');

my $number = in_zoo($primary, 'zoo', q{SELECT max(claimed_at) FROM jobs});
$primary->wait_for_catchup($standby);
$primary->stop('immediate');
$standby->promote;
is($session->selectrow_array(q{SELECT count(*) FROM inbox_claim('jobs')}), 1, 'claims after it');
is( $session->selectrow_array(q{SELECT count(*) FROM jobs WHERE claimed_at > ? AND locked_until IS NOT NULL}, undef, $number),
	1, 'and its number is greater than any before');
$session->disconnect;
isnt(wait_worker($standby, 'zoo'), '', 'the worker comes');
zoo_is_alive($standby, 'zoo', $leases, 1);

$standby->stop('fast');
done_testing();
