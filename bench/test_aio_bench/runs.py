"""One run: the state of the caches, the statement, and what is to be known of it."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import psycopg

from . import pagecache
from .casefile import Case
from .machine import BLOCK
from .results import Run
from .servers import Cluster, ServerError
from .variants import Variant

# Above this, a page cache that was to be cold was not.
STAYED = 0.05

# of the simulated device: more than any stream here has under way
DEVICE_DEPTH = 64

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
    row = execute(cluster, statement).fetchone()
    assert row
    return row[0]


def relation_file(cluster: Cluster, relation: str) -> Path:
    return Path(cluster.directory, "data", _value(cluster, f"SELECT pg_relation_filepath('{relation}')"))


def _set_caches(cluster: Cluster, case: Case, variant: Variant) -> dict[str, float]:
    state = variant.value_of("cache")
    if not state:
        return {}
    assert case.relation
    if state == "warm":
        execute(cluster, f"SELECT count(*) FROM pg_prewarm('{case.relation}')")
        return {}
    execute(cluster, f"SELECT pg_buffercache_evict_relation('{case.relation}')")
    file = relation_file(cluster, case.relation)
    if state == "cold kernel":
        stayed = pagecache.forget(file)
        if stayed > STAYED:
            raise ServerError(f"{cluster.server}: {stayed:.0%} of {case.relation} stayed in the page cache, which was to be cold")
        return {"page_cache": stayed}
    return {"page_cache": pagecache.fill(file)}


def _set_device(cluster: Cluster, case: Case, variant: Variant) -> None:
    """The device ends with the session, so what is measured elsewhere than in it
    meets the device as well."""
    latency = variant.value_of("device")
    if not latency:
        return
    execute(cluster, f"SELECT io_device_end('{case.relation}')")
    if latency != "none":
        execute(cluster, f"SELECT io_device('{latency}', {DEVICE_DEPTH}, rel => '{case.relation}')")


def _nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for child in plan.get("Plans", []) for node in _nodes(child))]


def figures_of_plan(explained: dict[str, Any]) -> dict[str, float]:
    """What EXPLAIN tells; what it does not tell is left out."""
    plan = explained["Plan"]
    figures = {
        "time": explained["Execution Time"],
        "read_blocks": plan["Shared Read Blocks"] + plan["Local Read Blocks"],
    }
    if "Shared I/O Read Time" in plan:
        figures["read_time"] = plan["Shared I/O Read Time"] + plan["Local I/O Read Time"]
    # a function's own reads are nobody's node
    if scans := [node for node in _nodes(plan) if node.get("I/O Count")]:
        count = sum(node["I/O Count"] for node in scans)
        figures["waits"] = sum(node["I/O Waits"] for node in scans)
        figures["in_progress"] = sum(node["Average I/Os In Progress"] * node["I/O Count"] for node in scans) / count
    return figures


def explain(cluster: Cluster, statement: str) -> dict[str, float]:
    # EXPLAIN's clock: the server's own, and rows need not travel to the client.
    # TIMING OFF, as two clock readings a row would be part of what is measured.
    io = ", IO" if cluster.version_num >= 190000 else ""
    return figures_of_plan(_value(cluster, f"EXPLAIN (ANALYZE, TIMING OFF, BUFFERS{io}, FORMAT JSON) {statement}")[0])


def _time(cluster: Cluster, statement: str) -> dict[str, float]:
    start = time.perf_counter()
    execute(cluster, statement)
    return {"time": (time.perf_counter() - start) * 1000}


def figures_of_pgbench(said: str) -> dict[str, float]:
    figures = {}
    if found := re.search(r"^latency average = ([0-9.]+) ms", said, re.MULTILINE):
        figures["latency"] = float(found[1])
    if failed := re.search(r"^number of failed transactions: ([0-9]+)", said, re.MULTILINE):
        if failed[1] != "0":
            raise ServerError(f"pgbench: {failed[1]} transactions failed")
    return figures


def _pgbench(cluster: Cluster, case: Case, statement: str) -> dict[str, float]:
    script = cluster.directory / "pgbench.sql"
    # one line: pgbench takes each for a command
    script.write_text(" ".join(statement.split()) + ";\n")
    done = cluster.ask(
        "pgbench", "--no-vacuum", f"--file={script}", f"--host={cluster.directory}", "--username=postgres",
        *case.pgbench, cluster.database,
    )
    if done.returncode != 0:
        raise ServerError(f"{cluster.server}: pgbench: {done.stderr.strip()}")
    return figures_of_pgbench(done.stdout)


def _io_counts(cluster: Cluster) -> tuple[float, float]:
    # what a session has counted becomes visible when it goes idle
    execute(cluster, "SELECT pg_stat_force_next_flush()")
    row = execute(cluster, IO_COUNTS).fetchone()
    assert row
    return row[0], row[1]


def _measured(cluster: Cluster, case: Case, statement: str) -> dict[str, float]:
    if case.pgbench:
        return _pgbench(cluster, case, statement)
    if case.measure == "value":
        return {"value": float(_value(cluster, statement))}
    return explain(cluster, statement) if case.explain else _time(cluster, statement)


def run_once(cluster: Cluster, case: Case, variant: Variant, number: int) -> Run:
    figures = _set_caches(cluster, case, variant)
    *first, last = (case.substituted(each, variant) for each in case.statement)
    for statement in (case.substituted(each, variant) for each in case.before):
        execute(cluster, statement)
    _set_device(cluster, case, variant)
    for statement in first:
        execute(cluster, statement)
    counting = not {"ios", "mean_blocks"}.isdisjoint({case.measure, *case.also})
    reads, read_bytes = _io_counts(cluster) if counting else (0.0, 0.0)
    figures |= _measured(cluster, case, last)
    if counting:
        reads_after, bytes_after = _io_counts(cluster)
        figures["ios"] = reads_after - reads
        if figures["ios"]:
            figures["mean_blocks"] = (bytes_after - read_bytes) / BLOCK / figures["ios"]
    for statement in case.after:
        execute(cluster, case.substituted(statement, variant))
    _check(cluster, case, figures)
    return Run(number, figures)


def _check(cluster: Cluster, case: Case, figures: dict[str, float]) -> None:
    """A figure that cannot be is an error, not a result."""
    read = figures.get("read_blocks", 0)
    if read < case.shared_read_blocks:
        raise ServerError(
            f"{cluster.server}: read {read} blocks where {case.shared_read_blocks} were"
            f" expected: after \"{'; '.join(case.before)}\" the others were still in the buffer pool"
        )
    if figures.get(case.measure, 0) <= 0:
        raise ServerError(f"{cluster.server}: {case.measure} is {figures.get(case.measure)}: {json.dumps(figures)}")
