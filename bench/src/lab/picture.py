"""The report as a picture: each run is a dot, each median a bar."""

from __future__ import annotations

import textwrap
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib

matplotlib.use("Agg")

import numpy
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from . import contrasts, wording
from .casefile import Case, Published
from .results import Report
from .stats import Ratio

# The colours of a server's bars, and of what is written on them, from Okabe and Ito's
# palette, which colour-blind people can tell apart.  One is light and one dark, for print.
COLOURS = (("#E69F00", "black"), ("#0072B2", "white"))
PUBLISHED = "#BBBBBB"
WIDTH = 0.36


def _write(axes: Axes, at: float, height: float, points: int, text: str, **style: Any) -> None:
    """Writes a text centred, this many points above a height."""
    axes.annotate(text, (at, height), (0, points), textcoords="offset points", ha="center", va="bottom", zorder=4, **style)


def _draw_runs(
    axes: Axes, case: Case, at: float, times: list[float], colours: tuple[str, str], highest: float, jitter: numpy.random.Generator
) -> None:
    colour, text_colour = colours
    # the axis has the unit of counts
    told = wording.amount(case, median(times)) if case.unit == "ms" else wording.number(median(times))
    axes.bar(at, median(times), WIDTH * 0.94, color=colour, alpha=0.85, linewidth=0, zorder=2)
    # sideways only, so that runs of equal length can be told apart
    sideways = jitter.uniform(-WIDTH / 4, WIDTH / 4, len(times))
    axes.scatter(at + sideways, times, s=22, color="white", edgecolor="black", linewidth=0.8, zorder=3)
    if median(times) > highest / 8:
        _write(axes, at, 0, 6, told, fontsize=10, color=text_colour)
    else:
        # too low to be written on
        _write(axes, at, max(times), 6, told, fontsize=10)


def _draw_ratio(axes: Axes, at: float, height: float, points: int, text: str, **style: Any) -> None:
    # hides grid lines
    background = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    _write(axes, at, height, points, text, fontsize=11, bbox=background, **style)


def _judged(report: Report, ratio: Ratio) -> tuple[str, str]:
    """Returns the ratio in words, which say no more than its verdict if there is no difference, and their colour."""
    if ratio.sign not in ("higher", "lower"):
        return wording.verdict(ratio.sign, None), contrasts.NEITHER
    judged = report.case.figure.judged(ratio.sign)
    words = f"{report.servers[0].label} {judged}" if judged else str(report.case.figure.sign(ratio.sign))
    return f"{wording.times(ratio)} times\n{words}", contrasts.JUDGED[judged]


def _draw_published(axes: Axes, at: float, published: Published) -> None:
    assert published.before_ms and published.after_ms and published.ratio
    for sign, name, value in ((-1, "before", published.before_ms), (1, "after", published.after_ms)):
        axes.bar(at + sign * WIDTH / 2, value, WIDTH * 0.94, color=PUBLISHED, hatch="//", edgecolor="white", zorder=2)
        _write(axes, at + sign * WIDTH / 2, value, 4, f"{name}\n{value:g} ms", fontsize=10, color="#444444")
    # above the words "before" and "after"
    _draw_ratio(axes, at, published.before_ms, 38, f"{wording.factor(published.ratio)} times", color="#444444")
    axes.axvline(at - 0.5, color="#999999", linewidth=0.8, linestyle=":")


def _write_texts(figure: Figure, axes: Axes, report: Report, medians: str, runs: str = "") -> None:
    explained = f"{medians} medians of {wording.number_of_runs(report)}" + (f", {runs} the runs" if runs else "")
    if len(report.servers) == 2 and runs:
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


def _title(case: Case) -> str:
    return case.unit if case.measure == "value" else case.figure.title


def _draw_legend(axes: Axes, labels: list[str]) -> None:
    """Draws the legend between the axes and the title."""
    axes.legend(
        handles=[pyplot.Rectangle((0, 0), 1, 1, color=colour) for _, (colour, _) in zip(labels, COLOURS)],
        labels=labels, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2, borderpad=0, ncol=len(labels), frameon=False, fontsize=11,
    )


def _subplots(report: Report, width: float, height: float) -> tuple[Figure, Axes]:
    """Returns a figure with axes of this size in inches.  Below are the contrasts, if the case has any."""
    rows = len(contrasts.rows(report))
    if not rows:
        return pyplot.subplots(figsize=(width, height), layout="constrained")
    below = 0.9 + 0.45 * rows
    figure, (axes, lower) = pyplot.subplots(2, figsize=(width, height + below), height_ratios=(height, below), layout="constrained")
    contrasts.draw(lower, report, {server.label: colour for server, (colour, _) in zip(report.servers, COLOURS)})
    return figure, axes


