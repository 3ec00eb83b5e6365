"""The report as a picture: each run is a tick, each median a dot."""

import textwrap
from pathlib import Path
from statistics import median

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from . import contrasts, wording
from .results import Report
from .stats import Ratio

# The colours of the servers, from Okabe and Ito's palette, which colour-blind people can tell
# apart.  One is light and one dark, for print.
COLOURS = ("#E69F00", "#0072B2")


def _judged(report: Report, ratio: Ratio) -> tuple[str, str]:
    """Returns the ratio in words, which say no more than its verdict if there is no difference, and their colour."""
    if ratio.sign not in ("higher", "lower"):
        return wording.verdict(ratio.sign, None), contrasts.NEITHER
    judged = report.case.figure.judged(ratio.sign)
    words = f"{report.servers[0].label} {judged}" if judged else str(report.case.figure.sign(ratio.sign))
    return f"{wording.times(ratio)} times, {words}", contrasts.JUDGED[judged]


def _write_texts(figure: Figure, axes: Axes, report: Report) -> None:
    explained = f"dots are medians of {wording.number_of_runs(report)}, ticks the runs"
    if len(report.servers) == 2:
        explained += f"; in brackets the interval of the ratio, 95 % for all {report.corrected_for} together"
    axes.set_title(
        f"{report.case.id}: {report.case.title}; {wording.how_read(report)}\n{explained}",
        fontsize=10.5, color="#444444", loc="left", pad=28, linespacing=1.4,
    )
    provenance = f"{wording.machine(report)}; {wording.storage(report)}; test_aio {report.commit}; {report.started[:10]}"
    if report.quick:
        figure.text(0.995, 0.995, "QUICK: signs at best, no figures to keep", fontsize=10, fontweight="bold", color="white", ha="right", va="top",
                    bbox={"facecolor": contrasts.WORSE, "edgecolor": "none", "pad": 4})
    # up to a quarter is to the left of the axes
    room = min(120, int(11 * figure.get_figwidth()))
    lines = [textwrap.fill(line, room) for line in (*wording.skipped(report), *filter(None, [report.case.constants]), *wording.devices(report), provenance)]
    caption = figure.supxlabel("\n".join(lines), fontsize=8.5, color="#666666", ha="left")
    # title and caption begin where the axes do, which is known once they are laid out
    figure.canvas.draw()
    left = axes.get_position().x0
    # the letters that fit to the right of that
    width = int(8 * figure.get_figwidth() * (1 - left))
    # below the stamp, if there is one
    title = figure.suptitle(("\n" if report.quick else "") + textwrap.fill(wording.finding(report), width), fontsize=14, fontweight="bold", ha="left")
    for text in (title, caption):
        text.set_x(left)


def _draw_legend(axes: Axes, labels: list[str]) -> None:
    """Draws the legend between the axes and the title."""
    axes.legend(
        handles=[pyplot.Rectangle((0, 0), 1, 1, color=colour) for _, colour in zip(labels, COLOURS)],
        labels=labels, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2, borderpad=0, ncol=len(labels), frameon=False, fontsize=11,
    )


def _subplots(report: Report, width: float, height: float) -> tuple[Figure, Axes]:
    """Returns a figure with axes of this size in inches.  Below are the contrasts, if the case has any."""
    rows = len(contrasts.rows(report))
    if not rows:
        return pyplot.subplots(figsize=(width, height), layout="constrained")
    below = 0.9 + 0.45 * rows
    figure, (axes, lower) = pyplot.subplots(2, figsize=(width, height + below), height_ratios=(height, below), layout="constrained")
    contrasts.draw(lower, report, {server.label: colour for server, colour in zip(report.servers, COLOURS)})
    return figure, axes


def _draw(report: Report, groups: list[str], labels: list[str]) -> tuple[Figure, Axes]:
    """Draws the variants one below the other, on a logarithmic scale."""
    figure, axes = _subplots(report, 11, 2.6 + 0.5 * len(groups))
    for position, variant in enumerate(groups):
        for number, (label, colour) in enumerate(zip(labels, COLOURS)):
            if values := report.values(variant, label):
                at = position + (number - (len(labels) - 1) / 2) * 0.3
                axes.plot([min(values), max(values)], [at, at], color=colour, linewidth=1.5)
                axes.scatter(values, [at] * len(values), marker="|", s=40, color=colour)
                axes.scatter([median(values)], [at], s=50, color=colour, zorder=3)
        if ratio := report.ratio(variant):
            words, colour = _judged(report, ratio)
            axes.annotate(
                words + f"\n{wording.interval(ratio)}", (1.01, position),
                xycoords=("axes fraction", "data"), va="center", fontsize=9, fontweight="bold" if "times" in words else "normal", color=colour,
            )
    # noise must not fill the picture
    middles = [median(values) for variant in groups for label in labels if (values := report.values(variant, label))]
    contrasts.scale(axes, (min(middles) / 1.5, max(middles) * 1.5))
    axes.set_yticks(range(len(groups)), groups, fontsize=10)
    axes.set_ylim(len(groups) - 0.4, -0.6)
    axes.set_ylabel(report.case.told_apart_by, fontsize=11)
    axes.set_xlabel(report.case.unit if report.case.measure == "value" else report.case.figure.title, fontsize=11)
    contrasts.bare(axes, "x")
    _draw_legend(axes, labels)
    return figure, axes


def draw(report: Report, *paths: Path) -> None:
    figure, axes = _draw(report, [variant for variant, results in report.runs.items() if results], [server.label for server in report.servers])
    axes.set_axisbelow(True)
    _write_texts(figure, axes, report)
    for path in paths:
        figure.savefig(path, dpi=150)
    pyplot.close(figure)
