# Pages with a bad header or checksum: what the server reports, logs, zeroes, ignores and
# counts (buffer_readv_complete(), buffer_readv_report(),
# pgstat_report_checksum_failures_in_db()).
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;

# Damages blocks of a table, by number: "h" makes a bad header, "c" a bad checksum, "hc" both.
sub damage
{
	my ($session, $t, %how) = @_;
	my %argument = (h => 'corrupt_header => true', c => 'corrupt_checksum => true', hc => 'corrupt_header => true, corrupt_checksum => true');
	$session->sql("SELECT modify_rel_block('$t', $_, $argument{ $how{$_} })") for sort keys %how;
	return;
}

# Returns the checksum that a block has in the file.
sub checksum_on_disk
{
	my ($aio, $t, $block, $session) = @_;
	open my $fh, '<:raw', $aio->file_of($t, $session) or die "open: $!";
	seek $fh, $block * 8192 + 8, 0 or die "seek: $!";
	(read $fh, my $checksum, 2) == 2 or die "read: $!";
	close $fh or die "close: $!";
	return unpack 'S', $checksum;
}

# Returns a text without the plurals and articles in which minor releases differ.
sub wording
{
	my ($text) = @_;
	return defined $text ? $text =~ s/the first/first/r =~ s/block\(?s?\)?/block/r : undef;
}

# [ damage, settings, message, detail, hint, checksum failures, blocks that are then empty ]
my @cases = (
	[ 'one header', { 3 => 'h' }, '', 'ERROR', 'invalid page in block 3 of relation "%s"', undef, undef, 0, '' ],
	[ 'one checksum', { 4 => 'c' }, '', 'ERROR', 'invalid page in block 4 of relation "%s"', undef, undef, 1, '' ],
	[ 'first and last', { 2 => 'c', 6 => 'c' }, '', 'ERROR', '2 invalid pages among blocks 2..6 of relation "%s"',
		'Block 2 held the first invalid page.', 'See server log for the other 1 invalid block(s).', 2, '' ],
	[ 'all', { map { $_ => 'c' } 2 .. 6 }, '', 'ERROR', '5 invalid pages among blocks 2..6 of relation "%s"',
		'Block 2 held the first invalid page.', 'See server log for the other 4 invalid block(s).', 5, '' ],
	[ 'one of each', { 4 => 'c', 5 => 'h' }, '', 'ERROR', '2 invalid pages among blocks 2..6 of relation "%s"',
		'Block 4 held the first invalid page.', 'See server log for the other 1 invalid block(s).', 1, '' ],
	[ 'one header zeroed', { 3 => 'h' }, 'zero_damaged_pages', 'WARNING', 'invalid page in block 3 of relation "%s"; zeroing out page', undef, undef, 0, '3' ],
	[ 'one checksum zeroed', { 6 => 'c' }, 'zero_damaged_pages', 'WARNING', 'invalid page in block 6 of relation "%s"; zeroing out page', undef, undef, 1, '6' ],
	[ 'three zeroed', { 3 => 'h', 4 => 'c', 6 => 'c' }, 'zero_damaged_pages', 'WARNING', 'zeroing out 3 invalid pages among blocks 2..6 of relation "%s"',
		'Block 3 held the first zeroed page.', 'See server log for the other 2 zeroed block(s).', 2, '3,4,6' ],
	[ 'one ignored', { 5 => 'c' }, 'ignore_checksum_failure', 'WARNING', 'ignoring checksum failure in block 5 of relation "%s"', undef, undef, 1, '' ],
	[ 'two ignored', { 3 => 'c', 5 => 'c' }, 'ignore_checksum_failure', 'WARNING', 'ignoring 2 checksum failures among blocks 2..6 of relation "%s"',
		'Block 3 held the first ignored page.', 'See server log for the other 1 ignored block(s).', 2, '' ],
	[ 'a header, while checksums are ignored', { 3 => 'c', 5 => 'h' }, 'ignore_checksum_failure', 'ERROR', 'invalid page in block 5 of relation "%s"', undef, undef, 1, '' ],
	[ 'header and checksum, while checksums are ignored', { 5 => 'hc' }, 'ignore_checksum_failure', 'ERROR', 'invalid page in block 5 of relation "%s"', undef, undef, 1, '' ],
	[ 'zeroed and ignored', { 3 => 'h', 5 => 'c' }, 'zero_damaged_pages ignore_checksum_failure', 'WARNING',
		'zeroing 1 page(s) and ignoring 1 checksum failure(s) among blocks 2..6 of relation "%s"', undef,
		'See server log for details about the other 1 invalid block(s).', 1, '3' ],
	[ 'two zeroed and two ignored', { 2 => 'c', 3 => 'h', 4 => 'h', 5 => 'c' }, 'zero_damaged_pages ignore_checksum_failure', 'WARNING',
		'zeroing 2 page(s) and ignoring 2 checksum failure(s) among blocks 2..6 of relation "%s"', 'Block 3 held first zeroed page.',
		'See server log for details about the other 3 invalid block(s).', 2, '3,4' ]);

my @reads = (
	"SELECT read_rel_block_ll('%s', 2, nblocks => 5)",
	"SELECT count(*) FROM read_buffers('%s', 2, 5)",
	"SELECT max(blockoff) FROM read_stream_for_blocks('%s', ARRAY[2, 3, 4, 5, 6])");
my $turn = 0;

