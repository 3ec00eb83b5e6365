"""One run of a statement: sets the caches, runs it, and collects its figures."""

import json
import re
import shlex
import time
from pathlib import Path
from typing import Any

import psycopg

from .. import processes
from ..project import wait_for
from ..servers import Cluster, ServerError
from . import devices, pagecache, plans
from .casefile import Case
from .machine import BLOCK
from .results import Run
from .variants import Variant

# The share of a relation that may stay in a cold page cache.
STAYED = 0.05

# Seconds within which sessions must end.
ENDING = 10

# the relations that the case has made in the database
OWN_RELATIONS = "SELECT oid::regclass::text FROM pg_class WHERE oid >= 16384 AND relkind IN ('r', 'i', 'm', 't')"

IO_COUNTS = """
    SELECT coalesce(sum(reads), 0)::float8, coalesce(sum(read_bytes), 0)::float8 FROM pg_stat_io
     WHERE object IN ('relation', 'temp relation') AND backend_type IN ('client backend', 'background worker', 'standalone backend')
"""


def execute(cluster: Cluster, statement: str) -> psycopg.Cursor[Any]:
    try:
        return cluster.session.execute(statement.encode())
    except psycopg.Error as error:
        raise ServerError(f"{cluster.server}: {error}\nwhen running: {statement}") from error


def _value(cluster: Cluster, statement: str) -> Any:
    [(value,)] = execute(cluster, statement)
    return value


def _set_caches(cluster: Cluster, variant: Variant) -> dict[str, float]:
    state = variant.value_of("cache")
    if not state and not variant.has_device:
        return {}
    shares = []
    for (relation,) in execute(cluster, OWN_RELATIONS).fetchall():
        if state == "warm":
            execute(cluster, f"SELECT count(*) FROM pg_prewarm('{relation}')")
            continue
        if state:
            execute(cluster, f"SELECT pg_buffercache_evict_relation('{relation}')")
        file = Path(cluster.data, _value(cluster, f"SELECT pg_relation_filepath('{relation}')"))
        # a device's reads come from there
        cold = state == "cold kernel" and not variant.has_device
        shares.append(pagecache.forget(file) if cold else pagecache.fill(file))
        if cold and shares[-1] > STAYED:
            raise ServerError(f"{cluster.server}: {shares[-1]:.0%} of {relation} stayed in the page cache, which should be cold")
    return {"page_cache": max(shares)} if shares else {}


def figures_of_plan(explained: dict[str, Any]) -> dict[str, float]:
    plan = explained["Plan"]
    figures = {
        "time": explained["Execution Time"],
        "read_blocks": plan["Shared Read Blocks"] + plan["Local Read Blocks"],
    }
    if "Shared I/O Read Time" in plan:
        figures["read_time"] = plan["Shared I/O Read Time"] + plan["Local I/O Read Time"]
    # reads of functions belong to no node
    if scans := [node for node in plans.nodes(plan) if node.get("I/O Count")]:
        count = sum(node["I/O Count"] for node in scans)
        figures["waits"] = sum(node["I/O Waits"] for node in scans)
        figures["in_progress"] = sum(node["Average I/Os In Progress"] * node["I/O Count"] for node in scans) / count
    return figures


def _explain(cluster: Cluster, statement: str, expected: plans.Expected) -> dict[str, float]:
    # EXPLAIN uses the server's own clock and sends no rows to the client.  TIMING OFF
    # leaves out two clock readings for each row.
    io = ", IO" if cluster.build.version_num >= 190000 else ""
    explained = _value(cluster, f"EXPLAIN (ANALYZE, TIMING OFF, BUFFERS{io}, FORMAT JSON) {statement}")[0]
    if difference := expected.difference(explained["Plan"]):
        raise ServerError(f"{cluster.server}: {difference}\nwhen running: {statement}")
    return figures_of_plan(explained)


def figures_of_pgbench(said: str) -> dict[str, float]:
    figures = {}
    for name, pattern in (("latency", "latency average = ([0-9.]+) ms"), ("tps", "tps = ([0-9.]+)"),
                          ("transactions", "number of transactions actually processed: ([0-9]+)")):
        if found := re.search(f"^{pattern}", said, re.MULTILINE):
            figures[name] = float(found[1])
    if (failed := re.search(r"^number of failed transactions: ([0-9]+)", said, re.MULTILINE)) and failed[1] != "0":
        raise ServerError(f"pgbench: {failed[1]} transactions failed")
    return figures


def _pgbench_options(case: Case, variant: Variant) -> list[str]:
    """Returns pgbench's options.  A parameter may stand for several of them."""
    return shlex.split(" ".join(case.substituted(option, variant) for option in case.run.pgbench))


