"""bench/growth: how time, memory and CPU grow with blocks, sessions and depth."""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console

from . import curves, machine, measure, processes, runs, stage, survey
from .arguments import STOCK
from .progress import Progress
from .servers import Cluster

METHODS = ["worker", "io_uring", "sync"]

SETTINGS = {
    "autovacuum": "off", "checkpoint_timeout": "1h", "max_wal_size": "4GB", "max_parallel_workers_per_gather": "0",
    # far less than the relation: nearly every block is read
    "shared_buffers": "64MB",
}

# of the relation; a stream longer than this comes round again
BLOCKS = 20000

# a session's, and those of a depth
SHARE = 4000


@dataclass(frozen=True)
class Point:
    server: str
    method: str
    axis: str
    x: int
    us_per_block: float
    cpu_us_per_block: float
    memory_mb: float


@dataclass(frozen=True)
class Axis:
    name: str
    values: tuple[int, ...]
    quick: tuple[int, ...]
    #: for a value: settings, the statement of each session, sessions, blocks of a session
    settings: Callable[[int], dict[str, str]]
    statement: Callable[[int, int], str]
    sessions: Callable[[int], int]
    blocks: Callable[[int], int]


def _stream(array: str) -> str:
    return f"SELECT count(*) FROM read_stream_for_blocks('large', ARRAY({array}))"


def _random(session: int) -> str:
    """Each session has an order of its own, or the first would read for all."""
    return _stream(f"SELECT i FROM generate_series(0, {BLOCKS - 1}) i ORDER BY hashint4extended(i, {session}) LIMIT {SHARE}")


AXES = (
    Axis("blocks", tuple(10**n for n in range(3, 8)), (10**3, 10**4, 10**5), lambda _: {},
         lambda x, _: _stream(f"SELECT i % {BLOCKS} FROM generate_series(0, {x - 1}) i"), lambda _: 1, lambda x: x),
    Axis("sessions", (1, 2, 4, 8, 16, 32, 64), (1, 8, 64), lambda _: {},
         lambda _, session: _random(session), lambda x: x, lambda _: SHARE),
    Axis("depth", (1, 2, 4, 8, 16, 32, 64), (1, 8, 64), lambda x: {"effective_io_concurrency": str(x)},
         lambda _, session: _random(session), lambda _: 1, lambda _: SHARE),
)


def _set_up(cluster: Cluster, servers: dict[str, str]) -> str:
    """Returns what the server is called from now on."""
    cluster.start(SETTINGS)
    for statement in (
        "CREATE EXTENSION pg_buffercache", "CREATE EXTENSION test_aio",
        "CREATE TABLE large (id int, filler text STORAGE PLAIN)",
        f"INSERT INTO large SELECT i, repeat('x', 5000) FROM generate_series(1, {BLOCKS}) i",
        "VACUUM (FREEZE, ANALYZE) large", "CHECKPOINT",
    ):
        runs.execute(cluster, statement)
    version, label = measure.identify(cluster, list(servers))
    servers[label] = version
    cluster.stop()
    return label


def _pid(session: psycopg.Connection[Any]) -> int:
    row = session.execute("SELECT pg_backend_pid()").fetchone()
    assert row
    return int(row[0])


