"""Growth as curves: an axis a column, a figure a row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot

from .picture import COLOURS

if TYPE_CHECKING:
    from .growth import Point

FIGURES = {
    "us_per_block": "time per block (µs)",
    "cpu_us_per_block": "CPU per block (µs)",
    "memory_mb": "own memory of backends (MB)",
}
STYLES = ("-", "--", ":")
MARKERS = ("o", "s", "^")


def draw(points: list[Point], *paths: Path) -> None:
    names = list(dict.fromkeys(point.axis for point in points))
    servers = list(dict.fromkeys(point.server for point in points))
    methods = list(dict.fromkeys(point.method for point in points))
    figure, grid = pyplot.subplots(len(FIGURES), len(names), figsize=(12, 9), layout="constrained", sharex="col", squeeze=False)
    for row, (figure_name, title) in enumerate(FIGURES.items()):
        for column, name in enumerate(names):
            axes = grid[row][column]
            for server, (colour, _) in zip(servers, COLOURS):
                for number, method in enumerate(methods):
                    own = [point for point in points if (point.axis, point.server, point.method) == (name, server, method)]
                    axes.plot([point.x for point in own], [getattr(point, figure_name) for point in own],
                              color=colour, linestyle=STYLES[number % 3], marker=MARKERS[number % 3], markersize=4, label=f"{server}, {method}")
            axes.set_xscale("log", base=10 if name == "blocks" else 2)
            if name != "blocks":
                axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.set_ylim(0, axes.dataLim.ymax * 1.1)
            axes.grid(color="#DDDDDD")
            axes.spines[["top", "right"]].set_visible(False)
            if column == 0:
                axes.set_ylabel(title)
            if row == len(FIGURES) - 1:
                axes.set_xlabel(name)
    handles, labels = grid[0][0].get_legend_handles_labels()
    grid[0][-1].legend(handles, labels, frameon=False, fontsize=8)
    figure.suptitle("How the cost of a read stream grows", fontweight="bold")
    for path in paths:
        figure.savefig(path, dpi=150)
    pyplot.close(figure)
