"""A timeline as one HTML file that can be zoomed and hovered over.  The plotting library is in it, so it needs no
network."""

from __future__ import annotations

import html
from pathlib import Path

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from . import panels as content
from . import style
from .panels import Panel, Window, duration
from .trace import OUTCOMES, Io, Wait

# heights in pixels: a panel's bars, a waiter's lane, the steps; then the gap between them, the
# title of a panel, and the margins of the whole
BARS, WAITS, STEPS = 360, 16, 70
GAP, TITLE, TOP, BOTTOM = 10, 44, 45, 130

# in blocks, between neighbours
GAP_OF_BLOCKS = 0.2

CONFIG = {"scrollZoom": True, "displaylogo": False, "responsive": True, "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"]}


def _wait(panel: Panel, wait: Wait) -> str:
    return f"{panel.trace.name_of(wait.pid)} waited {duration(wait.end - wait.start)} from {wait.start:,.3f} ms"


def _hover(panel: Panel, io: Io) -> str:
    end = "not completed" if io.end is None else f"{io.end:,.3f} ms"
    lines = [
        f"<b>{panel.target}, block {io.block}" + (f" to {io.block + io.blocks - 1}" if io.blocks > 1 else "") + f"</b>, I/O {io.seq}",
        f"{io.backend_type} {io.pid}; submitted {io.start:,.3f} ms, completed {end}",
        "" if io.end is None else f"{duration(io.end - io.start)}; result {io.result}",
        f"in progress then: {io.in_progress}; look-ahead: {io.lookahead} blocks" if io.in_progress is not None else "",
        f"executed by {io.executed_by or 'the kernel'}; completed by {io.completed_by or 'an unknown process'}" if io.end is not None else "",
        "held by the gate" if io.held else "",
        *(_wait(panel, wait) for wait in io.waits),
    ]
    return "<br>".join(filter(None, lines))


def _bars(panel: Panel, pids: list[int]) -> list[go.Bar]:
    """Returns a trace of plotly's for each process and outcome.  The legend switches them on and off."""
    groups: dict[tuple[int, str], list[Io]] = {}
    for io in panel.ios:
        groups.setdefault((io.pid, io.outcome), []).append(io)
    bars = []
    for (pid, outcome), ios in sorted(groups.items(), key=lambda group: (group[0][0], list(OUTCOMES).index(group[0][1]))):
        colour = style.colour(pids, pid)
        bad = outcome in style.HATCHES
        words = [f"{panel.trace.label}: {panel.trace.name_of(pid)}", "" if outcome == "ok" else OUTCOMES[outcome]]
        bars.append(go.Bar(
            orientation="h", base=[io.start for io in ios], x=[panel.end_of(io) - io.start for io in ios],
            y=[io.block + io.blocks / 2 for io in ios], width=[io.blocks - GAP_OF_BLOCKS for io in ios],
            # precedes the entries that all panels share
            name=", ".join(filter(None, words)), legendrank=1,
            hovertext=[_hover(panel, io) for io in ios], hoverinfo="text",
            # a line keeps its width at every zoom, so that thin bars can be seen
            marker={"color": colour, "opacity": style.opacity(outcome), "line": {"color": style.BAD if bad else colour, "width": 1.5},
                    "pattern": {"shape": style.HATCHES[outcome][1] if bad else "", "fgcolor": style.BAD, "bgcolor": colour, "size": 6}},
        ))
    return bars


def _waits(panel: Panel, first: bool) -> list[go.Bar | go.Scatter]:
    """Returns the waits as one area, and as invisible bars for hovering.  The area is as dense as waits thinner than
    a pixel are; a bar would be a pixel wide for each of them."""
    waits = panel.waits
    lanes = {pid: number for number, pid in enumerate(panel.waiters)}
    xs: list[float | None] = []
    ys: list[float | None] = []
    for wait in waits:
        low, high = lanes[wait.pid] - 0.4, lanes[wait.pid] + 0.4
        xs += [wait.start, wait.start, wait.end, wait.end, None]
        ys += [low, high, high, low, None]
    shared = {"legendgroup": "waits", "name": "a process waits"}
    return [
        go.Scatter(x=xs, y=ys, mode="lines", fill="toself", fillcolor=style.WAIT, line={"width": 0, "simplify": False, "color": style.WAIT},
                   hoverinfo="skip", showlegend=first, **shared),
        go.Bar(orientation="h", base=[wait.start for wait in waits], x=[wait.end - wait.start for wait in waits], y=[lanes[wait.pid] for wait in waits],
               width=0.8, hovertext=[_wait(panel, wait) for wait in waits],
               hoverinfo="text", marker={"color": "rgba(0,0,0,0)", "line": {"width": 0}}, hoverlabel={"bgcolor": style.WAIT}, showlegend=False, **shared),
    ]


