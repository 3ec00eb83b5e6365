# Scripts of SQL for recordings (TestAio/Recording.pm) and replay (t/server/recovery/replay.pl).
#
# The session of a statement is alice, or the name before it: "bob: COMMIT;".  A comment before a statement may tell how
# to run it:
#	-- waits for bob	it begins, and waits for a lock of bob; its end comes later:
#	-- then bob ends, -- then bob waits for carol	what a session that waits does after the statement
#	-- sums only	only sums are the same in each run, such as when several processes share the blocks
# From "-- step by step" to "-- without steps" each statement reads all, and is stopped before each of its reads, for a
# look (TestAio/Steps.pm).
# A script that has a line "-- script: NAME" has the statements of that one.  A line
# "-- not replayed: reason" leaves the script out of t/server/recovery/replay.pl.
#
# In place of a statement there may be
#	\restart, \crash	stops the server and starts it again
#	\pages RELATION		a checkpoint, and what is in the relation's files then
#	\write RELATION BLOCK OFFSET HEX	evicts the relation and writes these bytes into a block's file

package TestAio::Script;

use v5.36;
use warnings FATAL => 'all';

use Exporter 'import';
use File::Basename qw(dirname);
use PostgreSQL::Test::Utils qw(slurp_file);
use TestAio::Wire;

our @EXPORT = qw(script all_scripts script_length scripts_in_wal);

our $directory = dirname(dirname(__FILE__)) . '/recordings';

# The names of all scripts.
sub all_scripts { return map { m{(\w+)\.sql$} } sort glob "$directory/*.sql" }

sub script_length ($name) { return length _text($name) }

# The names of the scripts whose writes are all in the WAL; the others have the comment "not replayed".
sub scripts_in_wal { return grep { slurp_file("$directory/$_.sql") !~ /^-- not replayed/m } all_scripts() }

# The text of a script.
sub _text ($name)
{
	my $text = slurp_file("$directory/$name.sql");
	return $text =~ /^-- script: (\w+)$/m ? _text($1) : $text;
}

# The statements of a script, in their order, as hashes: sql, session, sums_only, how (all comments); or
# command, and its arguments.
sub script ($name)
{
	my (@statements, $by_steps);
	for my $text (TestAio::Wire::statements(_text($name) =~ s/^(\\\w+.*)$/$1;/mgr))
	{
		my @how = $text =~ /^\s*-- (.+)$/mg;
		my $known = qr/waits for \w+|then \w+ (?:ends|waits for \w+)|sums only|step by step|without steps/;
		my @unknown = grep { /^(?:waits?|then|sums?|steps?|without)\b/ && !/^$known$/ } @how;
		die "$name.sql: what is \"-- $unknown[0]\"?\n" if @unknown;
		/^(?:(step by step)|without steps)$/ and $by_steps = $1 for @how;
		die "$name.sql: \"step by step\" is for statements that wait for nobody\n" if $by_steps && grep { /^(?:waits|then) / } @how;
		my $sql = $text =~ s/^\s*--.*\n//mgr;
		$sql =~ s/^\s+|\s+$//g;
		my $session = $sql =~ s/^(\w+): // ? $1 : 'alice';
		my ($command, @arguments) = $sql =~ /^\\/ ? split / /, substr $sql, 1 : ();
		push @statements, {
			sql => $sql, session => $session, how => \@how, by_steps => $by_steps,
			sums_only => scalar(grep { $_ eq 'sums only' } @how), command => $command // '', arguments => \@arguments };
	}
	return @statements;
}

1;
