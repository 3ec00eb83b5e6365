package TestAio::Observed;

=head1 NAME

TestAio::Observed - what a recording sees of a server

=head1 SYNOPSIS

	my $observed = TestAio::Observed->observe($aio);
	my $before = $observed->look;
	$alice->sql("SELECT count(*) FROM $t; SELECT pg_stat_force_next_flush()");
	note($_) for TestAio::Observed::changes($before, $observed->look);

Counters and states, WAL, reads and pages are lines that begin with a word:

	row	the statement returned this
	said	it reported this
	log	the server's log has this as well
	io, table, index, block, database
		a counter of pg_stat_io, pg_stat_all_tables, pg_stat_all_indexes, pg_statio_all_*, pg_stat_database
	class	what pg_class says of a relation, and the sizes of its forks
	file	pages of a fork, or of a database of the script, for which the file system has no blocks
	call	what a process asks of the kernel about a fork: system calls, with their pages, and how often
	pool	pages in the buffer pool, of these so many dirty; pages by usage count
	wal	WAL records about relations, with their blocks
	trace	reads, as first block + number of blocks, in their order
	page	a page in a file: flags, limits of its free space, its items, its bytes; of GiST and
		SP-GiST, where chance decides between equal ways, only flags and limits

=cut

use v5.36;
use warnings FATAL => 'all';

use Digest::MD5 qw(md5_hex);
use PostgreSQL::Test::Utils qw(slurp_file);
use TestAio::Kernel;

# What is kept as it is: so many rows and pages, and so many characters of a list of blocks.  The
# rest becomes a digest.
my ($most_rows, $most_pages, $most_blocks) = (20, 6, 56);

# What the observer needs: the relations of the script by OID.
my $named = <<'END';
CREATE TEMP VIEW named AS
	WITH own AS (
		SELECT c.oid, CASE WHEN relpersistence = 't' THEN 'temp ' ELSE '' END || relname AS name, reltoastrelid
		FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
		WHERE (nspname = 'recorded' OR nspname LIKE 'pg\_temp\_%') AND relname <> 'named' AND relkind NOT IN ('v', 'c'))
	SELECT oid, name FROM own
	UNION ALL SELECT reltoastrelid, 'toast of ' || name FROM own WHERE reltoastrelid <> 0
	UNION ALL SELECT indexrelid, 'index of toast of ' || name FROM own JOIN pg_index ON indrelid = reltoastrelid;
END

# A query about the script's relations in a view of counters.
sub _of_relations ($view, $column)
{
	return "SELECT name, to_jsonb(s) FROM $view s JOIN named ON oid = $column WHERE $column = ANY (ARRAY(SELECT oid FROM named))";
}

# Counters: a word, and a query that gives a name and a row of counters.
my %counters = (
	# hits in the context "normal" are of catalogs, too, and how many buffers these have is luck
	io => q{SELECT concat_ws('/', name, object, context),
			to_jsonb(s) - CASE WHEN object = 'relation' AND context = 'normal' THEN ARRAY['evictions', 'hits'] ELSE ARRAY['evictions'] END
		FROM (SELECT backend_type name, * FROM pg_stat_io WHERE backend_type = 'background worker'
			UNION ALL SELECT application_name, s.* FROM pg_stat_activity a, pg_stat_get_backend_io(a.pid) s
				WHERE a.backend_type = 'client backend' AND application_name <> 'observer') s
		WHERE object <> 'wal'},
	table => _of_relations('pg_stat_all_tables', 'relid'),
	index => _of_relations('pg_stat_all_indexes', 'indexrelid'),
	block => join(' UNION ALL ',
		_of_relations('pg_statio_all_tables', 'relid'),
		_of_relations('pg_statio_all_indexes', 'indexrelid'),
		_of_relations('pg_statio_all_sequences', 'relid')),
	# the observer's own statements count here, too
	database => q{SELECT '', to_jsonb(s) - ARRAY['numbackends', 'xact_commit', 'blks_hit', 'blks_read', 'blk_read_time', 'blk_write_time',
			'tup_returned', 'tup_fetched', 'tup_inserted', 'tup_updated', 'tup_deleted', 'session_time', 'active_time',
			'idle_in_transaction_time', 'sessions', 'sessions_abandoned', 'temp_bytes', 'parallel_workers_to_launch',
			'parallel_workers_launched']
		FROM pg_stat_database s WHERE datname = current_database()},
);

