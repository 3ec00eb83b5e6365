# How many buffers streams may pin: of the shared ones each session its share
# (GetAdditionalPinLimit), of the local ones a quarter (GetAdditionalLocalPinLimit),
# however many streams it has.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;

# Opens cursors on scans of tables, and fetches from each in turn.
sub scan_together
{
	my ($session, $fetches, @tables) = @_;
	$session->sql('BEGIN');
	$session->sql("DECLARE c_$_ CURSOR FOR SELECT blk, body = proof(rel, blk, 0) FROM $tables[$_]") for 0 .. $#tables;
	my @wrong;
	for my $round (1 .. $fetches)
	{
		for my $i (0 .. $#tables)
		{
			my $row = $session->sql("FETCH 1 FROM c_$i");
			push @wrong, "$tables[$i]: $row" if $row ne $round - 1 . '|t';
		}
	}
	return join "\n", @wrong;
}

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('shared', sub {
			my ($alice) = $aio->sessions('alice');
			my @tables = map { $aio->table("t$_", 120) } 1 .. 6;
			$alice->sql('SET effective_io_concurrency = 32');
			is(scan_together($alice, 40, @tables), '', 'six streams of a session');
			# its share; each stream may have one more, and its current row another
			my $processes = 20;
			my $share = int($aio->setting('shared_buffers') =~ s/\D.*//r * 1024 / 8 / $processes);
			my $pinned = $aio->sql('SELECT count(*) FROM pg_buffercache WHERE pinning_backends > 0');
			cmp_ok($pinned, '>', 0, 'buffers are pinned');
			cmp_ok($pinned, '<=', $share + 2 * @tables, "not more than its share: $pinned");
			$alice->sql('COMMIT');
			$aio->proves($tables[5]);
		}, skip => $aio->{has_buffercache} ? undef : 'needs the contrib module pg_buffercache');

		$aio->scenario('local', sub {
			my ($alice) = $aio->sessions('alice');
			$alice->sql('SET temp_buffers = 100; SET effective_io_concurrency = 32');
			my @tables = map { $aio->table("t$_", 120, kind => 'TEMP', session => $alice) } 1 .. 8;
			$aio->table('another', 20, kind => 'TEMP', session => $alice);
			is(scan_together($alice, 60, @tables), '', 'eight streams of a session');
			# there is room for others
			$alice->gives('SELECT count(*), count(*) FILTER (WHERE body = proof(rel, blk, 0)) FROM another', '20|20', 'and another');
			$alice->sql('COMMIT');
		}, leaves => 'COMPLETED_SHARED');

		# less than one for each process
		$aio->scenario('hardly any', sub {
			my @readers = $aio->sessions(map { "reader$_" } 1 .. 6);
			my $t = $aio->table('t', 120);
			$_->sql('SET effective_io_concurrency = 32') for @readers;
			$_->starts("SELECT count(*), sum(blocknum) FROM generate_series(1, 5), read_stream_for_blocks('$t', ARRAY(SELECT (i * 7) % 120 FROM generate_series(0, 239) i ORDER BY i))") for @readers;
			$_->returns('1200|71400', 'reads') for @readers;
			$aio->proves($t);
		});
	}, conf => { shared_buffers => '2MB', max_connections => 10 });
