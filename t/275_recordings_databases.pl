# What commands on databases and tablespaces return, report, read, write and count.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;
use TestAio::Recording;

# with a template0, which the copies of a data directory lack
recordings([qw(databases)], initdb => ['--no-locale', '--encoding=UTF8']);
done_testing();
