# Perl DBD::Pg: JSON as text, arrays as array references.

use strict;
use warnings;
use DBI;
use JSON::PP;

my $queue = $ENV{QUEUE};
my $json = JSON::PP->new->canonical;
my $db = DBI->connect('dbi:Pg:', undef, undef, { AutoCommit => 1, RaiseError => 1, PrintError => 0 });

sub say_it
{
	my ($what, $got, $want) = @_;
	print $got eq $want ? "ok - $what\n" : "not ok - $what: $got\n";
}

say_it('send', $db->selectrow_array('SELECT inbox_send(?, ?, delay => ?, priority => ?)',
		undef, $queue, $json->encode({ n => 1, text => q{it's "quoted"} }), '0 s', 1), 1);
say_it('send many', join(' ', @{ $db->selectcol_arrayref(
		'SELECT inbox_send_batch(?, ?, priority => ?, dedup_keys => ?)', undef,
		$queue, [ map { $json->encode({ n => $_ }) } 2 .. 4 ], 2, [ 'a', 'b', undef ]) }), '2 3 4');

my $one = $db->selectrow_hashref('SELECT * FROM inbox_claim(?, ?, ?)', undef, $queue, 1, '20 s');
say_it('claim', "$one->{attempt} " . $json->decode($one->{payload})->{text}, q{1 it's "quoted"});
say_it('extend', join(' ', $db->selectrow_array(
		q{SELECT verdict, new_receipt, locked_until > now() + '9 min'::interval FROM inbox_extend(?, ?, ?)},
		undef, $queue, $one->{receipt}, '10 min')), "ok $one->{receipt} 1");
my $two = $db->selectrow_hashref('SELECT * FROM inbox_claim(?)', undef, $queue);
say_it('settle many', join(' ', map { $_->[2] } @{ $db->selectall_arrayref(
		'SELECT * FROM inbox_settle_batch(?, ?, ?, ?, ?)', undef, $queue,
		[ $one->{receipt}, $two->{receipt}, 'garbage', undef ], [qw(retry dead done done)],
		[ '1 h', undef, undef, undef ], [ q{it's "no" good}, 'never', undef, undef ]) }),
	'ok dead invalid invalid');

my ($receipts, $seen) = ([], '');
while (my @rows = @{ $db->selectall_arrayref('SELECT * FROM inbox_next(?, ?, ?)',
			{ Slice => {} }, $queue, $receipts, 1) })
{
	$receipts = $json->decode($json->encode([ map { $_->{receipt} } @rows ]));
	$seen .= ' ' . $json->decode($_->{payload})->{n} for @rows;
}
say_it('next', $seen, ' 3 4');
say_it('a lost lease', $db->selectrow_array('SELECT inbox_settle(?, ?)', undef, $queue, $one->{receipt}), 'stale');
eval { $db->do('SELECT inbox_settle(?, ?, strict => true)', undef, $queue, $one->{receipt}) };
say_it('strict', $db->state, 'IB001');
