# Every wait of the module's against every way in which it may end, with and without
# the gate's worker (t/TestAio/Waits.pm).
#
# All of them take twenty seconds.  Usually each is run with one io_method, with
# or without the worker, and most of those that restart the server are left out;
# TEST_AIO_WAITS=all runs all.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;
use TestAio::Waits;

my $all = ($ENV{TEST_AIO_WAITS} // '') eq 'all';
my %place = (sync => 0, worker => 1, io_uring => 2);

# Is this the one of six runs in which a combination has its turn?
sub has_its_turn
{
	my ($number, $end, $method, $has_worker) = @_;
	return 1 if $all;
	my $turn = 2 * $place{$method} + ($has_worker ? 1 : 0);
	return $end =~ /kill|shutdown/ ? $number % 24 == 4 * $turn : $number % 6 == $turn;
}

for my $has_worker (1, 0)
{
	with_each_io_method(
		sub {
			my ($aio) = @_;
			my $number = 0;
			for my $combination (combinations())
			{
				my ($wait, $end) = @$combination;
				run_combination($aio, $wait, $end, $has_worker) if has_its_turn($number++, $end, $aio->method, $has_worker);
			}
		},
		needs => 'gate trace', suffix => $has_worker ? 'worker' : 'alone',
		conf => { restart_after_crash => 'on', $has_worker ? () : (max_worker_processes => 0) });
}

done_testing();