for_each_io_method(
	sub {
		my ($aio) = @_;
		# each io_method has another kind of read
		$turn++;
		my $inspects = !$aio->lacks('pageinspect');
		$inspects or note('without pageinspect nobody looks whether zeroed pages are empty to the last byte');

		for my $kind ('', 'TEMP')
		{
			# temporary tables differ only in what becomes of the results
			for my $case ($kind ? @cases[ 2, 4, 7, 9, 13 ] : @cases)
			{
				my ($what, $damage, $settings, $severity, $message, $detail, $hint, $failures, $empty) = @$case;
				$aio->scenario("$what, $kind", sub {
					my ($alice) = $aio->sessions('alice');
					my $t = $aio->table('t', 10, kind => $kind, session => $alice);
					my $path = $alice->sql("SELECT pg_relation_filepath('$t')");
					$alice->sql("SET $_ = on") for split / /, $settings;
					damage($alice, $t, %$damage);
					my $read = sprintf $reads[ $turn++ % @reads ], $t;
					my $pattern = qr/XX001: \Q${\sprintf $message, $path}\E\n/;
					my $report;
					is($aio->checksum_failures_during(sub {
								$alice->starts($read);
								$severity eq 'ERROR' ? $alice->raises('XX001', $pattern, $read) : $alice->ends($read);
								$report = $severity eq 'ERROR' ? $alice->error : ($alice->warnings)[0];
							}, $alice), "$failures/0/0", 'checksum failures counted');
					is(wording($report->{detail}), wording($detail), 'detail');
					is(wording($report->{hint}), wording($hint), 'hint');
					# newer minor releases have a singular and a plural
					is($2, $1 == 1 ? 'block' : 'blocks', "the hint's word for $1") if ($report->{hint} // '') =~ /the other (\d+) \w+ (blocks?)\./;
					$alice->warns($pattern, $read) if $severity ne 'ERROR';
					$aio->logs(qr/LOG: .*(?:invalid page in block|ignoring checksum failure in block) \d+ of relation "\Q$path\E"(; zeroing out page)?$/, scalar keys %$damage, 'each block is logged');
					my @checksums = sort map { checksum_on_disk($aio, $t, $_, $alice) } grep { $damage->{$_} =~ /c/ } keys %$damage;
					is(join(',', sort map { /LOG: .*page verification failed, calculated checksum \d+ but expected (\d+)/ } split /\n/, $aio->log_text), join(',', @checksums), 'each checksum is logged, as the page has it');
					if ($severity ne 'ERROR')
					{
						my @found = map { $_ eq '' ? () : $_ } $alice->sql("SELECT string_agg(b::text, ',') FROM generate_series(0, 9) b WHERE NOT EXISTS (SELECT FROM $t WHERE ctid = format('(%s,1)', b)::tid)");
						is($found[0] // '', $empty, 'zeroed, and no others');
						is($alice->sql("SELECT string_agg(b::text, ',') FROM generate_series(0, 9) b WHERE get_raw_page('$t', b) = decode(repeat('00', 8192), 'hex')"),
							$empty, 'to the last byte') if $inspects;
					}
					for my $block ($severity eq 'ERROR' ? sort keys %$damage : ())
					{
						next if $settings =~ /ignore/ && $damage->{$block} eq 'c';
						$alice->fails("SELECT * FROM read_buffers('$t', $block, 1)", 'XX001', qr/invalid page in block $block of relation/, "block $block is not valid now");
					}
					$aio->evict($t, $alice);
					# the pages on disk are still bad
					$alice->sql('RESET ALL');
					$alice->fails("SELECT count(*) FROM $t", 'XX001', qr/invalid page/);
					$alice->sql("SELECT modify_rel_block('$t', $_, zero => true)") for keys %$damage;
					$aio->proves($t, session => $alice, except => join "\n", map { "block $_ has no row" } sort keys %$damage);
				}, log => qr/LOG:  (?:invalid page in block|page verification failed, calculated checksum|ignoring checksum failure in block) \d/);
			}

			# a session completes reads of its temporary tables itself
			$aio->scenario("DEBUG1 tells of the whole read, $kind", sub {
				my ($alice) = $aio->sessions('alice');
				my $t = $aio->table('t', 10, kind => $kind, session => $alice);
				damage($alice, $t, 3 => 'c', 4 => 'c');
				$alice->sql('SET zero_damaged_pages = on; SET client_min_messages = debug1');
				$alice->notices;
				$alice->sql("SELECT read_rel_block_ll('$t', 2, nblocks => 5)");
				my $pattern = qr/zeroing out 2 invalid pages among blocks 2\.\.6 of relation/;
				is(scalar grep({ $_ =~ $pattern } $alice->notices), $aio->method eq 'worker' && !$kind ? 0 : 1, $aio->method eq 'worker' && !$kind ? 'not to the session, if a worker completes it' : 'once, to the session, which completes it');
				$alice->warns($pattern);
			}, log => qr/LOG:  (?:invalid page in block|page verification failed, calculated checksum) \d/);
		}

		$aio->scenario('a read with a warning counts each block once', sub {
			my ($alice) = $aio->sessions('alice');
			my $t = $aio->table('t', 10);
			damage($alice, $t, 3 => 'h');
			$alice->sql('SET zero_damaged_pages = on');
			is($aio->blocks_during($t, sub { $alice->gives("SELECT sum(nblocks) FROM read_buffers('$t', 2, 5)", 5, 'zeroes a page') }, $alice), '5/0', 'reads, and no hits');
			$alice->warns(qr/invalid page in block 3 of relation/);
		}, log => qr/LOG:  invalid page in block 3 of relation/);
	});
