# What statements write, sync and count on a server without WAL for new files.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;
use TestAio::Recording;

recordings([qw(minimal)], conf => { wal_level => 'minimal', max_wal_senders => 0 });
done_testing();
