"""bench/ceiling: how much of what the device gives a server gets, and where the
rest goes."""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from . import ceiling_picture, fio, machine, measure, processes, project, runs, stage, survey
from .arguments import STOCK
from .progress import Progress
from .servers import Cluster, ServerError

METHODS = ["worker", "io_uring"]

# io_combine_limit's default, and so the longest read
COMBINE = 16

SETTINGS = {
    "shared_buffers": "256MB", "autovacuum": "off", "checkpoint_timeout": "1h", "max_wal_size": "4GB",
    "debug_io_direct": "data", "track_io_timing": "on", "max_parallel_workers_per_gather": "0",
    "io_combine_limit": str(COMBINE),
}


@dataclass(frozen=True)
class Scan:
    """One way to read the relation; the order is fio's as well."""

    name: str
    order: str
    statement: str


SCANS = (
    Scan("seq scan", "sequential", "SELECT count(*) FROM large"),
    Scan("stream, in order", "sequential", "SELECT count(*) FROM read_stream_for_blocks('large', (SELECT blocks FROM orders WHERE name = 'sequential'))"),
    Scan("stream, random", "random", "SELECT count(*) FROM read_stream_for_blocks('large', (SELECT blocks FROM orders WHERE name = 'random'))"),
)


@dataclass
class Row:
    """Medians of time; means of what only adds up over several runs.  All in ms."""

    server: str
    method: str
    scan: str
    device_ms: float
    server_ms: float
    backend_user_ms: float
    backend_system_ms: float
    workers_ms: float
    read_wait_ms: float
    waits: float | None
    in_progress: float | None
    mb_per_s: float

    @property
    def fraction(self) -> float:
        return self.device_ms / self.server_ms


def orders(blocks: int) -> dict[str, list[int]]:
    shuffled = list(range(blocks))
    random.Random(1).shuffle(shuffled)
    return {"sequential": list(range(blocks)), "random": shuffled}


def _set_up(cluster: Cluster, blocks: int, servers: dict[str, str]) -> str:
    """Returns what the server is called from now on."""
    cluster.start(SETTINGS)
    for statement in (
        "CREATE EXTENSION pg_buffercache", "CREATE EXTENSION test_aio",
        "CREATE TABLE large (id int, filler text STORAGE PLAIN)",
        f"INSERT INTO large SELECT i, repeat('x', 5000) FROM generate_series(1, {blocks}) i",
        "VACUUM (FREEZE, ANALYZE) large", "CREATE TABLE orders (name text, blocks int[])",
    ):
        runs.execute(cluster, statement)
    for name, order in orders(blocks).items():
        runs.execute(cluster, f"INSERT INTO orders VALUES ('{name}', '{{{','.join(map(str, order))}}}')")
    runs.execute(cluster, "CHECKPOINT")
    version, label = measure.identify(cluster, list(servers))
    servers[label] = version
    cluster.stop()
    return label


def _fio_logs(cluster: Cluster, blocks: int, work: Path) -> dict[str, Path]:
    file = runs.relation_file(cluster, "large")
    logs = {}
    for name, order in orders(blocks).items():
        logs[name] = work / f"{name}.iolog"
        logs[name].write_text(fio.iolog(file, fio.combined(order, COMBINE)))
    return logs


def _measure(cluster: Cluster, label: str, method: str, arguments: argparse.Namespace, work: Path, progress: Progress) -> list[Row]:
    cluster.start(SETTINGS | {"io_method": method, "effective_io_concurrency": str(arguments.depth)})
    logs = _fio_logs(cluster, arguments.blocks, work)
    pid = runs.execute(cluster, "SELECT pg_backend_pid()").fetchone()
    assert pid
    data = cluster.directory / "data"
    [backend] = processes.find_all(data, {pid[0]})
    rows = []
    for scan in SCANS:
        device: list[float] = []
        plans: list[dict[str, float]] = []
        spent = processes.Cpu(0, 0)
        by_workers = 0.0
        for number in range(arguments.runs + 1):
            progress.running(f"{label}, {method}, {scan.name}, run {number}")
            measured = fio.run(logs[scan.order], arguments.engine, arguments.depth, COMBINE)
            runs.execute(cluster, "SELECT pg_buffercache_evict_relation('large')")
            pool = processes.workers(data)
            before, workers_before = processes.cpu_of([backend]), processes.cpu_of(pool)
            plan = runs.explain(cluster, scan.statement)
            progress.advance()
            # the first run starts workers and fills the host's caches
            if number:
                device.append(measured.ms)
                plans.append(plan)
                spent += processes.cpu_of([backend]) - before
                by_workers += max(0.0, (processes.cpu_of(pool) - workers_before).total)

        def known(name: str) -> float | None:
            values = [plan[name] for plan in plans if name in plan]
            return median(values) if values else None

        took = median(plan["time"] for plan in plans)
        rows.append(Row(
            label, method, scan.name, median(device), took, spent.user * 1000 / arguments.runs, spent.system * 1000 / arguments.runs,
            by_workers * 1000 / arguments.runs, mean(plan["read_time"] for plan in plans), known("waits"), known("in_progress"),
            arguments.blocks * machine.BLOCK / 1e6 / (took / 1e3),
        ))
    cluster.stop()
    return rows


