"""What ends a run without a verdict: bugs of servers that are known, and limits of the machine."""

import re

KNOWN = (
    (re.compile("could not setup io_uring queue: Cannot allocate memory"), "not enough locked memory for io_uring on this machine at the moment"),
    # the record of the rollback is not flushed, so recovery makes the init fork again, and copies it to a main fork that
    # is still there, truncated, until the next checkpoint: 18.6, 19rc1, 20devel
    (re.compile('could not create file "[^"]*": File exists'), "no start after a crash, if an unlogged table was made in a transaction that was rolled back just before"),
)


def known(why: str) -> str | None:
    return next((what for pattern, what in KNOWN if pattern.search(why)), None)
