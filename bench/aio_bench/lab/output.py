"""The files of a session in one directory: results, pictures, and a page with all cases, which needs no other file.
page.html is its template."""

import base64
import io
import tempfile
from collections.abc import Callable
from pathlib import Path

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup, escape
from rich.console import Console

from .. import project
from . import picture, table, wording
from .results import Report

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid #ddd; vertical-align: top }
.wide { overflow-x: auto }
img { width: 100%; height: auto }
pre { background: #f5f5f5; padding: .7rem; overflow-x: auto }
.bad { color: #b3261e; font-weight: bold }
.patch { tab-size: 4; list-style: none }
.patch span { display: block }
.patch i { color: #666; margin-left: 2rem }
.never { background: #ffc9c5 }
.unnoticed { background: #ffdfa8 }
.branch { background: #fff6b8 }
.noticed { background: #bdeac8 }
.executed { background: #e8f8ec }
section { border-top: 3px solid #222; margin-top: 3rem }
"""


def document(title: str, body: str) -> str:
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>{STYLE}</style></head>
<body>{body}</body></html>
"""


def drawn(draw: Callable[[Path], None], told: str, kind: str = "svg") -> Markup:
    """Returns a picture as an image within the page.  SVG is not inline, because the names inside of several pictures
    are the same."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, f"picture.{kind}")
        draw(path)
        data = base64.b64encode(path.read_bytes()).decode()
    return Markup(f'<img alt="{escape(told)}" src="data:image/{kind.replace("svg", "svg+xml")};base64,{data}">')


def _tables(report: Report) -> Markup:
    """Returns the tables of the terminal."""
    console = Console(file=io.StringIO(), record=True, width=110, highlight=False)
    table.show(report, console)
    return Markup(console.export_html(code_format="<pre>{code}</pre>", inline_styles=True))


def environment(directory: Path) -> Environment:
    return Environment(loader=FileSystemLoader(directory), autoescape=True)


def cases(reports: list[Report]) -> Markup:
    """Returns the part of a page about the cases: a sentence and a section for each."""
    template = environment(Path(__file__).parent).get_template("page.html")
    return Markup(template.render(reports=reports, finding=wording.finding, tables=_tables,
                                  image=lambda report: drawn(lambda path: picture.draw(report, path), wording.finding(report))))


def render(reports: list[Report], failures: list[tuple[str, str]]) -> str:
    failed = Markup().join(Markup('<p class="bad">{} could not be measured: {}</p>').format(*each) for each in failures)
    return document("Read-path lab", Markup("<h1>Read-path lab</h1>") + failed + cases(reports))


class Output:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def own(self, *paths: Path) -> None:
        project.give_to_owner(self.directory.parent, self.directory, *paths)

    def keep(self, report: Report) -> list[Path]:
        paths = [self.directory / f"{report.case.name}.{suffix}" for suffix in ("jsonl", "png", "svg")]
        paths[0].write_text(report.as_json_lines())
        picture.draw(report, *paths[1:])
        self.own(*paths)
        return paths

    def write_page(self, reports: list[Report], failures: list[tuple[str, str]]) -> Path:
        path = self.directory / "report.html"
        path.write_text(render(reports, failures))
        self.own(path)
        return path
