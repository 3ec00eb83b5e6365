# The Markdown documents as tests see them: their text, their links, and the examples in them, which psql runs.
#
# In a document, a block of language "sql" is an example.  Psql runs the examples of a
# document in order, and the block of language "text" that follows at once is what psql
# prints.  An example without such a block prints nothing.  The first line of an example
# may name the session that runs it:
#
#	-- session 2			runs in session 2; without such a line, in session 1
#	-- session 2 waits		is started, and waits for something
#	-- session 2 goes on	the statement that waited ends now, and prints the text
#
# A single SELECT from a view is repeated until it returns what it should: what other
# processes do takes a moment to show.
#
# A comment "<!-- not run: reason -->" before an example leaves it out.  The block of
# language "ini" before the first example is the server's configuration.
#
# Documents show real output.  comparable() says what of it may differ.

package TestAio::Documents;

use v5.36;
use warnings FATAL => 'all';

use Exporter 'import';
use File::Find ();
use IPC::Run ();
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

our @EXPORT_OK = qw(documents examples configuration sections broken_links missing_files run_examples);

# "make check" compiles a copy of a part of the checkout, and says where the whole is
my $root = $ENV{TEST_AIO_SOURCE} // $TestAio::root;

# Columns whose numbers differ from one run, or one server version, to the next.
my %varies = map { $_ => 1 } qw(
  buf buffer buffer_create_toy completed_by completed_at executed_by in_progress io_generation io_id
  io_device io_fail io_hold latency max_lateness max_latency mean_lateness mean_latency holder pid
  relfilenode filter seq since staged_at started_at stopped_at submitted_at wait_starts wait_time wait_times
  waiters waits worker
);

# Names of all documents, relative to the root.
sub documents
{
	my @found;
	File::Find::find({ no_chdir => 1, wanted => sub {
		$File::Find::prune = 1 if m{^\Q$root\E/(?:build|\.git|bench/[^/]+/vendor)$};
		push @found, s{^\Q$root\E/}{}r if /\.md$/ && -f;
	} }, $root);
	return sort @found;
}

sub document_text { return slurp_file("$root/$_[0]") }

