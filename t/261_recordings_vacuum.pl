# What VACUUM returns, reports, reads, writes and counts.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;
use TestAio::Recording;

recordings([qw(vacuum)]);
done_testing();