def measure_point(cluster: Cluster, axis: Axis, x: int, label: str, method: str) -> Point:
    """All sessions begin at once; each is new, so that its memory is this statement's."""
    count = axis.sessions(x)
    data = cluster.directory / "data"
    failures: list[BaseException] = []
    begin = threading.Barrier(count + 1)

    def run(session: psycopg.Connection[Any], number: int) -> None:
        try:
            begin.wait()
            session.execute(axis.statement(x, number).encode())
        except (psycopg.Error, threading.BrokenBarrierError) as error:
            failures.append(error)

    runs.execute(cluster, "SELECT pg_buffercache_evict_relation('large')")
    with ExitStack() as stack:
        sessions = [stack.enter_context(cluster.connect()) for _ in range(count)]
        for session in sessions:
            for name, value in axis.settings(x).items():
                session.execute(f"SET {name} = {value}".encode())
        pids = {_pid(session) for session in sessions}
        backends = processes.find_all(data, pids)
        pool = processes.workers(data)
        threads = [threading.Thread(target=run, args=(session, number)) for number, session in enumerate(sessions)]
        for thread in threads:
            thread.start()
        before = processes.cpu_us(backends + pool)
        with processes.MemoryPeak(backends) as peak:
            begin.wait()
            start = time.perf_counter()
            for thread in threads:
                thread.join()
            took = time.perf_counter() - start
        # workers that have been started since are not counted
        spent = processes.cpu_us(backends + pool) - before
    if failures:
        raise failures[0]
    blocks = axis.blocks(x) * count
    return Point(label, method, axis.name, x, took * 1e6 / blocks, spent / blocks, peak.kb / 1024)


def _measure_axis(
    cluster: Cluster, axis: Axis, label: str, method: str, arguments: argparse.Namespace, points: list[Point], progress: Progress
) -> None:
    values = axis.quick if arguments.quick else axis.values
    last = (0, 0.0)
    for number, x in enumerate(values):
        # a point that would take longer than the limit, as the last one tells, is left out
        if number and last[1] * x / last[0] > arguments.seconds:
            progress.note(f"{label}, {method}: {axis.name} end at {last[0]}: {x} would take more than {arguments.seconds} s")
            progress.expect_more(number - len(values))
            return
        progress.running(f"{label}, {method}: {x} {axis.name}")
        start = time.perf_counter()
        points.append(measure_point(cluster, axis, x, label, method))
        last = (x, time.perf_counter() - start)
        progress.advance()


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/growth", description="How time, memory and CPU of a read stream grow with blocks, sessions and depth; through the page cache.",
    )
    survey.add_arguments(parser, "growth", METHODS)
    parser.add_argument("--quick", action="store_true", help="three values of each, none large")
    parser.add_argument("--seconds", type=float, default=90, help="no point that takes longer (default: %(default)s)")
    return parser.parse_args(argv)


def _write(
    points: list[Point], arguments: argparse.Namespace, storage: machine.Storage, what: machine.Machine, versions: dict[str, str]
) -> list[Path]:
    return survey.keep(
        arguments.output, "growth",
        {"machine": asdict(what), "storage": asdict(storage), "servers": versions, "settings": SETTINGS},
        ({"line": "point", **asdict(point)} for point in points),
        lambda *paths: curves.draw(points, *paths))


def main(argv: list[str] | None = None) -> int:
    arguments = _parse(argv)
    servers = arguments.server or STOCK
    methods = arguments.method or METHODS

    def body(work: Path, console: Console) -> int:
        storage, what = machine.describe_storage(work), machine.describe_machine()
        points: list[Point] = []
        versions: dict[str, str] = {}
        with Progress(console) as progress, stage.clusters(servers, work, progress) as clusters:
            progress.expect(len(clusters) * len(methods) * sum(len(axis.quick if arguments.quick else axis.values) for axis in AXES))
            for cluster in clusters:
                label = _set_up(cluster, versions)
                for method in survey.usable(cluster, methods, progress):
                    cluster.start(SETTINGS | {"io_method": method})
                    for axis in AXES:
                        _measure_axis(cluster, axis, label, method, arguments, points, progress)
                    cluster.stop()
        # kept before it is shown: a closed pipe loses nothing
        written = _write(points, arguments, storage, what, versions)
        for point in points:
            console.print(f"{point.server:10} {point.method:8} {point.axis:8} {point.x:>8}  {point.us_per_block:8.2f} µs"
                          f"  CPU {point.cpu_us_per_block:8.2f} µs  {point.memory_mb:7.1f} MB", markup=False)
        survey.tell(console, written)
        return 0

    return stage.perform("bench/growth", arguments.work, body)
