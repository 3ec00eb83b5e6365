"""Medians, their spread, and the ratio of two medians with its interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy

# Ratios are the same if the whole interval is within this share of 1: caches, clock
# frequency and neighbours make as much difference.
SAME = 0.10

RESAMPLES = 5000


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
    """The ratio of two medians, with the interval that holds 95 % of the resampled ratios."""

    ratio: float
    low: float
    high: float
    #: ratios within this share of 1 are the same; 0, for exact counts: only 1 is
    same: float = SAME

    @property
    def sign(self) -> str | None:
        """What the first is against the second.  None: cannot tell."""
        if self.low >= 1 / (1 + self.same) and self.high <= 1 + self.same:
            return "same"
        if self.low > 1:
            return "higher"
        if self.high < 1:
            return "lower"
        return None

    def is_narrow(self, width: float) -> bool:
        """Returns whether the interval's ends are no further apart than this share."""
        return self.high <= self.low * (1 + width)


def summarize(times: list[float]) -> Summary:
    values = numpy.asarray(times)
    median = float(numpy.median(values))
    return Summary(median, float(values.min()), float(values.max()), float(numpy.median(abs(values - median))))


def compare(a: list[float], b: list[float], paired: bool = True, same: float = SAME) -> Ratio:
    """Returns the ratio of two medians.  With paired, a[i] and b[i] were measured one right after the other and are
    resampled together, so that what slowed down both is not taken for a difference."""
    first, second = numpy.asarray(a, float), numpy.asarray(b, float)
    if paired and first.shape != second.shape:
        raise ValueError("as many runs of the one as of the other are needed")
    # a fixed seed: the same figures give the same interval
    random = numpy.random.default_rng(1)
    rounds = random.integers(0, len(first), (RESAMPLES, len(first)))
    others = rounds if paired else random.integers(0, len(second), (RESAMPLES, len(second)))
    ratios = numpy.median(first[rounds], axis=1) / numpy.median(second[others], axis=1)
    low, high = numpy.percentile(ratios, [2.5, 97.5])
    return Ratio(float(numpy.median(first) / numpy.median(second)), float(low), float(high), same)
