"""The picture of a report, with a tick for each run and a dot for each median."""

import textwrap
from pathlib import Path
from statistics import median

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from . import wording
from .results import Report
from .stats import Ratio

# The colours of the servers, from Okabe and Ito's palette, which colour-blind people can tell
# apart.  One is light and one dark, for print.
COLOURS = ("#E69F00", "#0072B2")
WORSE = "#B3261E"
JUDGED = {"better": "#00684A", "worse": WORSE, "": "#444444"}


def _rows(axes: Axes, names: list[str], least: tuple[float, float], title: str) -> None:
    """Names the rows, and makes the horizontal axis logarithmic, with this range at least and as many numbers as it has
    room for."""
    axes.set_xscale("log")
    axes.set_xlabel(f"{title}, logarithmic scale", fontsize=11)
    low, high = min(axes.get_xlim()[0], least[0]), max(axes.get_xlim()[1], least[1])
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < low * 1000 else (1,)))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter("")
    axes.set_yticks(range(len(names)), names, fontsize=10)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="x", color="#DDDDDD", zorder=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0)


def _judged(report: Report, variant: str, ratio: Ratio) -> tuple[str, str]:
    """Returns the ratio in words, which say no more than its verdict if there is no difference, and their colour."""
    figure, expected = report.case.figure, report.expected_sign(variant)
    told, colour = wording.verdict(figure.sign(ratio.sign), expected), JUDGED[figure.judged(ratio.sign, expected)]
    if ratio.sign not in ("higher", "lower"):
        return told, colour
    first, second = (server.label for server in report.servers)
    return f"{first} is {wording.times(ratio)} times {second}, {told if expected else figure.judged(ratio.sign) or told}", colour


def _write_texts(figure: Figure, axes: Axes, report: Report) -> None:
    explained = f"dots are medians of {wording.number_of_runs(report)}, ticks the runs"
    if len(report.servers) == 2:
        explained += f"; in brackets the interval of the ratio, {wording.confidence(report)}"
    axes.set_title(
        f"{report.case.id}: {report.case.title}; {wording.how_read(report)}\n{explained}",
        fontsize=10.5, color="#444444", loc="left", pad=28, linespacing=1.4,
    )
    provenance = f"{wording.machine(report)}; {wording.storage(report)}; test_aio {report.commit}; {report.started[:10]}"
    if report.quick:
        # at the height of the legend
        axes.annotate("QUICK: shows which is faster; do not quote", (1, 1), xytext=(0, 9), xycoords="axes fraction", textcoords="offset points",
                      fontsize=10, fontweight="bold", color="white", ha="right", bbox={"facecolor": WORSE, "edgecolor": "none", "pad": 4})
    # up to a quarter is to the left of the axes
    room = min(120, int(11 * figure.get_figwidth()))
    lines = [textwrap.fill(line, room) for line in (*wording.skipped(report), *filter(None, [report.case.constants]), *wording.devices(report), provenance)]
    caption = figure.supxlabel("\n".join(lines), fontsize=8.5, color="#666666", ha="left")
    # title and caption begin where the axes do, which is known once they are laid out
    figure.canvas.draw()
    left = axes.get_position().x0
    # the letters that fit to the right of that
    width = int(8 * figure.get_figwidth() * (1 - left))
    title = figure.suptitle(textwrap.fill(wording.finding(report), width), fontsize=14, fontweight="bold", ha="left")
    for text in (title, caption):
        text.set_x(left)


def draw(report: Report, *paths: Path) -> None:
    """Draws the variants one below the other."""
    groups = [variant for variant, results in report.runs.items() if results]
    labels = [server.label for server in report.servers]
    figure, axes = pyplot.subplots(figsize=(11, 2.6 + 0.5 * len(groups)), layout="constrained")
    for position, variant in enumerate(groups):
        for number, (label, colour) in enumerate(zip(labels, COLOURS)):
            at = position + (number - (len(labels) - 1) / 2) * 0.3
            if values := report.values(variant, label):
                axes.plot([min(values), max(values)], [at, at], color=colour, linewidth=1.5)
                axes.scatter(values, [at] * len(values), marker="|", s=40, color=colour)
                axes.scatter([median(values)], [at], s=50, color=colour, zorder=3)
        if ratio := report.ratio(variant):
            words, colour = _judged(report, variant, ratio)
            axes.annotate(
                words + f"\n{wording.interval(ratio)}", (1.01, position),
                xycoords=("axes fraction", "data"), va="center", fontsize=9, fontweight="bold" if "times" in words else "normal", color=colour,
            )
    # noise must not fill the picture
    middles = [median(values) for variant in groups for label in labels if (values := report.values(variant, label))]
    _rows(axes, groups, (min(middles) / 1.5, max(middles) * 1.5), report.case.unit if report.case.measure == "value" else report.case.figure.title)
    axes.set_ylabel(report.case.told_apart_by, fontsize=11)
    # between the axes and the title
    axes.legend(
        handles=[pyplot.Rectangle((0, 0), 1, 1, color=colour) for _, colour in zip(labels, COLOURS)],
        labels=labels, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2, borderpad=0, ncol=len(labels), frameon=False, fontsize=11,
    )
    axes.set_axisbelow(True)
    _write_texts(figure, axes, report)
    for path in paths:
        figure.savefig(path, dpi=150)
    pyplot.close(figure)
