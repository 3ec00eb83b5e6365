"""The trial as one HTML file that needs no other file."""

import html
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from lab import output as of_lab
from lab import wording
from lab.output import table
from lab.stats import CONFIDENCE
from timeline import draw, panels
from timeline.trace import Trace

from . import suite, summary
from .bugs import points
from .findings import Findings
from .sides import Build
from .suite import Difference

STYLE = of_lab.STYLE + """
h1 { margin-bottom: .2rem } h2 { margin-top: 0 }
.lead { font-size: 1.15rem } .good { color: #00684a } .bad { color: #b3261e; font-weight: bold } .open { color: #7a5200 }
details { margin: .3rem 0 } summary { cursor: pointer }
td li { overflow-wrap: anywhere }
details pre { font-size: .8rem; max-height: 30rem; overflow: auto }
.quick { background: #fff3d6; padding: .4rem .8rem }
"""

CLASSES = {"broken": "bad", "doubtful": "open", "unsteady": "open", "both": "open", "mended": "good"}
WORDS = {"broken": "fails after, passed before", "doubtful": "fails sometimes after, never before", "unsteady": "fails sometimes", "both": "fails on both", "mended": "failed before, passes after"}

# failed assertions that are named for a file
NAMED = 8


def _text(value: object) -> str:
    return html.escape(str(value))


def _mark(words: str, verdict: str) -> str:
    return f'<span class="{CLASSES.get(verdict, "note")}">{_text(words)}</span>'


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{_text(title)}</summary>{body}</details>"


def _times(times: tuple[int, int]) -> str:
    failed, runs = times
    if runs == 0:
        return "–"
    return "passes" if failed == 0 else f"fails, {failed} of {runs} runs"


def _failures(each: Difference) -> str:
    named = "".join(f"<li>{_text(name)}</li>" for name in each.failures[:NAMED])
    more = f"<li>and {len(each.failures) - NAMED} more</li>" if len(each.failures) > NAMED else ""
    told = f"<ul>{named}{more}</ul>" if named else "<p>It ended before its assertions had run.</p>"
    return told + (_folded("log", f"<pre>{_text(each.log)}</pre>") if each.log else "")


def _suite_table(found: Findings) -> str:
    if not found.differences:
        return ""
    return table(("file", "before", "after", "", "what fails"), (
        (_text(each.name), _times(each.before), _times(each.after), _mark(WORDS[each.verdict], each.verdict), _failures(each))
        for each in found.differences))


def _skips(found: Findings) -> str:
    before, after = (found.suites[role][0] for role in ("before", "after"))
    reasons = before.skipped() | after.skipped()
    rows = [(_text(reason), str(before.skipped()[reason]), str(after.skipped()[reason])) for reason, _ in reasons.most_common()]
    more = suite.only_after(before, after)
    warning = f'<p class="open">Skipped after, and not before: {_text("; ".join(more))}.</p>' if more else ""
    return warning + (_folded(f"What was skipped: {sum(after.skipped().values())} after", table(("reason", "before", "after"), rows)) if reasons else "")


def _right(found: Findings) -> str:
    body = ["<h2>1. Does it still work?</h2>"]
    if not found.suites:
        return "<section>" + body[0] + "<p>The suite was not run.</p></section>"
    for role, why in found.broken.items():
        body.append(f'<p class="bad">The suite could not be run {role}.</p><pre>{_text(why)}</pre>')
    if not found.broken:
        before, after = (found.suites[role][0] for role in ("before", "after"))
        worst = "bad" if found.files("broken") else "good"
        broken = len(found.files("broken"))
        told = f"{summary.number(broken, 'test file')} {'fails' if broken == 1 else 'fail'} that passed before." if broken else "No test fails that passed before."
        body.append(f'<p class="lead {worst}">{told}</p>')
        body.append(f"<p>{summary.number(len(after.files), 'file')}; {before.number_of_assertions:,} assertions before, in {before.seconds:.0f} s;"
                    f" {after.number_of_assertions:,} after, in {after.seconds:.0f} s. A file that failed anywhere was run again on both servers.</p>")
        if lacking := [role for role, build in found.suite_builds.items() if not (build.has_assertions and build.has_injection_points)]:
            body.append(f'<p class="open">The server {_text(wording.joined(lacking))} is built without assertions or without injection points: the suite sees less.</p>')
        body += [_suite_table(found), _skips(found)]
    return f"<section>{''.join(body)}</section>"


def _notes(found: Findings, part: str) -> str:
    return "".join(f'<p class="open">{_text(note[0].upper() + note[1:])}.</p>' for note in found.notes[part])


def _changes(found: Findings) -> str:
    body = ["<h2>2. What else changed?</h2>", _notes(found, "changes")]
    for each in found.changes:
        body.append(f'<p class="lead {"open" if each.told else "good"}">By {_text(each.what)}: {_text(each.told or "nothing else")}.</p>')
        if each.told:
            body.append(f"<pre>{_text(each.text)}</pre>")
    return f"<section>{''.join(body)}</section>"


def _uncovered(found: Findings) -> str:
    body = ["<h2>3. Which lines of the patch does nothing execute?</h2>", _notes(found, "lines")]
    if found.share:
        lines, of_lines, taken, of_taken = found.share
        body.append(f'<p class="lead">{lines} of {of_lines} lines are executed, and {taken} of {of_taken} branches taken, of those that the patch adds or changes.</p>'
                    "<p>A process that is killed leaves no counts.</p>")
        rows = [(_text(gap.file), f"{gap.first}–{gap.last}" if gap.last > gap.first else str(gap.first), _text(gap.never or "not executed"),
                 f"<pre>{_text(gap.text)}</pre>") for gap in found.gaps]
        body.append(table(("file", "lines", "never happens", "text"), rows) if found.gaps else '<p class="good">None: all are executed.</p>')
    return f"<section>{''.join(body)}</section>"


