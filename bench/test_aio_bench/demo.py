"""bench/demo: R3 on two servers, measured and drawn; or one case."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.text import Text

from . import casefile, machine, measure, panels, picture, project, stage, table, timeline, traced
from .arguments import Arguments
from .casefile import Case
from .progress import Progress
from .results import Report
from .servers import ServerError
from .trace import Trace, TraceError

# of the demo, so that all of it takes two minutes: no round of what is varied
# begins later
RUNS, SECONDS = casefile.MIN_RUNS, 20

# beside the whole timeline, in ms: enough for some tens of reads one by one
ZOOM = 30.0

STORY = """\
A read stream is asked for blocks 1 2 3 4, 2 3 4 5, 3 4 5 6 and so on: three of four it is already reading.
A server that waits for each of them reads one block at a time; one that does not has many reads under way.
Measured first on this machine's storage, then on a simulated device where each read takes 1 ms."""

LEGEND = """\
The timeline of the statement on the device: a bar is a read, red is time that the session spends waiting for one."""


@dataclass
class _Shown:
    reports: list[Report] = field(default_factory=list)
    traces: list[Trace] = field(default_factory=list)


def _limits(case: Case, arguments: Arguments) -> measure.Limits:
    runs = arguments.runs or (RUNS if arguments.demo else case.runs)
    return measure.Limits(runs, max(runs, case.most_runs), SECONDS if arguments.demo else case.seconds, measure.tells)


def _run(arguments: Arguments, console: Console, work: Path) -> _Shown:
    cases = [casefile.load(path) for path in arguments.cases]
    storage, described = machine.describe_storage(work), machine.describe_machine()
    direct_io = storage.no_direct_io is None
    shown = _Shown()
    with Progress(console) as progress, stage.clusters(arguments.servers, work, progress) as clusters:
        progress.expect(sum(measure.steps(case, case.variants, len(clusters), _limits(case, arguments).runs) for case in cases))
        for case in cases:
            contestants = measure.introduce(clusters, case, direct_io, progress)
            report = Report(
                case, project.commit(), time.strftime("%Y-%m-%dT%H:%M:%S%z"), described, storage,
                [contestant.info for contestant in contestants],
            )
            measure.measure(contestants, case.variants, _limits(case, arguments), report, progress)
            # kept at once: what fails later does not lose it
            _write(report, arguments.output)
            shown.reports.append(report)
        if arguments.demo:
            variant = traced.first_possible(cases[-1], contestants)
            for contestant in contestants:
                progress.running(f"{cases[-1].id}: {contestant.info.label}: tracing")
                shown.traces.append(traced.run(contestant, cases[-1], variant, direct_io))
    return shown


def _own(output: Path, *paths: Path) -> None:
    if output.is_relative_to(project.ROOT):
        project.give_to_owner(output.parent, output, *paths)


def _files(report: Report, output: Path) -> list[Path]:
    return [output / f"{report.case.name}.{suffix}" for suffix in ("json", "png", "svg")]


def _write(report: Report, output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    paths = _files(report, output)
    paths[0].write_text(report.as_json())
    picture.draw(report, *paths[1:])
    _own(output, *paths)


def _draw(traces: list[Trace], title: str, output: Path) -> list[Path]:
    drawn = panels.of(traces)
    paths = [output / f"timeline.{suffix}" for suffix in ("png", "html")]
    timeline.write(drawn, timeline.windows(drawn, zoom=ZOOM), timeline.title_of(drawn, title), paths)
    _own(output, *paths)
    return paths


def main(arguments: Arguments) -> int:
    def body(work: Path, console: Console) -> int:
        if arguments.demo:
            console.print(STORY, markup=False, soft_wrap=True)
            console.print()
        try:
            shown = _run(arguments, console, work)
            written = _draw(shown.traces, shown.reports[-1].case.title, arguments.output) if shown.traces else []
        except TraceError as error:
            raise ServerError(str(error)) from error
        for number, report in enumerate(shown.reports):
            # the second time it is the same servers and machine
            table.show(report, console, whole=number == 0)
            console.print(", ".join(str(path) for path in _files(report, arguments.output)), soft_wrap=True, markup=False)
        if written:
            console.print()
            console.print(LEGEND, markup=False, soft_wrap=True)
            for panel in panels.of(shown.traces):
                console.print(Text.assemble((panel.trace.label, "bold"), f": {panel.summary()}"), soft_wrap=True)
            for path in written:
                console.print(str(path), soft_wrap=True, markup=False)
        return 0 if all(all(report.promises().values()) for report in shown.reports) else 1

    return stage.perform("bench/demo", arguments.work, body)
