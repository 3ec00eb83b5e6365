# What a checkpoint asks of the kernel, as strace shows it: the blocks that it writes, those that it
# asks to be written back, and the files that it syncs.
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Segments;
use TestAio::Strace;

my $obstacle = no_strace();

for_each_io_method(
	sub {
		my ($aio) = @_;

		$aio->scenario('a table of three files', sub {
			my ($t) = long_table($aio, 't');
			my ($segment) = boundaries($aio);
			# sets hint bits
			is(right_rows($aio, $t, $_ * $segment - SIDE, 2 * SIDE), 2 * SIDE, "the rows at boundary $_") for 1, 2;
			my @changed = grep { $_ % 3 == 1 } map { my $boundary = $_ * $segment; $boundary - SIDE .. $boundary + SIDE - 1 } 1, 2;
			$aio->sql('CHECKPOINT');
			$aio->sql("DELETE FROM $t WHERE ctid = ANY ('{" . join(',', map { "\"($_,1)\"" } @changed) . "}'::tid[])");
			my %blocks;
			push @{ $blocks{ $_ < $segment ? '' : '.' . int $_ / $segment } }, $_ % $segment for @changed;
			my ($checkpointer) = $aio->pids_of_type('checkpointer');
			my $done = written_by($aio, $checkpointer, $t, sub { $aio->sql('CHECKPOINT') });
			is(join(' ', sort keys %$done), join(' ', sort keys %blocks), 'the files');
			for my $file (sort keys %blocks)
			{
				my $of_file = $done->{$file};
				is($of_file->{written}, join(',', @{ $blocks{$file} }), "file \"$file\": writes the blocks that are dirty");
				is($of_file->{written_back}, $of_file->{written}, 'writes them back');
				is($of_file->{synced}, 'synced', 'and syncs the file');
			}
		}, skip => $obstacle);

		$aio->scenario('neighbours are written back together', sub {
			my @tables = map { $aio->table($_, 40) } qw(t u);
			# the last dirty block of the first table and the first one of the second are no neighbours
			my @dirty = ([ 0 .. 4, 7, 9, 10 ], [ 11, 12, 30 ]);
			my @requests = ('0+5 7+1 9+2', '11+2 30+1');
			$aio->alter_system(checkpoint_flush_after => 256);
			# sets hint bits
			$aio->proves($_) for @tables;
			$aio->sql('CHECKPOINT');
			my ($checkpointer) = $aio->pids_of_type('checkpointer');
			for my $seen (0, 1)
			{
				for my $table (1, 0)
				{
					$aio->sql("SELECT FROM $tables[$table] WHERE blk = $_ FOR UPDATE") for reverse @{ $dirty[$table] };
				}
				is(written_by($aio, $checkpointer, $tables[$seen], sub { $aio->sql('CHECKPOINT') })->{''}{requests}, $requests[$seen], "the requests for $tables[$seen]");
			}
			$aio->proves($_) for @tables;
		}, skip => $obstacle);

		# nothing is left to write into the file then
		$aio->scenario('a truncated table', sub {
			my ($alice) = $aio->sessions('alice');
			# TRUNCATE keeps the files of a table that the same transaction has made
			$alice->sql('BEGIN');
			my ($t, $path) = long_table($aio, 't', session => $alice);
			$aio->sql('CHECKPOINT');
			$alice->sql("TRUNCATE $t; COMMIT");
			is(file_sizes($path), '0 0 0', 'all files are empty');
			my ($checkpointer) = $aio->pids_of_type('checkpointer');
			my $done = written_by($aio, $checkpointer, $t, sub { $aio->sql('CHECKPOINT') });
			is(join(' ', map { "$_ $done->{$_}{synced}" } sort keys %$done), ' synced .1 synced .2 synced', 'and synced');
		}, skip => $obstacle);
	}, conf => { checkpoint_flush_after => '256kB',
		# all that is written, checkpoints write
		bgwriter_lru_maxpages => 0,
		# without, nothing is written back
		fsync => 'on' });
