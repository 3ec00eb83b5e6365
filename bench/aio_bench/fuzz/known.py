"""What ends a run without a verdict: bugs of servers that are known, and limits of the machine."""

import re

KNOWN = (
    (re.compile("could not setup io_uring queue: Cannot allocate memory"), "not enough locked memory for io_uring on this machine at the moment"),
    # of doc/reports
    (re.compile('could not create file "[^"]*": File exists'), "unlogged-rollback-crash"),
    (re.compile("hit-not-counted: "), "hit-not-counted"),
    (re.compile(r"pgstatindex(?s:.*)pd_special >= SizeOfPageHeaderData"), "pgstatindex-new-page"),
)


def known(why: str) -> str | None:
    return next((what for pattern, what in KNOWN if pattern.search(why)), None)
