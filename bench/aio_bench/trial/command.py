"""bench/trial: runs the suite and the lab on a server before and after a patch.  Other modules than Python's own are
imported after provide has made sure of them."""

from __future__ import annotations

import math
import os
import shlex
import shutil
import sys
import tempfile
import time
from argparse import Namespace
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import project, results, servers
from ..lab.arguments import ServerName
from ..mutants import switches
from ..mutants.engine import Engine
from ..mutants.points import Point
from ..results import REGRESSION, Suite
from . import arguments, bugs, changes, coverage, kept, patch, shown, suite
from .coverage import Coverage
from .kept import Kept
from .patch import Patch

if TYPE_CHECKING:
    from rich.console import Console

    from .findings import Findings

# failed files run again so often on both servers, to tell constant failures from occasional ones
REPEATS = 2
REPEATS_QUICK = 1


def _directory(given: Namespace) -> Path:
    if given.output:
        return given.output
    names = [servers.identity(side.suite).removeprefix("source-") for side in given.sides]
    return project.ROOT / "build" / "trial" / ("..".join(names) + ("-quick" if given.quick else ""))


class _Trial:
    def __init__(self, given: Namespace, store: Kept, console: Console, begun: float) -> None:
        self._given = given
        self._store = store
        self._console = console
        self._note = partial(console.print, markup=False, highlight=False, soft_wrap=True)
        #: with --quick nothing is begun after this
        self._deadline = begun + (arguments.QUICK_MINUTES - arguments.MARGIN_MINUTES) * 60 if given.quick else math.inf
        # with --quick a test runs with one io_method
        self._tier = {"TEST_AIO_LONG": ""} if given.quick else {}

    def _may_begin(self, found: Findings, part: str, what: str) -> bool:
        """Is there time for something else?  If there is not, notes that."""
        late = time.monotonic() > self._deadline
        if late:
            found.notes[part].append(f"not done: {what}, since {arguments.QUICK_MINUTES - arguments.MARGIN_MINUTES} minutes were over; the same command does it")
        return not late

    def _kept_suite(self, side: arguments.Side, number: int) -> Suite | None:
        # a suite that could not be run is tried again
        kept = self._store.read(f"suite/{side.role}-{number}")
        return results.from_data(kept) if kept and not kept["broken"] else None

    def _run_suite(self, side: arguments.Side, number: int, tests: list[str]) -> Suite:
        if kept := self._kept_suite(side, number):
            return kept
        what = f"{len(tests)} files of the suite" + (", again" if number else "") if tests else "the suite"
        self._note(f"{side.role}: {what}")
        work = self._store.directory / "suite" / f"work-{side.role}"
        found = suite.run(side.suite, work, self._store.logs(side.role, number), tests, self._note, self._tier)
        self._store.write(f"suite/{side.role}-{number}", asdict(found))
        failed = f"failed: {', '.join(found.failed)}" if found.failed else "all pass"
        self._note(f"{side.role}: {found.number_of_assertions:,} assertions in {found.seconds:.0f} s, {found.broken and 'not run' or failed}")
        return found

    def run_suites(self) -> dict[str, list[Suite]]:
        # what is compared later need not be compared with itself
        tests = self._given.tests or ([REGRESSION, *suite.files(without=suite.RECORDINGS)] if "changes" in self._given.parts else [])
        runs = {side.role: [self._run_suite(side, 0, tests)] for side in self._given.sides}
        whole = [found for [found] in runs.values()]
        failed = sorted({name for found in whole for name in found.failed})
        repeats = REPEATS_QUICK if self._given.quick else REPEATS
        if failed and not any(found.broken for found in whole):
            for number in range(1, repeats + 1):
                if time.monotonic() > self._deadline and not self._kept_suite(self._given.sides[-1], number):
                    break
                for side in self._given.sides:
                    runs[side.role].append(self._run_suite(side, number, failed))
        return runs

    def run_lab(self, found: Findings) -> None:
        from ..lab import casefile, session
        from . import measuring

        cases = [measuring.with_figures(casefile.load(path)) for path in self._given.cases]
        if self._given.only:
            cases = [case for case in cases if any(variant.matches(self._given.only) for variant in case.variants)]
        lab = measuring.Measuring(self._store, session.Effort(quick=self._given.quick), self._given.only)
        # the lab judges the first server, which is the one after the patch
        named = [ServerName(side.lab, side.role) for side in self._given.sides[::-1]]
        lab.run(cases, named, self._given.work, self._console, self._deadline, found)
        found.traces = {name: traces for report in found.changed if (traces := lab.traces(name := report.case.name))}

    def patch(self) -> Patch:
        """Returns the lines that the patch touches.  The files are kept beside it, for their text, and so is the file that the switch
        of the bugs goes into."""
        if kept := self._store.read("patch"):
            return Patch({name: set(numbers) for name, numbers in kept["lines"].items()}, kept["others"], kept["note"], kept["shown"])
        base, note = patch.base(self._given.before.suite, self._given.after.suite)
        with tempfile.TemporaryDirectory() as directory:
            trees = Path(directory, "before"), Path(directory, "after")
            for name, tree in zip((base, self._given.after.suite), trees):
                patch.unpack(name, tree)
            found = patch.compare(*trees, note)
            for name in {*found.lines, switches.DEFINES}:
                (self._store.source / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(trees[1] / name, self._store.source / name)
        self._store.write("patch", {"lines": {name: sorted(numbers) for name, numbers in found.lines.items()}, "others": found.others, "note": found.note, "shown": found.shown})
        return found

    def coverage(self, touched: Patch, found: Findings) -> dict[str, Any] | None:
        """Returns the data of the coverage and of the run that counted it, or None if there was no time for that."""
        if not (kept := self._store.read("coverage")) and self._may_begin(found, "lines", "the suite with counts"):
            self._note(f"after: the suite, with {len(touched.lines)} files that count what is executed")
            directory = self._store.directory / "coverage"
            left_out, ran, counted = coverage.count(self._given.after.suite, directory, sorted(touched.lines), self._store.logs("counted", 0),
                                                    self._given.tests, self._note, self._tier)
            kept = {"left_out": left_out, "failed": ran.failed, "seconds": ran.seconds, "broken": ran.broken} | asdict(Coverage(counted.files))
            shutil.rmtree(directory)
            self._store.write("coverage", kept)
        return kept

    def run_lines(self, found: Findings) -> None:
        touched = self.patch()
        if touched.note:
            found.notes["lines"].append(touched.note)
        if touched.others:
            named = ", ".join(touched.others[:3]) + ", …" * (len(touched.others) > 3)
            found.notes["lines"].append(f"not looked at: {len(touched.others)} headers and other files that are not of the server by themselves ({named})")
        if not touched.lines:
            found.notes["lines"].append("the patch has no lines in C files of the server")
            return
        kept = self.coverage(touched, found)
        if not kept:
            return
        found.notes["lines"] += [f"not compiled by itself: {name}" for name in kept["left_out"]]
        if kept["failed"]:
            found.notes["lines"].append(f"failed while it was counted: {', '.join(kept['failed'])}")
        found.covered = coverage.from_data(kept)
        found.share = coverage.share(found.covered, touched.lines)
        found.gaps = coverage.gaps(found.covered, self._store.source, touched.lines)

    def run_bugs(self, found: Findings) -> None:
        touched = self.patch()
        if not touched.lines:
            found.notes["bugs"].append("the patch has no lines in C files of the server")
            return
        directory, tried = self._store.directory / "bugs", self._store.directory / "bugs.jsonl"
        chosen, texts = bugs.instrument(self._store.source, touched.lines)
        kept = self._store.read("reached")

        def to_do() -> list[Point]:
            done = {each.point for each in bugs.tried(chosen, tried)}
            return [point for point in chosen if point.number in (kept or []) and point not in done]

        if (kept is None or to_do()) and self._may_begin(found, "bugs", f"{len(to_do()) if kept is not None else len(chosen)} bugs"):
            self._note(f"after: compiled with {len(chosen)} bugs, a switch each")
            server = Engine(self._given.after.suite, directory=directory, only=self._given.tests)
            server.make(texts, {})
            if kept is None:
                self._note("after: the suite, to learn which tests reach which bug")
                kept = sorted(server.reach() & {point.number for point in chosen})
                self._store.write("reached", kept)
                self._store.write("left_out", server.left_out())
            minutes = min(self._given.minutes, max(self._deadline - time.monotonic(), 0) / 60)
            self._note(f"after: {len(to_do())} bugs, for {minutes:.0f} minutes at most")
            bugs.run(server, to_do(), tried, minutes, self._note)
            if not to_do():
                shutil.rmtree(directory)
        if kept is not None:
            if left_out := self._store.read("left_out"):
                found.notes["bugs"].append(f"what only tests notice that fail with the patch counts as not noticed: {', '.join(left_out)}")
            found.bugs = bugs.tried(chosen, tried)
            found.bugs_reached, found.bugs_unreached = len(kept), [point for point in chosen if point.number not in kept]

    def run_changes(self, found: Findings) -> None:
        kept = self._store.read("changes") or {}
        before, after = (side.suite for side in self._given.sides)
        for what in changes.ENGINES:
            if what not in kept and self._may_begin(found, "changes", what):
                self._note(f"before and after: {what}")
                kept[what] = asdict(changes.compare(what, before, after, self._store.logs(what, 0), self._given.quick))
                self._store.write("changes", kept)
            if what in kept:
                found.changes.append(changes.Changes(**kept[what]))
                found.notes["changes"] += kept[what]["notes"]

    def run(self) -> Findings:
        from .findings import Findings

        given = self._given
        found = Findings(f"bench/trial {shlex.join(sys.argv[1:])}", time.strftime("%Y-%m-%d %H:%M %z"), project.commit(), given.quick, parts=given.parts)
        if "suite" in given.parts:
            found.suites = self.run_suites()
        if set(given.parts) - {"lab"}:
            found.suite_builds = {side.role: servers.describe(side.suite) for side in given.sides}
        for part, run in (("changes", self.run_changes), ("lines", self.run_lines), ("bugs", self.run_bugs)):
            if part not in given.parts:
                continue
            if part != "changes" and not all(servers.is_tree(side.suite) for side in given.sides):
                found.notes[part].append("not done: this takes two source trees, source:PATH[@REVISION]")
                continue
            try:
                run(found)
            except servers.ServerError as error:
                found.notes[part].append(f"not done: {str(error).strip().splitlines()[0]}")
        if "lab" in given.parts:
            self.run_lab(found)
            found.lab_builds = {side.role: servers.describe(side.lab) for side in given.sides}
        if self._store.read("patch"):
            found.shown = shown.lines_of(self.patch(), self._store.source, found.covered, found.gaps, found.bugs)
        return found


def run(given: Namespace) -> int:
    """Does what has not been done yet, and writes the report.  Returns the exit status."""
    store = Kept(_directory(given))
    named = {side.role: [servers.identity(side.suite), servers.identity(side.lab)] for side in given.sides}
    key = {"servers": named, "project": kept.project_state(), "quick": given.quick, "only": given.only, "tests": given.tests}
    if store.begin(key, given.again):
        print(f"bench/trial: resumes from {store.directory}", file=sys.stderr)
    names = [side.suite for side in given.sides] if set(given.parts) - {"lab"} else []
    names += [side.lab for side in given.sides] if "lab" in given.parts else []
    if not project.provide("bench/trial", names, project.MODULES):
        return arguments.INCOMPLETE
    from rich.console import Console

    console = Console(highlight=False)
    try:
        found = _Trial(given, store, console, time.monotonic()).run()
        from . import page, summary

        text = summary.text(found)
        (store.directory / "summary.txt").write_text(text)
        (store.directory / "report.html").write_text(page.render(found))
        console.print(f"\n{text}\n{store.directory / 'report.html'}", markup=False, highlight=False, soft_wrap=True)
    except KeyboardInterrupt:
        console.print("The same command resumes from here.")
        raise
    finally:
        # except the servers' work directories
        own = [path for path in store.directory.rglob("*") if not any(part.startswith("work") for part in path.relative_to(store.directory).parts)]
        project.give_to_owner(store.directory.parent, store.directory, *own)
    return found.status


def main(argv: list[str] | None = None) -> int:
    given = arguments.parse(argv)
    # the gate may not know the major version on trial
    os.environ.setdefault("TEST_AIO_GATE", "try")
    # Python's own exit status, 1, would mean that a test fails
    return project.perform("bench/trial", lambda: run(given), arguments.INCOMPLETE)
