# Without shared_preload_libraries everything works but the worker.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('unloaded', "shared_preload_libraries = ''");

sub sql { return $node->safe_psql('postgres', $_[0]); }

# --- CREATE EXTENSION tells

my ($rc, $out, $err) = $node->psql('postgres', 'CREATE EXTENSION inbox');
is($rc, 0, 'the extension can be created');
like($err, qr/NOTICE:  inbox is not preloaded.*\nHINT:  .*shared_preload_libraries.*inbox_reap\(\)/,
	'with a notice of what is missing and what to do');
is(sql(q{SELECT to_regproc('inbox_tell_preload') IS NULL}), 't', 'which leaves no function behind');

# --- everything works

is(sql(q{SELECT inbox_create('jobs', lease => '1 s', max_attempts => 1, retention => '0')}), 'public.jobs', 'create');
is(sql(q{SELECT string_agg(id, ' ') FROM inbox_send_batch('jobs', '{1,2,3,4}') id}), '1 2 3 4', 'send');
my $receipt = sql(q{SELECT receipt FROM inbox_claim('jobs')});
is(sql("SELECT verdict FROM inbox_extend('jobs', '$receipt', '1 h')"), 'ok', 'claim and extend');
is(sql("SELECT inbox_settle('jobs', '$receipt')"), 'ok', 'settle in another session');
is(sql(q{SELECT string_agg(verdict, ' ') FROM inbox_claim('jobs') c, inbox_settle('jobs', c.receipt, 'dead') verdict}),
	'dead', 'bury');
is(sql(q{SELECT inbox_redrive('jobs')}), 1, 'redrive');
is(sql(q{SELECT inbox_pause('jobs'); SELECT count(*) FROM inbox_claim('jobs')}) =~ s/^\n//r, 0, 'pause');
sql(q{SELECT inbox_resume('jobs')});

# two sessions that number their receipts each for itself
my @db = map { connect_db($node, 'postgres') } 1 .. 2;
sql(q{SELECT inbox_create('many', lease => '1 h'); SELECT inbox_send_batch('many', array_fill('1'::jsonb, '{100}'))});
my %number;
for my $turn (1 .. 50)
{
	$number{ $_->selectrow_array(q{SELECT receipt FROM inbox_claim('many')}) }++ for @db;
}
is(scalar keys %number, 100, 'receipts of two sessions differ');
$_->disconnect for @db;

# --- but nobody buries

is(sql(q{SELECT count(*) FROM inbox_claim('jobs', 10)}), 3, 'all are claimed for the last time');
ok($node->poll_query_until('postgres', 'SELECT count(*) = 3 FROM jobs WHERE locked_until <= clock_timestamp()'),
	'their leases end');
is(sql(q{SELECT count(*) FROM inbox_claim('jobs', 10)}), 0, 'spent messages are not handed out');
is(sql(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'inbox%'}), 0, 'there is no process of ours');
is(sql(q{SELECT count(*) FROM inbox_workers}), 0, 'and inbox_workers is empty');
is(sql(q{SELECT count(*) FROM jobs_dead}), 0, 'so nothing is buried');
is(sql(q{SELECT queue, expired, buried, purged, set_aside FROM inbox_reap('jobs')}),
	'public.jobs|0|3|1|0', 'until inbox_reap is called');
is(sql(q{SELECT count(*), min(cause), max(cause) FROM jobs_dead}), '3|lease lost|lease lost', 'as a worker does');
is(sql(q{SELECT string_agg(queue, ' ' ORDER BY queue) FROM inbox_reap()}), 'public.jobs public.many', 'in all queues as well');

# --- preloaded later, the worker finds what is there

$node->append_conf('postgresql.conf', "shared_preload_libraries = 'inbox'");
sql(q{UPDATE many SET attempt = 9 WHERE id = 1; SELECT inbox_alter('many', lease => '2 s')});
$node->restart;
isnt(wait_worker($node, 'postgres'), '', 'preloaded, a worker comes by itself');
sql(q{SELECT inbox_send('jobs', '"spent"'); SELECT inbox_claim('jobs')});
ok($node->poll_query_until('postgres', 'SELECT count(*) = 4 FROM jobs_dead'), 'and buries');
sql('CREATE DATABASE d');
($rc, $out, $err) = $node->psql('d', 'CREATE EXTENSION inbox');
is("$rc $err", '0 ', 'no notice any more');

$node->stop('fast');
done_testing();
