"""The report as a picture: every run a dot, the medians as bars."""

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

from . import curves, wording
from .casefile import Case, Published
from .results import Report

# Of a server's bars, and of what is written on them.  From Okabe and Ito's
# palette, which colour-blind people can tell apart; light and dark, for print.
COLOURS = (("#E69F00", "black"), ("#0072B2", "white"))
PUBLISHED = "#BBBBBB"
WIDTH = 0.36


def _write(axes: Axes, at: float, height: float, points: int, text: str, **style: Any) -> None:
    """Centred, so many points above that height."""
    axes.annotate(text, (at, height), (0, points), textcoords="offset points", ha="center", va="bottom", zorder=4, **style)


def _draw_runs(
    axes: Axes, case: Case, at: float, times: list[float], colours: tuple[str, str], highest: float, jitter: numpy.random.Generator
) -> None:
    colour, text_colour = colours
    axes.bar(at, median(times), WIDTH * 0.94, color=colour, alpha=0.85, linewidth=0, zorder=2)
    # sideways only, so that runs of equal length can be told apart
    sideways = jitter.uniform(-WIDTH / 4, WIDTH / 4, len(times))
    axes.scatter(at + sideways, times, s=22, color="white", edgecolor="black", linewidth=0.8, zorder=3)
    if median(times) > highest / 8:
        _write(axes, at, 0, 6, wording.amount(case, median(times)), fontsize=10, color=text_colour)
    else:
        # too low to be written on
        _write(axes, at, max(times), 6, wording.amount(case, median(times)), fontsize=10)


def _draw_ratio(axes: Axes, at: float, height: float, points: int, text: str, **style: Any) -> None:
    # grid lines are not to run through it
    background = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    _write(axes, at, height, points, text, fontsize=12, bbox=background, **style)


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
        explained += "; in brackets the 95 % interval of the ratio"
    axes.set_title(
        f"{report.case.id}: {report.case.title.lower()}; {wording.how_read(report)}\n{explained}",
        fontsize=10.5, color="#444444", loc="left", pad=10, linespacing=1.4,
    )
    provenance = f"{wording.machine(report)}; {wording.storage(report)}; test_aio {report.commit}; {report.started[:10]}"
    lines = [textwrap.fill(line, 120) for line in (*wording.skipped(report), provenance)]
    caption = figure.supxlabel("\n".join(lines), fontsize=8.5, color="#666666", ha="left")
    # all three begin where the axes do, which is known once they are laid out
    figure.canvas.draw()
    left = axes.get_position().x0
    # as many letters as the figure has room for to the right of that
    width = int(8 * figure.get_figwidth() * (1 - left))
    title = figure.suptitle(textwrap.fill(wording.finding(report), width), fontsize=14, fontweight="bold", ha="left")
    for text in (title, caption):
        text.set_x(left)


def _title(case: Case) -> str:
    return case.unit if case.measure == "value" else case.figure.title


def _draw_legend(axes: Axes, labels: list[str], below: float) -> None:
    axes.legend(
        handles=[pyplot.Rectangle((0, 0), 1, 1, color=colour) for _, (colour, _) in zip(labels, COLOURS)],
        labels=labels, loc="upper center", bbox_to_anchor=(0.5, below), ncol=len(labels), frameon=False, fontsize=11,
    )


def _draw_upright(report: Report, groups: list[str], labels: list[str]) -> tuple[Figure, Axes]:
    """Bars beside each other, for a few groups."""
    jitter = numpy.random.default_rng(1)
    offsets = [(number - (len(labels) - 1) / 2) * WIDTH for number in range(len(labels))]
    # more than four groups need room for what is written above them
    figure, axes = pyplot.subplots(figsize=(9 + max(0, len(groups) - 4) * 1.5, 5.6), layout="constrained")

    highest = max(max(report.values(variant, label), default=0) for variant in groups for label in labels)
    for position, variant in enumerate(groups):
        present = [entry for entry in zip(offsets, labels, COLOURS) if report.values(variant, entry[1])]
        for offset, label, colours in present:
            _draw_runs(axes, report.case, position + offset, report.values(variant, label), colours, highest, jitter)
        if ratio := report.ratio(variant):
            text = f"{wording.factor(ratio.ratio)} times\n[{ratio.low:.2f}, {ratio.high:.2f}]"
            top = max(max(report.values(variant, label)) for label in labels)
            _draw_ratio(axes, position, top, 22, text, fontweight="bold")
    ticks = list(groups)
    if report.case.file.published and report.case.file.published.ratio:
        _draw_published(axes, len(groups), report.case.file.published)
        ticks.append("published,\nother hardware")

    axes.set_xticks(range(len(ticks)), [tick.replace(", ", ",\n") for tick in ticks], fontsize=11)
    axes.set_xlim(-0.6, len(ticks) - 0.4)
    # room for the ratio above the highest
    axes.set_ylim(0, axes.dataLim.ymax * 1.25)
    axes.set_ylabel(_title(report.case), fontsize=11)
    axes.grid(axis="y", color="#DDDDDD", zorder=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    _draw_legend(axes, labels, -0.07 - 0.05 * max(1 + tick.count(",") for tick in groups))
    return figure, axes


def _draw_lying(report: Report, groups: list[str], labels: list[str]) -> tuple[Figure, Axes]:
    """One below the other, for many groups: medians as dots, runs as ticks, on a
    scale that shows short and long ones alike."""
    figure, axes = pyplot.subplots(figsize=(10, 2.6 + 0.5 * len(groups)), layout="constrained")
    for position, variant in enumerate(groups):
        for number, (label, (colour, _)) in enumerate(zip(labels, COLOURS)):
            if values := report.values(variant, label):
                at = position + (number - (len(labels) - 1) / 2) * 0.3
                axes.plot([min(values), max(values)], [at, at], color=colour, linewidth=1.5)
                axes.scatter(values, [at] * len(values), marker="|", s=40, color=colour)
                axes.scatter([median(values)], [at], s=50, color=colour, zorder=3)
        if ratio := report.ratio(variant):
            axes.annotate(
                f"{wording.factor(ratio.ratio)} [{ratio.low:.2f}, {ratio.high:.2f}]", (1.01, position),
                xycoords=("axes fraction", "data"), va="center", fontsize=10, fontweight="bold" if ratio.sign else "normal",
            )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter("")
    axes.set_yticks(range(len(groups)), groups, fontsize=10)
    axes.set_ylim(len(groups) - 0.4, -0.6)
    axes.set_xlabel(_title(report.case), fontsize=11)
    axes.grid(axis="x", color="#DDDDDD", zorder=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    # above the scale, in inches of its own
    _draw_legend(axes, labels, -0.6 / (0.5 * len(groups)))
    return figure, axes


# groups; more than these do not fit beside each other
UPRIGHT = 6


def draw(report: Report, *paths: Path) -> None:
    labels = [server.label for server in report.servers]
    groups = [variant for variant, results in report.runs.items() if results]
    if report.case.run.axis:
        figure, axes = curves.draw(report, tuple(colour for colour, _ in COLOURS))
        _write_texts(figure, axes, report, "points are")
    else:
        lying = len(groups) > UPRIGHT
        figure, axes = (_draw_lying if lying else _draw_upright)(report, groups, labels)
        axes.set_axisbelow(True)
        axes.tick_params(length=0)
        _write_texts(figure, axes, report, "dots are" if lying else "bars are", "ticks" if lying else "dots")
    for path in paths:
        figure.savefig(path, dpi=150)
    pyplot.close(figure)
