# What scans and changes of indexes return, report, read, write and count.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;
use TestAio::Recording;

recordings([qw(indexes)]);
done_testing();
