"""Runs a case: set-up, then interleaved runs for every variant."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

import psycopg

from . import io_uring, wording
from .casefile import Case, Variant
from .progress import Progress
from .results import Report, Run, Server, Setting, Skipped
from .servers import Cluster, ServerError

# EXPLAIN's clock: the server's own, and rows need not travel to the client.
# TIMING OFF, as two clock readings a row would be part of what is measured.
EXPLAIN = "EXPLAIN (ANALYZE, TIMING OFF, BUFFERS, FORMAT JSON) "

# Where a cluster's files are, and what initdb found in the environment.
NOT_OF_INTEREST = """
    name IN ('config_file', 'data_directory', 'hba_file', 'hosts_file', 'ident_file')
    OR name LIKE 'lc\\_%' OR name IN ('TimeZone', 'log_timezone', 'DateStyle', 'default_text_search_config')
"""


@dataclass
class Contestant:
    """A server, and the cluster that it is measured in."""

    info: Server
    cluster: Cluster


def _execute(cluster: Cluster, statement: str) -> psycopg.Cursor[Any]:
    try:
        return cluster.session.execute(statement.encode())
    except psycopg.Error as error:
        raise ServerError(f"{cluster.server}: {error}\nwhen running: {statement}") from error


def _differing_settings(cluster: Cluster, varied: tuple[str, ...]) -> tuple[Setting, ...]:
    rows = _execute(cluster, f"""
        SELECT name, current_setting(name), coalesce(boot_val || coalesce(' ' || unit, ''), '')
          FROM pg_settings
         WHERE source NOT IN ('default', 'client', 'session')
           AND context <> 'internal' AND setting IS DISTINCT FROM boot_val
           AND NOT ({NOT_OF_INTEREST})
         ORDER BY name""")
    return tuple(Setting(*row) for row in rows if row[0] not in varied)


def introduce(clusters: list[Cluster], case: Case, settings: dict[str, str], progress: Progress) -> list[Contestant]:
    """Sets the case up in every cluster, and asks the servers who they are."""
    contestants: list[Contestant] = []
    for cluster in clusters:
        progress.phase(f"{cluster.server}: setting the case up")
        cluster.start(settings)
        for statement in case.setup:
            _execute(cluster, statement)
        row = _execute(cluster, """
            SELECT version(), current_setting('server_version'), current_setting('server_version_num')::int""").fetchone()
        assert row
        version, short, number = row
        label = short.split()[0]
        if any(other.info.label == label for other in contestants):
            label = f"{label} ({len(contestants) + 1})"
        info = Server(cluster.server, label, version, number, _differing_settings(cluster, case.varied))
        contestants.append(Contestant(info, cluster))
        cluster.stop()
    return contestants


def _run_once(cluster: Cluster, case: Case, number: int) -> Run:
    _execute(cluster, case.before)
    row = _execute(cluster, EXPLAIN + case.statement).fetchone()
    assert row
    explained = row[0][0]
    run = Run(number, explained["Execution Time"], explained["Plan"]["Shared Read Blocks"])
    if run.shared_read_blocks < case.shared_read_blocks:
        raise ServerError(
            f"{cluster.server}: read {run.shared_read_blocks} blocks where {case.shared_read_blocks} were"
            f" expected: after \"{case.before}\" the others were still in the buffer pool"
        )
    return run


def _start_able(
    contestants: list[Contestant], variant: Variant, settings: dict[str, str], report: Report, progress: Progress
) -> list[Contestant]:
    """Starts those that can do this; of the others the report says why not."""
    able = []
    for contestant in contestants:
        reason = None
        if variant.value_of("io_method") == "io_uring":
            reason = io_uring.why_not(contestant.cluster)
        if reason is None:
            try:
                contestant.cluster.start(settings | dict(variant.settings))
                able.append(contestant)
                continue
            except ServerError as error:
                reason = str(error)
        report.skipped.append(Skipped(contestant.info.label, variant.label, reason))
        progress.note(f"{variant.label} skipped on {contestant.info.label}: {reason}")
    return able


def _run_round(able: list[Contestant], variant: Variant, number: int, report: Report, progress: Progress) -> None:
    for contestant in able if number % 2 == 0 else reversed(able):
        label = contestant.info.label
        progress.running(f"{variant.label}: {label}, run {number}")
        run = _run_once(contestant.cluster, report.case, number)
        # round 0 is not counted: it fills caches, and the pool of I/O workers
        if number > 0:
            report.runs[variant.label][label].append(run)
        progress.advance()


def _cannot_tell(report: Report, variant: Variant) -> bool:
    ratio = report.ratio(variant.label)
    return ratio is not None and ratio.sign is None


def measure(
    contestants: list[Contestant], settings: dict[str, str], runs: int, report: Report, progress: Progress
) -> None:
    """All servers run at once, and their runs alternate: what the machine does
    meanwhile hits them alike.  Every other round goes in reverse order."""
    case = report.case
    progress.expect(len(case.variants) * len(contestants) * (runs + 1))
    for variant in case.variants:
        able = _start_able(contestants, variant, settings, report, progress)
        progress.expect_more((len(able) - len(contestants)) * (runs + 1))
        report.runs[variant.label] = {contestant.info.label: [] for contestant in able}
        for number in range(runs + 1):
            _run_round(able, variant, number, report, progress)
        for number in range(runs + 1, case.most_runs + 1):
            if not _cannot_tell(report, variant):
                break
            progress.expect_more(len(able))
            _run_round(able, variant, number, report, progress)
        for contestant in able:
            contestant.cluster.stop()
        if able:
            times = {contestant.info.label: report.times(variant.label, contestant.info.label) for contestant in able}
            medians = [f"{label} {wording.ms(median(each))}" for label, each in times.items()]
            progress.note(f"{variant.label}: {', '.join(medians)}: medians of {max(map(len, times.values()))} runs")
    if not any(report.runs.values()):
        raise ServerError("nothing could be measured, for the reasons above")
