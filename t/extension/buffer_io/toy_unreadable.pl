# buffer_create_toy() for a block that another session wants at the same moment, and that can no
# longer be read.  A toy consists of zeroes.  If another session has pinned the buffer meanwhile,
# the function reads the block back.  If that fails, the zeroes must not stay in the buffer pool.
#
# io_methods: sync; long: worker
use TestAio;
use PostgreSQL::Test::Utils;
use TestAio::Neighbours;

my $reason = cannot_preload('fails_to_read');
plan skip_all => $reason if $reason;
my $unreadable = $ENV{TEST_AIO_UNREADABLE} = PostgreSQL::Test::Utils::tempdir_short() . '/unreadable';

# Makes functions for two sessions that use a block until they meet there, or for so long.
use constant UNTIL_THEY_MEET => <<~'SQL';
	CREATE FUNCTION scenario.makes_toys(rel regclass, how_long interval) RETURNS bool LANGUAGE plpgsql AS $$
	DECLARE
		latest timestamptz := clock_timestamp() + how_long;
	BEGIN
		WHILE clock_timestamp() < latest LOOP
			BEGIN
				PERFORM buffer_create_toy(rel, 3);
			EXCEPTION
				WHEN object_in_use THEN NULL;
				-- buffer_create_toy() reads the block only if it has met the other session
				WHEN io_error THEN RETURN true;
			END;
		END LOOP;
		RETURN false;
	END $$;
	CREATE FUNCTION scenario.wants_block(rel regclass) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		WHILE NOT pg_try_advisory_lock(18) LOOP
			BEGIN
				EXECUTE format($q$SELECT FROM %s WHERE ctid = '(3,1)'$q$, rel);
			EXCEPTION
				WHEN io_error THEN NULL;
			END;
		END LOOP;
	END $$;
	SQL

with_each_io_method(sub {
	$aio->scenario('a toy of a block that cannot be read back', with('alice bob carol', 8, sub ($alice, $bob, $carol, $t) {
		$aio->sql(UNTIL_THEY_MEET);
		$carol->sql('SELECT pg_advisory_lock(18)');
		$aio->evict($t);
		symlink $aio->file_of($t), $unreadable or die "$unreadable: $!";
		$bob->starts("SELECT scenario.wants_block('$t')");
		my $how_long = $PostgreSQL::Test::Utils::timeout_default / 2 . ' s';
		$alice->gives("SELECT scenario.makes_toys('$t', '$how_long')", 't', 'meets the other session, and cannot read the block back');
		$carol->sql('SELECT pg_advisory_unlock(18)');
		$bob->ends;
		$carol->fails("SELECT FROM $t WHERE ctid = '(3,1)'", '58030', qr/could not read blocks 3\.\.3/, 'later sessions get the error');
		unlink $unreadable or die "$unreadable: $!";
	}), log => qr/LOG:  could not read blocks 3\.\.3 /);
}, own => 1);

unlink $unreadable;
done_testing();
