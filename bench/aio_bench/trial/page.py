"""The trial as one HTML file that needs no other file.  page.html is its template."""

from pathlib import Path

from markupsafe import Markup

from ..lab import output as of_lab
from ..lab import wording
from ..lab.results import Report
from ..lab.stats import CONFIDENCE
from ..timeline import panels, picture
from ..timeline.trace import Trace
from . import suite, summary
from .findings import Findings

STYLE = of_lab.STYLE + """
h1 { margin-bottom: .2rem } h2 { margin-top: 0 }
.lead { font-size: 1.15rem } .good { color: #00684a } .open { color: #7a5200 }
details { margin: .3rem 0 } summary { cursor: pointer }
td li { overflow-wrap: anywhere }
details pre { font-size: .8rem; max-height: 30rem; overflow: auto }
.quick { background: #fff3d6; padding: .4rem .8rem }
"""

#: the class and the words of each of the suite's verdicts
VERDICTS = {
    "broken": ("bad", "fails after, passed before"), "doubtful": ("open", "fails sometimes after, never before"), "unsteady": ("open", "fails sometimes"),
    "both": ("open", "fails on both"), "mended": ("good", "failed before, passes after"),
}

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
    body = template.render(
        found=found, suite=suite, summary=summary, wording=wording, cases=of_lab.cases, timelines=_timelines, verdicts=VERDICTS, confidence=f"{CONFIDENCE:.0%}",
        blind=[role for role, build in found.suite_builds.items() if not (build.has_assertions and build.has_injection_points)],
        slow=[role for role, build in found.lab_builds.items() if build.has_assertions])
    return of_lab.document("A patch on trial", body, STYLE)
