"""What the lab's reports say about the patch: ratios after to before, with intervals corrected for their number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from lab.figures import FIGURES
from lab.results import Report

# the probability that no interval of all misses the truth
CONFIDENCE = 0.95

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


def within(t: float, degrees: int) -> float:
    """Returns the probability that Student's t is between -t and t, by the finite sums for whole degrees of freedom
    (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    term = cosine if odd else 1.0
    total = term if degrees > 1 else 0.0
    for k in range(3 if odd else 2, degrees - 1, 2):
        term *= cosine**2 * (k - 1) / k
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


def quantile(confidence: float, degrees: int) -> float:
    """Returns the t for which that probability is the given one."""
    low, high = 0.0, 1.0
    while within(high, degrees) < confidence:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle, degrees) < confidence else (low, middle)
    return high


def interval(before: Sequence[float], after: Sequence[float], confidence: float) -> tuple[float, float, float]:
    """Returns the geometric mean of the rounds' ratios, and its interval by Student's t of the logarithms.  A
    bootstrap of few rounds has no ends as far out as many comparisons need."""
    logs = [math.log(b / a) for a, b in zip(before, after, strict=True)]
    mean = math.fsum(logs) / len(logs)
    variance = math.fsum((each - mean) ** 2 for each in logs) / (len(logs) - 1)
    reach = quantile(confidence, len(logs) - 1) * math.sqrt(variance / len(logs))
    return math.exp(mean), math.exp(mean - reach), math.exp(mean + reach)


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
    confidence = 1 - (1 - CONFIDENCE) / max(1, number)
    compared = []
    for comparison, before, after in found:
        if not comparison.exact and min(*before, *after) > 0:
            ratio, low, high = interval(before, after, confidence)
            comparison = replace(comparison, ratio=ratio, low=low, high=high)
        compared.append(comparison)
    return sorted(compared, key=lambda each: (not each.is_change, -each.size))


def number_corrected_for(comparisons: Sequence[Comparison]) -> int:
    return sum(not each.exact for each in comparisons)
