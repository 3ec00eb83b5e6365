# What scans by TID, sample, bitmap and index return, report, read and count.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;
use TestAio::Recording;

recordings([qw(paths)]);
done_testing();
