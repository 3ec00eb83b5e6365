# proves() of TestAio/Data.pm, which checks the pages of a table, notices each kind of damage.
#
# io_methods: worker
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/..";
use TestAio;
use TestAio::Aside;

for_each_io_method(
	sub {
		my ($aio) = @_;
		my $proof = 'scenario.t holds what was written';

		notices($aio, 'the tail is lost', sub {
				my $t = $aio->table('t', 8);
				truncate $aio->file_of($t), 6 * 8192 or die "truncate: $!";
				$aio->proves($t);
			}, {}, [ $proof, qr/block 6 has no row.*block 7 has no row/s ]);

		notices($aio, 'there is one block too many', sub { $aio->proves($aio->table('t', 8), blocks => 7) },
			{}, [ $proof, qr/block 7 is too many/ ]);

		notices($aio, 'the blocks are of another generation', sub { $aio->proves($aio->table('t', 8), gen => 1) },
			{}, [ $proof, qr/block 0 is of generation 0/ ]);

		# a view in the table's place returns what a broken scan would return
		my %broken_scans = (
			'a scan returns a block twice' => [ qr/block 3 comes 2 times/,
				'SELECT ctid, * FROM scenario.pages UNION ALL SELECT ctid, * FROM scenario.pages WHERE blk = 3' ],
			'a scan returns two blocks in the place of one another' => [ qr/block 3 holds block 4 of scenario\.t.*block 4 holds block 3/s,
				"SELECT CASE blk WHEN 3 THEN '(4,1)' WHEN 4 THEN '(3,1)' ELSE ctid END AS ctid, rel, blk, gen, body FROM scenario.pages" ]);
		for my $damage (sort keys %broken_scans)
		{
			my ($report, $query) = @{ $broken_scans{$damage} };
			notices($aio, $damage, sub {
					my $t = $aio->table('t', 8);
					$aio->sql("ALTER TABLE $t RENAME TO pages; CREATE VIEW $t AS $query");
					$aio->proves($t, blocks => 8);
				}, {}, [ $proof, $report ]);
		}
	}, leaves => 'nothing');