def _pgbench(cluster: Cluster, options: list[str], statement: str) -> dict[str, float]:
    script = cluster.directory / "pgbench.sql"
    script.write_text(f"{statement.strip()}\n;\n")
    done = cluster.ask(
        "pgbench", "--no-vacuum", f"--file={script}", f"--host={cluster.directory}", "--username=postgres",
        *options, cluster.database,
    )
    if done.returncode != 0:
        raise ServerError(f"{cluster.server}: pgbench: {done.stderr.strip()}")
    return figures_of_pgbench(done.stdout)


def _io_counts(cluster: Cluster) -> tuple[float, float]:
    # a session's counts become visible when it goes idle
    execute(cluster, "SELECT pg_stat_force_next_flush()")
    [(reads, read_bytes)] = execute(cluster, IO_COUNTS)
    return reads, read_bytes


def _measured(cluster: Cluster, case: Case, variant: Variant, statement: str) -> dict[str, float]:
    if case.run.pgbench:
        return _pgbench(cluster, _pgbench_options(case, variant), statement)
    if case.measure == "value":
        return {"value": float(_value(cluster, statement))}
    if case.explain:
        return _explain(cluster, statement, case.expected_plan(variant))
    start = time.perf_counter()
    execute(cluster, statement)
    return {"time": (time.perf_counter() - start) * 1000}


def _wait_for_end_of_sessions(cluster: Cluster, left: int) -> None:
    """Waits until only this many sessions are left.  pgbench ends before the processes that served it."""
    if not wait_for(lambda: processes.sessions(cluster.data) <= left, ENDING, 0.001):
        raise ServerError(f"{cluster.server}: sessions have not ended within {ENDING} s")


def _measured_and_counted(cluster: Cluster, case: Case, variant: Variant, statement: str) -> dict[str, float]:
    """Returns the figures of the statement, with the server's instructions if the case asks for them."""
    if "instructions" not in case.figures:
        return _measured(cluster, case, variant, statement)
    left = processes.sessions(cluster.data)
    with processes.counting_instructions(processes.pids(cluster.data)) as count:
        if case.run.pgbench:
            options = [option for option in _pgbench_options(case, variant) if not option.startswith(("--time=", "--transactions="))]
            _pgbench(cluster, [*options, "--transactions=1"], "\\set nothing 0")
            _wait_for_end_of_sessions(cluster, left)
        of_sessions = count()
        figures = _measured(cluster, case, variant, statement)
        if case.run.pgbench:
            _wait_for_end_of_sessions(cluster, left)
        # the measured sessions have begun and ended as well
        figures["instructions"] = (count() - 2 * of_sessions) / figures.get("transactions", 1) / 1000
    return figures


def run_once(cluster: Cluster, case: Case, variant: Variant, number: int) -> Run:
    figures = _set_caches(cluster, variant)
    *first, last = (case.substituted(each, variant) for each in case.statement)
    if variant.value_of("gate") == "filter":
        execute(cluster, "CREATE TABLE IF NOT EXISTS unread ()")
        execute(cluster, "SELECT io_hold('unread', keep => true)")
    for statement in (case.substituted(each, variant) for each in case.before):
        execute(cluster, statement)
    # it ends with our session, and delays other sessions' reads as well
    if name := variant.value_of("device"):
        execute(cluster, "SELECT io_device_end()")
        if device := devices.named(name):
            execute(cluster, device.call())
    for statement in first:
        execute(cluster, statement)
    counting = not {"ios", "mean_blocks"}.isdisjoint(case.figures)
    reads, read_bytes = _io_counts(cluster) if counting else (0.0, 0.0)
    before = processes.cpu_us(cluster.data) if "cpu" in case.figures else None
    figures |= _measured_and_counted(cluster, case, variant, last)
    if before is not None:
        figures["cpu"] = (processes.cpu_us(cluster.data) - before) / figures.get("transactions", 1)
    if counting:
        reads_after, bytes_after = _io_counts(cluster)
        figures["ios"] = reads_after - reads
        # for a statement without EXPLAIN
        figures.setdefault("read_blocks", (bytes_after - read_bytes) / BLOCK)
        if figures["ios"]:
            figures["mean_blocks"] = (bytes_after - read_bytes) / BLOCK / figures["ios"]
    for statement in case.after:
        execute(cluster, case.substituted(statement, variant))
    _check(cluster, case, figures)
    return Run(number, figures)


def _check(cluster: Cluster, case: Case, figures: dict[str, float]) -> None:
    """Raises ServerError if a figure is impossible."""
    read = figures.get("read_blocks", 0)
    if read < case.run.shared_read_blocks:
        raise ServerError(
            f"{cluster.server}: read {read} blocks where {case.run.shared_read_blocks} were"
            f" expected: after \"{'; '.join(case.before)}\" the others were still in the buffer pool"
        )
    if figures.get(case.measure, 0) <= 0:
        raise ServerError(f"{cluster.server}: {case.measure} is {figures.get(case.measure)}: {json.dumps(figures)}")
