"""results.json, which servers/check writes: what each test file has done.  Standard library only."""

import json
import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from . import project

# what is shown of a log: lines from the first failure on, and lines at the end
FIRST_LINES, LAST_LINES = 20, 8

# lines of servers' logs; a test may provoke them on purpose
ALARMS = re.compile(r"PANIC: |TRAP: |FATAL:  could not|terminated by signal (6|11)\b")

REGRESSION = "regression tests"


@dataclass(frozen=True)
class Assertion:
    #: after the names of the subtests it is in
    name: str
    passed: bool
    #: why it was skipped; None: it was not
    skipped: str | None = None


@dataclass(frozen=True)
class File:
    """A test file, or the regression tests as a whole."""

    passed: bool
    assertions: tuple[Assertion, ...]
    #: the part of its logs that tells why, if it failed
    log: str = ""
    seconds: float = 0
    #: paths of its logs, its own first
    logs: tuple[str, ...] = ()

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
    server: str = ""
    #: what has failed besides files
    wrong: tuple[str, ...] = ()

    @property
    def failed(self) -> list[str]:
        return [name for name, file in self.files.items() if not file.passed]

    @property
    def number_of_assertions(self) -> int:
        return sum(len(file.assertions) for file in self.files.values())

    def skipped(self) -> Counter[str]:
        return Counter(each.skipped for file in self.files.values() for each in file.assertions if each.skipped)

    def summary(self) -> str:
        """Returns the last line of servers/check."""
        verdict = "FAILED" if self.failed or self.wrong else "PASSED"
        tap = [file for name, file in self.files.items() if name != REGRESSION]
        regression = self.files.get(REGRESSION)
        counts = [f"regression tests: {sum(each.passed for each in regression.assertions)}"] if regression else []
        counts += [f"TAP files: {len(tap)} with {sum(len(file.assertions) for file in tap):,} assertions"] if tap else []
        failed = [*self.failed, *self.wrong]
        what = f"; failed: {', '.join(failed[:9])}{' …' if len(failed) > 9 else ''}" if failed else ""
        return f"{verdict} on {self.server} in {self.seconds:.0f} s; {'; '.join(counts) or 'no test'}{what}"


def from_data(data: dict[str, Any]) -> Suite:
    """Returns the suite of asdict()."""
    files = {name: File(**{**file, "assertions": tuple(Assertion(**each) for each in file["assertions"])}) for name, file in data["files"].items()}
    return Suite(**{**data, "files": files})


def load(path: Path) -> Suite:
    return from_data(json.loads(path.read_text()))


def write(path: Path, suite: Suite) -> None:
    path.write_text(json.dumps(asdict(suite), ensure_ascii=False, indent=1))


def text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def stem(name: str) -> str:
    """Returns what the names of a test's logs begin with: t/server/streams/shapes.pl has server-streams-shapes."""
    return (Path(name).name if name.startswith("/") else name.removeprefix("t/")).removesuffix(".pl").replace("/", "-")


def parse(directory: Path, names: Sequence[str]) -> dict[str, Any]:
    """Returns the assertions of TAP files."""
    return json.loads(subprocess.check_output([project.ROOT / "servers" / "tap", directory, *names]))


def first_failure(log: Path) -> str:
    """Returns in one line why a test's output says that it failed."""
    failed = [each["name"] for each in parse(log.parent, [log.name])[log.name] if not each["passed"]]
    lines = [line.strip() for line in text(log).splitlines() if line.strip()]
    died = [line for line in lines if "died" in line or "timed out" in line]
    return next(iter(failed + died + lines[-1:]), "no output")[:160]


def _logs(directory: Path, name: str) -> list[Path]:
    """Returns the logs of a test, and of its own servers."""
    return [directory / f"regress_log_{stem(name)}", *sorted(directory.glob(f"{stem(name)}_*.log"))]


def excerpt(directory: Path, name: str) -> str:
    """Returns the first failure and the end of a test's log, and why its servers died."""
    own, *servers = _logs(directory, name)
    lines = text(own).splitlines()
    first = next((at for at, line in enumerate(lines) if " not ok " in line), len(lines))
    left = lines[first + FIRST_LINES:]
    # a server that several tests share has a log of its own, of which the test shows what is alarming
    shown = [*lines[first:first + FIRST_LINES], "…", *[line for line in left if ALARMS.search(line)][:1], *(left if first < len(lines) else lines)[-LAST_LINES:]]
    for path in servers:
        if alarms := [line for line in text(path).splitlines() if ALARMS.search(line)]:
            shown += ["", f"{path.name}:", *alarms[-3:]]
    return "\n".join(shown)


def began_to_fail(directory: Path, name: str) -> str:
    """Returns the time of a test's first failure, as its log has it."""
    found = re.search(r"^\s*\[([\d:.]+)\].* not ok ", text(_logs(directory, name)[0]), re.MULTILINE)
    return found[1] if found else "99"


def read(state: Path, names: Sequence[str]) -> dict[str, File]:
    """Returns what pg_regress and prove have left in a directory: the regression tests, and these TAP files."""
    files: dict[str, File] = {}
    if (state / "regress.log").exists():
        assertions = parse(state, ["regress.log"])["regress.log"]
        passed = bool(assertions) and all(each["passed"] for each in assertions)
        differences = state / "regression.diffs"
        log = text(differences) or text(state / "regress.log") + text(state / "log/postmaster.log")
        logs: tuple[str, ...] = (str(differences), str(state / "regress.log"), str(state / "log/postmaster.log"))
        files[REGRESSION] = File(passed, tuple(Assertion(**each) for each in assertions), "" if passed else "\n".join(log.splitlines()[-60:]), logs=logs)
    if names:
        found = json.loads(subprocess.check_output([project.ROOT / "servers" / "tap", "--state", state / "prove", state / "tap", *names]))
        for name in names:
            passed, logs = found[name]["passed"], tuple(str(path) for path in _logs(state / "log", name) if path.exists())
            files[name] = File(passed, tuple(Assertion(**each) for each in found[name]["assertions"]), "" if passed else excerpt(state / "log", name),
                               found[name]["seconds"], logs)
    return files
