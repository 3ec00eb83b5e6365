"""What the lab's reports say about the patch: ratios after to before, with intervals corrected for their number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from lab.figures import FIGURES
from lab.results import Report
from lab.stats import CONFIDENCE, corrected, interval  # noqa: F401

# Ratios nearer to 1 are no change, however sure.  Two builds of the same source differ
# as much, because their code and memory lie elsewhere.
MARGIN = 0.05

# figures that are compared beside the case's own, if a run has them
BESIDE = ("time", "ios")


@dataclass(frozen=True)
class Comparison:
    """One figure of a variant of a case, after against before."""

    case: str
    variant: str
    figure: str
    before: float
    after: float
    runs: int
    #: after to before: ratio of the medians if exact, else geometric mean of the rounds; None: one is 0
    ratio: float | None
    low: float | None
    high: float | None
    #: a count that was the same in all runs of each server
    exact: bool

    @property
    def verdict(self) -> str:
        """"same", "cannot tell", or what changed: "better", "worse" or "changed"."""
        if self.exact:
            if self.before == self.after or self.size <= math.log(1 + MARGIN):
                return "same"
        else:
            if self.low is None or self.high is None:
                return "cannot tell"
            if self.low >= 1 / (1 + 2 * MARGIN) and self.high <= 1 + 2 * MARGIN and not self._is_change:
                return "same"
            if not self._is_change:
                return "cannot tell"
        return FIGURES[self.figure].judged("lower" if self.after < self.before else "higher") or "changed"

    @property
    def _is_change(self) -> bool:
        assert self.ratio and self.low and self.high
        return (self.low > 1 or self.high < 1) and abs(math.log(self.ratio)) > math.log(1 + MARGIN)

    @property
    def is_change(self) -> bool:
        return self.verdict in ("better", "worse", "changed")

    @property
    def size(self) -> float:
        """How much it changed, up or down."""
        return abs(math.log(self.ratio)) if self.ratio else math.inf if self.before != self.after else 0.0


def _is_exact(figure: str, *values: Sequence[float]) -> bool:
    """Returns whether it is a count that all runs of a server repeat.  Such a count needs no interval."""
    return FIGURES[figure].unit in ("I/Os", "blocks", "") and all(len(set(each)) == 1 for each in values)


def _of_report(report: Report) -> list[tuple[Comparison, list[float], list[float]]]:
    first, second = (server.label for server in report.servers)
    found = []
    for variant in report.runs:
        for figure in dict.fromkeys((report.case.measure, *BESIDE)):
            before, after = report.values(variant, first, figure), report.values(variant, second, figure)
            if len(before) != len(after) or len(before) < 2:
                continue
            exact = _is_exact(figure, before, after)
            middles = median(before), median(after)
            ratio = middles[1] / middles[0] if all(middles) else None
            comparison = Comparison(report.case.name, variant, figure, *middles, len(before), ratio, None, None, exact)
            found.append((comparison, before, after))
    return found


def of(reports: Sequence[Report]) -> list[Comparison]:
    """Returns the comparisons of all reports, the largest change first.  Their intervals hold together, by
    Bonferroni's correction."""
    found = [each for report in reports for each in _of_report(report)]
    number = sum(not comparison.exact for comparison, _, _ in found)
    confidence = corrected(number)
    compared = []
    for comparison, before, after in found:
        if not comparison.exact and min(*before, *after) > 0:
            logs = [math.log(b / a) for a, b in zip(before, after, strict=True)]
            ratio, low, high = interval(logs, confidence)
            comparison = replace(comparison, ratio=ratio, low=low, high=high)
        compared.append(comparison)
    return sorted(compared, key=lambda each: (not each.is_change, -each.size))


def number_corrected_for(comparisons: Sequence[Comparison]) -> int:
    return sum(not each.exact for each in comparisons)
