"""What the tests say: TAP files, prove's summary, and pg_regress' lines."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

# pg_regress has more blanks, a "+" for tests that run at once, and the time
_POINT = re.compile(r"^(?P<indent> *)(?P<not>not )?ok \d+(?: +[-+] (?P<name>.*?))?(?: +\d+ ms)?(?: *# (?P<directive>skip|todo)\b *(?P<reason>.*))?$", re.IGNORECASE)
_SKIPPED_FILE = re.compile(r"^1\.\.0 # skip(?: all)? *(?P<reason>.*)$", re.IGNORECASE)
_FAILED_FILE = re.compile(r"^(?P<file>\S+\.pl) +\(Wstat: (?P<wstat>\d+)[^)]*\)")

SEPARATOR = " › "


@dataclass(frozen=True)
class Assertion:
    #: with those of the subtests it is in
    name: str
    passed: bool
    #: why it was skipped; None: it was not
    skipped: str | None = None


def parse(text: str) -> list[Assertion]:
    """The assertions of a file that have none below them.  One that fails although
    those below it pass counts itself: the subtest ended early."""
    found: list[Assertion] = []
    # by depth: those whose own line is still to come
    open_: dict[int, list[Assertion]] = {}
    for line in text.splitlines():
        if skipped := _SKIPPED_FILE.match(line):
            return [Assertion("the whole file", True, skipped["reason"])]
        point = _POINT.match(line)
        if not point:
            continue
        depth = len(point["indent"]) // 4
        name = (point["name"] or "").strip()
        todo = (point["directive"] or "").lower() == "todo"
        passed = not point["not"] or todo
        below = open_.pop(depth + 1, [])
        own = [Assertion(f"{name}{SEPARATOR}{each.name}", each.passed, each.skipped) for each in below]
        if not own or (not passed and all(each.passed for each in own)):
            skipped_for = point["reason"] if (point["directive"] or "").lower() == "skip" else None
            own.append(Assertion(name, passed, skipped_for))
        open_.setdefault(depth, []).extend(own)
    # deepest last: a subtest without a line of its own was broken off
    for depth in sorted(open_):
        found += open_[depth]
    return _numbered(found)


def _numbered(assertions: list[Assertion]) -> list[Assertion]:
    """With a number behind a name that was there before."""
    seen: Counter[str] = Counter()
    found = []
    for each in assertions:
        seen[each.name] += 1
        number = seen[each.name]
        found.append(each if number == 1 else Assertion(f"{each.name} ({number})", each.passed, each.skipped))
    return found


def failed_files(prove: str) -> list[str]:
    """The files that prove's summary names, in its order: those with a failed assertion,
    those that died, and those that have not run to their end."""
    return [found["file"] for line in prove.splitlines() if (found := _FAILED_FILE.match(line))]
