# Names of temporary tables' files (doc/reports/temporary-file-names.md).  A server that has the bug takes
# the process number of the session that looks, in place of the owner's.
#
# io_methods: io_uring; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

# Test: a text names the owner's file; with the bug, the file of the session that looks.
sub names_file
{
	my ($aio, $text, $path, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($found) = $text =~ m{"(base/\d+/t\d+_\d+)"} or return fail("$name: names a file: $text");
	my $right = $found eq $path ? 1 : 0;
	is($right, $aio->has_bug('temporary-file-names') ? 0 : 1, "$name: whether it is the owner's file");
	return is($found =~ s{/t\d+_}{/}r, $path =~ s{/t\d+_}{/}r, "$name: the rest of the path");
}

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('pg_aios', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 10, kind => 'TEMP', session => $alice);
			my $path = $alice->sql("SELECT pg_relation_filepath('$t')");
			$aio->hold(pid => $alice->pid);
			$alice->starts("SELECT count(*) FROM read_buffers('$t', 5, 2)");
			$aio->holds(1);
			names_file($aio, $aio->sql("SELECT target_desc FROM pg_aios WHERE pid = ${\$alice->pid} AND state <> 'HANDED_OUT'"), $path, 'for another session');
			$aio->release;
			$alice->ends('reads');
			$aio->proves($t, session => $alice);
		}, skip => $aio->no_faults);

		$aio->scenario('an error that another session logs', sub {
			my ($alice, $bob) = $aio->sessions(qw(alice bob));
			my $t = $aio->table('t', 10, kind => 'TEMP', session => $alice);
			my $u = $aio->table('u', 10);
			my $path = $alice->sql("SELECT pg_relation_filepath('$t')");
			$aio->falsify('EIO', pid => $alice->pid, relfilenode => $alice->sql("SELECT pg_relation_filenode('$t')"));
			$alice->sql("SELECT read_rel_block_ll('$t', 5, wait_complete => false)");
			# both reads are in the same ring
			$alice->sql("SELECT read_rel_block_ll('$u', 5, wait_complete => false)");
			$bob->gives("SELECT sum(nblocks) FROM read_buffers('$u', 5, 1)", 1, 'the other session completes both reads');
			my ($line) = grep { /bob LOG:  could not read blocks 5\.\.5 in file/ } split /\n/, $aio->log_text;
			names_file($aio, $line // 'nothing is logged', $path, 'in the log');
			$aio->tell_truth;
			$aio->proves($t, session => $alice);
		}, skip => $aio->method ne 'io_uring' ? 'only with io_uring do sessions complete what others have issued'
			: $aio->no_injection_points && 'needs injection points: with the gate, the owner completes a read that fails',
			log => qr/LOG:  could not read blocks 5\.\.5/);
	});
