# The background writer: it closes the files of dropped tables, or it would keep a descriptor of
# each, and counts the rounds that end early.
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Descriptors;

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('a table is dropped', sub {
			my ($alice) = $aio->sessions('alice');
			my ($t, $u) = map { $aio->table($_, 100) } qw(t u);
			my ($file) = $aio->file_of($t) =~ m{([^/]+/[^/]+)$};
			my ($writer) = $aio->pids_of_type('background writer');
			my $open = sub { return scalar(() = descriptors($writer, qr{/\Q$file\E( \(deleted\))?$})) };
			# it cleans the dirty buffers that the sweep of the clock would come to
			ok($aio->poll(sub {
					$alice->sql("UPDATE $t SET gen = gen; SELECT evict_rel('$u'); SELECT count(*) FROM read_stream_for_blocks('$u', ARRAY(SELECT generate_series(0, 99)))");
					$open->() > 0;
				}), 'the background writer has its file open');
			$aio->sql("DROP TABLE $t; CHECKPOINT");
			ok($aio->poll(sub { $open->() == 0 }), 'and closes it after a checkpoint');
		});

		# a round ends when it has written so many; with one each, both counts are the same
		$aio->scenario('rounds that end early', sub {
			my ($alice) = $aio->sessions('alice');
			my ($t, $u) = map { $aio->table($_, 100) } qw(t u);
			my $work = sub { $alice->sql("UPDATE $t SET gen = gen; SELECT evict_rel('$u'); SELECT count(*) FROM read_stream_for_blocks('$u', ARRAY(SELECT generate_series(0, 99)))") };
			my $counts = 'SELECT buffers_clean, maxwritten_clean FROM pg_stat_bgwriter';
			$aio->alter_system(bgwriter_lru_maxpages => 1);
			$aio->sql("SELECT pg_stat_reset_shared('bgwriter')");
			# until it has read the setting
			$aio->poll(sub { $work->(); my ($clean, $ended) = split /\|/, $aio->sql($counts); $ended > 0 }) or fail('rounds end early');
			$aio->sql("SELECT pg_stat_reset_shared('bgwriter')");
			my ($clean, $ended);
			ok($aio->poll(sub { $work->(); ($clean, $ended) = split /\|/, $aio->sql($counts); $ended >= 5 }), 'rounds are counted that end early');
			is($clean, $ended, 'each after one buffer');
		});
	}, leaves => 'nothing', conf => { shared_buffers => '1MB', bgwriter_delay => '10ms', bgwriter_lru_maxpages => 1000, bgwriter_lru_multiplier => 10 });
