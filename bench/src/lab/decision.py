"""Good, bad, or cannot tell: what git bisect run wants to know of a revision."""

from __future__ import annotations

from .results import Report
from .stats import Ratio

GOOD, BAD, CANNOT_TELL = 0, 1, 125

NAMES = {GOOD: "good", BAD: "bad", CANNOT_TELL: "cannot tell"}


def decide(ratio: Ratio | None, threshold: float) -> int:
    """Only an interval that lies wholly on one side of the threshold tells."""
    if ratio is None:
        return CANNOT_TELL
    if ratio.low >= threshold:
        return BAD
    if ratio.high < threshold:
        return GOOD
    return CANNOT_TELL


def decide_all(report: Report, labels: list[str], threshold: float) -> int:
    """One bad variant is enough; good are only all of them."""
    said = {decide(report.ratio(label), threshold) for label in labels}
    return next(status for status in (BAD, CANNOT_TELL, GOOD) if status in said)
