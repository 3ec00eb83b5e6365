"""bench/timeline: pictures of traces."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import panels as content
from . import trace
from .panels import Panel, Window
from .trace import TraceError

SUFFIXES = (".png", ".svg", ".html")

EPILOG = f"""\
A file has a line for each I/O, as JSON:
  psql -XAtc '{trace.QUERY}' >FILE
"""


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.partition("x")
    size = int(width), int(height)
    if min(size) < 300:
        raise argparse.ArgumentTypeError("at least 300x300")
    return size


def _output(text: str) -> Path:
    path = Path(text)
    if path.suffix not in SUFFIXES:
        raise argparse.ArgumentTypeError(f"{text}: must end in {', '.join(SUFFIXES)}")
    return path


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/timeline", description="Draws traces of I/Os, one above the other: time to the right, block number up, a bar an I/O.",
        epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("traces", nargs="+", metavar="TRACE", help="a file of rows of io_trace, or a connection string (as 'host=/tmp dbname=postgres')")
    parser.add_argument("-o", "--output", type=_output, action="append", metavar="FILE",
                        help="ends in .png, .svg or .html; once or several times (default: timeline.png)")
    parser.add_argument("--label", action="append", default=[], help="of the first trace, the second … (default: the file's name, the server's version)")
    parser.add_argument("--title", default="", help="above all of it")
    parser.add_argument("--relation", help="this one's I/Os alone")
    parser.add_argument("--from", dest="begin", type=float, default=0.0, metavar="MS", help="since the trace's first I/O")
    parser.add_argument("--to", dest="end", type=float, metavar="MS", help="since the trace's first I/O")
    parser.add_argument("--zoom", type=float, metavar="MS", help="beside all of it, show so many ms from the beginning")
    parser.add_argument("--size", type=_size, metavar="WIDTHxHEIGHT", help="of a picture, in pixels")
    parsed = parser.parse_args(argv)
    if len(parsed.label) > len(parsed.traces):
        parser.error("more labels than traces")
    if parsed.end is not None and parsed.end <= parsed.begin:
        parser.error("--to must be later than --from")
    return parsed


def windows(panels: list[Panel], begin: float = 0.0, end: float | None = None, zoom: float | None = None) -> list[Window]:
    """Of all columns; a little longer than the longest."""
    last = max(panel.end for panel in panels)
    found = [Window(begin, end if end is not None else begin + (last - begin) * 1.01 or 1)]
    if zoom is not None and zoom < found[0].end - begin:
        found.append(Window(begin, begin + zoom))
    return found


def write(panels: list[Panel], shown: list[Window], title: str, paths: list[Path], size: tuple[int, int] | None = None) -> None:
    """Each library is wanted by its own kind of file alone."""
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".html":
            from . import timeline_page

            timeline_page.write(panels, shown[0], title, path)
        else:
            from . import timeline_picture

            timeline_picture.draw(panels, shown, title, size or (1000 + 500 * len(shown), 140 + 400 * len(panels)), path)


def title_of(panels: list[Panel], given: str) -> str:
    return ": ".join(filter(None, [given, content.finding(panels)]))


def main(argv: list[str] | None = None) -> int:
    parsed = _parse(argv)
    labels = [*parsed.label, *[None] * len(parsed.traces)]
    paths = parsed.output or [Path("timeline.png")]
    try:
        traces = [trace.load(source, label) for source, label in zip(parsed.traces, labels)]
        panels = content.of(traces, parsed.relation)
        write(panels, windows(panels, parsed.begin, parsed.end, parsed.zoom), title_of(panels, parsed.title), paths, parsed.size)
    except (TraceError, OSError) as error:
        print(f"bench/timeline: {error}", file=sys.stderr)
        return 1
    for path in paths:
        print(path)
    return 0
