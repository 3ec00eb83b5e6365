"""bench/demo: one case on two servers, told as table, JSON and picture."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console

from . import casefile, machine, measure, picture, project, stage, table
from .arguments import Arguments
from .progress import Progress
from .results import Report


def _run(arguments: Arguments, console: Console, work: Path) -> Report:
    case = casefile.load(arguments.case)
    storage = machine.describe_storage(work)
    runs = arguments.runs or case.runs
    limits = measure.Limits(runs, max(runs, case.most_runs), case.seconds, measure.tells)
    with Progress(console) as progress, stage.clusters(arguments.servers, work, progress) as clusters:
        progress.phase("setting the case up")
        contestants = measure.introduce(clusters, case, storage.no_direct_io is None, progress)
        report = Report(
            case, project.commit(), time.strftime("%Y-%m-%dT%H:%M:%S%z"), machine.describe_machine(), storage,
            [contestant.info for contestant in contestants],
        )
        progress.expect(measure.steps(case, case.variants, len(contestants), limits.runs))
        measure.measure(contestants, case.variants, limits, report, progress)
    return report


def _write(report: Report, output: Path) -> list[Path]:
    output.mkdir(parents=True, exist_ok=True)
    paths = [output / f"{report.case.name}.{suffix}" for suffix in ("json", "png", "svg")]
    paths[0].write_text(report.as_json())
    picture.draw(report, *paths[1:])
    if output.is_relative_to(project.ROOT):
        project.give_to_owner(output.parent, output, *paths)
    return paths


def main(arguments: Arguments) -> int:
    def body(work: Path, console: Console) -> int:
        report = _run(arguments, console, work)
        written = _write(report, arguments.output)
        table.show(report, console)
        for path in written:
            console.print(str(path), soft_wrap=True, markup=False)
        return 0

    return stage.perform("bench/demo", arguments.work, body)
