# A statement that is stopped before each of its reads: what the views of progress say then, and
# which blocks are pinned.  Lines for a recording (TestAio/Recording.pm):
#	step	the block that is to be read, and what has changed in the view of progress since the
#		step before
#	pins	other blocks that are pinned meanwhile, if not the same as at the step before
# A statement that waits for another session has such lines, too:
#	progress	what the view of progress shows while it waits
# Zeros and nulls are left out; "none" is what has become one.  "a or b": two views show the statement,
# and differ, as pg_stat_progress_cluster and pg_stat_progress_repack do in 19 about REPACK.
# A step is a read of one block, so scripts set io_combine_limit to 1.  Steps need pg_buffercache.

package TestAio::Steps;

use v5.36;
use warnings FATAL => 'all';

# Columns that say nothing about progress, or differ between builds.
my @ignored = qw(pid datid datname dead_tuple_bytes delay_time);

# Prepares what is asked at each step.  The observer knows relations by the view "named" (TestAio/Observed.pm).
sub new ($class, $aio)
{
	my $views = join ' UNION ALL ', map { "SELECT pid, to_jsonb(v) AS row FROM $_ v" }
	  split /\n/, $aio->sql(q{SELECT viewname FROM pg_views
		WHERE viewname ~ '^pg_stat_progress_(analyze|vacuum|repack|cluster|create_index|copy)$' ORDER BY 1});
	my $ignored = join ', ', map { "'$_'" } @ignored;
	$aio->sql(<<"END");
PREPARE progress (int) AS
	SELECT DISTINCT key, CASE WHEN key ~ 'relid\$' THEN coalesce((SELECT name FROM named WHERE oid = value::oid), 'another')
			WHEN key = 'current_locker_pid' THEN (SELECT application_name FROM pg_stat_activity WHERE pid = value::int) ELSE value END
	FROM ($views) v, jsonb_each_text(row)
	WHERE pid = \$1 AND key NOT IN ($ignored) AND value NOT IN ('', '0')
	ORDER BY 1, 2;
PREPARE named_by_file (oid) AS SELECT name FROM named WHERE pg_relation_filenode(oid) = \$1;
END
	return bless { aio => $aio }, $class;
}

# Returns the blocks that are pinned.
sub _pins ($self)
{
	return split /\n/, $self->{aio}->sql(<<'END');
	SELECT format('%s %s %s', name, (ARRAY['main', 'fsm', 'vm', 'init'])[relforknumber + 1], relblocknumber)
	FROM pg_buffercache JOIN named ON relfilenode = pg_relation_filenode(oid)
	WHERE pinning_backends > 0
	ORDER BY name, relforknumber, relblocknumber
END
}

# What the views of progress say of a session.
sub progress ($self, $session)
{
	my %shown;
	for (split /\n/, $self->{aio}->sql("EXECUTE progress (${\$session->pid})"))
	{
		my ($key, $value) = split /\|/;
		$shown{$key} = defined $shown{$key} ? "$shown{$key} or $value" : $value;
	}
	# the snapshots that are waited for include those of queries that look at the session, too, by luck;
	# the number of them is not reset for the next phases
	delete @shown{qw(lockers_done lockers_total)} if ($shown{phase} // '') !~ /^waiting for writers/;
	return \%shown;
}

# What differs between two looks at the progress, in one line.
sub differences ($before, $after)
{
	return join ', ', map { "$_ " . ($after->{$_} // 'none') }
	  grep { ($before->{$_} // '') ne ($after->{$_} // '') } sort keys %{ { %$before, %$after } };
}

# Performs the read that is held, if its process and number are given, and waits until the session
# has come to the next.  Returns the session's state and what is held: number, file, fork and block.
sub _next_read ($self, $pid, @performed)
{
	$self->{aio}->sql('SELECT ' . (@performed ? 'io_release(' . join(', ', @performed) . '), ' : '') . 'io_settle()');
	my ($state, @held) = split /\n/, $self->{aio}->sql("SELECT coalesce((SELECT coalesce(wait_event, state) FROM pg_stat_activity WHERE pid = $pid), 'gone')"
		  . " UNION ALL SELECT concat_ws('|', io_id, relfilenode, fork, blockno) FROM io_handles_get() WHERE held");
	return ($state, map { [ split /\|/ ] } @held);
}

# Runs a statement step by step, with no block in the pool that can be evicted, and returns the
# lines about it.  The caller takes its outcome.
sub steps ($self, $session, $sql)
{
	my $aio = $self->{aio};
	my $pid = $session->pid;
	my ($seen, $pinned, @lines) = ({}, '');
	$aio->sql('SELECT pg_buffercache_evict_relation(oid) FROM named'
		  . q{ WHERE pg_relation_filenode(oid) IS NOT NULL AND name !~ '^(.* of )?temp '});
	my $filter = $aio->sql("SELECT io_hold(fork => NULL, pid => $pid)");
	$session->starts($sql);
	my $latest = time + $aio->timeout;
	my @performed;
	while (!$session->has_ended)
	{
		my ($state, @held) = $self->_next_read($pid, @performed);
		# the session has not begun the statement or has ended it, waits for the snapshot of this very
		# query, or for a moment for whatever else; only a held read is the next step
		($state, @held) = $self->_next_read($pid) while ($state ne 'IoGateHeld' || @held != 1) && !$session->has_ended && time < $latest;
		last if $session->has_ended;
		die "$sql: $state, ${\scalar @held} reads are held\n" if $state ne 'IoGateHeld' || @held != 1;
		my ($io_id, $file, $fork, $block) = @{ $held[0] };
		@performed = ($pid, $io_id);
		# catalogs are read, too
		my $name = $aio->sql("EXECUTE named_by_file ($file)");
		next if $name eq '';
		my $now = $self->progress($session);
		push @lines, "step $name $fork $block" . (%$now || %$seen ? ': ' . (differences($seen, $now) || 'the same') : '');
		$seen = $now;
		my $pins = join ', ', grep { $_ ne "$name $fork $block" } $self->_pins;
		push @lines, 'pins ' . ($pins || 'none') if $pins ne $pinned;
		$pinned = $pins;
	}
	$aio->sql("SELECT io_hold_end($filter)");
	return @lines;
}

1;
