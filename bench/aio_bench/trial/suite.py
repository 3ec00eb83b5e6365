"""Runs the test suite on a server: what passes, fails and is skipped, with the logs.  Standard library only."""

import os
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import project, servers

# seconds after which a test that waits in vain fails, unless the user says otherwise
TIMEOUT = "60"

# what is shown of a log: lines from the first failure on, and lines at the end
FIRST_LINES, LAST_LINES = 20, 8

# lines of servers' logs; a test may provoke them on purpose
ALARMS = re.compile(r"PANIC: |TRAP: |FATAL:  could not|terminated by signal (6|11)\b")

# pg_regress writes more blanks, a "+" for tests that run at once, and the time
_POINT = re.compile(r"^(?P<indent> *)(?P<not>not )?ok \d+(?: +[-+] (?P<name>.*?))?(?: +\d+ ms)?(?: *# (?P<directive>skip|todo)\b *(?P<reason>.*))?$", re.IGNORECASE)
_SKIPPED_FILE = re.compile(r"^1\.\.0 # skip(?: all)? *(?P<reason>.*)$", re.IGNORECASE)
_FAILED_FILE = re.compile(r"^(?P<file>\S+\.pl) +\(Wstat: (?P<wstat>\d+)[^)]*\)")


@dataclass(frozen=True)
class Assertion:
    #: after the names of the subtests it is in
    name: str
    passed: bool
    #: why it was skipped; None: it was not
    skipped: str | None = None


def parse_tap(text: str) -> list[Assertion]:
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
        own = [Assertion(f"{name} › {each.name}", each.passed, each.skipped) for each in below]
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


@dataclass(frozen=True)
class File:
    """A test file, or the regression tests as a whole."""

    passed: bool
    assertions: tuple[Assertion, ...]
    #: the part of its log that tells why, if it failed
    log: str = ""

    @property
    def failures(self) -> list[str]:
        return [each.name for each in self.assertions if not each.passed]


@dataclass(frozen=True)
class Suite:
    """One run of the suite, or of some of its files."""

    seconds: float
    #: why no test was run; empty: tests were run
    broken: str
    files: dict[str, File] = field(default_factory=dict)

    @property
    def failed(self) -> list[str]:
        return [name for name, file in self.files.items() if not file.passed]

    @property
    def number_of_assertions(self) -> int:
        return sum(len(file.assertions) for file in self.files.values())

    def skipped(self) -> Counter[str]:
        return Counter(each.skipped for file in self.files.values() for each in file.assertions if each.skipped)


def from_data(data: dict[str, Any]) -> Suite:
    """Returns the suite of asdict()."""
    files = {name: File(**{**file, "assertions": tuple(Assertion(**each) for each in file["assertions"])}) for name, file in data["files"].items()}
    return Suite(**{**data, "files": files})


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def stem(name: str) -> str:
    """Returns what the names of a test's logs begin with: t/server/streams/shapes.pl has server-streams-shapes."""
    return name.removeprefix("t/").removesuffix(".pl").replace("/", "-")


def _log(state: Path, stem: str) -> str:
    """Returns the first failure and the end of a test's log, and why its servers died."""
    lines = _text(state / "log" / f"regress_log_{stem}").splitlines()
    first = next((at for at, line in enumerate(lines) if " not ok " in line), len(lines))
    left = lines[first + FIRST_LINES:]
    # a server that several tests share has a log of its own, of which the test shows what is alarming
    told = "\n".join([*lines[first:first + FIRST_LINES], "…", *[line for line in left if ALARMS.search(line)][:1], *(left or lines)[-LAST_LINES:]])
    for path in sorted((state / "log").glob(f"*{stem}_*.log")):
        alarms = [line for line in _text(path).splitlines() if ALARMS.search(line)]
        if alarms:
            told += "\n\n" + "\n".join([f"{path.name}:", *alarms[-3:]])
    return told


REGRESSION = "regression tests"
RECORDINGS = "t/recordings.pl"


def files(without: str) -> list[str]:
    """Returns the test files but one, the largest first, as servers/check takes them."""
    found = sorted((project.ROOT / "t").rglob("*.pl"), key=lambda path: -path.stat().st_size)
    return [name for path in found if (name := str(path.relative_to(project.ROOT))) != without]


def read(state: Path, seconds: float, output: str) -> Suite:
    """Returns the suite of what servers/check has left in a directory, and of its output."""
    files: dict[str, File] = {}
    if regress := parse_tap(_text(state / "regress.log")):
        passed = all(each.passed for each in regress)
        files[REGRESSION] = File(passed, tuple(regress), "" if passed else "\n".join(_text(state / "regression.diffs").splitlines()[:60]))
    failed = failed_files(_text(state / "prove.log"))
    for path in sorted((state / "tap").glob("**/*.pl")):
        name = str(path.relative_to(state / "tap"))
        assertions = parse_tap(_text(path))
        passed = name not in failed and all(each.passed for each in assertions)
        files[name] = File(passed, tuple(assertions), "" if passed else _log(state, stem(name)))
    for name in failed:
        # files that died before they printed anything
        files.setdefault(name, File(False, (), _log(state, stem(name))))
    broken = "" if files else "\n".join(output.splitlines()[-20:])
    return Suite(seconds, broken, files)


