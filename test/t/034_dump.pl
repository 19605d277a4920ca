# Dump and restore of a whole database: queues arrive as queues, with every
# message in its state, and leases hold there.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use QueueZoo;
use Test::More;

my $node = new_node('here');
my $folder = PostgreSQL::Test::Utils::tempdir();

make_zoo($node, 'zoo');
my $picture = picture($node, 'zoo');
my $leases = leases($node, 'zoo');
like($picture, qr/^table .*"kind": "queue"/m, 'there is something to dump');

$node->command_ok([ 'pg_dump', '-f', "$folder/plain", 'zoo' ], 'pg_dump: plain');
$node->command_ok([ 'pg_dump', '-Fc', '-f', "$folder/custom", 'zoo' ], 'pg_dump: custom');
$node->command_ok([ 'pg_dump', '-Fd', '-j', '2', '-f', "$folder/folder", 'zoo' ], 'pg_dump: folder, two at a time');

sub restore
{
	my ($where, $db, @command) = @_;

	$where->safe_psql('postgres', "CREATE DATABASE $db");
	$where->command_ok([ @command, '-d', $db, $command[0] eq 'psql' ? ('-f') : (), "$folder/$db" ],
		"$db: restored");
	return;
}

my @plain = ('psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-o', "$folder/out");
my @restore = ('pg_restore', '--exit-on-error');
my %how = (plain => \@plain, custom => \@restore, folder => [ @restore, '-j', '4' ]);

for my $db (sort keys %how)
{
	restore($node, $db, @{ $how{$db} });
	is(picture($node, $db), $picture, "$db: labels and rows are the same");
	zoo_is_alive($node, $db, $leases, 1);
}
is(picture($node, 'zoo'), $picture, 'where it comes from, nothing has changed');

# --- a server that does not preload the library

my $plain = PostgreSQL::Test::Cluster->new('there');
$plain->init;
$plain->append_conf('postgresql.conf', "autovacuum = off");
$plain->start;

for my $db ('folder', 'plain')
{
	restore($plain, $db, @{ $how{$db} });
	is(picture($plain, $db), $picture, "$db, not preloaded: labels and rows are the same");
	zoo_is_alive($plain, $db, $leases, 0);
}

$_->stop('fast') for $node, $plain;
done_testing();
