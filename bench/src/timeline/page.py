"""A timeline as one HTML file: the picture, which can be zoomed and tells more of an I/O under the mouse."""

import html
import json
import tempfile
from pathlib import Path

from . import picture
from .panels import Panel, Window, duration
from .trace import Io, Trace

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


def write(panels: list[Panel], window: Window, title: str, size: tuple[int, int], path: Path) -> None:
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
