"""One run of a case with a trace of its I/Os."""

from __future__ import annotations

from typing import Any

from timeline import trace

from .casefile import Case
from .measure import Contestant, settings_of
from .runs import execute, run_once
from .variants import Variant


def first_possible(case: Case, contestants: list[Contestant]) -> Variant:
    """Returns the first variant that all servers can run."""
    for variant in case.variants:
        if variant.value_of("io_method") != "io_uring" or not any(each.cluster.why_no_io_uring() for each in contestants):
            return variant
    return case.variants[0]


def _settings(settings: dict[str, str]) -> dict[str, str]:
    """Returns the settings with test_aio preloaded."""
    libraries = settings.get("shared_preload_libraries", "")
    preloaded = libraries if "test_aio" in libraries else ",".join(filter(None, [libraries, "test_aio"]))
    return settings | {"shared_preload_libraries": preloaded}


def record(contestant: Contestant, case: Case, variant: Variant, direct_io: bool) -> tuple[list[dict[str, Any]], int]:
    """Runs a variant in the database that was set up to measure the case.  Returns the rows of io_trace and how many
    more there were."""
    cluster = contestant.cluster
    cluster.start(_settings(settings_of(case, direct_io, cluster, variant)))
    # the first run is not typical: it fills caches and starts I/O workers
    run_once(cluster, case, variant, 0)
    execute(cluster, "SELECT io_trace_start(pid => pg_backend_pid())")
    run_once(cluster, case, variant, 1)
    execute(cluster, "SELECT io_trace_stop()")
    rows, lost = trace.rows_of_session(cluster.session)
    cluster.stop()
    return rows, lost

