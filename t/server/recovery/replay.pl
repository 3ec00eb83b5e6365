# What the scripts of t/recordings write is replayed after a crash, from the first record on.  The
# server compares each block with the one that the session left (wal_consistency_checking), and
# all rows and indexes are as they were.
# io_methods: long: sync
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use TestAio;
use TestAio::Script;

# Runs a script in a schema of its own, without its checkpoints.
sub run_script
{
	my ($aio, $name) = @_;
	my %sessions;
	$aio->sql("CREATE SCHEMA $name");
	for (grep { !$_->{command} && !$_->{database} && $_->{sql} ne 'CHECKPOINT' } script($name))
	{
		my $session = $sessions{ $_->{session} } //= do {
			my $new = $aio->session("$_->{session}_$name");
			$new->sql("SET search_path = $name, public; SET max_parallel_maintenance_workers = 0; SET client_min_messages = error");
			$new;
		};
		$session->starts($_->{sql})->wait_for_end;
	}
	$aio->end_session($_) for values %sessions;
	return;
}

# Digests of the rows of all permanent tables, the sizes of their indexes, and what amcheck says of B-trees.
sub contents
{
	my ($aio, $has_amcheck) = @_;
	my @digests;
	for my $line (split /\n/, $aio->sql(q{
			SELECT c.oid::regclass, c.relkind, coalesce(i.indexrelid::regclass::text, ''), coalesce(amname, '')
			FROM pg_class c LEFT JOIN pg_index i ON c.oid = indrelid
				LEFT JOIN pg_class ic ON ic.oid = indexrelid LEFT JOIN pg_am a ON a.oid = ic.relam
			WHERE c.relkind IN ('r', 'm') AND c.relpersistence = 'p' AND c.relnamespace >= 16384 ORDER BY c.oid::regclass::text, 3}))
	{
		my ($table, $kind, $index, $method) = split /\|/, $line, -1;
		push @digests, "$table: " . $aio->sql("SELECT count(*), sum(hashtext(t::text)::bigint) FROM $table t");
		push @digests, "$index: " . $aio->sql("SELECT bt_index_check('$index', heapallindexed => true)")
		  if $has_amcheck && $method eq 'btree';
		push @digests, "$index: pages " . $aio->sql("SELECT pg_relation_size('$index') / 8192") if $index;
	}
	return join "\n", @digests;
}

for_each_io_method(
	sub {
		my ($aio) = @_;

		my $has_amcheck = !$aio->lacks('amcheck');
		for my $name (scripts_in_wal())
		{
			$aio->scenario($name, sub {
				$aio->sql('CHECKPOINT');
				run_script($aio, $name);
				my $before = contents($aio, $has_amcheck);
				like($before, qr/^$name\.\w+: [1-9]/m, 'the script has left tables');
				$aio->recovers;
				is(contents($aio, $has_amcheck), $before, 'all tables and indexes are as they were');
				$aio->sql("DROP SCHEMA $name CASCADE");
			}, dies => 1);
		}
	},
	own => 1,
	# the images of all blocks are many
	conf => { wal_consistency_checking => 'all', shared_buffers => '64MB', max_wal_size => '1GB' });
