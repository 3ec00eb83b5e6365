"""The contrasts of a case as a picture: the ratio of two variants on each server."""

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator

from . import wording
from .results import ContrastResult, Report

BETTER, WORSE, NEITHER = "#00684A", "#B3261E", "#444444"
JUDGED = {"better": BETTER, "worse": WORSE, "": NEITHER}


def scale(axes: Axes, least: tuple[float, float]) -> None:
    """Makes the horizontal axis logarithmic, with this range at least and as many numbers as it has room for."""
    axes.set_xscale("log")
    low, high = min(axes.get_xlim()[0], least[0]), max(axes.get_xlim()[1], least[1])
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < low * 1000 else (1,)))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter("")


def bare(axes: Axes, grid: str) -> None:
    """Leaves the axis below and grid lines for this axis."""
    axes.grid(axis=grid, color="#DDDDDD", zorder=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0)


def _row(found: ContrastResult) -> str:
    """Returns the two values that are compared, followed by what both variants have in common."""
    values = list(zip(found.of.split(", "), found.to.split(", ")))
    common = ", ".join(of for of, to in values if of == to)
    differing = next(f"{of} / {to}" for of, to in values if of != to)
    return f"{differing} ({common})" if common else differing


def rows(report: Report) -> dict[str, list[ContrastResult]]:
    """Returns the contrasts of all servers, by name; nothing if none shows a difference and none is expected to."""
    made: dict[str, list[ContrastResult]] = {}
    for found in report.contrasts():
        made.setdefault(_row(found), []).append(found)
    shown = any(found.ratio.sign in ("higher", "lower") or found.expected_sign for founds in made.values() for found in founds)
    return made if shown else {}


def _told(report: Report, found: ContrastResult) -> tuple[str, str]:
    """Returns the ratio and its sign in words, and their colour."""
    figure = report.case.figure
    words = f"{found.server}: {wording.times(found.ratio)}, {wording.verdict(figure.sign(found.ratio.sign), found.expected_sign)}"
    return words, JUDGED[figure.judged(found.ratio.sign)]


def draw(axes: Axes, report: Report, colours: dict[str, str]) -> None:
    """Draws a row for each contrast, with a dot and an interval for each server."""
    made = rows(report)
    for position, founds in enumerate(made.values()):
        for number, found in enumerate(founds):
            at = position + (number - (len(founds) - 1) / 2) * 0.4
            axes.plot([found.ratio.low, found.ratio.high], [at, at], color=colours[found.server], linewidth=1.5)
            axes.scatter([found.ratio.ratio], [at], s=40, color=colours[found.server], zorder=3)
            words, colour = _told(report, found)
            axes.annotate(words, (1.01, at), xycoords=("axes fraction", "data"), va="center", fontsize=9, color=colour,
                          fontweight="bold" if "; expected" in words else "normal")
    axes.axvline(1, color="#444444", linewidth=0.8)
    # a small difference looks small
    scale(axes, (0.5, 2))
    axes.set_yticks(range(len(made)), list(made), fontsize=10)
    axes.set_ylim(len(made) - 0.4, -0.6)
    axes.set_xlabel(f"the first of the two to the second on the same server: ratio of {report.case.figure.title.partition(' (')[0]}", fontsize=10)
    bare(axes, "x")
