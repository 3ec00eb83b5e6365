"""Medians, their spread, and the ratio of two figures with its interval."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy
from scipy import stats as distributions

# Ratios nearer to 1 are no difference, however sure: caches, clock frequency and the
# addresses of code and memory make as much difference.
SAME = 0.10

# the probability that no interval of a report misses the truth
CONFIDENCE = 0.95

# rounds are added until the interval's ends are no further apart than this share
NARROW = 0.1


@dataclass(frozen=True)
class Summary:
    """All values are in the unit of the figure."""

    median: float
    minimum: float
    maximum: float
    #: median absolute deviation from the median
    mad: float


@dataclass(frozen=True)
class Ratio:
    """The geometric mean of the rounds' ratios, with an interval that holds together with all others of the report."""

    ratio: float
    low: float
    high: float
    #: ratios within this share of 1 are the same
    same: float = SAME

    @property
    def sign(self) -> str | None:
        """What the first is against the second.  None: cannot tell."""
        if (self.low > 1 or self.high < 1) and abs(numpy.log(self.ratio)) >= numpy.log(1 + self.same):
            return "higher" if self.ratio > 1 else "lower"
        # an interval in which both ends would be a difference tells nothing
        return "same" if self.low >= 1 / (1 + 2 * self.same) and self.high <= 1 + 2 * self.same else None


def summarize(times: list[float]) -> Summary:
    return Summary(median(times), min(times), max(times), float(distributions.median_abs_deviation(times)))


def interval(logs: numpy.ndarray, confidence: float, others: numpy.ndarray | None = None) -> tuple[float, float, float]:
    """Returns the geometric mean of ratios from their logarithms, and its interval by Student's t.  With others, the
    ratio of two independent samples, by Welch's approximation.  (A bootstrap of few rounds has no ends as far out as
    many comparisons need.)"""
    samples = [numpy.asarray(each, float) for each in (logs, others) if each is not None]
    mean = samples[0].mean() - (samples[1].mean() if others is not None else 0)
    if min(map(len, samples)) < 2:
        return float(numpy.exp(mean)), 0.0, float("inf")
    errors = [sample.var(ddof=1) / len(sample) for sample in samples]
    error = sum(errors)
    degrees = error**2 / sum(each**2 / (len(sample) - 1) for each, sample in zip(errors, samples)) if error else 1
    reach = distributions.t.ppf((1 + confidence) / 2, degrees) * error**0.5
    return tuple(float(numpy.exp(mean + sign * reach)) for sign in (0, -1, 1))  # type: ignore[return-value]


def compare(a: Sequence[float], b: Sequence[float], paired: bool = True, same: float = SAME, comparisons: int = 1) -> Ratio:
    """Returns the ratio of two figures.  With paired, a[i] and b[i] were measured one right after the other: what
    slowed down both is not taken for a difference."""
    first, second = numpy.log(a), numpy.log(b)
    # with which all of them hold together, by Bonferroni's correction
    confidence = 1 - (1 - CONFIDENCE) / max(1, comparisons)
    return Ratio(*(interval(first - second, confidence) if paired else interval(first, confidence, second)), same)
