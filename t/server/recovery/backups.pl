# Base backups: the files that they have, and the pages that they find wrong.
use TestAio;
use IPC::Run;
use PostgreSQL::Test::Utils qw(slurp_file);

# Makes a backup with these options.  Returns where it is, what pg_basebackup says, and whether it succeeds.
sub backup ($aio, @options)
{
	CORE::state $number = 0;
	my ($node, $said) = ($aio->node, '');
	my $where = $node->basedir . '/backup' . ++$number;
	my $done = IPC::Run::run [ 'pg_basebackup', '-h', $node->host, '-p', $node->port, '-D', $where, '-c', 'fast', '-X', 'fetch', '--no-sync', '--no-estimate-size', @options ], '>&', \$said;
	return ($where, $said, $done ? 1 : 0);
}

for_each_io_method('worker', sub {
	$aio->scenario('files', sub {
		$aio->sql('CREATE DATABASE far TEMPLATE postgres OID 3000000000');
		my ($t, $u) = ($aio->table('t', 40), $aio->table('u', 20, kind => 'UNLOGGED'));
		my $alice = $aio->session('alice');
		# pages that have never been written are no errors, nor is a row more beside them
		$aio->sql("SELECT grow_rel('$t', 3); VACUUM $t; CHECKPOINT");
		$alice->note_temporary_tables;
		$alice->sql("CREATE TEMP TABLE x AS SELECT 1; SET work_mem = '64kB'; BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT generate_series(1, 20000); COMMIT");
		my %of = map { $_ => $aio->sql("SELECT pg_relation_filepath('$_')") } $t, $u;
		my ($where, $said, $done) = backup($aio);
		is("$said$done", 1, 'pg_basebackup succeeds, and says nothing');
		for my $file ($of{$t}, map { "$of{$t}_$_" } qw(fsm vm))
		{
			ok(slurp_file("$where/$file") eq slurp_file($aio->node->data_dir . "/$file"), "$file is the same");
		}
		ok(!-e "$where/$of{$u}" && -e "$where/$of{$u}_init", 'of an unlogged table, there is what empties it');
		is(join(' ', glob("$where/base/*/t*_*"), glob("$where/base/pgsql_tmp/*"), glob "$where/postmaster.*"), '', 'nothing temporary');
		$alice->sql('CLOSE c');
		$aio->sql('DROP DATABASE far');
	});

	# of a file, five errors are told one by one
	$aio->scenario('%s', with('', 40, changes => 1, sub ($t, $, @wrong) {
		$aio->sql("CHECKPOINT; SELECT evict_rel('$t')");
		my $file = $aio->sql("SELECT pg_relation_filepath('$t')");
		$aio->overwrite($aio->file_of($t), $_ * 8192 + 5000, 'wrong') for @wrong;
		my $failures = "SELECT checksum_failures FROM pg_stat_database WHERE datname = current_database()";
		my $before = $aio->sql($failures);
		my ($where, $said, $done) = backup($aio);
		is($done, 0, 'pg_basebackup fails');
		my $told = @wrong > 5 ? 5 : @wrong;
		is(join(' ', $said =~ m{checksum verification failed in file "\S*\Q$file\E", block (\d+): calculated \w+ but expected}g), join(' ', @wrong[ 0 .. $told - 1 ]), 'the blocks');
		is(scalar(() = $said =~ /further checksum verification failures in file "\S*\Q$file\E" will not be reported/g), @wrong > 5 ? 1 : 0, 'whether there are more');
		my ($total) = $said =~ /file "\S*\Q$file\E" has a total of (\d+) checksum verification failures?/;
		is($total // 1, scalar @wrong, 'how many');
		# before 18.7, a single one is not counted (server commit 340f2ac626), and has no total
		my $counted = $before + ($total // 0);
		ok($aio->poll(sub { $aio->sql($failures) == $counted }), 'the statistics count them') || diag($aio->sql($failures));
		(undef, $said, $done) = backup($aio, '--no-verify-checksums');
		is("$said$done", 1, 'unless nobody looks');
		$aio->sql("SELECT modify_rel_block('$t', b, zero => true) FROM unnest(ARRAY[${\join ',', @wrong}]) b");
		(undef, $said, $done) = backup($aio);
		is("$said$done", 1, 'nor are pages of zeros wrong');
	}), each => [ [ 'a wrong page', 7 ], [ 'two wrong pages', 3, 4 ], [ 'seven wrong pages', 0, 3, 4, 8, 31, 32, 39 ] ], log => qr/walsender \S+ (?:WARNING|ERROR):  .*checksum verification fail/);
}, streaming => 1);
