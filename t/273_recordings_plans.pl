# What EXPLAIN says of plans of every kind.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;
use TestAio::Recording;

recordings([qw(plans)], long => 1, conf => { log_lock_waits => 'off' });
done_testing();