# States: a word, and a query that gives a name and a text.
my %states = (
	class => q{SELECT name, format('%s pages, %s tuples, %s visible, ', relpages, reltuples, relallvisible)
			|| CASE WHEN EXISTS (SELECT FROM pg_locks WHERE relation = c.oid AND mode = 'AccessExclusiveLock') THEN 'locked'
				ELSE (SELECT string_agg(f || ' ' || pg_relation_size(c.oid, f) / 8192, ', ')
					FROM unnest(ARRAY['main', 'fsm', 'vm', 'init']) f) END
		FROM pg_class c JOIN named USING (oid) WHERE relkind <> 'p' AND relkind <> 'I'},
	pool => q{SELECT name || ' ' || (ARRAY['main', 'fsm', 'vm', 'init'])[relforknumber + 1],
			format('%s pages, %s dirty; ', sum(n), sum(dirty))
			|| string_agg(usagecount || ': ' || n, ', ' ORDER BY usagecount)
		FROM (SELECT name, relforknumber, usagecount, count(*) n, count(*) FILTER (WHERE isdirty) dirty
			FROM pg_buffercache JOIN named ON relfilenode = pg_relation_filenode(oid)
			WHERE reldatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
			GROUP BY 1, 2, 3) b GROUP BY 1},
);

# Begins to observe a server.
sub observe ($class, $aio)
{
	my %queries = (
		(map { $_ => "SELECT '$_', name || ' ' || key, CASE jsonb_typeof(value) WHEN 'number' THEN value #>> '{}' ELSE '1' END"
			  . " FROM ($counters{$_}) AS counters (name, counters), jsonb_each(counters)"
			  . " WHERE jsonb_typeof(value) = 'number' AND key !~ 'relid|^datid'"
			  . " OR jsonb_typeof(value) = 'string' AND key ~ '^last_'" } keys %counters),
		(map { $_ => "SELECT '$_', s.* FROM ($states{$_}) s" } keys %states));
	delete $queries{pool} if $aio->lacks('pg_buffercache');
	my $self = bless { aio => $aio, query => join(' UNION ALL ', map { $queries{$_} } sort keys %queries), files => {} }, $class;
	$self->begin;
	return $self;
}

# Begins anew after the server's start.
sub begin ($self)
{
	my $aio = $self->{aio};
	$self->{calls} = {};
	$self->watch_calls('checkpointer', $aio->pids_of_type('checkpointer'));
	# one plan for all looks
	$aio->sql("$named; SET plan_cache_mode = force_generic_plan; PREPARE look AS $self->{query}");
	# the first look reads catalogs
	$self->look;
	$aio->sql('SELECT pg_stat_force_next_flush()');
	$self->look;
	return;
}

