"""bench/demo: one case on two servers, told as table, JSON and picture."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from . import casefile, machine, measure, picture, project, servers, table
from .arguments import Arguments
from .progress import Progress
from .results import Report

def _run(arguments: Arguments, console: Console, work: Path) -> Report:
    case = casefile.load(arguments.case)
    storage = machine.describe_storage(work)
    settings = dict(case.settings)
    if case.direct_io and storage.no_direct_io is None:
        settings["debug_io_direct"] = "data"
    clusters: list[servers.Cluster] = []
    try:
        with Progress(console) as progress:
            for number, name in enumerate(arguments.servers):
                clusters.append(servers.Cluster(name, work / str(number)))
            progress.phase("building the extension, making clusters")
            for cluster in clusters:
                cluster.begin_prepare()
            for cluster in clusters:
                cluster.finish_prepare()
            contestants = measure.introduce(clusters, case, settings, progress)
            report = Report(
                case, project.commit(), time.strftime("%Y-%m-%dT%H:%M:%S%z"), machine.describe_machine(), storage,
                [contestant.info for contestant in contestants],
            )
            measure.measure(contestants, settings, arguments.runs or case.runs, report, progress)
    finally:
        for cluster in clusters:
            cluster.stop()
    return report


def _write(report: Report, output: Path) -> list[Path]:
    output.mkdir(parents=True, exist_ok=True)
    paths = [output / f"{report.case.name}.{suffix}" for suffix in ("json", "png", "svg")]
    report.write_json(paths[0])
    picture.draw(report, *paths[1:])
    if output.is_relative_to(project.ROOT):
        project.give_to_owner(output.parent, output, *paths)
    return paths


def main(arguments: Arguments) -> int:
    # an ordinary user's server has to read what root writes
    os.umask(0o022)
    # ended from outside, it ends as with Ctrl-C: servers stop, directories go
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    console = Console(highlight=False)
    work = None
    try:
        # a short name, as a socket's path has to fit into 107 bytes
        work = Path(tempfile.mkdtemp(prefix="aio.", dir=arguments.work)).resolve()
        work.chmod(0o755)
        report = _run(arguments, console, work)
        written = _write(report, arguments.output)
        table.show(report, console)
        for path in written:
            console.print(str(path), soft_wrap=True, markup=False)
    except (casefile.CaseError, servers.ServerError, OSError) as error:
        print(f"bench/demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench/demo: interrupted", file=sys.stderr)
        return 130
    finally:
        if work:
            shutil.rmtree(work, ignore_errors=True)
    return 0
