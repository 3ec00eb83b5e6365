# What the views of progress say, and which blocks are pinned, before each read of scans, VACUUM,
# ANALYZE, CREATE INDEX, CLUSTER and others, and of functions of contrib modules.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;
use TestAio::Recording;

my %params = (needs => 'gate', conf => { shared_buffers => '16MB', 'test_aio.reach_synchronous_reads' => 'on' });
recordings([qw(steps)], modules => 'pg_buffercache', %params);
recordings([qw(steps_of_modules)], modules => 'pg_buffercache pg_prewarm pg_visibility pgstattuple amcheck pageinspect', %params);
done_testing();
