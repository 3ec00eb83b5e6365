"""Timelines of traces as files.

    panels = panels.of([trace.load("18.jsonl"), trace.load("19.jsonl")])
    draw.write(panels, [Path("timeline.png"), Path("timeline.html")], zoom=30)
"""

from pathlib import Path

from . import panels as content
from .panels import Panel, Window

SUFFIXES = (".png", ".svg", ".html")


def windows(panels: list[Panel], begin: float = 0.0, end: float | None = None, zoom: float | None = None) -> list[Window]:
    """Returns the window of each column.  The first is a little longer than the longest trace."""
    last = max(panel.end for panel in panels)
    found = [Window(begin, end if end is not None else begin + (last - begin) * 1.01 or 1)]
    if zoom is not None and zoom < found[0].end - begin:
        found.append(Window(begin, begin + zoom))
    return found


def write(
    panels: list[Panel], paths: list[Path], *, title: str = "", begin: float = 0.0, end: float | None = None,
    zoom: float | None = None, size: tuple[int, int] | None = None,
) -> None:
    """Draws the panels into each file.  The suffix decides the format.  Times are in ms.  zoom shows this many ms from the beginning beside the whole."""
    shown = windows(panels, begin, end, zoom)
    heading = ": ".join(filter(None, [title, content.finding(panels)]))
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        from . import page, picture

        if path.suffix == ".html":
            page.write(panels, shown[0], heading, size or (1500, 140 + 400 * len(panels)), path)
        else:
            picture.draw(panels, shown, heading, size or (1000 + 500 * len(shown), 140 + 400 * len(panels)), path)
