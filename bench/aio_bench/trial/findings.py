"""Everything that a trial has found, for summary, page and exit status."""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cached_property

from ..lab.results import Report
from ..mutants.points import Point
from ..results import Suite
from ..servers import Build
from ..timeline.trace import Trace
from . import suite
from .arguments import FAILS, INCOMPLETE, RIGHT, WORSE
from .bugs import Tried
from .changes import Changes
from .coverage import Coverage, Gap
from .shown import Line
from .suite import Difference


def size_of(report: Report, variant: str | None) -> float:
    """Returns how much a variant changed, up or down; 0 if that is no difference."""
    ratio = report.ratio(variant) if variant else None
    return abs(math.log(ratio.ratio)) if ratio and ratio.sign in ("higher", "lower") else 0.0


def largest_change(report: Report) -> str | None:
    """Returns the variant that changed most, or None if none did."""
    variant = max(report.runs, key=lambda each: size_of(report, each), default=None)
    return variant if size_of(report, variant) else None


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
    covered: Coverage = field(default_factory=Coverage)
    #: the patch with what tests did with its lines, by file
    shown: dict[str, list[Line]] = field(default_factory=dict)
    #: bugs in the patch's lines that were tried, in lines that are executed, and in lines that are not
    bugs: list[Tried] = field(default_factory=list)
    bugs_reached: int = 0
    bugs_unreached: list[Point] = field(default_factory=list)
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
    def verdicts(self) -> Counter[str]:
        """How many variants of cases are better, worse, changed, the same, or cannot be told."""
        ratios = [(report, ratio) for report in self.reports for variant in report.runs if (ratio := report.ratio(variant))]
        return Counter((report.case.figure.judged(ratio.sign) or "changed") if ratio.sign in ("higher", "lower") else ratio.sign or "cannot tell" for report, ratio in ratios)

    @cached_property
    def changed(self) -> list[Report]:
        """The reports of cases that changed, the largest change first."""
        return sorted((report for report in self.reports if largest_change(report)), key=lambda report: -size_of(report, largest_change(report)))

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
        return WORSE if self.verdicts["worse"] else RIGHT
