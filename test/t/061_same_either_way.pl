# The same random history through two queues, one that is walked (inbox.direct
# on) and one that is searched by SQL: every answer must be the same, and so
# must the tables at the end.  And through a third, where the setting changes
# between the calls.
#
# Leases and due times are set back by hand, so that nobody has to wait.
# INBOX_SEED repeats a run, INBOX_STEPS makes it longer.

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use InboxTest;
use Test::More;

my $seed = $ENV{INBOX_SEED} // 1 + int rand 1_000_000;
my $steps = $ENV{INBOX_STEPS} // 700;
my $node = new_node('same', "inbox.reap_interval = '1h'", 'log_min_messages = warning');
my @queues = qw(walked searched mixed);

$node->safe_psql('postgres', 'CREATE EXTENSION inbox');

# name => [how the table is made, id of the i-th row, its columns]
my %kinds = (
	created => {
		make => q{SELECT inbox_create('%1$s', lease => '1 h', max_attempts => 4);
			ALTER TABLE %1$s ALTER id RESTART 1000000},
		sends => 1,
		id => sub { $_[0] }, priority => [ -1, 0, 0, 5 ], due => 1 },
	text => {
		make => q{
			CREATE TABLE %1$s (id text COLLATE "C" PRIMARY KEY, locked_until timestamptz,
				claimed_at timestamptz, attempt smallint, payload jsonb, due_at timestamptz DEFAULT now(),
				priority smallint, processed_at timestamptz);
			CREATE INDEX ON %1$s (priority, due_at, id) WHERE processed_at IS NULL;
			SELECT inbox_adopt('%1$s', claimed_at => 'claimed_at', attempt => 'attempt', payload => 'payload',
				due_at => 'due_at', priority => 'priority', processed_at => 'processed_at', lease => '1 h')},
		id => sub { 'x' . $_[0] }, priority => [ 'NULL', 0, 3 ], due => 1 },
	uuid => {
		make => q{
			CREATE TABLE %1$s (id uuid PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz,
				payload jsonb, priority bigint NOT NULL);
			CREATE INDEX ON %1$s (priority, id);
			SELECT inbox_adopt('%1$s', claimed_at => 'claimed_at', payload => 'payload', priority => 'priority',
				lease => '1 h')},
		id => sub { sprintf '00000000-0000-0000-0000-%012d', $_[0] },
		priority => [ '-9223372036854775808', 0, '9223372036854775807' ] },
	bare => {
		make => q{
			CREATE TABLE %1$s (id int PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz);
			SELECT inbox_adopt('%1$s', claimed_at => 'claimed_at', lease => '1 h')},
		id => sub { $_[0] } });

# ---------------------------------------------------------------------------

my $kind;
my $rows;    # made so far
my @db;
my @receipts;    # for each queue, those of the deliveries, in the same order
my $history;
my $differs;
my $claimed;

sub pick { my @from = @_; return $from[ rand @from ] }

