package TestAio::Difference;

=head1 NAME

TestAio::Difference - what differs between the recordings of two servers (TestAio::Recording)

=head1 SYNOPSIS

	use TestAio::Difference;
	my @recordings = map { TestAio::Difference::parse("server $_\n\n=== SELECT 1\n---\nrow $_\n") } qw(18.5 18.6);
	print map { "$_\n" } summary(differences(@recordings, 'scans'));

Of two major versions only what is promised is compared: rows, errors and warnings, but not plans.  t/recordings/expected
has the differences that are known and intended.  servers/compare runs this file; it needs no module of the server's.

=cut

use v5.36;
use warnings FATAL => 'all';

use Exporter 'import';
use File::Basename qw(dirname);
use JSON::PP ();

our @EXPORT = qw(differences summary);

our $expected_file = dirname(dirname(__FILE__)) . '/recordings/expected';

# Shown are so many kinds of differences, so many lines of each server, and so many characters of a line.
my ($most_kinds, $most_lines, $most_characters) = (8, 5, 200);

sub _slurp ($path)
{
	open my $file, '<', $path or die "$path: $!\n";
	local $/;
	return scalar <$file>;
}

# A recording from its text: version, what its server lacks, and parts [ statement, lines … ].
sub parse ($text)
{
	my ($head, @parts) = split /^=== /m, $text;
	my ($version, $lacks) = $head =~ /^server (.*?)(?:, without (.*))?$/m or die "this is no recording\n";
	@parts = map { my ($statement, $lines) = split /\n---\n/, $_, 2; [ $statement, grep { $_ ne '' } split /\n/, $lines ] } @parts;
	return { version => $version, lacks => { map { $_ => 1 } split ' ', $lacks // '' }, parts => \@parts };
}

sub read ($path) { return parse(_slurp($path)) }

# The text of a recording.
sub text ($recording)
{
	my $lacks = join ' ', sort keys %{ $recording->{lacks} };
	return "server $recording->{version}" . ($lacks ? ", without $lacks" : '') . "\n\n"
	  . join '', map { my ($statement, @lines) = @$_; join "\n", "=== $statement", '---', @lines, '', '' } @{ $recording->{parts} };
}

sub _majors { return map { $_->{version} =~ /^(\d+)/ ? $1 : 0 } @_ }

# What is expected between two major versions: [ reason, pattern … ].
sub _expected
{
	my ($before, $after) = sort { $a <=> $b } @_;
	return () if !-e $expected_file;
	my @expected;
	for (split /\n/, _slurp($expected_file))
	{
		if (/^(\d+) to (\d+): (.+)/) { push @expected, [ $1, $2, $3 ] }
		elsif (/^\t(.+)/ && @expected) { push @{ $expected[-1] }, qr/$1/ }
		elsif (!/^(?:#|$)/) { die "$expected_file: what is \"$_\"?\n" }
	}
	# what changes from 18 to 19 is still changed in 20
	return map { [ @$_[ 2 .. $#$_ ] ] } grep { $before <= $_->[0] && $_->[1] <= $after } @expected;
}

# Returns the reason why a line is expected to differ, or undef.
sub _reason ($line, @expected)
{
	for (@expected)
	{
		my ($reason, @patterns) = @$_;
		return $reason if grep { $line =~ $_ } @patterns;
	}
	return;
}

# The lines that differ, as [ sign, line ].
sub _changed ($before, $after)
{
	my @before = @$before;
	my @after = @$after;
	while (@before && @after && $before[0] eq $after[0]) { shift @before; shift @after }
	while (@before && @after && $before[-1] eq $after[-1]) { pop @before; pop @after }
	# lengths of the longest common subsequences of the ends
	my @common = map { [ (0) x (@after + 1) ] } 0 .. @before;
	for my $i (reverse 0 .. $#before)
	{
		for my $j (reverse 0 .. $#after)
		{
			my ($skip, $take) = ($common[ $i + 1 ][$j], $common[$i][ $j + 1 ]);
			$common[$i][$j] = $before[$i] eq $after[$j] ? 1 + $common[ $i + 1 ][ $j + 1 ] : $skip > $take ? $skip : $take;
		}
	}
	my ($i, $j, @changed) = (0, 0);
	while ($i < @before || $j < @after)
	{
		if ($i < @before && $j < @after && $before[$i] eq $after[$j]) { $i++; $j++ }
		elsif ($j == @after || $i < @before && $common[ $i + 1 ][$j] >= $common[$i][ $j + 1 ]) { push @changed, [ '-', $before[ $i++ ] ] }
		else { push @changed, [ '+', $after[ $j++ ] ] }
	}
	return @changed;
}

# Returns a filter of the lines that both servers can show and are to have in common.
sub _comparable ($before, $after)
{
	my %lacks = (%{ $before->{lacks} }, %{ $after->{lacks} });
	my ($from, $to) = _majors($before, $after);
	return sub ($statement, @lines) {
		@lines = grep { !$lacks{ (split / /)[0] } } @lines;
		return @lines if $from == $to;
		return if $statement =~ /^(?:\w+: )?EXPLAIN\b/;
		return grep { /^row / || /^said (?:ERROR|FATAL|PANIC|WARNING):/ } @lines;
	};
}

# What differs between two recordings of a script, statement by statement.  A difference has script,
# number, statement, before and after (lines), kind, and expected, the reason if it is expected.
sub differences ($before, $after, $script)
{
	my $comparable = _comparable($before, $after);
	my @expected = _expected(_majors($before, $after));
	my ($from, $to) = ($before->{parts}, $after->{parts});
	my @found;
	for my $number (0 .. ($#$from > $#$to ? $#$from : $#$to))
	{
		my ($statement, @before) = @{ $from->[$number] // [''] };
		my ($other, @after) = @{ $to->[$number] // [''] };
		my @changed = _changed([ $comparable->($statement, @before) ], [ $comparable->($other, @after) ]);
		@changed = ([ '-', "statement $statement" ], [ '+', "statement $other" ]) if $statement ne $other;
		next if !@changed;
		my @reasons = map { scalar _reason("$script: $_->[1]", @expected) } @changed;
		my %kinds = map { ($_->[0] . (split / /, $_->[1])[0]) => 1 } @changed;
		push @found, {
			script => $script, number => $number + 1, statement => ($statement || $other) =~ s/\s+/ /gr,
			before => [ map { $_->[0] eq '-' ? $_->[1] : () } @changed ],
			after => [ map { $_->[0] eq '+' ? $_->[1] : () } @changed ],
			kind => join(' ', sort keys %kinds), expected => (grep { !defined } @reasons) ? undef : $reasons[0] };
	}
	return @found;
}

sub _cut ($line) { return length $line > $most_characters ? substr($line, 0, $most_characters) . ' …' : $line }

# One side of a difference.
sub _side ($sign, @lines)
{
	my $rest = @lines - $most_lines;
	@lines = (@lines[ 0 .. $most_lines - 1 ], "… and $rest more lines") if $rest > 0;
	return map { "  $sign " . _cut($_) } @lines;
}

sub _count ($number, $thing) { return "$number $thing" . ($number == 1 ? '' : 's') }

# Lines of text about differences: of each kind one example, and how many there are.
sub summary (@differences)
{
	my (%of_kind, @order, %meant, @lines);
	for (@differences)
	{
		if (defined $_->{expected}) { $meant{ $_->{expected} }++; next }
		push @order, $_->{kind} if !$of_kind{ $_->{kind} };
		push @{ $of_kind{ $_->{kind} } }, $_;
	}
	# what is seen most often first
	@order = sort { @{ $of_kind{$b} } <=> @{ $of_kind{$a} } } @order;
	for my $kind (splice @order, 0, $most_kinds)
	{
		my ($example, @more) = @{ $of_kind{$kind} };
		push @lines, _cut("$example->{script} $example->{number}: $example->{statement}");
		push @lines, _side('-', @{ $example->{before} }), _side('+', @{ $example->{after} });
		my $others = _cut(join ', ', map { "$_->{script} $_->{number}" } @more);
		push @lines, '  likewise ' . _count(scalar @more, 'statement') . ": $others" if @more;
	}
	my $rest = 0;
	$rest += @{ $of_kind{$_} } for @order;
	push @lines, _count($rest, 'statement') . ' of ' . _count(scalar @order, 'other kind') . ' left out' if @order;
	push @lines, map { "expected in " . _count($meant{$_}, 'statement') . ": $_" } sort keys %meant;
	return @lines;
}

# Compares two directories of recordings, as t/recordings.pl has made them, for servers/compare, and
# returns its exit status.  json names a file, or is ""; only has scripts if not all are meant;
# then come name and directory of each side.
sub compare ($json, $only, @names)
{
	my @sides = ([ @names[ 0, 1 ] ], [ @names[ 2, 3 ] ]);
	my %result = (compared => 'nothing', statements => 0, map { $_ => [] } qw(scripts failed skipped differences expected));
	my ($before, $after) = @result{qw(before after)} = map { { name => $_->[0], version => undef } } @sides;
	my %only = map { $_ => 1 } split ' ', $only;
	my %files = map { m{((\w+)[^/]*)$} && (!%only || $only{$2}) ? ($1 => 1) : () } map { glob "$_->[1]/*" } @sides;
	my @found;
	for my $script (sort map { /^(\w+)\.out$/ ? $1 : () } keys %files)
	{
		my @pair = map { -e "$_->[1]/$script.out" ? TestAio::Difference::read("$_->[1]/$script.out") : () } @sides;
		next if @pair < 2;
		($before->{version}, $after->{version}) = map { $_->{version} } @pair;
		my ($from, $to) = _majors(@pair);
		$result{compared} = $from == $to ? 'all that is recorded' : "of $from and $to rows, errors and warnings, but not plans";
		push @{ $result{scripts} }, $script;
		$result{statements} += @{ $pair[0]{parts} };
		push @found, differences(@pair, $script);
	}
	for my $file (sort keys %files)
	{
		my ($script, $what) = $file =~ /^(\w+)\.(failed|skipped)$/ or next;
		for my $side (grep { -e "$_->[1]/$file" } @sides)
		{
			push @{ $result{$what} }, { script => $script, side => $side->[0], why => _slurp("$side->[1]/$file") =~ s/\s+\z//r };
		}
	}
	my @unexpected = grep { !defined $_->{expected} } @found;
	$result{differences} = [ map { my %difference = %$_; delete $difference{expected}; \%difference } @unexpected ];
	my %meant;
	$meant{ $_->{expected} }++ for grep { defined $_->{expected} } @found;
	$result{expected} = [ map { { reason => $_, statements => $meant{$_} } } sort keys %meant ];
	if ($json ne '')
	{
		open my $out, '>', $json or die "$json: $!\n";
		print $out JSON::PP->new->canonical->pretty->encode(\%result);
		close $out;
	}
	print map { "$_\n" } "before: $before->{name}, " . ($before->{version} // 'not recorded'),
	  "after:  $after->{name}, " . ($after->{version} // 'not recorded'),
	  _count(scalar @{ $result{scripts} }, 'script') . ' of ' . _count($result{statements}, 'statement') . ", compared: $result{compared}",
	  map({ "$_->{script} is not compared: on $_->{side}, $_->{why}" } @{ $result{skipped} }),
	  map({ "$_->{script} FAILED on $_->{side}: $_->{why}" } @{ $result{failed} }),
	  summary(@found),
	  @unexpected ? 'DIFFERENT: ' . _count(scalar @unexpected, 'statement') : 'no ' . (%meant ? 'other ' : '') . 'difference';
	return @unexpected || @{ $result{failed} } ? 1 : @{ $result{scripts} } ? 0 : 2;
}

1;
