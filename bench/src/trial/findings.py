"""Everything that a trial has found, for summary, page and exit status."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from timeline.trace import Trace

from lab.results import Report

from . import compare, suite
from .compare import Comparison
from .sides import Build
from .suite import Difference, Suite

RIGHT, FAILS, WORSE, INCOMPLETE = 0, 1, 3, 4


@dataclass
class Findings:
    command: str
    started: str
    project: str
    quick: bool
    #: builds for the suite and for the lab, by role
    suite_builds: dict[str, Build] = field(default_factory=dict)
    lab_builds: dict[str, Build] = field(default_factory=dict)
    #: by role, the whole suite first, then the files that failed again
    suites: dict[str, list[Suite]] = field(default_factory=dict)
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
        if self.broken or self.failures or self.files("doubtful"):
            return INCOMPLETE
        return WORSE if self.figures("worse") else RIGHT
