# What reads, streams, handles and batches return, report, read and count.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;
use TestAio::Recording;

recordings([qw(reads)], log => [
	qr{client backend alice LOG:  (?:invalid page|page verification failed|ignoring checksum failure)},
	qr{client backend alice WARNING:  (?:leaked AIO handle|open AIO batch at end)} ]);
done_testing();
