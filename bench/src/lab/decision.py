"""The verdict on a revision for git bisect run: good, bad, or cannot tell."""

from .results import Report
from .stats import Ratio

GOOD, BAD, CANNOT_TELL = 0, 1, 125

NAMES = {GOOD: "good", BAD: "bad", CANNOT_TELL: "cannot tell"}


def decide(ratio: Ratio | None, threshold: float) -> int:
    """Returns the verdict on one variant.  Only an interval wholly on one side of the threshold decides."""
    if ratio is None:
        return CANNOT_TELL
    if ratio.low >= threshold:
        return BAD
    if ratio.high < threshold:
        return GOOD
    return CANNOT_TELL


def decide_all(report: Report, labels: list[str], threshold: float) -> int:
    """Returns the verdict on all variants: bad if one of them is bad, good if all of them are good."""
    said = {decide(report.ratio(label), threshold) for label in labels}
    return next(status for status in (BAD, CANNOT_TELL, GOOD) if status in said)
