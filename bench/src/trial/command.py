"""bench/trial: runs the suite and the lab on a server before and after a patch.  Other modules than Python's own are
imported after provide has made sure of them."""

from __future__ import annotations

import os
import shlex
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from lab import project, provide

from . import arguments, kept, sides, suite
from .arguments import Arguments
from .kept import Kept, Key

if TYPE_CHECKING:
    from rich.console import Console

    from .findings import Findings

# failed files run again so often on both servers, to tell constant failures from occasional ones
REPEATS = 2
REPEATS_QUICK = 1


def _directory(given: Arguments) -> Path:
    if given.output:
        return given.output
    names = [sides.identity(side.suite).removeprefix("source-") for side in given.sides]
    return project.ROOT / "build" / "trial" / ("..".join(names) + ("-quick" if given.quick else ""))


def _key(given: Arguments) -> Key:
    servers = {side.role: [sides.identity(side.suite), sides.identity(side.lab)] for side in given.sides}
    return Key(servers, kept.project_state(), given.quick, given.only, list(given.tests))


class _Trial:
    def __init__(self, given: Arguments, store: Kept, console: Console, begun: float) -> None:
        self._given = given
        self._store = store
        self._console = console
        self._begun = begun

    def _note(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _run_suite(self, side: sides.Side, number: int, tests: list[str]) -> None:
        there = self._store.suite(side.role, number)
        # a suite that could not be run is tried again
        if self._given.show or (there and not there.broken):
            return
        what = f"{len(tests)} files of the suite" + (", again" if number else "") if tests else "the suite"
        self._note(f"{side.role}: {what}")
        work = self._store.directory / "suite" / f"work-{side.role}"
        found = suite.run(side.suite, work, self._store.logs(side.role, number), tests, self._note)
        self._store.keep_suite(side.role, number, found)
        failed = f"failed: {', '.join(found.failed)}" if found.failed else "all pass"
        self._note(f"{side.role}: {found.number_of_assertions:,} assertions in {found.seconds:.0f} s, {found.broken and 'not run' or failed}")

    def _suites(self, number: int) -> list[suite.Suite]:
        return [found for side in self._given.sides if (found := self._store.suite(side.role, number))]

    def run_suites(self) -> dict[str, list[suite.Suite]]:
        for side in self._given.sides:
            self._run_suite(side, 0, list(self._given.tests))
        whole = self._suites(0)
        failed = sorted({name for found in whole for name in found.failed})
        repeats = REPEATS_QUICK if self._given.quick else REPEATS
        if failed and not any(found.broken for found in whole):
            for number in range(1, repeats + 1):
                for side in self._given.sides:
                    self._run_suite(side, number, failed)
        runs = {side.role: [found for number in range(repeats + 1) if (found := self._store.suite(side.role, number))] for side in self._given.sides}
        return runs if all(runs.values()) else {}

    def run_lab(self, found: Findings) -> None:
        from lab import casefile, session

        from . import measuring

        cases = [measuring.with_figures(casefile.load(path)) for path in self._given.cases]
        if self._given.only:
            cases = [case for case in cases if any(variant.matches(self._given.only) for variant in case.variants)]
        lab = measuring.Measuring(self._store, session.Effort(quick=self._given.quick), self._given.only)
        deadline = self._begun + (arguments.QUICK_MINUTES - arguments.MARGIN_MINUTES) * 60 if self._given.quick else None
        if self._given.show:
            deadline = self._begun
        measured = lab.run(cases, [side.lab_server for side in self._given.sides], self._given.work, self._console, deadline)
        found.reports, found.failures, found.left_out = measured.reports, measured.failures, measured.left_out
        found.traces = {name: traces for name in found.changed_cases if (traces := lab.traces(name))}

    def run(self) -> Findings:
        from .findings import Findings

        found = Findings(f"bench/trial {shlex.join(sys.argv[1:])}", time.strftime("%Y-%m-%d %H:%M %z"), project.commit(), self._given.quick)
        if self._given.run_suite:
            found.suites = self.run_suites()
            found.suite_builds = {side.role: sides.describe(side.suite) for side in self._given.sides}
        if self._given.run_lab:
            self.run_lab(found)
            found.lab_builds = {side.role: sides.describe(side.lab) for side in self._given.sides}
        return found


def _give_back(directory: Path) -> None:
    """Gives what root has made in the checkout to its owner, except the servers' work directories."""
    if directory.is_relative_to(project.ROOT):
        own = [path for path in directory.rglob("*") if "work-" not in str(path.relative_to(directory))]
        project.give_to_owner(directory.parent, directory, *own)


def _write(found: Findings, directory: Path, console: Console) -> None:
    from . import page, summary

    text = summary.text(found)
    (directory / "summary.txt").write_text(text)
    (directory / "report.html").write_text(page.render(found))
    console.print(f"\n{text}", markup=False, highlight=False, soft_wrap=True)
    console.print(str(directory / "report.html"), markup=False, highlight=False, soft_wrap=True)


def run(given: Arguments, store: Kept, begun: float) -> int:
    """Does what has not been done yet, and writes the report.  Returns the exit status."""
    from lab import stage

    from . import findings

    def body(console: Console) -> int:
        try:
            found = _Trial(given, store, console, begun).run()
            _write(found, store.directory, console)
        except KeyboardInterrupt:
            console.print("The same command resumes from here.")
            raise
        finally:
            _give_back(store.directory)
        return found.status

    return stage.perform("bench/trial", body, findings.INCOMPLETE)


def main(argv: list[str] | None = None) -> int:
    begun = time.monotonic()
    given = arguments.parse(argv)
    # the gate may not know the major version on trial
    os.environ.setdefault("TEST_AIO_GATE", "try")
    try:
        store = Kept(_directory(given))
        if store.begin(_key(given), given.again):
            print(f"bench/trial: resumes from {store.directory}", file=sys.stderr)
    except (sides.SideError, kept.OtherTrial) as error:
        print(f"bench/trial: {error}", file=sys.stderr)
        return 4
    servers = [side.suite_server for side in given.sides] if given.run_suite else []
    servers += [side.lab_server for side in given.sides] if given.run_lab else []
    if not provide.provide("bench/trial", () if given.show else servers):
        return 4
    try:
        return run(given, store, begun)
    except Exception:
        # Python's exit status, 1, would mean that a test fails
        traceback.print_exc()
        return 4