# Returns the fenced blocks of a document: language, text, the line it begins on, the
# paragraph before it, and whether the block before it touches it.
sub blocks ($document)
{
	my (@blocks, $block, $before);
	my $number = 0;
	my $adjacent = 0;
	for my $line (split /\n/, document_text($document))
	{
		$number++;
		if ($block)
		{
			if ($line eq '```') { push @blocks, $block; $block = undef; ($before, $adjacent) = ('', 1) }
			else { $block->{text} .= "$line\n" }
		}
		elsif ($line =~ /^```(\w*)$/)
		{
			$block = { language => $1, text => '', line => $number, before => $before // '', adjacent => $adjacent };
		}
		elsif ($line ne '') { ($before, $adjacent) = ($line, 0) }
	}
	die "$document: a block has no end\n" if $block;
	return @blocks;
}

# Returns the examples of a document: sql, output, session, what the session does (runs, waits, goes on), and where.
sub examples ($document)
{
	my @examples;
	for my $block (blocks($document))
	{
		if ($block->{language} eq 'sql')
		{
			my ($reason) = $block->{before} =~ /^<!-- not run: (.+) -->$/;
			my ($session, $does) = $block->{text} =~ /\A-- session (\d+)(?: (waits|goes on))?\n/;
			push @examples, {
				document => $document, where => "$document:$block->{line}", reason => $reason, sql => $block->{text},
				session => $session // 1, does => $does // 'runs', output => '', line => $block->{line},
			};
		}
		elsif ($block->{language} eq 'text' && $block->{adjacent} && @examples && $examples[-1]{output} eq '')
		{
			$examples[-1]{output} = $block->{text};
		}
	}
	return grep { !$_->{reason} } @examples;
}

# Returns the settings that a document asks for before its first example.
sub configuration ($document)
{
	for my $block (blocks($document))
	{
		last if $block->{language} eq 'sql';
		return $block->{text} =~ /^(\S+) *= *'?(.*?)'?$/mg if $block->{language} eq 'ini';
	}
	return;
}

# Returns what of a result's cell is the same in all runs.
sub _same_cell ($column, $cell)
{
	return $cell if !$varies{$column};
	$cell =~ s/-?\d+(?:\.\d+)?(?:e[-+]?\d+)?/#/g;
	return $cell;
}

# Returns output without what may differ from one run to the next: numbers in the columns
# of %varies (null and the number of an array's elements count), file names, process ids in
# messages, times of plans, the width of columns, and results of one column that is empty.
sub comparable ($text)
{
	my @lines = map { s/\s+$//r } split /\n/, $text;
	my (@result, @columns);
	while (defined(my $line = shift @lines))
	{
		my @cells = map { s/^\s+|\s+$//gr } split /\|/, $line, -1;
		if (@lines && $lines[0] =~ /^-+(?:\+-+)*$/)
		{
			shift @lines;
			@columns = @cells;
			# void
			my ($end) = grep { $lines[$_] ne '' } 0 .. $#lines;
			if (@columns == 1 && $end && $lines[$end] =~ /^\($end rows?\)$/)
			{
				splice @lines, 0, $end + 1;
				@columns = ();
				next;
			}
			push @result, join '|', @cells;
		}
		elsif ($line =~ /^-\[ RECORD (\d+) \]/)
		{
			push @result, "record $1";
			@columns = ('of a record');
		}
		elsif (!@columns) { push @result, $line }
		elsif ($line eq '') { @columns = () }
		elsif ($columns[0] eq 'of a record')
		{
			push @result, "$cells[0]|" . _same_cell($cells[0], join '|', @cells[ 1 .. $#cells ]);
		}
		elsif ($line =~ /^\(\d+ rows?\)$/)
		{
			push @result, $line;
			@columns = ();
		}
		else { push @result, join '|', map { _same_cell($columns[$_] // '', $cells[$_]) } 0 .. $#cells }
	}
	my $comparable = join "\n", grep { $_ ne '' } @result;
	$comparable =~ s/\bbase\/\d+\/(t\d+_)?\d+/base\/#\/#/g;
	$comparable =~ s/\b(PID|pid|process|buffer) \d+/$1 #/g;
	$comparable =~ s/\b(Planning|Execution) Time: [\d.]+ ms/$1 Time: # ms/g;
	return $comparable;
}

# Returns the sections of a document by heading: text, and signatures, the code that lines consist of.
sub sections ($document)
{
	my (@sections, $fenced);
	for my $line (split /\n/, document_text($document))
	{
		$fenced = !$fenced if $line =~ /^```/;
		if (!$fenced && $line =~ /^#+ +(.*)$/) { push @sections, { document => $document, heading => $1, text => '', signatures => [] } }
		elsif (@sections)
		{
			$sections[-1]{text} .= "$line\n";
			push @{ $sections[-1]{signatures} }, $1 if !$fenced && $line =~ /^`([a-z_]+\(.*) *`$/;
		}
	}
	return @sections;
}

# Returns a document's text without its fenced blocks; their lines are empty.
sub _prose ($document)
{
	my $fenced = 0;
	return map {
		my $fence = /^```/;
		my $line = $fenced || $fence ? '' : $_;
		$fenced = !$fenced if $fence;
		$line;
	} split /\n/, document_text($document);
}

# Returns the anchor that GitHub gives a heading.
sub _anchor ($heading)
{
	$heading =~ s/\[([^]]*)\]\([^)]*\)/$1/g;
	return lc($heading) =~ s/[^\w\- ]//gr =~ tr/ /-/r;
}

# Returns the links within the checkout that lead nowhere.
sub broken_links ($document)
{
	my ($directory) = $document =~ m{^(.*/)};
	my @broken;
	for my $link ((join "\n", _prose($document)) =~ /\]\(([^)\s]+)\)/g)
	{
		next if $link =~ /^https?:/;
		my ($path, $anchor) = split /#/, $link, 2;
		my $target = $path eq '' ? $document : ($directory // '') . $path;
		my $exists = -e "$root/$target";
		$exists &&= grep { _anchor($_->{heading}) eq $anchor } sections($target) if defined $anchor;
		push @broken, "$document: $link" if !$exists;
	}
	return @broken;
}

# Returns the files of the checkout that a document names and that do not exist.  Names with
# NNN or ID are patterns; src/backend is the server's.
sub missing_files ($document)
{
	my @names = (join "\n", _prose($document)) =~ m{`((?:bench|doc|servers|sql|src|t)/[\w/-]+\.\w+)`}g;
	return map { "$document: $_" } grep { !m{NNN|/ID_|^src/backend/} && !-e "$root/$_" } @names;
}

# A psql that runs one example after the other.
sub _psql ($server)
{
	my $psql = { in => '', out => '' };
	local %ENV = (%{ { $server->node->_get_env } }, PGOPTIONS => '-c client_min_messages=notice', PSQL_PAGER => '');
	$psql->{run} = IPC::Run::start([ 'psql', '-X', '-q', '-P', 'pager=off', '-d', $server->node->connstr('postgres') ],
		'<', \$psql->{in}, '>&', \$psql->{out});
	_send($psql, 'SELECT pg_backend_pid() AS number');
	($psql->{pid}) = _output($server, $psql) =~ /(\d+)\n\(1 row\)/ or die "psql does not tell its process id\n";
	return $psql;
}

my $end = 'end of the example';

# a single statement that only looks, and how many seconds it may look
my $looks = qr/\A(?:--.*\n)?SELECT\b(?:(?!\bio_\w+\()[^;])*\bFROM (?:pg_aios|pg_stat_activity|io_\w+)\b[^;(]*;\s*\z/;
use constant PATIENCE => 10;

sub _send ($psql, $sql)
{
	$psql->{in} .= "$sql\n;\n\\echo '$end'\n";
	$psql->{run}->pump_nb;
	return;
}

# Waits until psql is done with what it was sent, and returns what it has printed.
sub _output ($server, $psql)
{
	$server->poll(sub { $psql->{run}->pump_nb; $psql->{out} =~ /^$end$/m }) or die "timed out; psql has printed: $psql->{out}\n";
	my ($output) = $psql->{out} =~ /\A(.*?)^$end\n/ms;
	$psql->{out} = substr $psql->{out}, length($output) + length($end) + 1;
	return $output;
}

# Test: what the examples print.
sub run_examples ($server, @examples)
{
	my %sessions;
	for my $example (@examples)
	{
		my $psql = $sessions{ $example->{session} } //= _psql($server);
		_send($psql, $example->{sql}) if $example->{does} ne 'goes on';
		if ($example->{does} eq 'waits')
		{
			my $waits = $server->poll(sub {
				$psql->{run}->pump_nb;
				return $psql->{out} =~ /^$end$/m || $server->sql("SELECT wait_event_type IN ('Extension', 'Lock') OR wait_event = 'AioIoCompletion' FROM pg_stat_get_activity($psql->{pid})") eq 't';
			});
			ok($waits && $psql->{out} eq '', "$example->{where}: waits") || diag($psql->{out});
			next;
		}
		my $output = _output($server, $psql);
		$server->poll(sub {
			return 1 if comparable($output) eq comparable($example->{output});
			_send($psql, $example->{sql});
			$output = _output($server, $psql);
			return 0;
		}, PATIENCE) if $example->{sql} =~ $looks;
		is(comparable($output), comparable($example->{output}), "$example->{where}: output") || diag("psql has printed:\n$output");
	}
	for my $psql (values %sessions)
	{
		$psql->{in} .= "\\q\n";
		$psql->{run}->finish;
	}
	return;
}

1;
