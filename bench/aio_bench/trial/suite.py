"""Runs the test suite on a server: what passes, fails and is skipped, with the logs.  Standard library only."""

import os
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import project, results, servers
from ..results import REGRESSION, File, Suite

# seconds after which a test that waits in vain fails, unless the user says otherwise
TIMEOUT = "60"

RECORDINGS = "t/recordings.pl"


def files(without: str) -> list[str]:
    """Returns the test files but one, the largest first, as servers/check takes them."""
    found = sorted((project.ROOT / "t").rglob("*.pl"), key=lambda path: -path.stat().st_size)
    return [name for path in found if (name := str(path.relative_to(project.ROOT))) != without]


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
    written = work / "test" / "results.json"
    written.unlink(missing_ok=True)
    begun = time.monotonic()
    said = begun
    with (logs / "output").open("w") as kept, subprocess.Popen(
        servers.command(server, work, servers.SCRIPTS / "check", data=True),
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    ) as process:
        assert process.stdout
        try:
            for line in process.stdout:
                kept.write(line)
                if time.monotonic() - said > 30:
                    said = time.monotonic()
                    note(f"  {said - begun:.0f} s: {line.strip()[:70]}")
        except BaseException:
            # servers/check then ends its servers
            process.terminate()
            raise
    if not written.exists():
        return Suite(round(time.monotonic() - begun, 1), "\n".join((logs / "output").read_text().splitlines()[-20:]).strip())
    suite = results.load(written)
    # whole logs, because the next run empties the directory
    for path in [Path(path) for name in suite.failed for path in suite.files[name].logs]:
        if path.exists():
            shutil.copyfile(path, logs / path.name)
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


def other_assertions(before: Suite, after: Suite) -> list[str]:
    """Returns the files that pass on both servers with other assertions, but for numbers in their names, and an example."""
    found = []
    for name, file in before.files.items():
        if file.passed and name in after.files and after.files[name].passed:
            one, other = (Counter(re.sub(r"\d+", "N", each.name) for each in of.assertions) for of in (file, after.files[name]))
            gone, new = one - other, other - one
            signs = " ".join(f"{sign}{each.total()}" for sign, each in (("-", gone), ("+", new)) if each)
            found += [f"{name} {signs}, such as {next(iter(gone or new))}"] if signs else []
    return found


def only_after(before: Suite, after: Suite) -> list[str]:
    """Returns the reasons for which more is skipped after than before."""
    more = after.skipped() - before.skipped()
    return [f"{number} × {reason}" for reason, number in more.most_common()]
