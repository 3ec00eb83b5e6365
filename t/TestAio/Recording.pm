# Recordings: all that the statements of a script return, report and count, compared with what
# is kept of an earlier run.
#
#	recordings('scans', …)		runs t/recordings/scans.sql, …
#
# t/recordings/scans.18.out has what server 18 did.  A difference is a bug of the server, or a
# change that was meant: TEST_AIO_RECORD=DIRECTORY writes the file there, for a reviewer to read.
# TEST_AIO_RECORDINGS=DIRECTORY compares with the files there, such as those of a server without
# a patch.
#
# TestAio/Script.pm describes the scripts.
#
# The lines of a recording begin with a word:
#	row	the statement returned this
#	said	it reported this
#	log	the server's log has this as well
#	io, table, index, block, database, server
#		a counter of pg_stat_io, pg_stat_all_tables, pg_stat_all_indexes,
#		pg_statio_all_*, pg_stat_database, or of the whole server
#	class	what pg_class says of a relation, and the sizes of its forks
#	pool	pages in the buffer pool, of these so many dirty; pages by usage count
#	wal	WAL records about relations, with their blocks
#	trace	reads, as first block + number of blocks, in their order
#	page	a page in a file: flags, limits of its free space, its items, its bytes

package TestAio::Recording;

use strict;
use warnings FATAL => 'all';

use Digest::MD5 qw(md5_hex);
use Exporter 'import';
use PostgreSQL::Test::Utils qw(slurp_file);
use TestAio;
use TestAio::Script;
use Test::More;

our @EXPORT = qw(recordings);

my $directory = $ENV{TEST_AIO_RECORDINGS} // $TestAio::Script::directory;

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

# Counters: a word, and a query that gives a name and a row of counters.
my %counters = (
	# hits in the context "normal" are of catalogs, too, and how many buffers these have is luck
	io => q{SELECT concat_ws('/', name, object, context), to_jsonb(s) - CASE WHEN context = 'normal' THEN ARRAY['evictions', 'hits'] ELSE ARRAY['evictions'] END
		FROM (SELECT backend_type name, * FROM pg_stat_io WHERE backend_type = 'background worker'
			UNION ALL SELECT application_name, s.* FROM pg_stat_activity a, pg_stat_get_backend_io(a.pid) s
				WHERE a.backend_type = 'client backend' AND application_name <> 'observer') s
		WHERE object <> 'wal'},
	table => 'SELECT name, to_jsonb(s) FROM pg_stat_all_tables s JOIN named ON oid = relid WHERE relid = ANY (ARRAY(SELECT oid FROM named))',
	index => 'SELECT name, to_jsonb(s) FROM pg_stat_all_indexes s JOIN named ON oid = indexrelid WHERE indexrelid = ANY (ARRAY(SELECT oid FROM named))',
	block => q{SELECT name, to_jsonb(s) FROM pg_statio_all_tables s JOIN named ON oid = relid WHERE relid = ANY (ARRAY(SELECT oid FROM named))
		UNION ALL SELECT name, to_jsonb(s) FROM pg_statio_all_indexes s JOIN named ON oid = indexrelid WHERE indexrelid = ANY (ARRAY(SELECT oid FROM named))
		UNION ALL SELECT name, to_jsonb(s) FROM pg_statio_all_sequences s JOIN named ON oid = relid WHERE relid = ANY (ARRAY(SELECT oid FROM named))},
	# the observer's own statements count here, too
	database => q{SELECT '', to_jsonb(s) - ARRAY['numbackends', 'xact_commit', 'blks_hit', 'blks_read', 'tup_returned', 'tup_fetched', 'blk_read_time',
			'tup_inserted', 'tup_updated', 'tup_deleted', 'session_time', 'active_time', 'idle_in_transaction_time', 'sessions', 'sessions_abandoned',
			'blk_write_time', 'temp_bytes', 'parallel_workers_to_launch', 'parallel_workers_launched']
		FROM pg_stat_database s WHERE datname = current_database()},
	server => q{SELECT 'recovery', to_jsonb(s) - ARRAY['wal_distance', 'block_distance', 'io_depth'] FROM pg_stat_recovery_prefetch s},
);

