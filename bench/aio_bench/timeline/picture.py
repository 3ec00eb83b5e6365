"""Timelines of traces as PNG or SVG.  Time runs to the right, block numbers go up, each I/O is a bar.  Below are waits and the
number of I/Os in progress.

    drawn = panels.of([trace.from_file(Path("18.jsonl")), trace.from_file(Path("19.jsonl"))])
    picture.draw(drawn, [Path("timeline.png")], zoom=30)
"""

import textwrap
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import numpy
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from . import panels as content
from .panels import Panel, Window
from .trace import OUTCOMES, Io, Wait

DPI = 100

# Colours of processes, from Okabe and Ito's palette, which colour-blind people can tell
# apart.  Its vermilion is for waits, black for failures.
PROCESSES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#8C6D00")
#: the colour of further processes
OTHERS = "#999999"
WAIT, BAD, LOOKAHEAD, IN_PROGRESS = "#D55E00", "#000000", "#7A3E9D", "#BBBBBB"
HATCHES = {"short": "////", "error": "xxxx"}

#: of a bar without an end
OPACITY = {"open": 0.25}

# the width of a bar that is shorter, in pixels
LEAST_WIDTH = 2

# blocks of at least so many pixels have a gap between them, in blocks
APART = 2.5
GAP = 0.25

# more waiting processes than these share one lane
LANES = 6


def _draw_bars(axes: Axes, panel: Panel, pids: list[int], pixels_a_block: float, least: float) -> None:
    """Draws the I/Os.  A bar is at least as thick as a line and lasts at least so many ms, so that a single block of a
    million can be seen, and so can an I/O of some µs.  Neighbours have a gap between them where there is room."""
    room = pixels_a_block >= APART
    gap = GAP if room else 0
    groups: dict[tuple[str, str], list[Io]] = {}
    for io in panel.ios:
        groups.setdefault((io.outcome, dict(zip(pids, PROCESSES)).get(io.pid, OTHERS)), []).append(io)
    for (outcome, colour), ios in groups.items():
        bad = outcome in HATCHES
        corners = [(io.start, max(panel.end_of(io), io.start + least), io.block + gap / 2, io.block + io.blocks - gap / 2) for io in ios]
        axes.add_collection(PolyCollection(
            [[(left, low), (left, high), (right, high), (right, low)] for left, right, low, high in corners],
            facecolor=to_rgba(colour, OPACITY.get(outcome, 1)),
            edgecolor=BAD if bad else colour if outcome == "open" else to_rgba(colour, OPACITY.get(outcome, 1)),
            hatch=HATCHES[outcome] if bad else None, linewidth=1.2 if bad or outcome == "open" or not room else 0, linestyle=":" if outcome == "open" else "-",
            joinstyle="miter", capstyle="butt", zorder=3 if bad else 2,
        ))


def _lanes(panel: Panel) -> list[list[Wait]]:
    """Returns a lane for each waiting process, or one for all of them."""
    waiters = panel.waiters
    if len(waiters) > LANES:
        return [panel.waits]
    return [[wait for wait in panel.waits if wait.pid == pid] for pid in waiters] or [[]]


def _draw_waits(axes: Axes, panel: Panel, window: Window, pixels: int) -> None:
    """Draws the waits.  Each pixel shows the share of its time, so that a lane of short waits is as dense as they
    are."""
    lanes = _lanes(panel)
    edges, width = numpy.linspace(window.begin, window.end, pixels + 1, retstep=True)
    for number, waits in enumerate(lanes):
        # how long all of them have taken at each edge
        waited = sum((numpy.clip(edges - wait.start, 0, wait.end - wait.start) for wait in waits), numpy.zeros(pixels + 1))
        colours = numpy.array([[to_rgba(WAIT, min(1, share)) for share in numpy.diff(waited) / width]])
        axes.imshow(colours, extent=(window.begin, window.end, number + 0.1, number + 0.9), aspect="auto", interpolation="nearest", zorder=2)
    axes.set_xlim(window.begin, window.end)
    axes.set_ylim(0, len(lanes))
    several = len(lanes) > 1
    axes.set_yticks([number + 0.5 for number in range(len(lanes))] if several else [], map(str, panel.waiters) if several else [])
    axes.tick_params(axis="y", labelsize=7)


@dataclass(frozen=True)
class Scale:
    """The values of a column's panels, which share their axes: what is higher in one than in another is more."""

    low: int
    high: int
    in_progress: int
    lookahead: int


