# What statements that delete, move and reuse pages of indexes return, report, read, write and count.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;
use TestAio::Recording;

recordings([qw(index_pages brin)]);
done_testing();