def _table(rows: list[Row], columns: dict[str, Callable[[Row], str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in ("server", "method", "scan"):
        table.add_column(name, no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(row.server, row.method, row.scan, *(value(row) for value in columns.values()))
    return table


def _if_known(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.3g}"


REACHED: dict[str, Callable[[Row], str]] = {
    "fio ms": lambda row: f"{row.device_ms:.0f}",
    "ms": lambda row: f"{row.server_ms:.0f}",
    "of fio": lambda row: f"{row.fraction:.2f}",
    "MB/s": lambda row: f"{row.mb_per_s:.0f}",
    "waits": lambda row: _if_known(row.waits),
}

REST: dict[str, Callable[[Row], str]] = {
    "user": lambda row: f"{row.backend_user_ms:.0f}",
    "system": lambda row: f"{row.backend_system_ms:.0f}",
    "workers": lambda row: f"{row.workers_ms:.0f}",
    "waiting": lambda row: f"{row.read_wait_ms:.0f}",
    "depth": lambda row: _if_known(row.in_progress),
}


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/ceiling",
        description="fio and servers read the same file in the same order at the same depth, directly.",
    )
    survey.add_arguments(parser, "ceiling", METHODS)
    parser.add_argument("--engine", default="io_uring", choices=("io_uring", "libaio"), help="of fio (default: %(default)s)")
    parser.add_argument("--depth", type=int, default=16, help="iodepth, effective_io_concurrency (default: %(default)s)")
    parser.add_argument("--blocks", type=int, default=20000, help="of the relation (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=7, help="(default: %(default)s)")
    return parser.parse_args(argv)


def _write(
    rows: list[Row], arguments: argparse.Namespace, storage: machine.Storage, what: machine.Machine, versions: dict[str, str]
) -> list[Path]:
    told = (f"{what.kernel}; {what.cpus} × {what.cpu_model}; {storage.file_system} on {storage.device};"
            f" test_aio {project.commit()}; {time.strftime('%Y-%m-%d')}")
    return survey.keep(
        arguments.output, "ceiling",
        {"machine": asdict(what), "storage": asdict(storage), "servers": versions, "settings": SETTINGS, "engine": arguments.engine,
         "depth": arguments.depth, "blocks": arguments.blocks, "runs": arguments.runs},
        ({"line": "result", **asdict(row), "fraction": row.fraction} for row in rows),
        lambda *paths: ceiling_picture.draw(rows, f"{arguments.engine} at depth {arguments.depth}, direct I/O", told, *paths))


def main(argv: list[str] | None = None) -> int:
    arguments = _parse(argv)
    servers = arguments.server or STOCK
    methods = arguments.method or METHODS

    def body(work: Path, console: Console) -> int:
        storage = machine.describe_storage(work)
        if storage.no_direct_io:
            raise ServerError(f"no direct I/O in {work}: {storage.no_direct_io}")
        what = machine.describe_machine()
        rows: list[Row] = []
        versions: dict[str, str] = {}
        with Progress(console) as progress, stage.clusters(servers, work, progress) as clusters:
            progress.expect(len(clusters) * len(methods) * len(SCANS) * (arguments.runs + 1))
            for cluster in clusters:
                label = _set_up(cluster, arguments.blocks, versions)
                for method in survey.usable(cluster, methods, progress):
                    rows += _measure(cluster, label, method, arguments, work, progress)
        # kept before it is shown: a closed pipe loses nothing
        written = _write(rows, arguments, storage, what, versions)
        console.print(Text("How much of what the device gives: medians", style="bold"))
        console.print(_table(rows, REACHED))
        console.print(Text("Where the rest goes: means, in ms", style="bold"))
        console.print(_table(rows, REST))
        console.print("user, system: CPU of the backend; workers: CPU of all I/O workers; both by the kernel's ticks.  waiting: for reads,"
                      " by track_io_timing; the system time of waiting is in both.  waits, depth: I/O waits and I/Os in progress, by 19's EXPLAIN (IO).")
        survey.tell(console, written)
        return 0

    return stage.perform("bench/ceiling", arguments.work, body)
