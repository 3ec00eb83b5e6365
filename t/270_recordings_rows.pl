# What statements that meet rows of other sessions return, report, read, write and count.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;
use TestAio::Recording;

recordings([qw(rows)], log => [qr{ERROR:  could not (?:obtain lock|serialize)}]);
done_testing();