# Runs SQL on each of the queues: Q is its name, R a held receipt.  What comes
# back must be alike.
sub each_queue
{
	my ($sql, @held) = @_;
	my @answers;

	$history .= "$sql [@held]\n";
	for my $i (0 .. $#queues)
	{
		my $text = $sql =~ s/\bQ\b/$queues[$i]/gr;
		my @args = map { $receipts[$i][$_] } @held;

		$db[$i]->do('SET inbox.direct = ' . (qw(on off), pick('on', 'off'))[$i])
		  if $i == 2 && !$differs && $db[$i]->ping;
		my $answer = eval { $db[$i]->selectall_arrayref($text, undef, @args ? \@args : ()) };
		push @answers, defined $answer ? $answer : 'error ' . $db[$i]->state;
	}
	return @answers;
}

# The columns of the answers that hold no receipt and no time.
sub compare
{
	my ($what, $columns, @answers) = @_;
	my @texts = map {
		ref $_ ? join(' ', map { my $r = $_; join ',', map { $r->[$_] // '-' } @$columns } @$_) : $_
	} @answers;

	$history .= "  $texts[0]\n";
	for my $i (1 .. $#queues)
	{
		next if $texts[$i] eq $texts[0];
		$differs //= "$what: walked [$texts[0]], $queues[$i] [$texts[$i]]";
	}
	return;
}

# From a fixed instant: the queues get their rows one after the other, and rows
# of two calls must have the same order in all of them.
my $past = int(time()) - 3600;
sub due_sql { return sprintf 'to_timestamp(%d)', $past + pick(1 .. 400) }

sub insert_sql
{
	my @columns = ('id');
	my @values;

	push @columns, 'payload' if $kind->{priority};
	push @columns, 'priority' if $kind->{priority};
	push @columns, 'due_at' if $kind->{due};
	for (1 .. 1 + int rand 4)
	{
		my @value = (q{'} . $kind->{id}->(++$rows) . q{'});

		push @value, q{'1'}, pick(@{ $kind->{priority} }) if $kind->{priority};
		push @value, pick(1 .. 5) == 1 ? q{now() + interval '1 h'} : due_sql() if $kind->{due};
		push @values, '(' . join(', ', @value) . ')';
	}
	return "INSERT INTO Q (" . join(', ', @columns) . ') VALUES ' . join(', ', @values);
}

sub send_some
{
	my $payloads = join ', ', map { q{'1'} } 1 .. pick(1, 2, 4);
	my $due = pick('due_at => ' . due_sql(), q{delay => '1 h'}, 'due_at => ' . due_sql());

	compare('send', [0], each_queue("SELECT id FROM inbox_send_batch('Q', ARRAY[$payloads]::jsonb[], $due, priority => "
			  . pick(@{ $kind->{priority} }) . ') id'));
	return;
}

sub some_id { return q{'} . $kind->{id}->(1 + int rand($rows + 1)) . q{'} }

sub update_sql
{
	my @sets = (
		q{locked_until = NULL}, q{locked_until = now() - interval '1 s'},
		q{locked_until = now() + interval '1 h'}, q{locked_until = locked_until});

	push @sets, 'due_at = ' . due_sql(), q{due_at = now() + interval '1 h'}, 'due_at = ' . due_sql()
	  if $kind->{due};
	push @sets, 'priority = ' . pick(@{ $kind->{priority} }), q{payload = '2'} if $kind->{priority};
	push @sets, q{id = '} . $kind->{id}->(++$rows) . q{'};
	return 'UPDATE Q SET ' . pick(@sets) . ' WHERE id = ' . some_id();
}

sub claim
{
	my $n = pick(1, 1, 2, 3, 20);
	my @answers = each_queue("SELECT id, receipt, attempt FROM inbox_claim_ids('Q', $n)");

	compare("claim of $n", [ 0, 2 ], @answers);
	return if $differs || !ref $answers[0];
	$claimed += @{ $answers[0] };
	for my $i (0 .. $#queues)
	{
		push @{ $receipts[$i] }, map { $_->[1] } @{ $answers[$i] };
	}
	return;
}

sub held
{
	my $n = @{ $receipts[0] };
	my $last = pick(5, 5, 20, $n);

	$last = $n if $last > $n;
	return map { $n - 1 - int rand $last } 1 .. ($n ? 1 + int rand 4 : 0);
}

sub settle
{
	my @held = held() or return;
	my @outcomes = map { pick(qw(done drop retry release release)) } @held;
	my $delays = join ', ', map { pick(q{'0'}, q{'1 h'}) } @held;
	my $list = join ', ', map { "'$_'" } @outcomes;

	compare('settle', [ 0, 1 ],
		each_queue("SELECT id, verdict FROM inbox_settle_batch('Q', ?, ARRAY[$list], ARRAY[$delays]::interval[])",
			@held));
	return;
}

sub extend
{
	my @held = held() or return;

	compare('extend', [0], each_queue("SELECT verdict FROM inbox_extend_batch('Q', ?, '2 h')", @held));
	return;
}

sub change
{
	my $sql = shift;

	compare($sql, [0], each_queue("$sql RETURNING id"));
	return;
}

# Everything that could be wrong in a table.
sub compare_tables
{
	my @columns = qw(id (locked_until>now())::text (claimed_at<now()+interval'1d')::text);

	push @columns, 'attempt' if $kind->{due};
	push @columns, 'priority' if $kind->{priority};
	push @columns, '(due_at<now())::text' if $kind->{due};
	compare('table', [ 0 .. $#columns ],
		each_queue('SELECT ' . join(', ', @columns) . ' FROM Q ORDER BY id'));
	return;
}

sub control
{
	my $sql = shift;

	$history .= "$sql\n";
	eval { $_->do($sql) } for @db;
	return;
}

my $depth;

sub step
{
	my $dice = rand;

	return claim() if $dice < 0.35;
	return settle() if $dice < 0.55;
	return extend() if $dice < 0.6;
	return send_some() if $kind->{sends} && $dice < 0.65;
	return change(insert_sql()) if $dice < 0.7;
	return change(update_sql()) if $dice < 0.8;
	return change('DELETE FROM Q WHERE id = ' . some_id()) if $dice < 0.815;
	return compare('purge', [0], each_queue(q{SELECT inbox_purge('Q')})) if $dice < 0.82;
	if ($dice < 0.88 && !$depth)
	{
		control('BEGIN ISOLATION LEVEL ' . pick('READ COMMITTED', 'READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'));
		$depth = 1;
	}
	elsif ($dice < 0.92 && $depth)
	{
		control("SAVEPOINT s$depth");
		$depth++;
	}
	elsif ($dice < 0.95 && $depth > 1)
	{
		$depth--;
		control(pick('RELEASE', 'ROLLBACK TO', 'ROLLBACK TO') . " s$depth");
	}
	elsif ($depth)
	{
		control(pick('COMMIT', 'COMMIT', 'ROLLBACK', 'ROLLBACK'));
		$depth = 0;
	}
	return;
}

sub run
{
	my $name = shift;

	$kind = $kinds{$name};
	$rows = 0;
	$depth = 0;
	@receipts = map { [] } @queues;
	$history = '';
	undef $differs;
	$claimed = 0;
	$node->safe_psql('postgres', 'SET client_min_messages = error; ' . sprintf($kind->{make}, $_)) for @queues;
	@db = map { connect_db($node) } @queues;
	$db[1]->do('SET inbox.direct = off');
	for (1 .. $steps)
	{
		step();
		last if $differs;
	}
	control('COMMIT') unless $differs;
	claim() unless $differs;
	compare_tables() unless $differs;
	cmp_ok($claimed, '>', $steps / 10, "$name: claims have found something");
	ok(!$differs, "$name: $steps steps, seed $seed")
	  or diag($differs . "\n" . join("\n", (split /\n/, $history)[ -40 .. -1 ]));
	$_->disconnect for @db;
	$node->safe_psql('postgres', "DROP TABLE $_") for @queues;
	return;
}

# --- each way is the way it says: the statement shows in an error's context

$node->safe_psql('postgres', q{
	CREATE TABLE narrow (id int PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz);
	INSERT INTO narrow VALUES (1), (2);
	SET client_min_messages = error;
	SELECT inbox_adopt('narrow', claimed_at => 'claimed_at');
	SELECT FROM inbox_claim('narrow');
	ALTER TABLE narrow ADD CHECK (locked_until < '2000-01-01') NOT VALID;
	CREATE TABLE parent (id int PRIMARY KEY, locked_until timestamptz, claimed_at timestamptz);
	CREATE TABLE child (n int REFERENCES parent);
	INSERT INTO parent VALUES (1); INSERT INTO child VALUES (1);
	SELECT inbox_adopt('parent', claimed_at => 'claimed_at');
	SELECT FROM inbox_claim('parent')});
for my $way ('on', 'off')
{
	my $sql = $way eq 'on' ? 'unlike' : 'like';
	my $test = Test::More->can($sql);
	my ($state, $text) = sqlstate($node, 'postgres', "SET inbox.direct = $way; SELECT inbox_claim('narrow')");

	is($state, '23514', "$way: a constraint");
	$test->($text, qr/SQL statement "UPDATE public.narrow/, "$way: a claim writes as it should");
	($state, $text) = sqlstate($node, 'postgres',
		"SET inbox.direct = $way; SELECT inbox_settle('parent', inbox_receipt(p)) FROM parent p");
	is($state, '23503', "$way: a reference");
	# when AFTER ROW triggers fire does not depend on the setting
	unlike($text, qr/SQL statement "DELETE FROM public.parent/, "$way: no statement where rows fire triggers");
}
$node->safe_psql('postgres', 'DROP TABLE child, parent, narrow');

srand($seed);
run($_) for sort keys %kinds;
$node->stop;
done_testing();
