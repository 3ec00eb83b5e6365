# Blocks that cannot be written or added, since no space is left: the file is /dev/full for a while.
# The error names blocks and file, its context the block; the buffer stays dirty, and is written
# later.
#
# io_methods: sync; long: worker
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

# Calls a function while a relation's file is one on a full disk.  The server has no descriptor
# of it open.
sub while_full
{
	my ($aio, $file, $function) = @_;
	rename $file, "$file.real" or die "rename $file: $!";
	symlink '/dev/full', $file or die "symlink $file: $!";
	my $lived = eval { $function->(); 1 };
	my $error = $@;
	unlink $file;
	rename "$file.real", $file or die "rename $file.real: $!";
	die $error if !$lived;
	return;
}

# Has all files of a session closed.
sub close_files { my ($session, $other) = @_; $session->sql("SELECT read_rel_block_ll('$other', 0, smgrreleaseall => true)"); return }

my $no_space = qr/could not write blocks? \d+(?:\.\.\d+)? in file "base\S+": No space left on device/;

for_each_io_method(
	sub {
		my ($aio) = @_;
		my $forgotten = $aio->setting('server_version') =~ /^19beta1\b/ ? '19beta1 unsets BM_IO_ERROR when it sets it (server commit c787c952bc)' : undef;

		$aio->scenario('a dirty block, written to make room', sub {
			my ($t, $other) = ($aio->table('t', 3), $aio->table('other', 1));
			$aio->sql('CHECKPOINT');
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			$alice->sql("UPDATE $t SET body = body WHERE blk = 1");
			$alice->gives("SELECT count(*) FROM buffer_state('$t', 1) WHERE flags \@> '{DIRTY}'", 1, 'a block is dirty');
			$aio->end_session($alice);
			close_files($_, $other) for $aio, $bob;
			while_full($aio, $aio->file_of($t), sub {
					# the first failure sets BM_IO_ERROR; the second warns that this may not end
					for my $failure (1, 2)
					{
						$bob->fails("SELECT evict_rel('$t')", '53100', qr/$no_space.*CONTEXT:  writing block \d of relation "base/s, "failure $failure");
						$bob->warns(qr/could not write block \d of base\S+\nDETAIL:  Multiple failures --- write error might be permanent\./) if $failure == 2;
						$bob->gives("SELECT count(*) > 0 FROM buffers_in_file(pg_relation_filenode('$t')) WHERE flags \@> '{DIRTY,IO_ERROR}' AND refcount = 0", 't', 'the buffer is dirty still, and not pinned');
						close_files($bob, $other);
					}
				});
			$bob->sql("SELECT evict_rel('$t')");
			$bob->gives("SELECT count(*) FROM buffers_in_file(pg_relation_filenode('$t'))", 0, 'then all are written');
			$bob->gives("SELECT string_agg(blk::text, ',' ORDER BY blk) FROM $t", '0,1,2', 'and read again');
		}, skip => $forgotten, log => qr/client backend \w+ (?:ERROR|WARNING):  .*could not write block/);

		$aio->scenario('a dirty block of a temporary table', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 3, kind => 'TEMP', session => $alice);
			my ($file, $other) = ($aio->file_of($t, $alice), $aio->table('other', 1));
			$alice->sql("UPDATE $t SET body = body WHERE blk = 1");
			close_files($alice, $other);
			while_full($aio, $file, sub {
					$alice->fails("SELECT evict_rel('$t')", '53100', qr/$no_space/, 'fails');
					close_files($alice, $other);
				});
			$alice->sql("SELECT evict_rel('$t')");
			$alice->gives("SELECT count(*) FROM $t WHERE blk = 1", 1, 'it is written, and read again');
		}, log => qr/client backend alice ERROR:  could not write block/);

		$aio->scenario('a table that cannot grow', sub {
			my ($alice) = $aio->sessions('alice');
			$alice->sql('CREATE TABLE scenario.empty (n int); INSERT INTO scenario.empty VALUES (1); TRUNCATE scenario.empty');
			my $file = $aio->file_of('scenario.empty');
			$aio->end_session($alice);
			($alice) = $aio->sessions('alice');
			while_full($aio, $file, sub {
					$alice->fails('INSERT INTO scenario.empty VALUES (2)', '53100', qr/could not (?:write|extend) .*"base\S+": No space left on device/, 'an INSERT fails');
				});
			$aio->end_session($alice);
			$aio->gives('SELECT count(*) FROM buffers_in_file(pg_relation_filenode(\'scenario.empty\')) WHERE refcount > 0', 0, 'no pin is left');
			my ($bob) = $aio->sessions('bob');
			$bob->sql('INSERT INTO scenario.empty VALUES (3)');
			$bob->gives('SELECT n FROM scenario.empty', 3, 'then it grows');
		}, log => qr/client backend alice ERROR:  could not (?:write|extend)/);
	});
