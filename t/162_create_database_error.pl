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

for_each_io_method(
	sub {
		my ($aio) = @_;
		$aio->sql('CREATE DATABASE original TEMPLATE postgres STRATEGY file_copy');

		$aio->scenario('cancelled while it waits for a handle', sub {
			my ($creator) = $aio->sessions('creator');
			# so that nothing else of its own is held
			$creator->sql('SELECT count(*) FROM pg_tablespace; SELECT count(*) FROM pg_database');
			$creator->sql('SET io_combine_limit = 1; SET effective_io_concurrency = 64; SET maintenance_io_concurrency = 64');
			$aio->sql("SELECT io_hold(pid => ${\$creator->pid}, fork => NULL)");
			$creator->starts('CREATE DATABASE copy TEMPLATE original STRATEGY wal_log');
			# a stream looks further ahead only when it has had to wait; with all handles in
			# use for the first time, it need not want more
			my $full = 0;
			ok($aio->poll(sub {
					return 1 if $aio->sql('SELECT count(*) FROM io_held') == $handles && ++$full > 1;
					$aio->sql('SELECT io_release_all()');
					return 0;
				}), 'its stream wants another handle') or note($aio->activity($creator->pid));
			$aio->sql("SELECT pg_cancel_backend(${\$creator->pid})");
			$creator->wait_for_end;
			$aio->end_gate;
			my $error = $creator->error->{sqlstate};
			my $left = $aio->sql($orphans);
			note("this server's CREATE DATABASE " . ($left ? 'leaves files' : 'cleans up') . ": $creator->{error}{all}");
			is($error, $left ? 'XX000' : '57014', 'what is reported belongs to what is left');
			is($aio->sql("SELECT count(*) FROM pg_database WHERE datname = 'copy'"), 0, 'there is no such database');
			$creator->gives('CREATE DATABASE copy TEMPLATE original STRATEGY wal_log; DROP DATABASE copy', '', 'works the next time');
		}, leaves => 'COMPLETED_SHARED', skip => $aio->no_gate);
	}, conf => { io_max_concurrency => $handles }, methods => [qw(worker io_uring)]);
