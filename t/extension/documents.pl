# The documents are true: their examples print what they show, every function and view has a
# description and an example, and no link is broken.
use TestAio;
use TestAio::Documents qw(documents examples configuration sections broken_links missing_files run_examples);

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
	'::(regclass|integer|bigint|oid|text|"char"|double precision)([[][]])?', '', 'g')
FROM pg_proc p
WHERE oid IN ($members AND classid = 'pg_proc'::regclass)
	AND NOT (prokind = 'f' AND (oid IN (SELECT refobjid FROM pg_depend WHERE classid = 'pg_rewrite'::regclass AND refclassid = 'pg_proc'::regclass)
		OR oid IN (SELECT unnest(ARRAY[aggtransfn::oid, aggfinalfn::oid]) FROM pg_aggregate)))
ORDER BY 1
END
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
		my %functions = map { split /\|/, $_, 2 } split /\n/, $aio->sql($functions);
		cmp_ok(scalar keys %functions, '>', 30, 'there are functions');
		for my $name (sort keys %functions)
		{
			ok($signatures{ $functions{$name} }, "$name: described as $functions{$name}");
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
