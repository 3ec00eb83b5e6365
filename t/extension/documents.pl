# The documents are true: their examples print what they show, every function and view has a
# description and an example, and no link is broken.
#
# In a document, a block "sql" is an example.  Psql runs the examples of a document in order, and prints the block "text"
# that follows at once, or nothing.  The first line of an example may name the session that runs it:
#	-- session 2			runs in session 2; without such a line, in session 1
#	-- session 2 waits		is started, and waits for something
#	-- session 2 goes on	the statement that waited ends now, and prints the text
# A single SELECT from a view is repeated until it returns what it should: what other processes do takes a moment to show.
# A comment "<!-- not run: reason -->" before an example leaves it out.  The block "ini" before the first example is the
# server's configuration.  comparable() says what of the output may differ.
use TestAio;
use File::Find ();
use IPC::Run ();
use PostgreSQL::Test::Utils qw(slurp_file);

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
		$File::Find::prune = 1 if m{^\Q$root\E/(?:build|\.git)$};
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
		elsif (!@columns) { push @result, $line }
		elsif ($line eq '') { @columns = () }
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

# Returns a document's text without its fenced blocks.
sub _prose ($document) { return document_text($document) =~ s/^```.*?^```$//msgr }

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
	for my $link (_prose($document) =~ /\]\(([^)\s]+)\)/g)
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
	my @names = _prose($document) =~ m{`((?:bench|doc|servers|sql|src|t)/[\w/-]+\.\w+)`}g;
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

my @documents = documents();

subtest 'form' => sub {
	cmp_ok(scalar @documents, '>', 5, 'there are documents');
	for my $document (@documents)
	{
		is_deeply([ broken_links($document) ], [], "$document: links");
		is_deeply([ missing_files($document) ], [], "$document: files that it names");
	}
};

my %examples = map { $_ => [ examples($_) ] } @documents;
my @with_examples = grep { @{ $examples{$_} } } @documents;
my $all_sql = join '', map { $_->{sql} } map { @$_ } values %examples;

# Signatures and columns of the extension's functions and views, except functions that only
# its views and aggregates call.
my $members = "SELECT objid FROM pg_depend WHERE deptype = 'e' AND refclassid = 'pg_extension'::regclass"
  . " AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'test_aio')";
my $functions = <<"END";
SELECT proname, regexp_replace(format('%s(%s) → %s', proname, pg_get_function_arguments(oid), pg_get_function_result(oid)),
	'::(regclass|integer|bigint|oid|text|"char"|double precision)([[][]])?|(, )?OUT [^)]*', '', 'g'),
	(SELECT string_agg(name, ' ') FROM unnest(proargnames, proargmodes::text[]) AS named(name, mode) WHERE mode = 'o')
FROM pg_proc p
WHERE oid IN ($members AND classid = 'pg_proc'::regclass)
	AND NOT (prokind = 'f' AND (oid IN (SELECT refobjid FROM pg_depend WHERE classid = 'pg_rewrite'::regclass AND refclassid = 'pg_proc'::regclass)
		OR oid IN (SELECT unnest(ARRAY[aggtransfn::oid, aggfinalfn::oid]) FROM pg_aggregate)))
ORDER BY 1
END
my $filter_arguments = qr/(?:, (?:blockno|fork|pid|skip|times|keep|everybody|op|backend_type|leader_pid|family) (?:bigint|integer|boolean|text) DEFAULT [^,)]+){4,}/;
my $views = <<"END";
SELECT relname, string_agg(attname, ' ' ORDER BY attnum)
FROM pg_class c JOIN pg_attribute a ON attrelid = c.oid AND attnum > 0
WHERE c.oid IN ($members AND classid = 'pg_class'::regclass) AND relkind = 'v'
GROUP BY 1 ORDER BY 1
END

my $settings = <<"END";
SELECT name, CASE unit WHEN 'ms' THEN boot_val::int / 1000 || 's' ELSE boot_val END
FROM pg_settings WHERE name LIKE 'test_aio.%'
END

for_each_io_method('worker', sub {
	$aio->scenario('everything is described and has an example', sub {
		my @sections = map { sections($_) } @documents;
		my %signatures = map { $_ => 1 } map { @{ $_->{signatures} } } @sections;
		my %named = map { $_ => 1 } map { $_->{text} =~ /`(\w+)`/g } @sections;
		my %functions = map { my ($name, @rest) = split /\|/; $name => \@rest } split /\n/, $aio->sql($functions);
		cmp_ok(scalar keys %functions, '>', 30, 'there are functions');
		for my $name (sort keys %functions)
		{
			my ($signature, $columns) = @{ $functions{$name} };
			# one of them shows the arguments of all filters
			$signature =~ s/$filter_arguments/, …/g if $name ne 'io_hold';
			ok($signatures{$signature}, "$name: described as $signature");
			is_deeply([ grep { !$named{$_} } split / /, $columns // '' ], [], "$name: its columns are described");
			like($all_sql, qr/\b$name\(/, "$name: has an example");
		}
		my %views = map { split /\|/ } split /\n/, $aio->sql($views);
		cmp_ok(scalar keys %views, '>', 5, 'there are views');
		for my $name (sort keys %views)
		{
			# a section of a function may have the same heading
			my $text = join '', map { $_->{text} } grep { $_->{heading} eq $name } @sections;
			my %described = map { $_ => 1 } map { /`(\w+)`/g } $text =~ /^\| (`.*?) \|/mg;
			is_deeply([ grep { !$described{$_} } split / /, $views{$name} ], [], "$name: its columns are described");
			like($all_sql, qr/\b(?:FROM|TABLE) $name\b/, "$name: has an example");
		}
		my %defaults = map { /^\| `(test_aio\.\w+)` \| `(.*?)` \|/mg } map { $_->{text} } grep { $_->{heading} eq 'Settings' } @sections;
		is_deeply(\%defaults, { map { split /\|/ } split /\n/, $aio->sql($settings) }, 'settings: their defaults');
		my @events = sort map { /^\| `(Io\w+)` \|/mg } map { $_->{text} } @sections;
		is_deeply(\@events, [ split /\n/, $aio->sql(q{SELECT name FROM pg_wait_events WHERE type = 'Extension' AND name ~ '^Io' ORDER BY name COLLATE "C"}) ], 'wait events') if !$aio->lacks('gate');
	});

	for my $document (@with_examples)
	{
		my $uses_gate = grep { $_->{sql} =~ /\b(?:inj|io_(?:hold|fail|device|held|gate|trace))_?/ } @{ $examples{$document} };
		$aio->scenario("examples of $document", sub {
			# the document begins with no trace, and before the extension and its tables exist
			$aio->sql('SELECT io_trace_reset()') if !$aio->lacks('trace');
			$aio->sql('DROP EXTENSION test_aio') if grep { $_->{sql} =~ /CREATE EXTENSION test_aio/ } @{ $examples{$document} };
			run_examples($aio, @{ $examples{$document} });
			$aio->sql("DROP TABLE $_") for split /\n/, $aio->sql("SELECT oid::regclass FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'");
		}, skip => ($uses_gate ? $aio->lacks('gate') // $aio->lacks('trace') : undef) // ($document =~ /gate|functions|trace/ ? only_long() : undef),
			log => [ qr/WARNING:  (?:leaked AIO handle|open AIO batch)/, qr/io worker ERROR:  I\/O worker fails to reopen a file/,
				qr/LOG:  (?:invalid page in block|could not read blocks .*: (?:Input\/output error|No such file or directory))/ ]);
	}
}, own => 1, conf => { map { configuration($_) } @with_examples });
