# Copies of a database that no dump is made for: CREATE DATABASE … TEMPLATE,
# and pg_upgrade.  Queues come with it, and nobody of ours is in the way.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use QueueZoo;
use Test::More;

my $old = new_node('old');
make_zoo($old, 'zoo');
isnt(wait_worker($old, 'zoo'), '', 'the source has a worker');
my $picture = picture($old, 'zoo');
my $leases = leases($old, 'zoo');

# --- a clone

goes_through($old, 'CREATE DATABASE clone TEMPLATE zoo', 'CREATE DATABASE … TEMPLATE');
isnt(wait_worker($old, 'zoo'), '', 'the worker is back in the source');
is(picture($old, 'clone'), $picture, 'clone: labels and rows are the same');
zoo_is_alive($old, 'clone', $leases, 1);
is(picture($old, 'zoo'), $picture, 'the source has not changed');

# --- pg_upgrade, to the same release: what it does is the same

# pg_upgrade loads each library by its full name.  18 finds one that is only
# staged by a path that LOAD does not follow; there it has to be installed.
my @modes = ('copy', 'link');
if ($old->pg_version >= 18 && $old->psql('postgres', q{LOAD '$libdir/inbox'}) != 0)
{
	note('no pg_upgrade: the library is staged, not installed');
	@modes = ();
}

for my $mode (@modes)
{
	my $new = PostgreSQL::Test::Cluster->new("new_$mode");
	$new->init(allows_streaming => 1);
	$new->append_conf('postgresql.conf', join("\n", conf_lines(), ''));
	my $folder = PostgreSQL::Test::Utils::tempdir();
	my $bin = $old->config_data('--bindir');

	$old->stop('fast');
	chdir $folder;
	# 'link' takes the old cluster with it
	my $out = '';
	my $ok = IPC::Run::run(
		[   'pg_upgrade', '--no-sync', '--retain', $mode eq 'link' ? '--link' : (),
			'-d', $old->data_dir, '-D', $new->data_dir, '-b', $bin, '-B', $bin,
			'-s', $new->host, '-p', $old->port, '-P', $new->port ],
		'>&', \$out);
	ok($ok, "pg_upgrade, $mode") or diag($out);
	chdir $FindBin::RealBin;

	my @logs = split /\n/, `find $folder '${\$new->data_dir}/pg_upgrade_output.d' -name '*.log' 2>/dev/null`;
	my $text = join '', map { slurp_file($_) } @logs;
	like($text, qr/database system is ready/, "$mode: the servers' logs are here");
	unlike($text, qr/inbox (launcher|worker)/, "$mode: none of our processes ran meanwhile");

	$new->start;
	is(picture($new, 'zoo'), $picture, "$mode: labels and rows are the same");
	isnt(wait_worker($new, 'zoo'), '', "$mode: the worker comes");
	zoo_is_alive($new, 'zoo', $leases, 1);
	$new->stop('fast');
	$old->start if $mode eq 'copy';
}

done_testing();
