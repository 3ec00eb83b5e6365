# What statements that meet broken pages return, report, read and count.
use strict;
use warnings FATAL => 'all';
use FindBin;
use lib $FindBin::RealBin;
use TestAio;
use TestAio::Recording;

my $bad_pages = qr{client backend \w+ LOG:  (?:invalid page|page verification failed)};
# with checksums, every change of a byte is noticed
recordings([qw(broken)], kept_as => 'broken_with_checksums', log => $bad_pages);
recordings([qw(broken)], no_data_checksums => 1, log => $bad_pages);
done_testing();
