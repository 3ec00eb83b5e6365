"""Bugs of servers that are known, and would be found again and again; doc/reports.md tells of them."""

import re

KNOWN = (
    (re.compile('could not create file "[^"]*": File exists'), "no start after a crash, if an unlogged table was made in a transaction that was rolled back just before"),
)


def known(why: str) -> str | None:
    return next((what for pattern, what in KNOWN if pattern.search(why)), None)
