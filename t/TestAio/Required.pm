package TestAio::Required;

=head1 NAME

TestAio::Required - what a server has and lacks, and what the tests must not do without (TEST_AIO_REQUIRE)

=head1 SYNOPSIS

	my $pinned = 'SELECT count(*) FROM pg_buffercache WHERE pinning_backends > 0';
	$aio->scenario('pins', sub { $aio->gives($pinned, 0) }, skip => $aio->lacks('pg_buffercache'));
	note('many bad blocks are reported wrongly') if $aio->has_bug('many-bad-blocks');
	my $reason = TestAio::Required::unless_required('direct_io', undef);

=cut

use v5.36;
use warnings FATAL => 'all';

use Exporter 'import';
use Test::More;

our @EXPORT = qw(unless_required);

my %known = map { $_ => 1 }
  qw(io_uring faults injection_points gate trace pg_buffercache pageinspect pg_prewarm pg_visibility amcheck pgstattuple direct_io
  recordings);
my %required = map { $_ => 1 } split ' ', $ENV{TEST_AIO_REQUIRE} // '';

for my $thing (sort keys %required)
{
	die "TEST_AIO_REQUIRE: unknown \"$thing\"; known: " . join(' ', sort keys %known) . "\n" if !$known{$thing};
}

# Returns the reason why a thing is missing, or undef if it is not.  Dies if the thing is missing and required.
sub unless_required ($thing, $reason)
{
	die "TEST_AIO_REQUIRE demands $thing, but: $reason\n" if defined $reason && $required{$thing};
	return $reason;
}

# Bugs of doc/reports.md: major version => server_version_num of the first release without the bug.
my %fixed_in = (
	(map { $_ => {} } qw(autoprewarm-lock brin-redo-missing-block checksums-off-standby-crash consistency-check-new-page crash-leaves-files crash-recovery-lost-blocks create-database-error create-database-minimal
		  create-database-sequence dropped-without-file eviction-counted-twice hit-not-counted
		  io_uring-buffer-wait-hang io_uring-rings-kept io_uring-wait-hang many-bad-blocks pgstatindex-new-page progress-views
		  set-tablespace-rollback shutdown-after-crash slot-status-on-standby stream-end-waits temporary-file-names unlogged-rollback-crash xact-views-leak)),
	'io-worker-exit-hang' => { 19 => 190000, 20 => 200000 },
	# 18 and 19 have these numbers in different places
	'toast-index-progress' => { 18 => 180000, 19 => 190000 });

# Makes the extension of a contrib module.  Returns false if the module is not installed.
sub has_extension ($self, $extension)
{
	my $error = $self->{observer}->starts("CREATE EXTENSION IF NOT EXISTS $extension SCHEMA public")->wait_for_end->error;
	die "$extension: $error->{all}\n" if $error && $error->{sqlstate} ne '0A000';
	$self->unless_required_here($extension, $error ? $error->{message} : undef) if $extension ne 'test_aio';
	return !$error;
}

# Returns why this server lacks a thing, or undef if it does not.  Dies if the thing is
# required, unless the test has set the server up without it.
sub unless_required_here ($self, $thing, $reason)
{
	my $conf = $self->{conf};
	my $without = ($conf->{shared_preload_libraries} // 'test_aio') !~ /test_aio/
	  || $thing =~ /gate|faults/ && exists $conf->{'test_aio.gate'}
	  || $thing eq 'faults' && $self->method eq 'sync' && ($conf->{'test_aio.reach_synchronous_reads'} // '') eq 'off'
	  || $thing eq 'trace' && exists $conf->{'test_aio.trace_size'};
	return $without ? $reason : unless_required($thing, $reason);
}

# Returns true if this server has a bug of doc/reports.md.  The tests of t/server/bugs fail if that is not so:
# if a release has the fix, %fixed_in says so; if a tree has, TEST_AIO_FIXED='name ...' does.
sub has_bug ($self, $bug)
{
	my $fixed_in = $fixed_in{$bug} or die "%fixed_in does not know the bug \"$bug\"\n";
	my $fixed = $fixed_in->{ $self->major };
	my $has = !grep({ $_ eq $bug } split ' ', $ENV{TEST_AIO_FIXED} // '') && (!defined $fixed || $self->setting('server_version_num') < $fixed);
	# servers/check prints these notes
	note('this server ' . ($has ? 'has the' : 'is without the') . " bug $bug");
	return $has;
}

sub has_assertions ($self) { return $self->setting('debug_assertions') eq 'on' }

# Notes which parts of test_aio this server has: filters, gate, trace.
sub note_abilities ($self)
{
	for my $what (qw(filters gate trace))
	{
		my $view = { filters => 'io_filters', gate => 'io_held', trace => 'io_trace_status' }->{$what};
		my $error = $self->{observer}->starts("SELECT count(*) FROM $view")->wait_for_end->error;
		die "$view: $error->{all}\n" if $error && $error->{sqlstate} ne '55000';
		$self->{"has_$what"} = !$error;
		my ($reason) = $error ? ($error->{detail} // $error->{message}) =~ /^(?:The reason is that )?(.*?)\.?$/ : ();
		$self->{lacks}{$what} = $error ? "needs the I/O $what: $reason" : undef;
	}
	return;
}

# Returns why the server does not have "gate", "trace", "filters" or a contrib module, or undef.  Reports a contrib
# module that is missing as a skipped check, once: some scenarios leave out only the assertions that need it.
sub lacks ($self, $what)
{
	if (!exists $self->{lacks}{$what})
	{
		my $reason = $self->{lacks}{$what} = $self->has_extension($what) ? undef : "needs the contrib module $what";
		SKIP: { skip $reason, 1 if $reason }
	}
	return $self->unless_required_here($what, $self->{lacks}{$what});
}

1;