def _keep_logs(state: Path, suite: Suite, logs: Path) -> None:
    """Copies whole logs of failed files, because the next run empties the directory."""
    logs.mkdir(parents=True, exist_ok=True)
    for name in suite.failed:
        for path in (state / "log").glob(f"*{stem(name)}*"):
            shutil.copyfile(path, logs / path.name)
    if (state / "regression.diffs").exists():
        shutil.copyfile(state / "regression.diffs", logs / "regression.diffs")


def run(server: str, work: Path, logs: Path, tests: Sequence[str], note: Callable[[str], None], more: Mapping[str, str] = {}) -> Suite:
    """Runs the suite, or some of its files, with servers/check, and more in its environment.  Its output is in logs/output."""
    environment = {"PG_TEST_TIMEOUT_DEFAULT": TIMEOUT, "TEST_AIO_GATE": "try", "TEST_AIO_LONG": "1", **os.environ}
    environment = {name: value for name, value in environment.items() if name not in ("REGRESS", "PROVE_TESTS", "PROVE_FLAGS", "TEST_AIO_REQUIRE")}
    environment |= more
    files = [name for name in tests if name != REGRESSION]
    if files:
        environment["PROVE_TESTS"] = " ".join(files)
    if REGRESSION in tests:
        environment["REGRESS"] = " ".join(path.stem for path in sorted((project.ROOT / "sql").glob("*.sql")))
    logs.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    said = begun
    output: list[str] = []
    with (logs / "output").open("w") as kept, subprocess.Popen(
        servers.command(server, work, servers.SCRIPTS / "check", data=True),
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    ) as process:
        assert process.stdout
        try:
            for line in process.stdout:
                output.append(line)
                kept.write(line)
                if time.monotonic() - said > 30:
                    said = time.monotonic()
                    note(f"  {said - begun:.0f} s: {line.strip()[:70]}")
        except BaseException:
            # servers/check then ends its servers
            process.terminate()
            raise
    suite = read(work / "test", round(time.monotonic() - begun, 1), "".join(output))
    _keep_logs(work / "test", suite, logs)
    return suite


@dataclass(frozen=True)
class Difference:
    """A file that does not pass in every run."""

    name: str
    #: failures and runs
    before: tuple[int, int]
    after: tuple[int, int]
    #: assertions that fail after and not before, or fail in both
    failures: tuple[str, ...]
    log: str

    @property
    def verdict(self) -> str:
        """"broken": it fails each time after, never before; "mended": the other way round;
        "both": it fails each time; "doubtful": it fails sometimes after, never before;
        "unsteady": it fails sometimes."""
        (failed_before, runs_before), (failed_after, runs_after) = self.before, self.after
        if failed_after and failed_after == runs_after:
            return "broken" if failed_before == 0 else "both" if failed_before == runs_before else "unsteady"
        if failed_after:
            return "unsteady" if failed_before else "doubtful"
        return "mended" if failed_before == runs_before else "unsteady"


def _times(name: str, runs: Sequence[Suite]) -> tuple[int, int]:
    ran = [suite.files[name] for suite in runs if name in suite.files]
    return sum(not file.passed for file in ran), len(ran)


def _first_failure(name: str, runs: Sequence[Suite]) -> File | None:
    return next((suite.files[name] for suite in runs if name in suite.files and not suite.files[name].passed), None)


def compare(before: Sequence[Suite], after: Sequence[Suite]) -> list[Difference]:
    """Returns the files that do not pass in every run of both servers."""
    found = []
    for name in dict.fromkeys(name for suite in (*before, *after) for name in suite.failed):
        seen = _first_failure(name, after) or _first_failure(name, before)
        assert seen
        failed_before = {failure for suite in before if name in suite.files for failure in suite.files[name].failures}
        # they need not have passed before: a failure can make assertions that are not there otherwise
        new = [each for each in seen.failures if each not in failed_before]
        found.append(Difference(name, _times(name, before), _times(name, after), tuple(new or seen.failures), seen.log))
    order = ("broken", "doubtful", "unsteady", "both", "mended")
    return sorted(found, key=lambda each: (order.index(each.verdict), each.name))


def only_after(before: Suite, after: Suite) -> list[str]:
    """Returns the reasons for which more is skipped after than before."""
    more = after.skipped() - before.skipped()
    return [f"{number} × {reason}" for reason, number in more.most_common()]
