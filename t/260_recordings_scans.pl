# What scans return, report, read and count.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;
use TestAio::Recording;

recordings([qw(scans)]);
recordings([qw(rings)], conf => { shared_buffers => '12MB' });
done_testing();