# States: a word, and a query that gives a name and a text.
my %states = (
	class => q{SELECT name, format('%s pages, %s tuples, %s visible, ', relpages, reltuples, relallvisible)
			|| CASE WHEN EXISTS (SELECT FROM pg_locks WHERE relation = c.oid AND mode = 'AccessExclusiveLock') THEN 'locked'
				ELSE (SELECT string_agg(f || ' ' || pg_relation_size(c.oid, f) / 8192, ', ') FROM unnest(ARRAY['main', 'fsm', 'vm', 'init']) f) END
		FROM pg_class c JOIN named USING (oid) WHERE relkind <> 'p' AND relkind <> 'I'},
	pool => q{SELECT name || ' ' || (ARRAY['main', 'fsm', 'vm', 'init'])[relforknumber + 1], format('%s pages, %s dirty; ', sum(n), sum(dirty))
			|| string_agg(usagecount || ': ' || n, ', ' ORDER BY usagecount)
		FROM (SELECT name, relforknumber, usagecount, count(*) n, count(*) FILTER (WHERE isdirty) dirty
			FROM pg_buffercache JOIN named ON relfilenode = pg_relation_filenode(oid)
			WHERE reldatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
			GROUP BY 1, 2, 3) b GROUP BY 1},
);

sub new
{
	my ($class, $aio) = @_;
	my %queries = (
		(map { $_ => "SELECT '$_', name || ' ' || key, CASE jsonb_typeof(value) WHEN 'number' THEN value #>> '{}' ELSE '1' END"
			  . " FROM ($counters{$_}) AS counters (name, counters), jsonb_each(counters)"
			  . " WHERE jsonb_typeof(value) = 'number' AND key !~ 'relid|^datid' OR jsonb_typeof(value) = 'string' AND key ~ '^last_'" } keys %counters),
		(map { $_ => "SELECT '$_', s.* FROM ($states{$_}) s" } keys %states));
	delete $queries{pool} if $aio->lacks('pg_buffercache');
	my $self = bless { aio => $aio, query => join(' UNION ALL ', map { $queries{$_} } sort keys %queries), files => {}, lines => [] }, $class;
	$self->_connect;
	$aio->sql('CREATE SCHEMA recorded');
	return $self;
}

# Begins anew after the server's start.
sub _connect
{
	my ($self) = @_;
	my $aio = $self->{aio};
	# one plan for all looks
	$aio->sql("$named; SET plan_cache_mode = force_generic_plan; PREPARE look AS $self->{query}");
	$self->{sessions} = {};
	# the first look reads catalogs
	$self->_look;
	$aio->sql('SELECT pg_stat_force_next_flush()');
	$self->_look;
	return;
}

sub _session
{
	my ($self, $name, $database) = @_;
	return $self->{sessions}{$name} //= do {
		my $session = $self->{aio}->session($name, $database ? (dbname => $database) : ());
		$session->sql('SET search_path = recorded, public; SET client_min_messages = log; SET max_parallel_maintenance_workers = 0');
		$session;
	};
}

# Looks at all counters and states.
sub _look
{
	my ($self) = @_;
	my $aio = $self->{aio};
	my %seen = map { my ($word, $name, $value) = split /\|/; ("$word $name" => $value) } split /\n/, $aio->sql('EXECUTE look');
	for (split /\n/, $aio->sql('SELECT pg_relation_filenode(oid), name FROM named WHERE pg_relation_filenode(oid) IS NOT NULL'))
	{
		my ($file, $name) = split /\|/;
		$self->{files}{$file} //= $name;
	}
	$self->{seen} = \%seen;
	return \%seen;
}

