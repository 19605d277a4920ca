# The arithmetic of the hints beside a simple model; see test/unit.

use strict;
use warnings;
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

my $source = "$FindBin::RealBin/../unit/arithmetic.c";
my $program = PostgreSQL::Test::Utils::tempdir() . '/arithmetic';
my ($folder) = run_command([ 'pg_config', '--includedir-server' ]);
my $seed = $ENV{INBOX_SEED} // 1 + int rand 1_000_000;

command_ok([ $ENV{CC} // 'gcc', '-O1', '-fwrapv', "-I$folder", $source, '-o', $program ],
	'it compiles');
my ($out, $err) = run_command([ $program, $seed ]);
diag($err) if $err ne '';
for (split /\n/, $out)
{
	note($_) if /^#/;
	ok(!$1, $2) if /^(not )?ok \d+ - (.*)/;
}
like($out, qr/^1\.\.24$/m, "it came to its end, seed $seed");
done_testing();
