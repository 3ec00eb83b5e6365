# StartReadBuffers() meets blocks that are being read, at the beginning, in the middle and at
# the end of its range, by the same session, by another one and by two others.  18 waits for
# these reads at once and then has hits; 19 joins them (server commit 999dec9ec6).
# sql/reads.sql tests ranges without such blocks.
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

my $columns = 'blocknum, nblocks, io_reqd, foreign_io';

for_each_io_method(
	sub {
		my ($aio) = @_;
		my $joins = $aio->major >= 19 && $aio->method ne 'sync';

		# blocks 3 and 4, each an operation of its own
		my $mid = $joins ? "3|1|t|t\n4|1|t|t" : "3|1|f|f\n4|1|f|f";
		my %ranges = (
			'in front' => [ '3, 5' => "$mid\n5|3|t|f" ],
			'in the middle' => [ '0, 8' => "0|3|t|f\n$mid\n5|3|t|f" ],
			'at the end' => [ '1, 4' => "1|2|t|f\n$mid" ],
			'the first of them' => [ '2, 2' => "2|1|t|f\n" . ($mid =~ s/\n.*//r) ],
			'nothing else' => [ '3, 2' => $mid ]);

		for my $kind ('', 'TEMP')
		{
			for my $where (sort keys %ranges)
			{
				$aio->scenario("staged by itself, $where, $kind", sub {
					my ($alice) = $aio->sessions('alice');
					my $t = $aio->table('t', 10, kind => $kind, session => $alice);
					my ($range, $rows) = @{ $ranges{$where} };
					# I/O workers cannot perform the read, so the session has
					$rows =~ s/^([34])\|1\|t\|t$/$1|1|f|f/mg if $kind && $aio->method eq 'worker';
					# no batch for a temporary table: an assertion of 19 forbids it
					my ($start, $end) = $kind ? ("''", "''") : ('batch_start()::text', 'batch_end()::text');
					$alice->gives("SELECT $start UNION ALL SELECT read_rel_block_ll('$t', 3, nblocks => 2, wait_complete => false)::text"
						  . " UNION ALL SELECT concat_ws('|', $columns) FROM read_buffers('$t', $range) UNION ALL SELECT $end",
						"\n\n$rows\n", 'operations');
					$aio->proves($t, session => $alice);
				});
			}
		}

		for my $where (sort keys %ranges)
		{
			my ($range, $rows) = @{ $ranges{$where} };
			for my $outcome ([ succeeds => undef, $rows ], [ fails => 'EIO', undef ])
			{
				my ($how, $result, $expected) = @$outcome;
				$aio->scenario("read by another session, which $how, $where", sub {
					my ($alice, $bob) = $aio->sessions(qw(alice bob));
					my $t = $aio->table('t', 10);
					$aio->falsify($result, pid => $alice->pid) if $result;
					$aio->hold(pid => $alice->pid);
					$alice->starts("SELECT read_rel_block_ll('$t', 3, nblocks => 2)");
					$aio->holds(1);
					$bob->starts("SELECT $columns FROM read_buffers('$t', $range)");
					$bob->waits_on('AioIoCompletion');
					$aio->release;
					$bob->wait_for_end;
					$result ? $alice->raises('58030', qr/blocks 3\.\.4/, 'fails') : $alice->ends;
					$bob->returns($expected, 'operations') if $expected && $aio->method ne 'sync';
					my @found = map { [ split /\|/ ] } split /\n/, $bob->result;
					my ($first, $count) = split /, /, $range;
					is(join(',', map { $_->[0] .. $_->[0] + $_->[1] - 1 } @found), join(',', $first .. $first + $count - 1), 'each block once');
					my $joined = grep { $_->[3] eq 't' } @found;
					is($joined > 0, $joins, 'joined or not') if !$expected;
					$aio->tell_truth if $result;
					$aio->proves($t);
				}, leaves => 'nothing', skip => $aio->no_faults, log => qr/LOG:  could not read blocks 3\.\.4/);
			}
		}

		$aio->scenario('read by two others', sub {
			my ($alice, $bob, $carol) = $aio->sessions(qw(alice bob carol));
			my $t = $aio->table('t', 10);
			$aio->hold(relation => $t, block => 2);
			$alice->starts("SELECT read_rel_block_ll('$t', 1, nblocks => 2)");
			$aio->holds(1);
			$carol->sql("SELECT read_rel_block_ll('$t', 5, nblocks => 2, wait_complete => false)");
			$bob->starts("SELECT $columns FROM read_buffers('$t', 0, 9)");
			$bob->waits_on('AioIoCompletion');
			$aio->release;
			$alice->ends;
			$bob->wait_for_end;
			my %seen;
			$seen{$_}++ for map { my ($b, $n) = split /\|/; $b .. $b + $n - 1 } split /\n/, $bob->result;
			is(join(',', sort keys %seen), '0,1,2,3,4,5,6,7,8', 'all blocks');
			is(scalar(grep { $_ > 1 } values %seen), 0, 'each once');
			$aio->proves($t);
		}, skip => $aio->no_faults);
	});
