# Single-user mode: there are no I/O workers, no other session, and no gate.
#
# io_methods: worker; long: all
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../..";
use IPC::Run;
use TestAio;

# Runs commands, each in a line, in single-user mode.  Returns the exit status, the values of columns
# "answer", and what is logged.
sub single_user
{
	my ($aio, @commands) = @_;
	my $input = join '', map { "$_\n" } @commands;
	IPC::Run::run([ 'postgres', '--single', '-F', '-D', $aio->node->data_dir, '-c', 'log_min_messages=warning', 'postgres' ], \$input, \my $output, \my $log,
		IPC::Run::timeout($TestAio::Oracles::settle * 3));
	return ($? >> 8, [ $output =~ /answer = "([^"]*)"/g ], $log);
}

for_each_io_method(
	sub {
		my ($aio) = @_;
		my $answer = sub { my ($value, $from) = @_; return "SELECT $value AS answer" . ($from ? " FROM $from" : '') };
		my $all = "ARRAY(SELECT generate_series(0, 39))";

		$aio->scenario('reads', sub {
			my $t = $aio->table('t', 40);
			ok($aio->stop, 'the server stops');
			my ($status, $answers, $log) = single_user($aio, "SELECT evict_rel('$t')", $answer->('count(*)', "read_stream_for_blocks('$t', $all)"),
				$answer->('sum(nblocks)', "read_buffers('$t', 0, 40) WHERE NOT io_reqd"),
				"SELECT evict_rel('$t')", "SELECT read_rel_block_ll('$t', 3, nblocks => 4)", $answer->('sum(nblocks)', "read_buffers('$t', 3, 4) WHERE NOT io_reqd"),
				$answer->('count(*)', "problems('$t')"), $answer->('count(*)', 'pg_aios'));
			is($status, 0, 'it ends');
			is(join(' ', @$answers), '40 40 4 0 0', 'streams, operations, single reads, no problem with the rows, and no handle in use') || diag($log);
			unlike($log, qr/WARNING|ERROR|FATAL|PANIC|TRAP/, 'nothing alarming in its log');
			$aio->start_again;
			$aio->proves($t);
		});

		$aio->scenario('the gate', sub {
			my $t = $aio->table('t', 40);
			ok($aio->stop, 'the server stops');
			my @calls = ("io_hold('$t')", "io_fail('$t', -5)", "io_device('1 ms')");
			my ($status, $answers, $log) = single_user($aio, (map { "SELECT $_" } @calls), $answer->('count(*)', $t));
			is($status, 0, 'it ends');
			my $refused = () = $log =~ /DETAIL:  The reason is that the server runs in single-user mode\.\n/g;
			is($refused, scalar @calls, 'nothing can be held, failed or delayed') || diag($log);
			is(join(' ', @$answers), 40, 'the rows');
			$aio->start_again;
			$aio->proves($t);
		}, skip => $aio->lacks('gate'));
	}, leaves => 'nothing');
