"""The report page: one HTML file with all cases of a session and their pictures.  It needs no other file."""

from __future__ import annotations

import base64
import html
import tempfile
from pathlib import Path

from . import picture, wording
from .results import Report
from .stats import Ratio

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid #ddd; vertical-align: top }
.wide { overflow-x: auto }
.interval { white-space: nowrap }
img { width: 100%; height: auto }
pre { background: #f5f5f5; padding: .7rem; overflow-x: auto; white-space: pre-wrap }
.as-expected { color: #00684a } .unexpected { color: #b3261e; font-weight: bold } .note { color: #666 }
section { border-top: 3px solid #222; margin-top: 3rem }
"""


def _text(value: str) -> str:
    return html.escape(value)


def document(title: str, body: str, style: str = STYLE) -> str:
    """Returns a whole page."""
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>{style}</style></head>
<body>{body}</body></html>
"""


def table_row(cells: list[str], tag: str = "td") -> str:
    return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"


def table(rows: list[str]) -> str:
    """Returns a table that scrolls by itself in a narrow window."""
    return f'<div class="wide"><table>{"".join(rows)}</table></div>'


def _verdict(report: Report, sign: str | None, expected: str | None) -> str:
    words = wording.verdict(report.case.figure.sign(sign), expected)
    kind = "" if expected is None or sign is None else "as-expected" if "as expected" in words else "unexpected"
    return f'<span class="{kind}">{_text(words)}</span>'


def _interval(ratio: Ratio) -> str:
    return f'<span class="interval">{wording.interval(ratio)}</span>'


def _comparisons(report: Report) -> list[list[str]]:
    """Returns a row for each comparison: its name, ratio, interval and verdict."""
    rows = []
    for variant in report.runs:
        if ratio := report.ratio(variant):
            what = f"{' / '.join(server.label for server in report.servers)}, {variant}"
            rows.append([_text(what), wording.times(ratio), _interval(ratio),
                         _verdict(report, ratio.sign, report.expected_sign(variant))])
    for found in report.contrasts():
        rows.append([_text(f"{found.server}: {found.of} / {found.to}"), wording.times(found.ratio),
                     _interval(found.ratio), _verdict(report, found.ratio.sign, found.expected_sign)])
    return rows


def _overview(reports: list[Report]) -> str:
    lines = [table_row(["case", "compared", "ratio", "95 % interval", ""], "th")]
    for report in reports:
        for number, row in enumerate(_comparisons(report)):
            link = f'<a href="#{report.case.name}">{_text(report.case.id)}</a> {_text(report.case.title)}'
            lines.append(table_row([link if number == 0 else "", *row]))
    return table(lines)


def figures_table(report: Report) -> str:
    """Returns the medians of each variant on each server, and of the other figures."""
    case = report.case
    lines = [table_row([case.told_apart_by, "server", "median", "min – max", "runs", *(name.replace("_", " ") for name in case.run.also)], "th")]
    for variant, by_server in report.runs.items():
        for label, runs in by_server.items():
            if summary := report.summary(variant, label):
                also = [report.summary(variant, label, name) for name in case.run.also]
                lines.append(table_row([
                    _text(variant), _text(label), f"<b>{wording.amount(case, summary.median)}</b>",
                    f"{wording.number(summary.minimum)} – {wording.number(summary.maximum)}", str(len(runs)),
                    *(wording.number(each.median) if each else "–" for each in also),
                ]))
    return table(lines)


def embedded(path: Path, told: str) -> str:
    """Returns a picture's file as an image within the page.  SVG is not inline, because the names inside of several
    pictures are the same."""
    kind = "svg+xml" if path.suffix == ".svg" else "png"
    return f'<img alt="{_text(told)}" src="data:image/{kind};base64,{base64.b64encode(path.read_bytes()).decode()}">'


def image(report: Report) -> str:
    """Returns the report's picture within the page."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "picture.svg")
        picture.draw(report, path)
        return embedded(path, wording.finding(report))


def statements(report: Report) -> str:
    """Returns the statements of a run."""
    case = report.case
    return "<pre>" + _text(";\n".join((*case.before, *case.statement, *case.after))) + "</pre>"


def _section(report: Report) -> str:
    case = report.case
    commit = f' <span class="note">server commit {_text(case.file.commit)}</span>' if case.file.commit else ""
    settings = "; ".join(
        f"{server.label}: " + ", ".join(map(str, server.settings))
        for server in report.servers
    )
    promised = ""
    if told := wording.promise(report):
        promised = f"<p class={'as-expected' if all(report.promises().values()) else 'unexpected'}>{_text(told)}.</p>"
    published = ""
    if case.file.published:
        figures = f"{case.file.published.before_ms:g} ms before, {case.file.published.after_ms:g} ms after" if case.file.published.ratio else case.file.published.figures
        published = f"<p>Published: {_text(str(figures))} ({_text(case.file.published.source)}).</p>"
    comparisons = table([table_row(row) for row in _comparisons(report)])
    devices = "".join(f"<p class=note>{_text(line)}</p>" for line in wording.devices(report))
    skipped = "".join(f"<p class=unexpected>{_text(line)}</p>" for line in wording.skipped(report))
    return f"""<section id="{case.name}"><h2>{_text(case.id)}: {_text(case.title)}{commit}</h2>
<p><b>{_text(wording.finding(report))}.</b></p>{promised}
<p>{_text(case.known)}</p>{published}{devices}{skipped}
{image(report)}
{figures_table(report)}{comparisons}
{statements(report)}
<p class=note>{_text("; ".join(filter(None, (case.constants, settings))))}</p></section>"""


def render(reports: list[Report], failures: list[tuple[str, str]], quick: bool) -> str:
    body = ["<h1>Read-path lab</h1>"]
    if reports:
        first = reports[0]
        servers = "; ".join(f"{server.label}: {server.version} ({server.name})" for server in first.servers)
        body.append(f"<p>{_text(servers)}<br>{_text(wording.machine(first))}<br>{_text(wording.storage(first))}"
                    f"<br>test_aio {_text(first.commit)}, {_text(first.started)}</p>")
        if first.machine.is_busy:
            body.append(f"<p class=unexpected>Something else used {first.machine.cpu_in_use:.0%} of the CPU before the first run.</p>")
    if quick or any(report.quick for report in reports):
        body.append("<p class=unexpected>A quick session: signs at best, no figures to keep.</p>")
    body += [f"<p class=unexpected>{_text(case)} could not be measured: {_text(why)}</p>" for case, why in failures]
    body.append(_overview(reports))
    body += map(_section, reports)
    return document("Read-path lab", "".join(body))
