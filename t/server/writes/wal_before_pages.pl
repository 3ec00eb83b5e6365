# WAL is flushed up to the last change of a page before the page is written.
#
# io_methods: worker
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

for_each_io_method(
	sub {
		my ($aio) = @_;

		# how the dirty page comes to be written, by the session bob
		my %writes = (
			'is evicted' => sub { my ($bob, $t) = @_; $bob->sql("SELECT evict_rel('$t')") },
			'gives its buffer to another' => sub {
				my ($bob, $t, $large) = @_;
				$aio->poll(sub {
					$bob->sql("SELECT count(*) FROM read_stream_for_blocks('$large', ARRAY(SELECT generate_series(0, 2499)))");
					$aio->cached($t) eq '';
				}) or fail('all buffers of the table are taken');
			});
		for my $how (sort keys %writes)
		{
			$aio->scenario("a page that $how", sub {
				my ($alice, $bob) = $aio->sessions(qw(alice bob));
				my ($t, $large) = ($aio->table('t', 20), $aio->table('l', 2500));
				# sets hint bits, so that no other page becomes dirty
				$bob->sql("SELECT count(*) FROM $_") for $t, $large;
				$aio->sql('CHECKPOINT');
				$alice->sql("BEGIN; UPDATE $t SET gen = gen WHERE blk = 7");
				my $lsn = $alice->sql('SELECT pg_current_wal_insert_lsn()');
				$bob->gives("SELECT pg_current_wal_flush_lsn() < '$lsn'", 't', 'the change is in progress, its WAL not flushed');
				$writes{$how}->($bob, $t, $large);
				$bob->gives("SELECT pg_current_wal_flush_lsn() >= '$lsn'", 't', 'then its WAL is flushed');
				$alice->sql('ROLLBACK');
				$aio->proves($t);
			}, skip => $aio->lacks('pg_buffercache'));
		}
	}, conf => { wal_writer_delay => '10s', bgwriter_lru_maxpages => 0 });
