"""Output of tests: TAP files, prove's summary, and pg_regress's lines."""

import re
from collections import Counter
from dataclasses import dataclass

# pg_regress writes more blanks, a "+" for tests that run at once, and the time
_POINT = re.compile(r"^(?P<indent> *)(?P<not>not )?ok \d+(?: +[-+] (?P<name>.*?))?(?: +\d+ ms)?(?: *# (?P<directive>skip|todo)\b *(?P<reason>.*))?$", re.IGNORECASE)
_SKIPPED_FILE = re.compile(r"^1\.\.0 # skip(?: all)? *(?P<reason>.*)$", re.IGNORECASE)
_FAILED_FILE = re.compile(r"^(?P<file>\S+\.pl) +\(Wstat: (?P<wstat>\d+)[^)]*\)")

SEPARATOR = " › "


@dataclass(frozen=True)
class Assertion:
    #: after the names of the subtests it is in
    name: str
    passed: bool
    #: why it was skipped; None: it was not
    skipped: str | None = None


def parse(text: str) -> list[Assertion]:
    """Returns the innermost assertions of a file.  A subtest that fails although all its assertions pass counts
    itself, because it ended early."""
    found: list[Assertion] = []
    # assertions by depth, of subtests whose own line is still to come
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
    # what remains is from subtests that ended without a line of their own; the deepest is last
    for depth in sorted(open_):
        found += open_[depth]
    return _numbered(found)


def _numbered(assertions: list[Assertion]) -> list[Assertion]:
    """Returns the assertions, with a number after a name that is not the first of its kind."""
    seen: Counter[str] = Counter()
    found = []
    for each in assertions:
        seen[each.name] += 1
        number = seen[each.name]
        found.append(each if number == 1 else Assertion(f"{each.name} ({number})", each.passed, each.skipped))
    return found


def failed_files(prove: str) -> list[str]:
    """Returns the files that prove's summary names, in its order: files with a failed assertion, files that died, and
    files that did not run to their end."""
    return [found["file"] for line in prove.splitlines() if (found := _FAILED_FILE.match(line))]