def _unnoticed(found: Findings) -> str:
    told = summary.unnoticed(found, 0)[0]
    body = ["<h2>4. Which bugs in the patch's own lines does nothing notice?</h2>", _notes(found, "bugs"), f'<p class="lead">{_text(told[0].upper() + told[1:])}.</p>']
    def listed(found: Iterable[points.Point]) -> str:
        return table(("file", "line", "function", "bug", "text"), (
            (_text(point.file), str(point.line), _text(point.function), _text(point.kind), f"<code>{_text(point.text)}</code>")
            for point in found))

    if found.survivors:
        body.append("<p>Each is a test that the patch lacks, or a line that it does not need, or a difference that cannot be seen from outside.</p>" + listed(each.point for each in found.survivors))
    if found.bugs_unreached:
        body.append(_folded(f"{summary.number(len(found.bugs_unreached), 'bug')} that no test reaches", listed(found.bugs_unreached)))
    return f"<section>{''.join(body)}</section>"


# in pixels
WIDTH, HEIGHT_OF_PANEL, HEIGHT_OF_REST = 1500, 400, 140

# the share of a timeline that is shown beside the whole
ZOOM = 0.06

# relations with a smaller share of a trace's I/Os are left out, such as catalogs
OF_INTEREST = 0.05


def _of_interest(trace: Trace) -> Trace:
    numbers = Counter(io.target for io in trace.ios)
    return replace(trace, ios=tuple(io for io in trace.ios if numbers[io.target] >= OF_INTEREST * len(trace.ios)))


def _timelines(title: str, variant: str, traces: list[Trace]) -> str:
    drawn = panels.of(map(_of_interest, traces))
    longest = max(panel.end for panel in drawn)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "timeline.png")
        size = (WIDTH, HEIGHT_OF_REST + HEIGHT_OF_PANEL * len(drawn))
        draw.write(drawn, [path], title=f"{title}: {variant}", zoom=float(f"{longest * ZOOM:.1g}"), size=size)
        image = of_lab.embedded(path, "I/Os before and after, over time")
    words = "".join(f"<li><b>{_text(panel.trace.label)}</b>, {_text(panel.target)}: {_text(panel.summary())}</li>" for panel in drawn)
    return f"<h3>Timeline of {_text(title)}, {_text(variant)}</h3><ul>{words}</ul>{image}"


def _effect(found: Findings) -> str:
    body = ["<h2>5. Is it faster?</h2>"]
    if found.quick:
        body.append('<p class="quick">Quick: few rounds of each case, which show signs and no figures to publish.</p>')
    if found.reports and found.reports[0].machine.is_busy:
        body.append(f'<p class="open">Something else used {found.reports[0].machine.cpu_in_use:.0%} of the CPU before the first run.</p>')
    if lacking := [role for role, build in found.lab_builds.items() if build.has_assertions]:
        body.append(f'<p class="bad">The server {_text(wording.joined(lacking))} was measured with assertions: its times say little.</p>')
    body += [f'<p class="bad">{_text(case)} could not be measured: {_text(why)}</p>' for case, why in found.failures.items()]
    if found.left_out:
        body.append(f'<p class="open">There was no time for {_text(", ".join(found.left_out))}.</p>')
    if found.reports:
        body.append(f'<p class="lead">{summary.number(len(found.reports), "case")}, {summary.number(found.verdicts.total(), "comparison")}: {_text(summary.counts(found))}.</p>')
        body.append(f"<p>A ratio is after to before. All intervals together hold with {CONFIDENCE:.0%}.</p>")
        body.append(of_lab.cases(found.reports))
        body += [_timelines(f"{report.case.id}: {report.case.title}", *found.traces[report.case.name]) for report in found.changed if report.case.name in found.traces]
    else:
        body.append("<p>Nothing was measured.</p>")
    return f"<section>{''.join(body)}</section>"


def _build_row(what: str, role: str, build: Build) -> tuple[str, str]:
    lines = [build.version, build.commit or "not in git", f"{build.name} ({build.identity})"]
    told = "<br>".join(map(_text, filter(None, lines)))
    return f"{role}, {what}", f"{told}<br><code>{_text(build.configure)}</code><br><code>CFLAGS {_text(build.cflags)}</code>"


def _provenance(found: Findings) -> str:
    rows = [("command", f"<code>{_text(found.command)}</code>"), ("when", _text(found.started)), ("test_aio", _text(found.project))]
    for what, builds in (("suite", found.suite_builds), ("lab", found.lab_builds)):
        rows += [_build_row(what, role, build) for role, build in builds.items()]
    if found.reports:
        report = found.reports[0]
        rows += [("machine", _text(wording.machine(report))), ("storage", _text(wording.storage(report)))]
        rows += [(f"settings of {report.case.id}, {server.label}", _text(", ".join(map(str, server.settings)))) for server in report.servers]
    return f"<section><h2>What it ran on</h2>{table((), rows)}</section>"


SECTIONS = {"suite": _right, "changes": _changes, "lines": _uncovered, "bugs": _unnoticed, "lab": _effect}


def render(found: Findings) -> str:
    quick = " (quick)" if found.quick else ""
    sections = "".join(render_part(found) for part, render_part in SECTIONS.items() if part in found.parts)
    body = f"<h1>A patch on trial{quick}</h1>\n<pre>{_text(summary.text(found))}</pre>\n{sections}{_provenance(found)}"
    return of_lab.document("A patch on trial", body, STYLE)
