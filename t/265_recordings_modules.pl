# What contrib modules that read blocks return, report, read and count.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;
use TestAio::Recording;

recordings([qw(modules)], modules => 'pg_prewarm pg_buffercache pageinspect pg_visibility pgstattuple amcheck');
done_testing();
