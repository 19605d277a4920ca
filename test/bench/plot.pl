# plot.pl: the claim rate over time as an SVG.  Used by report.
use strict;
use warnings;

# Steps of a logarithmic axis that covers these values.
sub decades
{
	my ($min, $max) = @_;
	my $lo = 1;
	$lo *= 10 while $lo * 10 <= $min;
	my $hi = $lo;
	$hi *= 10 while $hi < $max;
	return ($lo, $hi);
}

sub plot
{
	my $dir = shift;
	my (%series, %what);

	open my $f, '<', "$dir/timeline.csv" or return 0;
	while (<$f>) { chomp; my ($s, $t, $r) = split /,/; push @{ $series{$s} }, [ $t, $r ] if $r > 0 }
	open $f, '<', "$dir/timeline.txt" or return 0;
	while (<$f>) { chomp; my ($k, $x) = split /=/; $what{$k} = $x }
	return 0 unless %series;

	my @all = map { @$_ } values %series;
	my ($tmax) = sort { $b <=> $a } map { $_->[0] } @all;
	my @rates = sort { $a <=> $b } map { $_->[1] } @all;
	my ($lo, $hi) = decades($rates[0], $rates[-1]);
	my ($w, $h, $left, $right, $top, $bottom) = (760, 360, 70, 120, 50, 45);
	my $x = sub { $left + ($w - $left - $right) * $_[0] / $tmax };
	my $y = sub { $h - $bottom - ($h - $top - $bottom) * log($_[0] / $lo) / log($hi / $lo) };
	my %colour = (inbox => '#0b6e4f', hand => '#c0392b');
	my %name = (inbox => 'inbox', hand => 'hand-written');

	my $svg = qq(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 $w $h" font-family="sans-serif" font-size="12">\n)
	  . qq(<rect width="$w" height="$h" fill="#ffffff"/>\n)
	  . qq(<text x="$left" y="20" font-size="15" fill="#222222">Claim and settle, 4 clients: cycles a second</text>\n)
	  . sprintf(qq(<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="#f1ead8"/>\n),
		$x->($what{around}), $top, $x->($what{around} + $what{hold}) - $x->($what{around}), $h - $top - $bottom)
	  . sprintf(qq(<text x="%.1f" y="%d" fill="#7a6a3a">an old snapshot is held</text>\n), $x->($what{around}) + 6, $top + 15);
	for (my $r = $lo; $r <= $hi; $r *= 10)
	{
		my $label = $r;
		1 while $label =~ s/^(\d+)(\d{3})/$1,$2/;
		$svg .= sprintf(qq(<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#dddddd"/>\n), $left, $w - $right, $y->($r), $y->($r))
		  . sprintf(qq(<text x="%d" y="%.1f" text-anchor="end" fill="#555555">%s</text>\n), $left - 6, $y->($r) + 4, $label);
	}
	my $step = $tmax > 300 ? 60 : $tmax > 60 ? 10 : 5;
	for (my $t = 0; $t <= $tmax; $t += $step)
	{
		$svg .= sprintf(qq(<text x="%.1f" y="%d" text-anchor="middle" fill="#555555">%d</text>\n), $x->($t), $h - $bottom + 18, $t);
	}
	$svg .= sprintf(qq(<text x="%.1f" y="%d" text-anchor="middle" fill="#555555">seconds</text>\n), ($left + $w - $right) / 2, $h - 8);
	for my $s (sort keys %series)
	{
		my @p = @{ $series{$s} };
		$svg .= sprintf(qq(<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>\n), $colour{$s},
			join(' ', map { sprintf '%.1f,%.1f', $x->($_->[0]), $y->($_->[1]) } @p))
		  . sprintf(qq(<text x="%d" y="%.1f" fill="%s">%s</text>\n), $w - $right + 6, $y->($p[-1][1]) + ($s eq 'inbox' ? -3 : 11), $colour{$s}, $name{$s});
	}
	open my $out, '>', "$dir/bench.svg" or die;
	print $out "$svg</svg>\n";
	close $out;
	return 1;
}

1;
