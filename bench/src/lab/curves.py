"""A report as curves over the values of one name that is varied, with a column for each figure."""

from __future__ import annotations

from statistics import median

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .figures import FIGURES
from .results import Report

STYLES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D")


def _curves(report: Report, figure: str) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Returns medians by server and by what else is varied."""
    axis = report.case.run.axis
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for variant in report.case.variants:
        x = float(variant.value_of(axis) or 0)
        others = ", ".join(value for name, value in variant.values if name != axis and name not in variant.constant)
        for server in report.servers:
            if values := report.values(variant.label, server.label, figure):
                found.setdefault((server.label, others), []).append((x, median(values)))
    return found


def draw(report: Report, colours: tuple[str, ...]) -> tuple[Figure, Axes]:
    """Draws all columns.  Returns the figure and its first axes, with which the texts are aligned."""
    case = report.case
    names = [case.measure, *case.run.also]
    figure, grid = pyplot.subplots(1, len(names), figsize=(4.5 * len(names), 5.6), layout="constrained", squeeze=False)
    for axes, name in zip(grid[0], names):
        curves = _curves(report, name)
        others = list(dict.fromkeys(other for _, other in curves))
        for (server, other), points in curves.items():
            number = others.index(other)
            axes.plot(*zip(*sorted(points)), color=colours[[each.label for each in report.servers].index(server)], linestyle=STYLES[number % 4],
                      marker=MARKERS[number % 4], markersize=4, label=", ".join(filter(None, (server, other))))
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.xaxis.set_minor_formatter("")
        axes.set_ylim(0, axes.dataLim.ymax * 1.1)
        axes.grid(color="#DDDDDD")
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlabel(case.run.axis)
        axes.set_ylabel(FIGURES[name].title)
    grid[0][-1].legend(frameon=False, fontsize=8)
    return figure, grid[0][0]
