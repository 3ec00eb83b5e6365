"""The ceiling as a picture: above, which fraction of fio's speed each server
reaches; below, where its time goes."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.axes import Axes

from .picture import COLOURS

if TYPE_CHECKING:
    from .ceiling import Row

# Okabe and Ito's, as everywhere
USER, SYSTEM, WORKERS, WAITING = "#0072B2", "#56B4E9", "#009E73", "#D55E00"
HEIGHT = 0.24


def _label(row: Row) -> str:
    return f"{row.server}, {row.method}"


def _tidy(axes: Axes, rows: list[Row], first: bool) -> None:
    axes.set_yticks(range(len(rows)), [_label(row) for row in rows] if first else [], fontsize=10)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0)
    axes.grid(axis="x", color="#DDDDDD", zorder=0)
    axes.set_axisbelow(True)


def _draw_fraction(axes: Axes, rows: list[Row], colours: dict[str, str]) -> None:
    for at, row in enumerate(rows):
        axes.barh(at, row.fraction, 0.7, color=colours[row.server], zorder=2)
        inside = row.fraction > 0.5
        axes.annotate(f"{row.fraction:.2f}, {row.mb_per_s:,.0f} MB/s", (row.fraction, at), (-5 if inside else 5, 0), textcoords="offset points",
                      ha="right" if inside else "left", va="center", fontsize=9, color="white" if inside and colours[row.server] == COLOURS[1][0] else "black")
    axes.axvline(1, color="black", linewidth=1.2, zorder=3)
    axes.set_xlim(0, max(1.1, *(row.fraction * 1.05 for row in rows)))


def _draw_rest(axes: Axes, rows: list[Row]) -> None:
    """Side by side, for they overlap: workers run while the backend waits, and
    system time of waiting is in both."""
    for at, row in enumerate(rows):
        axes.barh(at, row.server_ms, 3 * HEIGHT, color="#EEEEEE", zorder=1)
        axes.barh(at - HEIGHT, row.backend_user_ms, HEIGHT, color=USER, zorder=2)
        axes.barh(at - HEIGHT, row.backend_system_ms, HEIGHT, left=row.backend_user_ms, color=SYSTEM, zorder=2)
        axes.barh(at, row.workers_ms, HEIGHT, color=WORKERS, zorder=2)
        axes.barh(at + HEIGHT, row.read_wait_ms, HEIGHT, color=WAITING, zorder=2)
    axes.set_xlabel("ms")


def draw(rows: list[Row], device: str, provenance: str, *paths: Path) -> None:
    scans = list(dict.fromkeys(row.scan for row in rows))
    groups = [[row for row in rows if row.scan == scan] for scan in scans]
    servers = dict.fromkeys(row.server for row in rows)
    colours = {server: COLOURS[number % len(COLOURS)][0] for number, server in enumerate(servers)}
    most = max(map(len, groups))
    figure, grid = pyplot.subplots(2, len(scans), figsize=(4.3 * len(scans), 2.6 + 0.9 * most), layout="constrained", squeeze=False)
    for column, (scan, group) in enumerate(zip(scans, groups)):
        for axes, draw_one in ((grid[0][column], lambda axes, own: _draw_fraction(axes, own, colours)), (grid[1][column], _draw_rest)):
            _tidy(axes, group, column == 0)
            draw_one(axes, group)
        grid[0][column].set_title(f"{scan}\nfraction of fio's speed", fontsize=11, loc="left")
        grid[1][column].set_title("where the time goes", fontsize=11, loc="left")
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=colour) for colour in ("#EEEEEE", USER, SYSTEM, WORKERS, WAITING)]
    names = ["execution time (median; the others: means)", "backend: user", "backend: system", "I/O workers: CPU", "backend waits for reads"]
    # in room of its own below all
    grid[1][len(scans) // 2].legend(handles, names, loc="upper center", bbox_to_anchor=(0.5, -0.55 / most - 0.1), ncol=3, frameon=False, fontsize=9)
    figure.suptitle(f"How much of the device a server gets: {device}", fontweight="bold")
    figure.supxlabel("\n".join(textwrap.wrap(provenance, 130)), fontsize=8, color="#666666")
    for path in paths:
        figure.savefig(path, dpi=110)
    pyplot.close(figure)
