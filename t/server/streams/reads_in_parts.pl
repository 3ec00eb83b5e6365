# Scans whose reads are split by blocks that are cached already: any run of cached blocks, any settings,
# also settings that change while a cursor is open, and other sessions that read the same blocks.  Guards
# server commits b421223172, 8ce79483d8, 75da2bece6 and 92fc6856cb.
use TestAio;

# Has sessions look for rounds in which a scan of a table of 120 pages does not give each page once and
# in order.  In each, some runs of blocks are cached; in every second one, the settings change after some
# rows.  Several sessions read what others of them are about to read.  Returns what is wrong.
sub wrong_rounds ($t, $rounds, @sessions)
{
	# a statement has some rounds
	return join '; ', grep { $_ ne '' } map { wrong_rounds($t, [ $_ * 50, 50 ], @sessions) } 0 .. $rounds / 50 - 1 if !ref $rounds;
	for my $number (0 .. $#sessions)
	{
		my $first = $number * 10_000 + $rounds->[0] + 1;
		my $last = $first + $rounds->[1] - 1;
		my $session = $sessions[$number];
		$session->starts(<<"END");
DO \$\$
DECLARE
	first int; size int; longest int; seen int; change_after int; page int; c refcursor; wrong text[] := '{}';
BEGIN
	FOR round IN $first .. $last LOOP
		-- others have pinned some buffers
		PERFORM setseed(round / 100000.0), set_config('client_min_messages', 'error', false), evict_rel('$t'), set_config('client_min_messages', 'notice', false);
		first := 0;
		-- the shorter the queue, the more often reads reach its end
		longest := CASE WHEN round % 3 = 0 THEN 40 ELSE 5 END;
		WHILE first < 120 LOOP
			size := 1 + random() ^ 2 * longest;
			IF random() < 0.55 THEN PERFORM FROM read_buffers('$t', first, least(size, 120 - first)); END IF;
			first := first + size;
		END LOOP;
		PERFORM set_config('io_combine_limit', (ARRAY[2, 2, 3, 4, 7, 16, 32])[1 + floor(random() * 7)]::text, false),
			set_config('effective_io_concurrency', (ARRAY[0, 0, 1, 2, 16])[1 + floor(random() * 5)]::text, false);
		change_after := CASE WHEN round % 2 = 0 THEN floor(random() * 60) ELSE 300 END;
		seen := 0;
		OPEN c NO SCROLL FOR EXECUTE 'SELECT blk FROM $t WHERE rel = ''$t''';
		LOOP
			FETCH c INTO page;
			EXIT WHEN NOT FOUND OR page <> seen;
			seen := seen + 1;
			IF seen = change_after THEN
				PERFORM set_config('io_combine_limit', (ARRAY[1, 4, 16, 32])[1 + floor(random() * 4)]::text, false),
					set_config('effective_io_concurrency', (ARRAY[0, 1, 16])[1 + floor(random() * 3)]::text, false);
			END IF;
		END LOOP;
		CLOSE c;
		IF seen <> 120 THEN wrong := wrong || format('round %s: block %s in place of %s', round, page, seen); END IF;
	END LOOP;
	RAISE NOTICE 'wrong: %', array_to_string(wrong, '; ');
END \$\$
END
	}
	return join '; ', grep { $_ ne '' } map {
		my $session = $_;
		$session->ends;
		my ($wrong) = map { /^wrong: (.*)/s } $session->notices;
		$wrong // $session->name . ' does not answer'
	} @sessions;
}

for_each_io_method('worker; long: all', sub {
	my $rounds = only_long() ? 50 : 1000;

	# with others, a block that was to be read becomes valid meanwhile
	$aio->scenario('shared buffers', with('', 120, sub ($t, $names) {
		is(wrong_rounds($t, $rounds, $aio->sessions(split ' ', $names)), '', "$rounds rounds");
	}), each => [ 'alice', 'alice bob carol' ], skip => sub ($names) { $names =~ / / ? only_long() : undef });

	# with more local buffers than 16 bits count in a quarter of them
	$aio->scenario('%s local buffers', with('alice', sub ($alice, $buffers) {
		$alice->sql("SET temp_buffers = $buffers");
		my $t = $aio->table('t', 120, kind => 'TEMP', session => $alice);
		is(wrong_rounds($t, $rounds / 2 + 25, $alice), '', 'all rounds');
	}), each => [ 100, 133_000 ], skip => sub ($buffers) { $buffers == 100 ? only_long() : undef });
}, leaves => 'nothing', conf => { io_max_combine_limit => '256kB', shared_buffers => '64MB' });
