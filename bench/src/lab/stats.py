"""Medians, their spread, and how sure a ratio of two of them is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy

# Ratios closer to 1 than this are called the same when the whole interval is:
# below it, caches, clock frequency and neighbours decide, not the server.
SAME = 0.10

RESAMPLES = 5000


@dataclass(frozen=True)
class Summary:
    """All in the unit of what was measured."""

    median: float
    minimum: float
    maximum: float
    #: median absolute deviation from the median
    mad: float


@dataclass(frozen=True)
class Ratio:
    """Of the medians, with the interval that holds 95 % of the resampled ones."""

    ratio: float
    low: float
    high: float
    #: ratios closer to 1 than this are called the same; 0, of exact counts: none but 1
    same: float = SAME

    @property
    def sign(self) -> str | None:
        """What the first is against the second; None: cannot tell."""
        if self.low >= 1 / (1 + self.same) and self.high <= 1 + self.same:
            return "same"
        if self.low > 1:
            return "higher"
        if self.high < 1:
            return "lower"
        return None

    def is_narrow(self, width: float) -> bool:
        """Whether the interval's ends are no further apart than by this share."""
        return self.high <= self.low * (1 + width)


def summarize(times: list[float]) -> Summary:
    values = numpy.asarray(times)
    median = float(numpy.median(values))
    return Summary(median, float(values.min()), float(values.max()), float(numpy.median(abs(values - median))))


def compare(a: list[float], b: list[float], paired: bool = True, same: float = SAME) -> Ratio:
    """Paired: a[i] and b[i] were measured one right after the other, so rounds
    are resampled whole: what slowed down both is not taken for a difference."""
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