def _draw_upright(report: Report, groups: list[str], labels: list[str]) -> tuple[Figure, Axes]:
    """Draws a few groups as bars beside each other."""
    jitter = numpy.random.default_rng(1)
    offsets = [(number - (len(labels) - 1) / 2) * WIDTH for number in range(len(labels))]
    # more than four groups need room for what is written above them
    figure, axes = _subplots(report, 9 + max(0, len(groups) - 4) * 1.5 + 2.5 * bool(contrasts.rows(report)), 5.6)

    highest = max(max(report.values(variant, label), default=0) for variant in groups for label in labels)
    for position, variant in enumerate(groups):
        present = [entry for entry in zip(offsets, labels, COLOURS) if report.values(variant, entry[1])]
        for offset, label, colours in present:
            _draw_runs(axes, report.case, position + offset, report.values(variant, label), colours, highest, jitter)
        if ratio := report.ratio(variant):
            words, colour = _judged(report, ratio)
            top = max(max(report.values(variant, label)) for label in labels)
            _draw_ratio(axes, position, top, 22, f"{words}\n{wording.interval(ratio)}", fontweight="bold" if "times" in words else "normal", color=colour)
    ticks = list(groups)
    if report.case.file.published and report.case.file.published.ratio:
        _draw_published(axes, len(groups), report.case.file.published)
        ticks.append("published,\nother hardware")

    axes.set_xticks(range(len(ticks)), [tick.replace(", ", ",\n") for tick in ticks], fontsize=11)
    axes.set_xlim(-0.6, len(ticks) - 0.4)
    # room for the ratio above the highest
    axes.set_ylim(0, axes.dataLim.ymax * 1.4)
    axes.set_xlabel(report.case.told_apart_by, fontsize=11)
    axes.set_ylabel(_title(report.case), fontsize=11)
    contrasts.bare(axes, "y")
    _draw_legend(axes, labels)
    return figure, axes


def _draw_lying(report: Report, groups: list[str], labels: list[str]) -> tuple[Figure, Axes]:
    """Draws many groups one below the other: medians as dots and runs as ticks, on a logarithmic scale."""
    figure, axes = _subplots(report, 11, 2.6 + 0.5 * len(groups))
    for position, variant in enumerate(groups):
        for number, (label, (colour, _)) in enumerate(zip(labels, COLOURS)):
            if values := report.values(variant, label):
                at = position + (number - (len(labels) - 1) / 2) * 0.3
                axes.plot([min(values), max(values)], [at, at], color=colour, linewidth=1.5)
                axes.scatter(values, [at] * len(values), marker="|", s=40, color=colour)
                axes.scatter([median(values)], [at], s=50, color=colour, zorder=3)
        if ratio := report.ratio(variant):
            words, colour = _judged(report, ratio)
            axes.annotate(
                words.replace("\n", " ") + f"\n{wording.interval(ratio)}", (1.01, position),
                xycoords=("axes fraction", "data"), va="center", fontsize=9, fontweight="bold" if "times" in words else "normal", color=colour,
            )
    # noise must not fill the picture
    middles = [median(values) for variant in groups for label in labels if (values := report.values(variant, label))]
    contrasts.scale(axes, (min(middles) / 1.5, max(middles) * 1.5))
    axes.set_yticks(range(len(groups)), groups, fontsize=10)
    axes.set_ylim(len(groups) - 0.4, -0.6)
    axes.set_ylabel(report.case.told_apart_by, fontsize=11)
    axes.set_xlabel(_title(report.case), fontsize=11)
    contrasts.bare(axes, "x")
    _draw_legend(axes, labels)
    return figure, axes


# so many groups fit beside each other
UPRIGHT = 6


def draw(report: Report, *paths: Path) -> None:
    labels = [server.label for server in report.servers]
    groups = [variant for variant, results in report.runs.items() if results]
    lying = len(groups) > UPRIGHT
    figure, axes = (_draw_lying if lying else _draw_upright)(report, groups, labels)
    axes.set_axisbelow(True)
    _write_texts(figure, axes, report, "dots are" if lying else "bars are", "ticks" if lying else "dots")
    for path in paths:
        figure.savefig(path, dpi=150)
    pyplot.close(figure)