# Writes WAL to disk, and returns its end.
sub _end_of_wal { return $_[0]->{aio}->sql("SELECT pg_logical_emit_message(false, 'recording', '', flush => true)") }

# Replaces what differs between runs: names of files, transaction ids, times.
sub _masked
{
	my ($self, $text) = @_;
	my $files = $self->{files};
	$text =~ s{\b((?:base|pg_tblspc/\d+/\w+)/)\d+/(t\d+_)?(\d+)}{"FILE OF " . ($files->{$3} // 'another')}ge;
	$text =~ s{pg_toast_\d+}{pg_toast_OID}g;
	$text =~ s{pg_temp_\d+}{pg_temp_N}g;
	$text =~ s{((?:cutoff|relfrozenxid|relminmxid): )\d+}{$1XID}g;
	# builds with assertions need more
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
sub _rows
{
	my ($self, $result) = @_;
	my @rows = split /\n/, $self->_masked($result);
	return map { "row $_" } @rows if @rows <= $most_rows;
	my @rest = splice @rows, $most_rows - 1;
	return (map { "row $_" } @rows), 'row and ' . @rest . ' more: ' . _digest(@rest);
}

# A list of blocks, or a digest of a long one.
sub _blocks
{
	my (@blocks) = @_;
	my $list = join ' ', @blocks;
	return length $list <= $most_blocks ? $list : substr($list, 0, $most_blocks) . ' ... ' . _digest($list);
}

# Bytes between two positions in the WAL.
sub _distance
{
	my ($from, $to) = map { my ($high, $low) = map { hex } split m{/}; $high * 2**32 + $low } @_;
	return $to - $from;
}

# Fills in the lines about the WAL of each statement.  One pg_waldump for all takes as long as for
# a few.
sub _fill_in_wal
{
	my ($self, @parts) = @_;
	my $aio = $self->{aio};
	my @spans = map { ref $_ ? $_ : () } map { @{ $_->{lines} } } @parts;
	return if !@spans;
	my $bindir = $aio->node->config_data('--bindir');
	my $pg_wal = $aio->node->data_dir . '/pg_wal';
	# left to itself, pg_waldump reads the segment size from any file, also from one that is still empty
	my ($from, $to) = ($spans[0]{from}, $spans[-1]{to});
	my $files = join ' ', split /\|/, $aio->sql("SELECT pg_walfile_name('$from'), pg_walfile_name('$to'::pg_lsn - 1)");
	my $span = 0;
	open my $records, '-|', "'$bindir/pg_waldump' --path='$pg_wal' --start=$from --end=$to $files 2>/dev/null" or die "pg_waldump: $!";
	while (<$records>)
	{
		my ($manager, $length, $lsn, $description) = /^rmgr: (\w+) +len \(rec\/tot\): +(\d+)\/.*? lsn: (\S+), .*? desc: (\S+)/ or next;
		$span++ while $span < $#spans && _distance($spans[$span]{to}, $lsn) >= 0;
		my @blocks = map { [ $self->{files}{ $_->[0] }, @$_[1, 2] ] }
		  grep { $self->{files}{ $_->[0] } }
		  map { m{^\d+/\d+/(\d+) (?:fork (\w+) )?blk (\d+)( FPW)?} ? [ $1, $2 // 'main', $3 . ($4 ? 'F' : '') ] : () } split / rel /;
		if ($manager eq 'Storage' && m{/(\d+)(?: to (\d+) blocks.*)?$} && $self->{files}{$1}) { push @blocks, [ $self->{files}{$1}, '', $2 // '' ] }
		next if !@blocks;
		my $record = $spans[$span]{records}{"$manager $description $blocks[0][0] $blocks[0][1]"} //= { count => 0, bytes => 0, blocks => [] };
		$record->{count}++;
		$record->{bytes} += $length;
		push @{ $record->{blocks} }, join '/', map { $_->[2] } @blocks;
	}
	close $records;
	for (@parts)
	{
		@{ $_->{lines} } = map { ref $_ ? _wal_lines($_) : $_ } @{ $_->{lines} };
	}
	return;
}

# Lines about the WAL records of a statement.
sub _wal_lines
{
	my ($span) = @_;
	my $records = $span->{records};
	return map { "wal $_: $records->{$_}{count} of $records->{$_}{bytes} bytes" . ($span->{sums_only} ? '' : ', blocks ' . _blocks(@{ $records->{$_}{blocks} })) } sort keys %$records;
}

# Lines about the reads that were traced.
sub _reads
{
	my ($self) = @_;
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

# Lines about what differs between two looks.
sub _changes
{
	my ($before, $after, $sums_only) = @_;
	my (@lines, %counted);
	for my $key (sort keys %{ { %$before, %$after } })
	{
		my ($word) = $key =~ /^(\w+)/;
		my ($from, $to) = map { $_->{$key} } $before, $after;
		next if ($from // '') eq ($to // '');
		if ($states{$word}) { push @lines, "$key: " . ($to // 'none') if !($sums_only && $word eq 'pool'); next }
		my $change = ($to // 0) - ($from // 0);
		# how the processes cut the blocks into reads, and who finds a block in the pool, is luck
		next if $change == 0 || $sums_only && $key =~ /^io |hit\b|_read\b/;
		my ($whose, $counter) = $key =~ /^(.*) (\w+)$/;
		push @{ $counted{$whose} }, "$counter " . ($counter =~ /time$/ ? 'some' : $counter =~ /^last_/ ? 'set' : sprintf '%+d', $change);
	}
	return sort @lines, map { "$_: " . join ', ', @{ $counted{$_} } } keys %counted;
}

# The items of a page, and what stands in them but transaction ids.
sub _items
{
	my ($page, $lower, $is_heap) = @_;
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

# Lines about the pages of a relation's files.
sub _pages
{
	my ($self, $relation) = @_;
	my $aio = $self->{aio};
	$aio->sql('CHECKPOINT');
	my ($path, $kind) = split /\|/, $aio->sql("SELECT pg_relation_filepath(c.oid), coalesce(amname, '') FROM pg_class c LEFT JOIN pg_am a ON a.oid = relam WHERE c.oid = 'recorded.$relation'::regclass");
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
			# the map of free space is not in the WAL
			# pages of GiST and SP-GiST have LSNs and transaction ids in places of their own
			my ($items, $digest) = $kind =~ /gist/ ? ('', '') : $fork || $kind !~ /heap|btree|^$/ ? ('', $upper && _digest(substr $page, 24)) : _items($page, $lower, $kind ne 'btree');
			push @lines, join ' ', "page $relation$fork $number:", $upper ? "flags $flags, $lower to $upper, special $special, $size;" : 'new', grep { $_ ne '' } $items, substr $digest, 0, 8;
		}
	}
	my @rest = splice @lines, $most_pages;
	return @lines, @rest ? 'page and ' . @rest . ' more: ' . _digest(@rest) : ();
}

# Writes into a file.
sub _write
{
	my ($self, $relation, $block, $offset, $hex) = @_;
	my $aio = $self->{aio};
	$aio->sql('CHECKPOINT');
	$aio->evict("recorded.$relation");
	$aio->overwrite($aio->file_of("recorded.$relation"), 8192 * $block + $offset, pack 'H*', $hex);
	$self->_look;
	return;
}

# Waits until a session waits for a lock of another; returns the line about it.
sub _waits
{
	my ($self, $session, $for) = @_;
	my ($pid, $holder) = map { $_->pid } $session, $self->_session($for);
	my $waits;
	$self->{aio}->poll(sub { ($waits = $self->{aio}->sql("SELECT pg_blocking_pids($pid) @> ARRAY[$holder]") eq 't') || $session->has_ended });
	return $waits ? "waits for $for" : "does not wait for $for";
}

# Waits for a session's statement; returns the lines about what it gives and reports.
sub _outcome
{
	my ($self, $session) = @_;
	my ($error, $result) = ($session->wait_for_end->error, $session->{result});
	my @said = map { $_->{all} } @{ $session->{notices} }, $session->warnings;
	$session->forget_warnings;
	$session->{notices} = [];
	push @said, $error->{all} if $error;
	return $self->_rows($result), map { map { "said $_" } split /\n/, $self->_masked($_) } @said;
}

# Runs a statement; returns the lines about it.
sub _statement
{
	my ($self, $statement) = @_;
	my $aio = $self->{aio};
	my ($sql, $name, $command, $sums_only) = @$statement{qw(sql session command sums_only)};
	my @how = @{ $statement->{how} };

	my ($before, $from) = ($self->{seen}, $self->_end_of_wal);
	my @lines;
	if ($command && $command =~ /^(?:restart|crash)$/)
	{
		$aio->end_sessions;
		$aio->stop_with_sessions($command eq 'crash' ? 'QUIT' : 'INT');
		$aio->start_again;
		$aio->warm_catalogs;
		$self->_connect;
		# the counters begin anew
		return $sql, grep { /^(?:class|pool) / } _changes($before, $self->{seen});
	}
	return $sql, $self->_pages(@{ $statement->{arguments} }), _changes($before, $self->_look) if ($command // '') eq 'pages';
	return $sql, $self->_write(@{ $statement->{arguments} }) if ($command // '') eq 'write';
	if (($command // '') eq 'end')
	{
		$aio->end_session(delete $self->{sessions}{ $statement->{arguments}[0] });
		return $sql, _changes($before, $self->_look);
	}
	die "$sql: there is no such command\n" if $command;
	my $session = $self->_session($name, $statement->{database});
	$aio->sql("SELECT io_trace_stop(), io_trace_reset(), io_trace_start(pid => ${\$session->pid})") if $aio->{has_trace} && !$sums_only;
	my $log = $aio->log_size;
	$session->starts($sql);
	push @lines, map { /^waits for (\w+)$/ ? $self->_waits($session, $1) : () } @how;
	push @lines, $self->_outcome($session) if !@lines;
	for (@how)
	{
		my ($whose, $for) = /^then (\w+) (?:ends|waits for (\w+))$/ or next;
		my $other = $self->_session($whose);
		push @lines, map { "$whose: $_" } $for ? $self->_waits($other, $for) : $self->_outcome($other);
		$other->starts('SELECT pg_stat_force_next_flush()')->wait_for_end if !$for;
	}
	$aio->sql('SELECT io_trace_stop()') if $aio->{has_trace};
	push @lines, map { "log $_" } grep { my $logged = $_; !grep { index($_, $logged) >= 0 } @lines }
	  map { /client backend $name (?!STATEMENT)(?:\w+):  (.*)/ ? $self->_masked($1) : () } split /\n/, $aio->log_text($log);
	# it fails in an aborted transaction, which counts nothing yet
	$session->starts('SELECT pg_stat_force_next_flush()')->wait_for_end if $session->has_ended;
	my $to = $self->_end_of_wal;
	# what is left in the pool is luck, too
	$aio->sql("SELECT evict_rel(oid) FROM named WHERE pg_relation_filenode(oid) IS NOT NULL AND name !~ '^(.* of )?temp '") if $sums_only;
	my @changes = _changes($before, $self->_look, $sums_only);
	# the rest reads and extends catalogs, and how many pages these have is not the same in each build
	@changes = grep { !m{^io $name/relation/normal:} } @changes if $sql !~ /^(?:SELECT|EXPLAIN|INSERT|UPDATE|DELETE|MERGE|COPY|FETCH|MOVE)\b/;
	push @lines, @changes, { from => $from, to => $to, sums_only => $sums_only, records => {} };
	push @lines, $self->_reads if !$sums_only;
	return ($name eq 'alice' ? '' : "$name: ") . $sql, @lines;
}

# Parts of a recording: [ statement, lines ].
sub _parts
{
	my ($text) = @_;
	my @parts;
	for (split /^=== /m, $text)
	{
		my ($statement, $lines) = /^(.*?)\n---\n(.*)$/s or next;
		push @parts, [ $statement, $lines ];
	}
	return @parts;
}

# The version that recordings are kept for: all minor versions of a release behave the same, and
# versions under development do not.
sub _version { my ($aio) = @_; return $aio->setting('server_version') =~ /^(\d+)(\.\d+)? ?/ && $2 ? $1 : (split ' ', $aio->setting('server_version'))[0] }

# Returns why there is nothing to compare a server with, or undef.
sub _unknown
{
	my ($aio, $name) = @_;
	my $version = _version($aio);
	return -e "$directory/$name.$version.out" || $ENV{TEST_AIO_RECORD} ? undef : "there are no recordings of PostgreSQL $version";
}

# Runs a script, and compares what it does with what is kept.
sub _recorded
{
	my ($aio, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $self = TestAio::Recording->new($aio);
	my @parts = map { my ($statement, @lines) = $self->_statement($_); { statement => $statement, lines => \@lines } } script($name);
	$self->_fill_in_wal(@parts);
	my @found = map { [ $_->{statement}, join '', map { "$_\n" } @{ $_->{lines} } ] } @parts;
	my $file = "$name." . _version($aio) . '.out';
	if (my $target = $ENV{TEST_AIO_RECORD})
	{
		open my $out, '>', "$target/$file" or die "$target/$file: $!";
		print $out map { "=== $_->[0]\n---\n$_->[1]\n" } @found;
		close $out;
		return fail("$file is written again; read it");
	}
	my @kept = _parts(slurp_file("$directory/$file"));
	is(join("\n", map { $_->[0] } @found), join("\n", map { $_->[0] } @kept), "$name: the statements") or return;
	for my $number (0 .. $#found)
	{
		my ($statement, $lines) = @{ $found[$number] };
		my $shown = $statement =~ s/\s+/ /gr;
		is($lines =~ s/\n*\z//r, $self->_can_be($kept[$number][1]), "$name: $shown");
	}
	return;
}

# Runs scripts, each on a server of its own.  Parameters: modules, names of
# contrib modules that the scripts need; log and dies as of scenarios; and those of
# for_each_io_method().
sub recordings
{
	my ($names, %params) = @_;
	my ($modules, $log, $dies) = (delete $params{modules} // '', delete $params{log}, delete $params{dies});
	for my $name (@$names)
	{
		with_each_io_method(
			sub {
				my ($aio) = @_;
				my @lacks = grep { defined } map { $aio->lacks($_) } split ' ', $modules;
				$aio->scenario($name, sub { _recorded($aio, $name) }, dies => $dies, log => $log, skip => $lacks[0] // _unknown($aio, $name));
			},
			# with sync, nothing depends on what happens first
			methods => ['sync'],
			suffix => $name,
			%params,
			# no buffer is needed a second time, or it would be luck which
			conf => { shared_buffers => '64MB', wal_writer_delay => '10s', wal_keep_size => '2GB', track_io_timing => 'on', 'test_aio.trace_completions' => 'on', 'test_aio.reach_synchronous_reads' => 'off', %{ $params{conf} // {} } });
	}
	return;
}

# A kept text without what this server cannot show.
sub _can_be
{
	my ($self, $text) = @_;
	$text =~ s/^trace .*\n//mg if !$self->{aio}{has_trace};
	$text =~ s/^pool .*\n//mg if $self->{aio}->lacks('pg_buffercache');
	$text =~ s/\n*\z//;
	return $text;
}

1;