def _scale(panels: list[Panel]) -> Scale:
    return Scale(
        min(io.block for panel in panels for io in panel.ios), max(io.block + io.blocks for panel in panels for io in panel.ios),
        max(value for panel in panels for _, value in panel.in_progress()), max((value for panel in panels for _, value in panel.lookahead()), default=1),
    )


def _draw_steps(axes: Axes, panel: Panel, window: Window, scale: Scale, pixels: int) -> Axes | None:
    """Draws one figure as an area and the other as a line, which need no colours to be told apart.  Returns the axes
    of the line."""
    steps = panel.in_progress()
    axes.fill_between([at for at, _ in steps], [value for _, value in steps], step="post", color=IN_PROGRESS, linewidth=0, zorder=2)
    axes.set_ylim(0, scale.in_progress * 1.15)
    axes.yaxis.set_major_locator(MaxNLocator(2, integer=True))
    steps = content.highest(panel.lookahead(), window, pixels // 4)
    if not steps:
        return None
    beside = axes.twinx()
    steps.append((panel.end, steps[-1][1]))
    beside.step([at for at, _ in steps], [value for _, value in steps], where="post", color=LOOKAHEAD, linewidth=1)
    beside.set_ylim(0, max(1, scale.lookahead) * 1.15)
    beside.yaxis.set_major_locator(MaxNLocator(2, integer=True))
    beside.tick_params(length=0, labelsize=8, labelcolor=LOOKAHEAD)
    beside.spines[:].set_visible(False)
    return beside


def _process_entries(panels: list[Panel], pids: dict[str, list[int]]) -> list[Patch | Rectangle]:
    if all(len(own) == 1 for own in pids.values()):
        return [Patch(facecolor=PROCESSES[0], label="an I/O, from submission to completion")]
    entries: list[Patch | Rectangle] = []
    traces = {panel.trace.label: panel.trace for panel in panels}
    for label, own in pids.items():
        whose = f"{label}: " if len(pids) > 1 else ""
        entries += [Patch(facecolor=colour, label=whose + traces[label].name_of(pid)) for colour, pid in zip(PROCESSES, own)]
        if len(own) > len(PROCESSES):
            entries.append(Patch(facecolor=OTHERS, label=f"{len(own) - len(PROCESSES)} others"))
    return entries


def _legend(panels: list[Panel], pids: dict[str, list[int]]) -> list[Patch | Rectangle]:
    """Returns entries only for what is in the picture."""
    ios = [io for panel in panels for io in panel.ios]
    entries = _process_entries(panels, pids)
    for outcome, word in OUTCOMES.items():
        if outcome != "ok" and any(io.outcome == outcome for io in ios):
            hatch = HATCHES.get(outcome)
            entries.append(Patch(facecolor="white", edgecolor="black", hatch=hatch, linestyle=":" if outcome == "open" else "-", label=word))
    entries.append(Patch(facecolor=WAIT, label="a process waits"))
    return entries


def _name(axes: Axes, text: str, colour: str, right: bool = False) -> None:
    axes.annotate(text, (1 if right else 0, 0.5), (30 if right else -30, 0), xycoords="axes fraction", textcoords="offset points",
                  ha="left" if right else "right", va="center", color=colour, fontsize=9)


def _draw_panel(rows: list[Axes], panel: Panel, pids: list[int], window: Window, scale: Scale, pixels: tuple[float, int], first: bool, last: bool) -> None:
    """Draws bars, waits and steps.  pixels are the height and the width of the bars' axes; first and last tell the
    outer columns of the picture."""
    bars, waits, steps = rows
    for axes in rows:
        axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
        axes.tick_params(length=0, labelsize=8)
        axes.grid(axis="x", color="#E4E4E4", zorder=0)
        axes.set_axisbelow(True)
    bars.grid(axis="y", color="#E4E4E4", zorder=0)
    low, high = scale.low, scale.high
    margin = max(0.5, (high - low) * 0.03)
    _draw_bars(bars, panel, pids, pixels[0] / (high - low + 2 * margin), LEAST_WIDTH * (window.end - window.begin) / pixels[1])
    _draw_waits(waits, panel, window, pixels[1])
    lookahead = _draw_steps(steps, panel, window, scale, pixels[1])
    bars.set_ylim(low - margin, high + margin)
    bars.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    if first:
        bars.set_ylabel(f"block of {panel.target}", fontsize=9)
        _name(waits, "waits", WAIT)
        _name(steps, "in\nprogress", "#666666")
    if last and lookahead:
        _name(lookahead, "look-\nahead,\nblocks", LOOKAHEAD, right=True)


def _titles(panel: Panel, windows: list[Window], letters: int) -> list[str]:
    first, *others = (panel.within(window) for window in windows)
    told = [f"{panel.trace.label}: {first.summary() if first else 'no I/O then'}", panel.left_out]
    words = ["\n".join(textwrap.shorten(line, letters, placeholder=" …") for line in told if line)]
    for window, shown in zip(windows[1:], others):
        ios, waits = (len(shown.ios), len(shown.waits)) if shown else (0, 0)
        words.append(f"{window.begin:g} to {window.end:g} ms: {ios:,} of these I/Os, {waits:,} waits")
    return words


def _axes(figure: Figure, heights: list[float], legend: float, windows: list[Window]) -> tuple[list[list[Axes]], Axes]:
    """Returns columns of axes that share their time, and axes below them."""
    grid = figure.add_gridspec(len(heights) + 1, len(windows), height_ratios=[*heights, legend])
    columns = []
    for number, window in enumerate(windows):
        shared = figure.add_subplot(grid[0, number])
        columns.append([shared, *(figure.add_subplot(grid[row, number], sharex=shared) for row in range(1, len(heights)))])
        for axes in columns[-1][:-1]:
            axes.tick_params(labelbottom=False)
        shared.set_xlim(window.begin, window.end)
        columns[-1][-1].set_xlabel("ms since the first I/O", fontsize=9)
    return columns, figure.add_subplot(grid[-1, :])


def _figure(panels: list[Panel], windows: list[Window], title: str) -> Figure:
    # in inches
    width, height = 10 + 5 * len(windows), 1.4 + 4 * len(panels)
    figure = pyplot.figure(figsize=(width, height), dpi=DPI, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.05, hspace=0)
    pids = content.processes(panels)
    entries = _legend(panels, pids)
    per_row = max(1, min(len(entries), int(width / 2.5)))
    legend = 0.2 * -(-len(entries) // per_row)
    # lanes and steps have fixed heights, in inches; the bars have the rest
    lanes = [0.2 + 0.1 * len(_lanes(panel)) for panel in panels]
    steps = 0.5
    rest = (height - legend - 0.9 - sum(lanes)) / len(panels) - steps - 0.5
    columns, below = _axes(figure, [each for lane in lanes for each in (rest, lane, steps)], legend, windows)
    # a window without I/Os has the axes of the whole
    shown = [[panel.within(window) or panel for window in windows] for panel in panels]
    for number, panel in enumerate(panels):
        titles = _titles(panel, windows, int(width * 11.5 / len(windows)))
        for column, window, words, own, *others in zip(columns, windows, titles, shown[number], *shown):
            rows = column[3 * number:3 * number + 3]
            rows[0].set_title(words, loc="left", fontsize=9)
            scale = _scale([other for other in others if other.target == panel.target])
            _draw_panel(rows, own, pids[panel.trace.label], window, scale, (rest * DPI, int(width * DPI) // len(windows)),
                        column is columns[0], column is columns[-1])
    figure.align_ylabels(columns[0][::3])
    figure.suptitle(textwrap.shorten(title, int(width * 9), placeholder=" …"), fontsize=12.5, fontweight="bold")
    below.axis("off")
    below.legend(handles=entries, loc="center", ncols=per_row, frameon=False, fontsize=8.5)
    return figure


def draw(panels: list[Panel], paths: list[Path], title: str = "", begin: float = 0.0, end: float | None = None, zoom: float | None = None) -> None:
    """Draws the panels into each file.  The suffix decides the format.  Times are in ms.  zoom shows this many ms from
    the beginning beside the whole."""
    for path in paths:
        # laid out anew, so that the same trace makes the same file
        figure = _figure(panels, content.windows(panels, begin, end, zoom), ": ".join(filter(None, [title, content.finding(panels)])))
        path.parent.mkdir(parents=True, exist_ok=True)
        with matplotlib.rc_context({"svg.hashsalt": "timeline"}):
            figure.savefig(path, dpi=DPI, metadata={"Date": None} if path.suffix == ".svg" else None)
        pyplot.close(figure)
