# Files of I/O workers: files that a worker cannot open or read (pgaio_io_reopen,
# IoWorkerMain's error path), and files of a database that is moved or dropped.
#
# io_methods: worker
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Descriptors;

# A file that can be opened for reading and writing and has a length, and that fails to be
# read unless the kernel has a security module for keys.
use constant UNREADABLE => '/proc/self/attr/keycreate';

sub opens_but_fails_to_read
{
	my ($path) = @_;
	open my $file, '+<', $path or return 0;
	return !defined sysread($file, my $bytes, 8192) && $!{EINVAL};
}

# What is logged when I/O workers are ended by SIGINT.
my @replaced = (qr/postmaster LOG:  io worker \(PID \d+\) exited with exit code 1/, qr/io worker FATAL:  terminating io worker process due to administrator command/);

# Ends all I/O workers and waits for as many others.
sub replace_workers
{
	my ($aio) = @_;
	my @before = $aio->pids_of_type('io worker');
	kill 'INT', @before;
	return $aio->wait_for("SELECT count(*) = ${\scalar @before} FROM pg_stat_activity WHERE backend_type = 'io worker' AND pid <> ALL (ARRAY[" . join(',', @before) . '])');
}

# Returns how many descriptors I/O workers have of a file, named by the end of its path.
sub open_in_workers
{
	my ($aio, $file) = @_;
	return scalar map { descriptors($_, qr{/\Q$file\E\b}) } $aio->pids_of_type('io worker');
}

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('a file that a worker cannot open', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 10);
			my $file = $aio->file_of($t);
			my @before = $aio->pids_of_type('io worker');
			# alice opens the file and keeps it open
			$alice->sql("SELECT count(*) FROM read_stream_for_blocks('$t', '{}')");
			chmod 0, $file or die "chmod: $!";
			$alice->fails("SELECT read_rel_block_ll('$t', 3, nblocks => 2)", '58P01', qr/could not read blocks 3\.\.4 in file "base\S+": No such file or directory/, 'fails');
			chmod 0600, $file or die "chmod: $!";
			$aio->logs(qr/CONTEXT: .*I\/O worker executing I\/O on behalf of process ${\$alice->pid}/, '>0', 'whose read it was');
			$aio->wait_for("SELECT count(*) = ${\scalar @before} FROM pg_stat_activity WHERE backend_type = 'io worker'");
			$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 3, 2)", 2, 'later on');
			$aio->proves($t);
		}, log => [ qr/LOG:  could not read blocks 3\.\.4 /, qr/io worker ERROR:  could not open file "base\S+": Permission denied/ ], skip => $> == 0 ? 'root may open all files' : undef);

		# the kernel's own error, not an injected one
		$aio->scenario('a file that a worker cannot read', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 10);
			my $file = $aio->file_of($t);
			# alice opens the file and keeps it open
			$alice->sql("SELECT count(*) FROM read_stream_for_blocks('$t', '{}')");
			rename $file, "$file.away" or die "rename: $!";
			symlink UNREADABLE, $file or die "symlink: $!";
			$alice->fails("SELECT read_rel_block_ll('$t', 3, nblocks => 2)", 'XX000', qr/could not read blocks 3\.\.4 in file "base\S+": Invalid argument/, 'fails');
			rename "$file.away", $file or die "rename: $!";
			# the old ones keep the other file open
			replace_workers($aio);
			$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 3, 2)", 2, 'later on');
			$aio->proves($t);
		}, log => [ qr/io worker LOG:  could not read blocks 3\.\.4 /, @replaced ],
			skip => opens_but_fails_to_read(UNREADABLE) ? undef : UNREADABLE . ' can be read here');

		$aio->scenario('reopening fails', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 10);
			$aio->fail_reopen(1);
			$alice->fails("SELECT read_rel_block_ll('$t', 3, nblocks => 2)", '58P01', qr/could not read blocks 3\.\.4 in file/, 'by hand');
			$alice->fails("SELECT * FROM read_buffers('$t', 3, 2)", '58P01', qr/could not read blocks 3\.\.4 in file/, 'StartReadBuffers');
			$alice->gives("SELECT count(*) FROM $t WHERE ctid = '(7,1)'", 1, 'a synchronous read does not need it');
			$aio->fail_reopen(0);
			$aio->proves($t);
		}, log => [ qr/LOG:  could not read blocks 3\.\.4 /, qr/io worker ERROR:  I\/O worker fails to reopen a file, as ordered by inj_io_reopen_attach/ ], skip => $aio->no_faults);

		$aio->scenario('a worker is replaced', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 10);
			replace_workers($aio);
			$alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 0, 10)", 10, 'reads');
			$aio->proves($t);
		}, log => \@replaced);

		# the server has all processes close their files before (PROCSIGNAL_BARRIER_SMGRRELEASE)
		$aio->scenario('a database is moved and dropped whose files workers have open', sub {
			$aio->make_tablespace;
			$aio->sql('CREATE DATABASE other TEMPLATE postgres');
			my $owner = $aio->session('owner', dbname => 'other');
			$owner->sql("CREATE TABLE o AS SELECT generate_series(1, 60) AS i; SELECT grow_rel('o', 60)");
			$aio->end_session($owner);
			for my $command ('ALTER DATABASE other SET TABLESPACE elsewhere', 'DROP DATABASE other')
			{
				my $bob = $aio->session('bob', dbname => 'other');
				$bob->gives('SELECT count(*), sum(i) FROM o', '60|1830', "before $command: the rows");
				$bob->sql("SET effective_io_concurrency = 32; SET io_combine_limit = 1; SELECT evict_rel('o')");
				$bob->gives("SELECT count(*) FROM read_stream_for_blocks('o', ARRAY(SELECT (i * 7) % 60 FROM generate_series(0, 119) i))", 120, 'all blocks');
				# the directory of the database and the file; the kernel resolves a tablespace's link
				my ($file) = $bob->sql("SELECT pg_relation_filepath('o')") =~ m{([^/]+/[^/]+)$};
				cmp_ok(open_in_workers($aio, $file), '>', 0, 'workers have the file open');
				$aio->end_session($bob);
				$aio->sql($command);
				is(open_in_workers($aio, $file), 0, "$command: no worker has it open");
			}
		});
	}, leaves => 'nothing');