def _steps(panel: Panel, first: bool) -> list[go.Scatter]:
    in_progress, lookahead = panel.in_progress(), panel.lookahead()
    shared = {"mode": "lines", "showlegend": first}
    return [
        go.Scatter(x=[at for at, _ in in_progress], y=[value for _, value in in_progress], fill="tozeroy", fillcolor=style.IN_PROGRESS,
                   line={"shape": "hv", "color": style.IN_PROGRESS, "width": 1}, name="I/Os in progress", legendgroup="in progress",
                   hovertemplate="%{y} I/Os in progress from %{x:,.3f} ms<extra></extra>", **shared),
        go.Scatter(x=[at for at, _ in lookahead], y=[value for _, value in lookahead], line={"shape": "hv", "color": style.LOOKAHEAD, "width": 1.5},
                   name="look-ahead, blocks", legendgroup="look-ahead",
                   hovertemplate="%{y} blocks of look-ahead from %{x:,.3f} ms<extra></extra>", **shared),
    ]


def _add(figure: go.Figure, number: int, panel: Panel, pids: list[int]) -> None:
    row = 3 * number + 1
    for bars in _bars(panel, pids):
        figure.add_trace(bars, row=row, col=1)
    for trace in _waits(panel, number == 0):
        figure.add_trace(trace, row=row + 1, col=1)
    for trace, right in zip(_steps(panel, number == 0), (False, True)):
        figure.add_trace(trace, row=row + 2, col=1, secondary_y=right)
    low, high = min(io.block for io in panel.ios), max(io.block + io.blocks for io in panel.ios)
    margin = max(0.5, (high - low) * 0.03)
    figure.update_yaxes(title_text=f"block of {panel.target}", range=[low - margin, high + margin], row=row, col=1)
    waiters = panel.waiters
    figure.update_yaxes(title_text="waits", tickvals=list(range(len(waiters))), ticktext=[str(pid) for pid in waiters] if len(waiters) > 1 else [""],
                        range=[-0.5, max(1, len(waiters)) - 0.5], showgrid=False, fixedrange=True, row=row + 1, col=1)
    for steps, title, right in ((panel.in_progress(), "in progress", False), (panel.lookahead(), "look-ahead", True)):
        most = max((value for _, value in steps), default=1)
        figure.update_yaxes(title_text=title, range=[0, most * 1.1], dtick=1 if most < 4 else None, nticks=4, fixedrange=True,
                            showgrid=not right, row=row + 2, col=1, secondary_y=right)


def _arrange(figure: go.Figure, panels: list[Panel]) -> int:
    """Places everything, in pixels from the top.  Returns the total height."""
    lanes = [WAITS * max(1, len(panel.waiters)) + 8 for panel in panels]
    total = sum(TITLE + BARS + lane + STEPS + 2 * GAP for lane in lanes)
    at = 0
    for number, (panel, lane) in enumerate(zip(panels, lanes)):
        at += TITLE
        words = f"<b>{html.escape(panel.trace.label)}</b>: {panel.summary()}" + (f"; {panel.left_out}" if panel.left_out else "")
        figure.add_annotation(text=words, x=0, y=1 - at / total, xref="paper", yref="paper", xanchor="left", yanchor="bottom", showarrow=False, font_size=13)
        for row, height in enumerate((BARS, lane, STEPS)):
            domain = [max(0.0, 1 - (at + height) / total), 1 - at / total]
            figure.update_yaxes(domain=domain, row=3 * number + row + 1, col=1, secondary_y=False)
            at += height + (GAP if row < 2 else 0)
    return total


def figure(panels: list[Panel], window: Window, title: str) -> go.Figure:
    """Returns the figure with whole traces.  The window is what is shown first."""
    rows = 3 * len(panels)
    made = make_subplots(rows=rows, cols=1, shared_xaxes="all", specs=[[{"secondary_y": number % 3 == 2}] for number in range(rows)])
    pids = content.processes(panels)
    for number, panel in enumerate(panels):
        _add(made, number, panel, pids[panel.trace.label])
    total = _arrange(made, panels)
    made.update_xaxes(range=[window.begin, window.end], showticklabels=False, gridcolor="#E4E4E4", zeroline=False)
    made.update_xaxes(showticklabels=True, title_text="ms since the first I/O", row=rows, col=1)
    made.update_yaxes(gridcolor="#E4E4E4", zeroline=False, title_font_size=12)
    made.update_layout(
        title={"text": html.escape(title), "x": 0.02, "font": {"size": 17}}, barmode="overlay", height=total + TOP + BOTTOM, plot_bgcolor="white",
        hovermode="closest", dragmode="zoom", margin={"l": 80, "r": 80, "t": TOP, "b": BOTTOM},
        legend={"orientation": "h", "x": 0, "y": -50 / total, "yanchor": "top"},
    )
    return made


def write(panels: list[Panel], window: Window, title: str, path: Path) -> None:
    drawn = figure(panels, window, title).to_html(full_html=False, include_plotlyjs=True, include_mathjax=False, config=CONFIG)
    path.write_text(f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{html.escape(title)}</title><style>body {{ margin: 0; font-family: system-ui, sans-serif }}</style></head>
<body>{drawn}</body></html>
""")
