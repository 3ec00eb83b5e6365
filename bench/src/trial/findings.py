"""Everything that a trial has found, for summary, page and exit status."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property

from timeline.trace import Trace

from lab.results import Report

from . import compare, suite
from .bugs import Tried, points
from .changes import Changes
from .compare import Comparison
from .coverage import Gap
from .sides import Build
from .suite import Difference, Suite

RIGHT, FAILS, WORSE, INCOMPLETE = 0, 1, 3, 4


@dataclass
class Findings:
    command: str
    started: str
    project: str
    quick: bool
    #: arguments.PARTS that were asked for
    parts: tuple[str, ...] = ()
    #: what a part did not do, and why
    notes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    #: builds for the suite and for the lab, by role
    suite_builds: dict[str, Build] = field(default_factory=dict)
    lab_builds: dict[str, Build] = field(default_factory=dict)
    #: by role, the whole suite first, then the files that failed again
    suites: dict[str, list[Suite]] = field(default_factory=dict)
    #: of each engine that could compare the servers
    changes: list[Changes] = field(default_factory=list)
    #: of the patch's lines: lines executed, of how many, branches taken, of how many; None: not counted
    share: tuple[int, int, int, int] | None = None
    gaps: list[Gap] = field(default_factory=list)
    #: bugs in the patch's lines that were tried, in lines that are executed, and in lines that are not
    bugs: list[Tried] = field(default_factory=list)
    bugs_reached: int = 0
    bugs_unreached: list[points.Point] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    #: cases that could not be measured, and why
    failures: dict[str, str] = field(default_factory=dict)
    #: cases that there was no time for
    left_out: list[str] = field(default_factory=list)
    #: the traced variant and its traces, by case
    traces: dict[str, tuple[str, list[Trace]]] = field(default_factory=dict)

    @cached_property
    def differences(self) -> list[Difference]:
        return suite.compare(self.suites["before"], self.suites["after"]) if self.suites else []

    def files(self, verdict: str) -> list[Difference]:
        return [each for each in self.differences if each.verdict == verdict]

    @property
    def survivors(self) -> list[Tried]:
        return [each for each in self.bugs if not each.by]

    @cached_property
    def comparisons(self) -> list[Comparison]:
        return compare.of(self.reports)

    def figures(self, verdict: str) -> list[Comparison]:
        return [each for each in self.comparisons if each.verdict == verdict]

    @property
    def changed_cases(self) -> list[str]:
        """The cases that changed, the largest change first."""
        return list(dict.fromkeys(each.case for each in self.comparisons if each.is_change))

    def report(self, case: str) -> Report:
        return next(report for report in self.reports if report.case.name == case)

    @property
    def broken(self) -> dict[str, str]:
        """Why a suite did not run, by role."""
        return {role: runs[0].broken for role, runs in self.suites.items() if runs[0].broken}

    @property
    def status(self) -> int:
        """The exit status, as in arguments.EPILOG."""
        if self.files("broken"):
            return FAILS
        if self.broken or self.failures or self.files("doubtful") or any(note.startswith("not done") for notes in self.notes.values() for note in notes):
            return INCOMPLETE
        return WORSE if self.figures("worse") else RIGHT
