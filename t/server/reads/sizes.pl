# How many blocks become one read.
use TestAio;

# How many blocks become one read: io_combine_limit, io_max_combine_limit, blocks that are
# cached already, the end of a relation.  files/segments.pl has boundaries of segments.
with_each_io_method('worker; long: all', sub {
	$aio->scenario('io_combine_limit', with('alice', 41, sub ($alice, $t, $limit, $reads) {
		$alice->sql("SELECT count(*) FROM read_stream_for_blocks('$t', '{}')");
		$alice->sql("SET io_combine_limit = $limit");
		$aio->evict($t);
		is($aio->io_during($alice, 'relation/normal', sub {
			$alice->gives("SELECT count(*), sum(blocknum) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 40)))",
				'41|820', "limit $limit, stream");
		}), $reads . '/' . 41 * 8192, 'reads and bytes');
		$aio->is_as_written($t);
		$aio->evict($t);
		is($aio->io_during($alice, 'relation/normal', sub {
			$alice->gives("SELECT count(*), max(nblocks) FROM read_buffers('$t', 0, 41)",
				"$reads|" . ($limit > 32 ? 32 : $limit), "limit $limit, StartReadBuffers");
		}), $reads . '/' . 41 * 8192, 'reads and bytes');
		$aio->evict($t);
		is($aio->io_during($alice, 'relation/normal', sub { $alice->gives("SELECT count(*) FROM $t", 41, "limit $limit, scan") }) =~ s{.*/}{}r,
			41 * 8192, 'bytes');
	}), each => [ [ 1 => 41 ], [ 7 => 6 ], [ 16 => 3 ], [ 31 => 2 ], [ 32 => 2 ], [ 128 => 2 ] ], leaves => 'nothing');

	# the vectors of handles are adjacent in shared memory
	$aio->scenario('several of the longest in a batch', with('alice', 64, sub ($alice, $t) {
		$alice->sql('SET io_combine_limit = 32');
		# reads the catalogs that the batch needs
		$aio->evict($t, $alice);
		$alice->sql($aio->batch(map { "SELECT read_rel_block_ll('$t', $_ * 32, nblocks => 32, wait_complete => false)" } 0, 1));
	}));

	$aio->scenario('what may not be combined', with('alice', 41, sub ($alice, $t, $what, $there, $blocks, $reads, $read) {
		$aio->warm($t, @$there);
		is($aio->io_during($alice, 'relation/normal', sub {
			$alice->gives("SELECT string_agg(blocknum::text, ',' ORDER BY blockoff) FROM read_stream_for_blocks('$t', ARRAY[$blocks])", $blocks, $what);
		}), $reads . '/' . $read * 8192, 'reads and bytes');
		is($aio->cached($t), join(',', sort { $a <=> $b } keys %{ { map { $_ => 1 } @$there, split /,/, $blocks } }),
			'these and no others are in the buffer pool');
	}), each => [
		[ 'a hit' => [5], '0,1,2,3,4,5,6,7,8,9', 2, 9 ],
		[ 'two hits' => [ 5, 7 ], '0,1,2,3,4,5,6,7,8,9', 3, 8 ],
		[ 'a hit in front' => [0], '0,1,2,3', 1, 3 ],
		[ 'a hit at the end' => [3], '0,1,2,3', 1, 3 ],
		[ 'gaps' => [], '0,1,3,4,5,9', 3, 6 ],
		[ 'backward' => [], '5,4,3,2', 4, 4 ],
		[ 'the same' => [], '5,5,5', 1, 1 ],
		[ 'back to front' => [], '3,4,5,0,1,2', 2, 6 ],
		[ 'the end' => [], '39,40,0', 2, 3 ]
	], leaves => 'nothing');
}, conf => { io_max_combine_limit => '256kB', shared_buffers => '64MB' });

# Reads of more than 32 blocks, up to the 128 that io_max_combine_limit allows: how many
# blocks become one read, alone and in a batch.  errors.pl has their errors.
for_each_io_method('sync; long: all', sub {
	# a read that the session performs itself has ended when the session looks
	my $is_listed = sub ($kind) { return $aio->method eq 'io_uring' || $aio->method eq 'worker' && !$kind };

	$aio->scenario('io_combine_limit', with_kind('alice', 300, sub ($alice, $t, $kind) {
		my $counted = ($kind ? 'temp relation' : 'relation') . '/normal';
		# limit, sizes of the operations on 128 blocks, reads of a stream and of a scan over 300
		for ([ 33 => '33,33,33,29', 10, 14 ], [ 128 => '128', 3, 9 ])
		{
			my ($limit, $sizes, $reads, $scanned) = @$_;
			$alice->sql("SET io_combine_limit = $limit");
			is($aio->io_during($alice, $counted, sub {
				$alice->gives("SELECT string_agg(nblocks::text, ',' ORDER BY blockoff) FROM read_buffers('$t', 127, 128)", $sizes, "limit $limit, StartReadBuffers");
			}), split(/,/, $sizes) . '/' . 128 * 8192, 'reads and bytes');
			$aio->evict($t, $alice);
			is($aio->io_during($alice, $counted, sub {
				$alice->gives("SELECT count(*), sum(blocknum) FROM read_stream_for_blocks('$t', ARRAY(SELECT generate_series(0, 299)))", '300|44850', 'stream');
			}), $reads . '/' . 300 * 8192, 'reads and bytes');
			$aio->is_as_written($t, session => $alice);
			$aio->evict($t, $alice);
			my $read = $aio->io_during($alice, $counted, sub { $alice->gives("SELECT count(*) FROM $t", 300, 'scan') });
			is($read =~ s{.*/}{}r, 300 * 8192, 'bytes');
			# reads of 1, 2, 4 ... blocks; elsewhere the sizes also depend on time
			is($read =~ s{/.*}{}r, $scanned, 'reads') if $aio->method eq 'sync';
			$aio->evict($t, $alice);
		}
	}), each => [ '', 'TEMP' ], leaves => 'nothing', skip => sub ($kind) { $kind ? only_long() : undef });

	$aio->scenario('one I/O', with_kind('alice', 255, sub ($alice, $t, $kind) {
		my $path = $alice->sql("SELECT pg_relation_filepath('$t')");
		$alice->sql("SELECT read_rel_block_ll('$t', 127, nblocks => 128)");
		$alice->gives("SELECT min(blocknum), max(blocknum), count(*) FROM read_buffers('$t', 127, 128) WHERE NOT io_reqd", '127|254|128', 'all blocks are there');
		$alice->sql("SELECT read_rel_block_ll('$t', 127, nblocks => 128, wait_complete => false)");
		$alice->gives('SELECT operation, off, length, target_desc FROM pg_aios WHERE pid = pg_backend_pid()',
			$is_listed->($kind) ? 'readv|' . 127 * 8192 . '|' . 128 * 8192 . "|blocks 127..254 in file \"$path\"" : '', 'pg_aios');
	}), each => [ '', 'TEMP' ]);
}, conf => { io_max_combine_limit => 128, shared_buffers => '128MB' });
