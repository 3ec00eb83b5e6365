# CREATE DATABASE … STRATEGY wal_log that is cancelled while its read stream waits for
# a free handle, in a batch (doc/create-database-error.md): on servers that have the
# bug, cleaning up fails as well, for the batch is still open, and the new database's
# files stay.  Says which behaviour this server has, and passes with either.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;
use TestAio::Gate;

my $handles = 4;

# Databases' directories, but for those of databases that there are.
my $orphans = "SELECT count(*) FROM pg_ls_dir('base') d WHERE d ~ '^[0-9]+\$' AND d NOT IN (SELECT oid::text FROM pg_database)";

# Has CREATE DATABASE cancelled when its reads have all handles for the so manieth time:
# its stream then waits for another one, or for its oldest read, which nobody can tell
# from outside.  Returns whether files were left.
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
		}), "$times times all handles in use") or note($aio->activity($creator->pid));
	$aio->sql("SELECT pg_cancel_backend(${\$creator->pid})");
	$creator->wait_for_end;
	$aio->end_gate;
	my $left = $aio->sql($orphans) > $before;
	is($creator->error->{sqlstate}, $left ? 'XX000' : '57014', 'what is reported belongs to what is left');
	is($aio->sql("SELECT count(*) FROM pg_database WHERE datname = 'copy'"), 0, 'there is no such database');
	return $left;
}

for_each_io_method(
	sub {
		my ($aio) = @_;
		$aio->sql('CREATE DATABASE original TEMPLATE postgres STRATEGY file_copy');

		$aio->scenario('cancelled while it waits for a handle', sub {
			my ($creator) = $aio->sessions('creator');
			# so that nothing else of its own is held
			$creator->sql('SELECT count(*) FROM pg_tablespace; SELECT count(*) FROM pg_database');
			$creator->sql('SET io_combine_limit = 1; SET effective_io_concurrency = 64; SET maintenance_io_concurrency = 64');
			my $left = grep { cancelled_when_full($aio, $creator, $_) } 2 .. 7;
			note("this server's CREATE DATABASE " . ($left ? "leaves files, $left of 6 times" : 'cleans up'));
			$creator->gives('CREATE DATABASE copy TEMPLATE original STRATEGY wal_log; DROP DATABASE copy', '', 'works the next time');
		}, skip => $aio->lacks('gate'));
	}, conf => { io_max_concurrency => $handles }, methods => [qw(worker io_uring)]);
