# Scenarios with one mistake, run aside: the test of the library's own checks.
#
# The assertions of such a scenario do not count.  The test says which of them must fail.

package TestAio::Aside;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use Test2::API qw(intercept);
use Test::More;

use TestAio::Oracles;

our @EXPORT = qw(notices);

# What is left stays, so the oracles need not wait for its end.
$TestAio::Oracles::settle = 0.3;

# Returns the failed assertions among events and their subtests, as [name, diagnostics].
sub _failures
{
	my (@events) = @_;
	my @failed;
	for my $event (@events)
	{
		if ($event->can('subevents') && $event->subevents) { push @failed, _failures(@{ $event->subevents }) }
		elsif ($event->isa('Test2::Event::Fail') || $event->isa('Test2::Event::Ok') && !$event->effective_pass)
		{
			push @failed, [ $event->name =~ s/\n.*//sr, '' ];
		}
		elsif (@failed && $event->isa('Test2::Event::Diag')) { $failed[-1][1] .= $event->message }
	}
	return @failed;
}

# Test: in a scenario that runs aside, exactly the expected assertions fail.  Each is given
# as [name, pattern of its diagnostics].  Without any, the scenario must pass.
sub notices
{
	my ($aio, $what, $body, $params, @expected) = @_;
	my $events = intercept { $aio->scenario($what, $body, %$params) };
	my @found = _failures(@$events);
	subtest $what => sub {
		is(join(' / ', map { $_->[0] } @found), join(' / ', map { $_->[0] } @expected), 'the assertions that fail') || diag(map { "$_->[0]: $_->[1]\n" } @found);
		like($found[$_] ? $found[$_][1] : '', $expected[$_][1], "what \"$expected[$_][0]\" reports") for 0 .. $#expected;
		note('all pass') if !@expected;
	};
	return;
}

1;
