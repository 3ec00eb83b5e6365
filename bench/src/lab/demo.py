"""bench/demo: measures R3 on two servers and draws it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import arguments, provide

if TYPE_CHECKING:
    from argparse import Namespace
    from pathlib import Path

    from rich.console import Console

    from timeline.trace import Trace

    from .output import Output
    from .results import Report

# no round of a variant begins later, so that the whole takes two minutes
SECONDS = 20

# ms shown beside the whole timeline: time for some tens of reads one by one
ZOOM = 30.0

STORY = """\
A read stream is asked for blocks 1 2 3 4, 2 3 4 5, 3 4 5 6 and so on.  It is already reading three of four.
A server that waits for each of them reads one block at a time.  A server that does not wait has many reads under way.
The demo measures this on the machine's storage, then on a simulated device where each read takes 1 ms."""

LEGEND = """\
The timeline of the statement on the device: a bar is a read, red is time in which the session waits for one."""


def _draw(traces: list[Trace], title: str, output: Output) -> list[Path]:
    from timeline import draw, panels

    paths = [output.directory / f"timeline.{suffix}" for suffix in ("png", "html")]
    draw.write(panels.of(traces), paths, title=title, zoom=ZOOM)
    output.own(*paths)
    return paths


def run(given: Namespace) -> int:
    from rich.text import Text

    from timeline import panels

    from . import casefile, measure, session, stage, table
    from .output import Output

    def body(console: Console) -> int:
        console.print(f"{STORY}\n", markup=False, soft_wrap=True)
        cases = [casefile.load(path) for path in given.cases]
        effort = session.Effort(runs=given.runs or casefile.MIN_RUNS, seconds=SECONDS, enough=measure.tells)
        output = Output(given.output)
        reports: list[Report] = []
        written: list[list[Path]] = []
        with session.begin(given.servers, given.work, console) as lab:
            lab.expect(cases, effort)
            for case in cases:
                reports.append(lab.measure(case, effort))
                # kept at once, so that a later failure does not lose it
                written.append(output.keep(reports[-1]))
            traces = lab.trace()
        drawn = _draw(traces, cases[-1].title, output)
        for number, report in enumerate(reports):
            # servers and machine are the same the second time
            table.show(report, console, whole=number == 0)
            console.print(", ".join(map(str, written[number])), soft_wrap=True, markup=False)
        console.print(f"\n{LEGEND}", markup=False, soft_wrap=True)
        for panel in panels.of(traces):
            console.print(Text.assemble((panel.trace.label, "bold"), f": {panel.summary()}"), soft_wrap=True)
        for path in drawn:
            console.print(str(path), soft_wrap=True, markup=False)
        return 0 if all(all(report.promises().values()) for report in reports) else 1

    return stage.perform("bench/demo", body)


def main(argv: list[str] | None = None) -> int:
    given = arguments.parse_demo(argv)
    return run(given) if provide.provide("bench/demo", given.servers) else 1
