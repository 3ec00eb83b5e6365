# CREATE DATABASE … STRATEGY wal_log is cancelled while its read stream waits for a free handle,
# within a batch (doc/reports/create-database-error.md).  On a server that has the bug, the clean-up fails
# as well, because the batch is still open, and the files of the new database stay.
#
# io_methods: worker; long: io_uring
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Gate;

my $handles = 4;

# Counts directories that belong to no database.
my $orphans = "SELECT count(*) FROM pg_ls_dir('base') d WHERE d ~ '^[0-9]+\$' AND d NOT IN (SELECT oid::text FROM pg_database)";

# Cancels CREATE DATABASE when its reads have used all handles for the n-th time.  Its stream then
# waits for a free handle or for its oldest read; no view shows which.  Returns true if files were
# left.
sub cancelled_when_full
{
	my ($aio, $creator, $times) = @_;
	my $before = $aio->sql($orphans);
	$aio->sql("SELECT io_hold(pid => ${\$creator->pid}, fork => NULL)");
	$creator->starts('CREATE DATABASE copy TEMPLATE original STRATEGY wal_log');
	my $full = 0;
	ok($aio->poll(sub {
			return 1 if $aio->sql('SELECT count(*) FROM io_held') == $handles && ++$full == $times;
			$aio->sql('SELECT io_release_all()');
			return 0;
		}), "all handles are in use, time number $times") or note($aio->activity($creator->pid));
	$aio->sql("SELECT pg_cancel_backend(${\$creator->pid})");
	$creator->wait_for_end;
	$aio->end_gate;
	my $left = $aio->sql($orphans) > $before;
	is($creator->error->{sqlstate}, $left ? 'XX000' : '57014', $left ? 'the clean-up fails' : 'the statement is cancelled');
	is($aio->sql("SELECT count(*) FROM pg_database WHERE datname = 'copy'"), 0, 'the new database does not exist');
	return $left;
}

for_each_io_method(
	sub {
		my ($aio) = @_;
		$aio->sql('CREATE DATABASE original TEMPLATE postgres STRATEGY file_copy');

		$aio->scenario('cancelled while it waits for a handle', sub {
			my ($creator) = $aio->sessions('creator');
			# caches the catalogs, so that the hold holds no other read
			$creator->sql('SELECT count(*) FROM pg_tablespace; SELECT count(*) FROM pg_database');
			$creator->sql('SET io_combine_limit = 1; SET effective_io_concurrency = 64; SET maintenance_io_concurrency = 64');
			my $left = grep { cancelled_when_full($aio, $creator, $_) } 2 .. 7;
			if ($aio->has_bug('create-database-error')) { cmp_ok($left, '>', 0, "files are left, $left of 6 times") }
			else                          { is($left, 0, 'no files are left') }
			$creator->gives('CREATE DATABASE copy TEMPLATE original STRATEGY wal_log; DROP DATABASE copy', '', 'the next CREATE DATABASE succeeds');
		}, skip => $aio->lacks('gate'));
	}, conf => { io_max_concurrency => $handles });
