"""The trial as one HTML file that needs no other file.  page.html is its template."""

from pathlib import Path

from markupsafe import Markup

from ..lab import output as of_lab
from ..lab import wording
from ..lab.results import Report
from ..timeline import panels, picture
from ..timeline.trace import Trace
from . import shown, summary
from .findings import Findings

#: more than any part has to tell
ALL = 1_000_000

# the share of a timeline that is shown beside the whole
ZOOM = 0.06


def _timelines(report: Report, variant: str, traces: list[Trace]) -> Markup:
    drawn, title = panels.of(traces), wording.recorded(report, variant)
    zoom = float(f"{max(panel.end for panel in drawn) * ZOOM:.1g}")
    image = of_lab.drawn(lambda path: picture.draw(drawn, [path], title, zoom=zoom), "I/Os before and after, over time", "png")
    words = Markup().join(Markup("<li><b>{}</b>, {}: {}</li>").format(panel.trace.label, panel.target, panel.summary()) for panel in drawn)
    return Markup("<h3>Timeline of {}</h3><ul>{}</ul>{}").format(title, words, image)


def render(found: Findings) -> str:
    template = of_lab.environment(Path(__file__).parent).get_template("page.html")
    return of_lab.document("A patch on trial", template.render(
        found=found, summary=summary, all=ALL, wording=wording, cases=of_lab.cases, timelines=_timelines, kinds=shown.KINDS,
        shown=[line for lines in found.shown.values() for line in lines],
        blind=[role for role, build in found.suite_builds.items() if not (build.has_assertions and "--enable-injection-points" in build.configure)],
        slow=[role for role, build in found.lab_builds.items() if build.has_assertions]))
