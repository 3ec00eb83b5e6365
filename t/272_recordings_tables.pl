# What indexes, copies and statistics of rows in progress return, report, read, write and count.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;
use TestAio::Recording;

recordings([qw(tables)]);
done_testing();
