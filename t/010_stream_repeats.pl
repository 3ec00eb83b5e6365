# A read stream whose blocks repeat while they are still being read: server
# commit 999dec9ec6 (19) made it join its own I/O, 18 waits for it.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;

		for my $kind ('', 'UNLOGGED', 'TEMP')
		{
			$aio->scenario("blocks that repeat, $kind", sub {
				my ($reader) = $aio->sessions('reader');
				my $t = $aio->table('t', 40, kind => $kind, session => $reader);

				$reader->gives("SELECT string_agg(blockoff || ':' || blocknum, ' ' ORDER BY blockoff)"
					  . " FROM read_stream_for_blocks('$t', ARRAY[7, 7, 7, 8, 9, 8, 7, 9, 0, 39, 0, 39])",
					'0:7 1:7 2:7 3:8 4:9 5:8 6:7 7:9 8:0 9:39 10:0 11:39', 'each where it is wanted');
				$aio->proves($t, session => $reader);
				$aio->evict($t, $reader);
				$reader->gives("SELECT count(*), count(DISTINCT buf), min(blocknum), max(blocknum) FROM"
					  . " read_stream_for_blocks('$t', ARRAY(SELECT i + generate_series(0, 3) FROM generate_series(0, 36) i))",
					'148|40|0|39', 'a sliding window');
			});
		}
	});
