# FifoHistory: what the clients of 080_fifo.pl write down, and what must be true
# of it whatever happened.
#
# A claim's row in "journal" is written by the transaction that claims, which has
# the group's lock when it takes a number; that of an extension or settlement by
# the one that has the message's row lock.  So for one group the numbers are in
# the order in which its leases changed, across crashes too.  Some claims are in
# no journal, as most clients make them; the settlement then brings along when
# the claim was back.
#
# All times are of one machine's clock.  "began" is the instant at which a claim
# judged, its lease's end less the lease; "back" is read after the claim was
# through, "stmt" before the extension or settlement had begun.  So from "back"
# to "stmt" a message was held, whatever the rows say.

package FifoHistory;

use strict;
use warnings;
use Exporter 'import';

our @EXPORT = qw(history_setup history_load history_invariants history_breaks history_rounds);

# no table has a key: what must not happen has to be able to happen here
sub history_setup
{
	my ($groups) = @_;

	return qq{
	CREATE SEQUENCE turns INCREMENT 2;
	CREATE TABLE journal (seq bigint DEFAULT nextval('turns'), what text, k text, id bigint, n bigint, receipt text,
		began timestamptz, back timestamptz, stmt timestamptz, ends timestamptz, client int);
	CREATE TABLE told (receipt text, what text);
	CREATE TABLE ahead (id bigint, k text, since timestamptz);
	CREATE TABLE expected (n bigint);

	CREATE VIEW invariant AS
	WITH history AS (
		SELECT *, lag(what) OVER w AS last_what, lag(ends) OVER w AS last_ends, lag(stmt) OVER w AS last_stmt,
			max(seq) FILTER (WHERE what = 'claim') OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS last_claim,
			max(n) FILTER (WHERE what = 'claim') OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS last_n,
			max(n) FILTER (WHERE what = 'done') OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS last_done
		FROM journal WHERE k IS NOT NULL WINDOW w AS (PARTITION BY k ORDER BY seq)
	), claimed AS (
		SELECT receipt, min(seq) AS seq FROM journal WHERE what = 'claim' GROUP BY receipt
	), held AS (
		SELECT k, receipt, min(back) AS lo,
			coalesce(max(stmt) FILTER (WHERE what NOT IN ('claim', 'extend')), max(ends)) AS hi
		FROM journal WHERE k IS NOT NULL GROUP BY k, receipt
	), overlap AS (
		SELECT lo < max(hi) OVER (PARTITION BY k ORDER BY lo ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bad FROM held
	)
	SELECT 1 AS i, 'no claim on a group with a lease' AS name,
		(SELECT count(*) FROM history WHERE what = 'claim' AND last_what IN ('claim', 'extend') AND last_ends > began) AS broken
	UNION ALL
	SELECT 2, 'no claim on a group whose head rests',
		(SELECT count(*) FROM history WHERE what = 'claim' AND last_what = 'retry' AND last_ends > began AND last_ends > last_stmt)
	UNION ALL
	SELECT 3, 'nothing extended or settled after another claim on the group',
		(SELECT count(*) FROM history h JOIN claimed c USING (receipt) WHERE h.what <> 'claim' AND h.last_claim > c.seq)
	UNION ALL
	SELECT 4, 'no two of a group held at one instant', (SELECT count(*) FROM overlap WHERE bad)
	UNION ALL
	SELECT 5, 'claimed in order', (SELECT count(*) FROM history WHERE what = 'claim' AND n < last_n)
	UNION ALL
	SELECT 6, 'settled in order, with nothing left out',
		(SELECT count(*) FROM history WHERE what = 'done' AND n IS NOT NULL AND n IS DISTINCT FROM last_done + $groups
			AND (last_done IS NOT NULL OR n > $groups))
	UNION ALL
	SELECT 7, 'nothing claimed past a message that entered ahead',
		(SELECT count(*) FROM ahead a JOIN journal d ON d.id = a.id AND d.what = 'done'
			JOIN journal c ON c.k = a.k AND c.what = 'claim' AND c.began > a.since AND c.seq < d.seq WHERE c.n IS NOT NULL)
	UNION ALL
	SELECT 8, 'each message settled once',
		(SELECT count(*) FROM (SELECT FROM (SELECT n FROM expected UNION ALL
				SELECT n FROM journal WHERE what = 'done' AND n IS NOT NULL) a GROUP BY n HAVING count(*) <> 2) b) +
		(SELECT count(*) FROM (SELECT FROM journal WHERE what = 'done' GROUP BY id HAVING count(*) > 1) c) +
		(SELECT count(*) FROM ahead a WHERE NOT EXISTS (SELECT FROM journal j WHERE j.id = a.id AND j.what = 'done'))
	UNION ALL
	SELECT 9, 'no receipt handed out twice',
		(SELECT count(*) FROM (SELECT FROM journal WHERE what = 'claim' GROUP BY receipt HAVING count(*) > 1) s)
	UNION ALL
	SELECT 10, 'whatever a client was told is so',
		(SELECT count(*) FROM (SELECT receipt, what FROM told EXCEPT SELECT receipt, what FROM journal) s)};
}

# Breaks each invariant, by its number, in a history that is well.
sub history_breaks
{
	my $victim = q{(SELECT * FROM journal WHERE what = 'claim' AND n IS NOT NULL AND began IS NOT NULL ORDER BY seq LIMIT 1 OFFSET 5) v};
	my $settled = q{(SELECT * FROM journal WHERE what = 'done' AND n > 100 ORDER BY seq LIMIT 1) v};

	return (
		[ 1, qq{INSERT INTO journal (seq, what, k, receipt, began, ends)
			SELECT seq + 1, 'claim', k, 'another', ends - interval '1 us', ends + interval '1 s' FROM $victim} ],
		[ 2, qq{INSERT INTO journal (seq, what, k, receipt, stmt, ends)
			SELECT seq - 1, 'retry', k, 'another', began - interval '1 us', began + interval '1 us' FROM $victim} ],
		[ 3, qq{INSERT INTO journal (seq, what, k, receipt, began, ends)
			SELECT seq + 1, 'claim', k, 'another', ends, ends + interval '1 s' FROM $victim
			UNION ALL SELECT seq + 1000000000, 'extend', k, receipt, NULL, NULL FROM $victim} ],
		[ 4, qq{INSERT INTO journal (what, k, receipt, back, stmt)
			SELECT 'done', k, 'another', stmt - interval '1 us', stmt + interval '1 us' FROM $settled} ],
		[ 5, qq{INSERT INTO journal (seq, what, k, n, receipt) SELECT seq + 1, 'claim', k, n - 1, 'another' FROM $victim} ],
		[ 6, qq{UPDATE journal SET seq = -seq WHERE what = 'done' AND n = (SELECT n FROM $settled)} ],
		[ 7, qq{WITH a AS (INSERT INTO ahead SELECT -1, k, began - interval '1 us' FROM $victim RETURNING *)
			INSERT INTO journal (what, k, id) SELECT 'done', k, -1 FROM a} ],
		[ 8, qq{DELETE FROM journal WHERE what = 'done' AND n = (SELECT n FROM $settled)} ],
		[ 8, qq{INSERT INTO journal (what, n, id) SELECT 'done', n, id FROM $settled} ],
		[ 9, qq{INSERT INTO journal (what, receipt) SELECT 'claim', receipt FROM $victim} ],
		[ 10, qq{INSERT INTO told VALUES ('1\@1', 'done')} ]);
}

# What clients were told, from their own files: a line is only as good as the
# client that wrote it, which may have died in the middle of it.
#
#	t RECEIPT WHAT				a commit was confirmed
#	a ID GROUP TIME				a message ahead of others was, at the latest then
#	c GROUP START BACK ANY		a claim took one of the group; ANY: it might have taken others
#	f GROUP FROM TO N			the group came free between these; N: the message's number
sub history_load
{
	my ($db, @files) = @_;
	my (@told, @ahead, @served, %freed);

	for my $file (@files)
	{
		open my $in, '<', $file or die "$file: $!";
		while (my $line = <$in>)
		{
			next unless $line =~ s/ \.\n$//;
			my ($what, @words) = split / /, $line;

			push @told, "$words[0]\t$words[1]\n" if $what eq 't';
			push @ahead, "$words[0]\t$words[1]\t" . $words[2] . "\n" if $what eq 'a';
			push @served, [@words] if $what eq 'c';
			push @{ $freed{ $words[0] } }, [ @words[ 1 .. 3 ] ] if $what eq 'f';
		}
	}
	$db->do('COPY told FROM STDIN');
	$db->pg_putcopydata($_) for @told;
	$db->pg_putcopyend;
	$db->do('INSERT INTO ahead SELECT ?, ?, to_timestamp(?)', undef, split /[\t\n]/) for @ahead;
	$db->do('CREATE INDEX ON journal (k, began)');
	$db->do('CREATE INDEX ON journal (id)');
	$db->do('ANALYZE');
	return (\@served, \%freed);
}

sub history_invariants
{
	my ($db) = @_;

	$db->do(q{SET work_mem = '256MB'});
	return @{ $db->selectall_arrayref('SELECT i, name, broken FROM invariant ORDER BY i') };
}

# How often another group was served, by claims that were free to choose,
# between the end of a group's lease and the begin of the claim that took the
# group: the most of one group, for each wait.  Waits in "troubled" times do
# not count: whoever dies then may have claimed and not have told.
sub history_rounds
{
	my ($served, $freed, $troubled, $last) = @_;
	my (%by_group, %times, $worst, $longest);
	my @all = sort { $a->[1] <=> $b->[1] } @$served;

	push @{ $by_group{ $_->[0] } }, $_ for sort { $a->[2] <=> $b->[2] } @$served;
	for my $k (keys %$freed)
	{
		my @mine = @{ $by_group{$k} // [] };
		my @free = sort { $a->[0] <=> $b->[0] } @{ $freed->{$k} };
		my ($i, $j) = (0, 0);

		for my $f (@free)
		{
			my ($from, $since, $n) = @$f;
			my %seen;
			my $most = 0;

			last if $n > $last;
			$i++ while $i < @mine && $mine[$i][2] <= $from;
			last if $i == @mine;
			my ($start, $back) = @{ $mine[$i] }[ 1, 2 ];
			next if grep { $since < $_->[1] && $back > $_->[0] } @$troubled;
			$j++ while $j < @all && $all[$j][1] < $since;
			for (my $x = $j; $x < @all && $all[$x][1] < $start; $x++)
			{
				my ($other, undef, $done, $any) = @{ $all[$x] };

				next if $other eq $k || !$any || $done > $start;
				$most = $seen{$other} if ++$seen{$other} > $most;
			}
			$times{$most}++;
			$longest = $start - $since if !defined $longest || $start - $since > $longest;
		}
	}
	return (\%times, $longest);
}

1;
