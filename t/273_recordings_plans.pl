# What EXPLAIN says of plans of every kind.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;
use TestAio::Recording;

recordings([qw(plans)]);
done_testing();
