# Every wait of the module's against every way in which it may end, with and without
# the gate's worker (t/TestAio/Waits.pm).
#
# All of them take twenty seconds.  Usually each runs on one server, and two of three that
# restart the server are left out; TEST_AIO_WAITS=all runs all on all servers.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;
use TestAio::Waits;

my $all = ($ENV{TEST_AIO_WAITS} // '') eq 'all';
my @servers = map { ([ $_, 1 ], [ $_, 0 ]) } qw(worker io_uring sync);

# Is this the server on which a combination has its turn?
sub has_its_turn
{
	my ($number, $wait, $end, $method, $has_worker) = @_;
	return is_possible($wait, $end, $method, $has_worker) if $all;
	my @possible = grep { is_possible($wait, $end, @$_) } @servers;
	return 0 if !@possible || restarts($end) && int($number / 2) % 3;
	my ($its_method, $its_worker) = @{ $possible[ $number % @possible ] };
	return $its_method eq $method && $its_worker == $has_worker;
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
				run_combination($aio, $wait, $end, $has_worker) if has_its_turn($number++, $wait, $end, $aio->method, $has_worker);
			}
		},
		needs => 'gate trace', suffix => $has_worker ? 'worker' : 'alone',
		conf => { restart_after_crash => 'on', $has_worker ? () : (max_worker_processes => 0) });
}

done_testing();
