"""Timelines of traces as files.  In an HTML file the picture can be zoomed and tells more of an I/O under the mouse.

    panels = panels.of([trace.load("18.jsonl"), trace.load("19.jsonl")])
    draw.write(panels, [Path("timeline.png"), Path("timeline.html")], zoom=30)
"""

import html
import json
import tempfile
from pathlib import Path

from . import panels as content
from .panels import Panel, Window, duration
from .trace import Io, Trace

SUFFIXES = (".png", ".svg", ".html")

SCRIPT = """
const svg = document.querySelector('svg'), box = svg.viewBox.baseVal, whole = [box.x, box.y, box.width, box.height];
const texts = JSON.parse(document.getElementById('texts').textContent);
for (const group of document.querySelectorAll('g[id^="ios "]')) {
    const [, label, numbers] = group.id.match(/^ios (.*) (\\S+)$/s);
    const shapes = [...group.querySelectorAll('use, path')].filter(each => !each.closest('defs'));
    numbers.split(',').forEach((number, at) => {
        const title = document.createElementNS(svg.namespaceURI, 'title');
        title.textContent = texts[label][number];
        shapes[at].append(title);
    });
}
svg.addEventListener('wheel', event => {
    event.preventDefault();
    const at = svg.getBoundingClientRect(), factor = event.deltaY < 0 ? 0.8 : 1.25;
    box.x += box.width * (1 - factor) * (event.clientX - at.x) / at.width;
    box.y += box.height * (1 - factor) * (event.clientY - at.y) / at.height;
    box.width *= factor;
    box.height *= factor;
});
svg.addEventListener('mousemove', event => {
    if (event.buttons) {
        box.x -= event.movementX * box.width / svg.clientWidth;
        box.y -= event.movementY * box.height / svg.clientHeight;
    }
});
svg.addEventListener('dblclick', () => [box.x, box.y, box.width, box.height] = whole);
"""


def _told(trace: Trace, io: Io) -> str:
    end = "not completed" if io.end is None else f"{io.end:,.3f} ms"
    lines = [
        f"{io.target}, block {io.block}" + (f" to {io.block + io.blocks - 1}" if io.blocks > 1 else "") + f", I/O {io.seq}",
        f"{io.backend_type} {io.pid}; submitted {io.start:,.3f} ms, completed {end}",
        "" if io.end is None else f"{duration(io.end - io.start)}; result {io.result}",
        f"in progress then: {io.in_progress}; look-ahead: {io.lookahead} blocks" if io.in_progress is not None else "",
        f"executed by {io.executed_by or 'the kernel'}; completed by {io.completed_by or 'an unknown process'}" if io.end is not None else "",
        "held by the gate" if io.held else "",
        *(f"{trace.name_of(wait.pid)} waited {duration(wait.end - wait.start)} from {wait.start:,.3f} ms" for wait in io.waits),
    ]
    return "\n".join(filter(None, lines))


def _write_page(panels: list[Panel], window: Window, title: str, size: tuple[int, int], path: Path) -> None:
    from . import picture

    with tempfile.TemporaryDirectory() as directory:
        drawn = Path(directory, "timeline.svg")
        picture.draw(panels, [window], title, size, drawn)
        svg = drawn.read_text().partition("<svg")[2]
    texts: dict[str, dict[int, str]] = {}
    for panel in panels:
        texts.setdefault(panel.trace.label, {}).update((io.seq, _told(panel.trace, io)) for io in panel.ios)
    # "</" would end the script
    data = json.dumps(texts, ensure_ascii=False).replace("</", "<\\/")
    path.write_text(f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{html.escape(title)}</title><style>body {{ margin: 0 }} svg {{ display: block; width: 100%; height: 100vh }} use:hover, path:hover {{ opacity: .6 }}</style></head>
<body><svg{svg}<script type="application/json" id="texts">{data}</script><script>{SCRIPT}</script></body></html>
""")


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
        if path.suffix == ".html":
            _write_page(panels, shown[0], heading, size or (1500, 140 + 400 * len(panels)), path)
        else:
            from . import picture

            picture.draw(panels, shown, heading, size or (1000 + 500 * len(shown), 140 + 400 * len(panels)), path)
