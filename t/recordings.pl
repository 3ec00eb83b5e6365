# Recordings: all that the statements of t/recordings/*.sql do is compared with what they did on another
# server, or with a second run on this one (TestAio/Recording.pm).
#
# Each script has a server of its own, and a process: "perl t/recordings.pl scans" is the process
# of one script.  TEST_AIO_SCRIPTS names the scripts to run if not all.
use TestAio;
use TestAio::Recording;

my $bad_pages = qr{client backend \w+ LOG:  (?:invalid page|page verification failed)};

# what a script needs that others do not
my %params = (
	broken => { no_data_checksums => 1, log => $bad_pages },
	broken_with_checksums => { log => $bad_pages },
	minimal => { conf => { wal_level => 'minimal', max_wal_senders => 0 } },
	modules => { needs => 'pg_prewarm pg_buffercache pageinspect pg_visibility pgstattuple amcheck' },
	steps => { needs => 'gate pg_buffercache', conf => { shared_buffers => '16MB', 'test_aio.reach_synchronous_reads' => 'on' } });

if (@ARGV)
{
	record($ARGV[0], %{ $params{ $ARGV[0] } // {} });
	done_testing();
	exit;
}

my $reason = ($ENV{TEST_AIO_RECORD_INTO} ? undef : only_long()) // why_no_recordings();
plan skip_all => $reason if $reason;
# those that take longest come first
my %all = map { $_ => script_length($_) } all_scripts();
my @names = $ENV{TEST_AIO_SCRIPTS} ? split ' ', $ENV{TEST_AIO_SCRIPTS} : sort { $all{$b} <=> $all{$a} || $a cmp $b } keys %all;
my ($unknown) = grep { !$all{$_} } @names;
die "there is no recording \"$unknown\"; there are: @{[ sort keys %all ]}\n" if $unknown;
run_in_parallel(@names);
my ($into, $with) = @ENV{qw(TEST_AIO_RECORD_INTO TEST_AIO_COMPARE_WITH)};
diag('recordings: ' . @names . ' scripts, ' . ($into ? 'written' : $with ? "compared with $with" : 'each made twice and compared'));
done_testing();

# Runs each script in a process, as many at once as there are processors.
sub run_in_parallel (@waiting)
{
	chomp(my $most = `nproc`);
	my %running;
	while (@waiting || %running)
	{
		if (@waiting && keys %running < $most)
		{
			my $name = shift @waiting;
			my $output = PostgreSQL::Test::Utils::tempdir() . "/$name";
			my $pid = fork // die "fork: $!";
			if (!$pid)
			{
				open STDOUT, '>', $output or die "$output: $!";
				exec $^X, "$FindBin::RealBin/$FindBin::RealScript", $name or die "exec: $!";
			}
			$running{$pid} = [ $name, $output ];
			next;
		}
		my $pid = wait;
		my ($status, $ended) = ($?, delete $running{$pid}) or next;
		report(@$ended, $status);
	}
	return;
}

# Shows what such a process has tested as a subtest.
sub report ($name, $output, $status)
{
	my $text = PostgreSQL::Test::Utils::slurp_file($output);
	print "# Subtest: $name\n", $text =~ s/^/    /mgr;
	return if ok($status == 0, $name) || !$ENV{TEST_AIO_RECORD_INTO};
	PostgreSQL::Test::Utils::append_to_file("$ENV{TEST_AIO_RECORD_INTO}/$name.failed", join '; ', (map { /^ *not ok \d+ - (.*)/ ? $1 : () } split /\n/, $text), "exit status $status");
	return;
}
