# What statements that make, replace and drop files return, report, read, write and count.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;
use TestAio::Recording;

recordings([qw(storage rewrites)], conf => { max_prepared_transactions => 2 });
done_testing();
