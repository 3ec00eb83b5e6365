"""Measures the cases on both servers, and records timelines of what changed."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from ..lab import casefile, results, session
from ..lab.arguments import ServerName
from ..lab.casefile import Case
from ..lab.results import Report
from ..project import Problem
from ..servers import told
from ..timeline import trace
from ..timeline.trace import Trace
from .arguments import ROLES
from .findings import Findings, largest_change
from .kept import Kept

# figures of EXPLAIN and pg_stat_io, beside the time of each case that has them
BESIDE = ("time", "ios", "mean_blocks", "read_blocks", "waits")


def with_figures(case: Case) -> Case:
    """Returns the case with I/Os, their sizes and waits beside its own figure."""
    data = case.data()
    if case.run.pgbench or not case.explain:
        return case
    beside = [name for name in BESIDE if name != case.measure and name not in case.run.also]
    return casefile.from_data(case.name, data | {"run": data["run"] | {"also": [*case.run.also, *beside]}})


class Measuring:
    def __init__(self, kept: Kept, effort: session.Effort, only: str) -> None:
        self._kept = kept
        self._effort = effort
        self._only = only

    def _path(self, name: str) -> Path:
        return self._kept.lab / f"{name}.jsonl"

    def saved(self, names: Sequence[str]) -> list[Report]:
        """Returns the reports so far.  Their intervals hold together, whenever they were measured."""
        found = [results.load(self._path(name)) for name in names if self._path(name).exists()]
        comparisons = sum(report.case.number_of_comparisons([each for each in report.case.variants if each.label in report.runs], 2) for report in found)
        return [replace(report, comparisons=comparisons) for report in found]

    def traces(self, name: str) -> tuple[str, list[Trace]] | None:
        """Returns the variant that was traced and its traces, or None if the case was not traced."""
        kept = self._kept.read(f"lab/{name}.traces")
        return (kept["variant"], [trace.from_rows(role, rows, lost) for role, (rows, lost) in kept["traces"].items()]) if kept else None

    def _trace(self, lab: session.Session, report: Report) -> None:
        if (label := largest_change(report)) is None:
            return
        [variant] = [each for each in report.case.variants if each.label == label]
        try:
            recorded = dict(zip(ROLES, lab.record(variant)[::-1], strict=True))
            for role, (rows, lost) in recorded.items():
                # finds out now what cannot be drawn
                trace.from_rows(role, rows, lost)
            self._kept.write(f"lab/{report.case.name}.traces", {"variant": label, "traces": recorded})
        except Problem as error:
            lab.progress.note(f"{report.case.id}: no timeline: {str(error).splitlines()[0]}")

    def _measure(self, lab: session.Session, case: Case, failures: dict[str, str]) -> None:
        try:
            report = lab.measure(case, self._effort, self._only)
            self._trace(lab, report)
            # written last, so that a case that is there has its timelines
            self._path(case.name).write_text(report.as_json_lines())
        except Exception as error:
            failures[case.name] = told(error)
            lab.progress.note(f"{case.id} failed: {told(error).splitlines()[0]}")

    def run(self, cases: Sequence[Case], servers: Sequence[ServerName], work: Path, console: Console, deadline: float,
            found: Findings) -> None:
        """Measures what has not been measured yet.  No case begins after the deadline."""
        to_do = [case for case in cases if not self._path(case.name).exists()]
        if to_do and time.monotonic() <= deadline:
            with session.begin(servers, work, console) as lab:
                lab.expect(to_do, self._effort, self._only)
                for case in to_do:
                    if time.monotonic() <= deadline:
                        self._measure(lab, case, found.failures)
        found.reports = self.saved([case.name for case in cases])
        done = {report.case.name for report in found.reports} | found.failures.keys()
        found.left_out = [case.name for case in cases if case.name not in done]