# How many pages of a file the file system has no blocks for.
sub _holes ($self, $path)
{
	my ($size, $blocks) = (stat $self->{aio}->node->data_dir . "/$path")[ 7, 12 ];
	my $holes = int(($size // 0) / 8192 - ($blocks // 0) / 16);
	return $holes > 0 ? $holes : 0;
}

# Looks at all counters and states.
sub look ($self)
{
	my $aio = $self->{aio};
	my %seen = map { my ($word, $name, $value) = split /\|/; ("$word $name" => $value) } split /\n/, $aio->sql('EXECUTE look');
	for (split /\n/, $aio->sql('SELECT pg_relation_filenode(oid), name, pg_relation_filepath(oid) FROM named WHERE pg_relation_filenode(oid) IS NOT NULL'))
	{
		my ($file, $name, $path) = split /\|/;
		$self->{files}{$file} //= $name;
		for my $fork (qw(main fsm vm init))
		{
			my $holes = $self->_holes($path . ($fork eq 'main' ? '' : "_$fork"));
			$seen{"file $name $fork"} = "$holes pages without blocks" if $holes;
		}
	}
	for (split /\n/, $aio->sql('SELECT oid, datname FROM pg_database WHERE oid >= 16384'))
	{
		my ($oid, $name) = split /\|/;
		$seen{"file database $name"} = (grep { $self->_holes($_) } map { m{(base/.*)} } glob $aio->node->data_dir . "/base/$oid/*") ? 'sparse' : 'dense';
	}
	$self->{seen} = \%seen;
	return \%seen;
}

# Writes WAL to disk, and returns its end.
sub end_of_wal { return $_[0]->{aio}->sql("SELECT pg_logical_emit_message(false, 'recording', '', flush => true)") }

# Replaces what differs between runs: names of files, transaction ids, times.
sub masked ($self, $text)
{
	my $files = $self->{files};
	$text =~ s{\b(base|pg_tblspc/\d+/\w+)/\d+/(t\d+_)?(\d+)}
		{($1 eq 'base' ? '' : 'TABLESPACE/') . ($2 ? 'tN_' : '') . 'FILE OF ' . ($files->{$3} // 'another')}gex;
	$text =~ s{pg_toast_\d+}{pg_toast_OID}g;
	$text =~ s{pg_(toast_)?temp_\d+}{pg_${\($1 // '')}temp_N}g;
	$text =~ s{((?:cutoff|relfrozenxid|relminmxid): )\d+}{$1XID}g;
	# builds with assertions need more
	$text =~ s{\bdead item storage \d+\.\d+ MB}{dead item storage SOME}g;
	$text =~ s{\b((?:Memory|Memory Usage|Maximum Storage|Memory Used|Space Used)"?: )\d+(?:kB)?}{$1SOME}g;
	# planning reads catalogs
	$text =~ s{^Planning:\n(?:  .*\n?)+}{}gm;
	$text =~ s{^(?:avg read rate|system usage|I/O timings): .*\n?}{}gm;
	$text =~ s{checksum \d+ but expected \d+}{checksum N but expected another}g;
	# catalogs are read and written, too
	$text =~ s{^(buffer usage|WAL usage): .*}{$1: some}gm;
	$text =~ s{\b\d+\.\d\d+ (ms|s)\b}{TIME}g;
	$text =~ s{=\d+\.\d\d\d\b}{=TIME}g;
	$text =~ s{\nLOCATION: .*}{}g;
	return $text;
}

# Stands for what is too long to be kept.
sub _digest { return substr md5_hex(join "\n", @_), 0, 8 }

# Lines of a result.
sub rows ($self, $result)
{
	my @rows = split /\n/, $self->masked($result);
	return map { "row $_" } @rows if @rows <= $most_rows;
	my @rest = splice @rows, $most_rows - 1;
	return (map { "row $_" } @rows), 'row and ' . @rest . ' more: ' . _digest(@rest);
}

# A list of blocks, or a digest of a long one.
sub _blocks (@blocks)
{
	my $list = join ' ', @blocks;
	return length $list <= $most_blocks ? $list : substr($list, 0, $most_blocks) . ' ... ' . _digest($list);
}

# Bytes from one position in the WAL to another one behind it; negative if that is before it.
sub _distance
{
	my ($from, $to) = map { my ($high, $low) = map { hex } split m{/}; $high * 2**32 + $low } @_;
	return $to - $from;
}

# Fills in the lines about the WAL of each statement.  One pg_waldump for all takes as long as for a few.
sub fill_in_wal ($self, @parts)
{
	my $aio = $self->{aio};
	my @spans = map { ref $_ ? $_ : () } map { @{ $_->{lines} } } @parts;
	return if !@spans;
	my $span = 0;
	for ($aio->wal_records($spans[0]{from}, $spans[-1]{to}))
	{
		my ($manager, $length, $lsn, $description) = /^rmgr: (\w+) +len \(rec\/tot\): +(\d+)\/.*? lsn: (\S+), .*? desc: (\S+)/ or next;
		$span++ while $span < $#spans && _distance($spans[$span]{to}, $lsn) >= 0;
		# between two statements
		next if _distance($lsn, $spans[$span]{from}) > 0;
		my @blocks = map { [ $self->{files}{ $_->[0] }, @$_[ 1, 2 ] ] }
		  grep { $self->{files}{ $_->[0] } }
		  map { m{^\d+/\d+/(\d+) (?:fork (\w+) )?blk (\d+)( FPW)?} ? [ $1, $2 // 'main', $3 . ($4 ? 'F' : '') ] : () } split / rel /;
		push @blocks, [ $self->{files}{$1}, '', $2 // '' ]
		  if $manager eq 'Storage' && m{/(\d+)(?: to (\d+) blocks.*)?$} && $self->{files}{$1};
		next if !@blocks;
		my $what = "$manager $description $blocks[0][0] $blocks[0][1]";
		my $record = $spans[$span]{records}{$what} //= { count => 0, bytes => 0, blocks => [] };
		$record->{count}++;
		$record->{bytes} += $length;
		push @{ $record->{blocks} }, join '/', map { $_->[2] } @blocks;
	}
	for (@parts)
	{
		@{ $_->{lines} } = map { ref $_ ? _wal_lines($_) : $_ } @{ $_->{lines} };
	}
	return;
}

# Lines about the WAL records of a statement.
sub _wal_lines ($span)
{
	my @lines;
	for my $what (sort keys %{ $span->{records} })
	{
		my $record = $span->{records}{$what};
		my $blocks = $span->{sums_only} ? '' : ', blocks ' . _blocks(@{ $record->{blocks} });
		push @lines, "wal $what: $record->{count} of $record->{bytes} bytes$blocks";
	}
	return @lines;
}

# Lines about the reads that were traced.
sub reads ($self)
{
	return if !$self->{aio}{has_trace};
	my @lines;
	my $last = '';
	for (split /\n/, $self->{aio}->sql(
		q{SELECT name, fork, blockno || '+' || nblocks || CASE WHEN result = 'OK' THEN '' ELSE ' ' || result END}
		  . q{ FROM io_trace JOIN named ON oid = relation ORDER BY seq}))
	{
		my ($name, $fork, $blocks) = split /\|/;
		push @lines, [ $last = "$name $fork" ] if $last ne "$name $fork";
		push @{ $lines[-1] }, $blocks;
	}
	return map { "trace $_->[0]: " . _blocks(@$_[ 1 .. $#$_ ]) } @lines;
}

# Has the system calls of a process about files written down, until it ends or recording ends.
sub watch_calls ($self, $name, $pid)
{
	return if $self->{no_strace} //= defined no_strace();
	my $log = $self->{aio}->node->basedir . "/calls.$pid";
	push @{ $self->{tracers} }, watch($pid, 'pread64,preadv,pwrite64,pwritev,?fadvise64,?fallocate,ftruncate,fsync,fdatasync', $log);
	open $self->{calls}{$name}, '<', $log or die "$log: $!";
	return;
}

# Lines about the system calls since the last time.
sub calls ($self)
{
	my %count;
	for my $who (sort keys %{ $self->{calls} // {} })
	{
		my $log = $self->{calls}{$who};
		seek $log, 0, 1;
		while (my $line = <$log>)
		{
			my ($call, $file, $fork, $size, $result) = $line =~ m{^(\w+)\(\d+<[^>]*/(?:t\d+_)?(\d+)(?:_(\w+))?(?:\.\d+)?>.*?(?:, (\d+))?(?:, POSIX_\w+)?\)\s+= (\d+)} or next;
			my $name = $self->{files}{$file} // next;
			$size = $result if $call =~ /^p(?:read|write)/;
			$count{ "call $who $name " . ($fork // 'main') }{ $call . (defined $size ? ' of ' . $size / 8192 : '') }++;
		}
	}
	return map { my $calls = $count{$_}; "$_: " . join ', ', map { "$calls->{$_} $_" } sort keys %$calls } sort keys %count;
}

# Lines about what differs between two looks.
sub changes ($before, $after, $sums_only = undef)
{
	my (@lines, %counted);
	for my $key (sort keys %{ { %$before, %$after } })
	{
		my ($word, $whose, $counter) = $key =~ /^((\w+).*) (\w+)$/ ? ($2, $1, $3) : $key =~ /^(\w+)/;
		my ($from, $to) = map { $_->{$key} } $before, $after;
		next if ($from // '') eq ($to // '');
		if ($states{$word} || $word eq 'file') { push @lines, "$key: " . ($to // 'none') if !($sums_only && $word eq 'pool'); next }
		my $change = ($to // 0) - ($from // 0);
		# how the processes cut the blocks into reads, and who finds a block in the pool, is luck
		next if $change == 0 || $sums_only && ($word eq 'io' || $counter =~ /_blks_(?:hit|read)$/);
		push @{ $counted{$whose} }, "$counter " . ($counter =~ /time$/ ? 'some' : $counter =~ /^last_/ ? 'set' : sprintf '%+d', $change);
	}
	return sort @lines, map { "$_: " . join ', ', @{ $counted{$_} } } keys %counted;
}

# The items of a page, and what stands in them but transaction ids.
sub _items ($page, $lower, $is_heap)
{
	my (%count, @bytes);
	for (unpack 'L<*', substr $page, 24, $lower - 24)
	{
		my ($offset, $flags, $length) = ($_ & 0x7FFF, $_ >> 15 & 3, $_ >> 17);
		my $item = $flags == 1 || $flags == 3 && $length ? substr $page, $offset, $length : '';
		push @bytes, "$flags/$length/" . ($flags == 2 ? $offset : '') . ($is_heap && $item ne '' ? substr $item, 12 : $item);
		$count{ (qw(unused normal redirect dead))[$flags] }++;
	}
	return (join(', ', map { "$count{$_} $_" } sort keys %count), _digest(@bytes));
}

# The same of a B-tree's page, and its place in the tree.
sub _btree_page ($number, $page, $lower, $special)
{
	return ('metapage', _digest(substr $page, 24, $lower - 24)) if $number == 0;
	my ($left, $right, $level, $flags) = unpack 'L<3 S<', substr $page, $special;
	my $place = sprintf 'between %s and %s, level %s, 0x%x', map({ $_ || 'none' } $left, $right), $level, $flags;
	# BTP_DELETED: a transaction id is in place of items
	return ($place, '') if $flags & 4;
	my ($items, $digest) = _items($page, $lower, 0);
	return ("$place, $items", $digest);
}

# Lines about the pages of a relation's files.
sub pages ($self, $relation)
{
	my $aio = $self->{aio};
	$aio->sql('CHECKPOINT');
	my ($path, $kind) = split /\|/, $aio->sql("SELECT pg_relation_filepath(c.oid), coalesce(amname, '')"
		  . " FROM pg_class c LEFT JOIN pg_am a ON a.oid = relam WHERE c.oid = 'recorded.$relation'::regclass");
	my @lines;
	for my $fork ('', qw(_fsm _vm _init))
	{
		my $file = $aio->node->data_dir . "/$path$fork";
		next if !-e $file;
		my @pages = unpack '(a8192)*', slurp_file($file);
		for my $number (0 .. $#pages)
		{
			my $page = $pages[$number];
			my ($flags, $lower, $upper, $special, $size) = unpack 'x10 S<5', $page;
			my ($items, $digest) = ('', '');
			if (!$fork && $kind eq 'btree') { ($items, $digest) = _btree_page($number, $page, $lower, $special) }
			elsif (!$fork && $kind =~ /^(?:heap|)$/) { ($items, $digest) = _items($page, $lower, 1) }
			elsif ($kind !~ /gist/) { $digest = $upper && _digest(substr $page, 24) }
			my $limits = $upper ? "flags $flags, $lower to $upper, special $special, $size;" : 'new';
			push @lines, join ' ', "page $relation$fork $number:", $limits, grep { $_ ne '' } $items, $digest;
		}
	}
	my @rest = splice @lines, $most_pages;
	return @lines, @rest ? 'page and ' . @rest . ' more: ' . _digest(@rest) : ();
}

1;
