"""What ends a run without a verdict: bugs of servers that are known, and limits of the machine."""

import re

KNOWN = (
    (re.compile("could not setup io_uring queue: Cannot allocate memory"), "not enough locked memory for io_uring on this machine at the moment"),
    # doc/reports
    (re.compile('could not create file "[^"]*": File exists'), "unlogged-rollback-crash"),
    (re.compile("hit-not-counted: "), "hit-not-counted"),
    (re.compile(r"(?s)(?=.*pgstatindex).*pd_special >= SizeOfPageHeaderData"), "pgstatindex-new-page"),
    (re.compile("startup.*invalid page pd_lower 0 pd_upper 0 pd_special 0"), "consistency-check-new-page"),
    # without assertions, nothing else tells of it
    (re.compile(r"(?s)(?=.*brin_redo).*BufferIsPinned|startup process \(PID \d+\) was terminated by signal 11.*\nwithout assertions, with BRIN\nfull_page_writes = off\b"), "brin-redo-missing-block"),
    (re.compile(r"(?s)startup\|XX001\|FATAL:  invalid page in block.*\nchecksums were disabled on a standby$"), "checksums-off-standby-crash"),
    (re.compile(r"(?s)does not end\n.*'io worker', 'Activity', 'IoWorkerMain'.*'SUBMITTED'.*\nio_workers was changed on 18"), "io-worker-exit-hang"),
    # f7cc6fd760, after 18.6 and 19rc1
    (re.compile("(?s)inconsistent page found.*WAL redo at [^ ]+ for Gist/DELETE"), "F_TUPLES_DELETED"),
)


def known(why: str) -> str | None:
    return next((what for pattern, what in KNOWN if pattern.search(why)), None)
