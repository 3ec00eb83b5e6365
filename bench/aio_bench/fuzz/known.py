"""What ends a run without a verdict: bugs of servers that are known (doc/reports.md), and limits of the machine."""

import re

KNOWN = (
    (re.compile("could not setup io_uring queue: Cannot allocate memory"), "not enough locked memory for io_uring on this machine at the moment"),
    (re.compile('could not create file "[^"]*": File exists'), "no start after a crash, if an unlogged table was made in a transaction that was rolled back just before"),
)


def known(why: str) -> str | None:
    return next((what for pattern, what in KNOWN if pattern.search(why)), None)
