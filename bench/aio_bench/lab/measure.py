"""Sets a case up and measures it in interleaved rounds."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from .. import processes
from ..servers import Cluster, ServerError
from . import wording
from .casefile import Case
from .progress import Progress
from .results import Report, Server, Setting, Skipped
from .runs import execute, run_once
from .stats import Ratio
from .variants import Variant, for_server

# Settings that depend on the cluster's directory and on the environment of initdb.
NOT_OF_INTEREST = """
    name IN ('config_file', 'data_directory', 'hba_file', 'hosts_file', 'ident_file')
    OR name LIKE 'lc\\_%' OR name IN ('TimeZone', 'log_timezone', 'DateStyle', 'default_text_search_config')
"""

DATABASE = "bench"


@dataclass
class Contestant:
    """A server, and the cluster in which it is measured."""

    info: Server
    cluster: Cluster


@dataclass(frozen=True)
class Limits:
    """When the rounds of a variant end."""

    runs: int
    most_runs: int
    #: no round of a group begins later
    seconds: float
    enough: Callable[[Ratio], bool]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with a report of the variants that had been measured."""

    def __init__(self, report: Report) -> None:
        self.report = report


def _differing_settings(cluster: Cluster, varied: tuple[str, ...]) -> tuple[Setting, ...]:
    rows = execute(cluster, f"""
        SELECT name, current_setting(name), coalesce(boot_val || coalesce(' ' || unit, ''), '')
          FROM pg_settings
         WHERE source NOT IN ('default', 'client', 'session')
           AND context <> 'internal' AND setting IS DISTINCT FROM boot_val
           AND NOT ({NOT_OF_INTEREST})
         ORDER BY name""")
    return tuple(Setting(*row) for row in rows if row[0] not in varied)


def settings_of(case: Case, direct_io: bool, cluster: Cluster, variant: Variant | None = None) -> dict[str, str]:
    settings = for_server(case.settings, cluster.build.version_num)
    # the gate's worker performs a device's reads one by one, so they must come from memory
    if case.setup.direct_io and direct_io and not all(each.has_device for each in ([variant] if variant else case.variants)):
        settings["debug_io_direct"] = "data"
    return settings | (variant.settings(case.parameters, cluster.build.version_num) if variant else {})


def introduce(clusters: list[Cluster], case: Case, direct_io: bool, progress: Progress) -> list[Contestant]:
    """Sets the case up in each cluster, in a database of its own, and asks the servers for version and settings."""
    contestants: list[Contestant] = []
    for cluster in clusters:
        progress.running(f"{case.id}: {cluster.server}: setting the case up")
        cluster.start(settings_of(case, direct_io, cluster))
        cluster.use("postgres")
        execute(cluster, f"DROP DATABASE IF EXISTS {DATABASE}")
        execute(cluster, f"CREATE DATABASE {DATABASE}")
        cluster.use(DATABASE)
        for statement in case.setup_statements:
            execute(cluster, statement)
        [(version, number)] = execute(cluster, "SELECT version(), current_setting('server_version')")
        label = cluster.label or number.split()[0]
        # no two servers have one label
        if label in (other.info.label for other in contestants):
            label += f" ({len(contestants) + 1})"
        info = Server(cluster.server, label, version, cluster.build.version_num, _differing_settings(cluster, case.varied))
        contestants.append(Contestant(info, cluster))
        cluster.stop()
    return contestants


def groups(case: Case, variants: tuple[Variant, ...]) -> list[list[Variant]]:
    """Returns groups of variants that are measured in the same rounds.  A group needs no restart of the server, or
    the case interleaves its variants."""
    if case.run.interleave:
        return [list(variants)]
    by_settings: dict[str, list[Variant]] = {}
    for variant in variants:
        # settings have other names in other versions, but the groups are the same
        by_settings.setdefault(repr(sorted(variant.settings(case.parameters, 190000).items())), []).append(variant)
    return list(by_settings.values())


def _start(contestant: Contestant, variant: Variant, report: Report) -> str | None:
    """Starts a server for a variant.  Returns why it cannot run it, or None."""
    if variant.value_of("io") == "direct" and (reason := report.storage.no_direct_io):
        return reason
    if variant.value_of("io_method") == "io_uring" and (reason := contestant.cluster.why_no_io_uring()):
        return reason
    try:
        contestant.cluster.start(settings_of(report.case, report.storage.no_direct_io is None, contestant.cluster, variant))
    except ServerError as error:
        # the server's one line, if there is one
        fatal = [line for line in str(error).splitlines() if "FATAL:" in line]
        return fatal[-1].partition("FATAL:")[2].strip() if fatal else str(error)
    if "instructions" in report.case.figures:
        return processes.why_no_instructions(processes.pids(contestant.cluster.data))
    return None


#: the variants of a group, with the servers that can run them
Able = dict[Variant, list[Contestant]]


def _able(contestants: list[Contestant], group: list[Variant], report: Report, progress: Progress) -> Able:
    """Starts the servers that can run these variants.  The report says why the others cannot."""
    able: Able = {variant: [] for variant in group}
    # a server must be asked again if settings differ
    for asked in [[variant] for variant in group] if report.case.run.interleave else [group]:
        for contestant in contestants:
            reason = _start(contestant, asked[0], report)
            for variant in asked:
                if reason is None:
                    able[variant].append(contestant)
                else:
                    report.skipped.append(Skipped(contestant.info.label, variant.label, reason))
                    progress.note(f"{variant.label} skipped on {contestant.info.label}: {reason}")
            if report.case.run.interleave:
                contestant.cluster.stop()
    return able


def _run_round(able: Able, number: int, report: Report, progress: Progress) -> None:
    order = 1 if number % 2 == 0 else -1
    for variant in list(able)[::order]:
        for contestant in able[variant][::order]:
            label = contestant.info.label
            progress.running(f"{report.case.id}: {variant.label}: {label}, run {number}")
            if report.case.run.interleave:
                contestant.cluster.start(settings_of(report.case, report.storage.no_direct_io is None, contestant.cluster, variant))
            run = run_once(contestant.cluster, report.case, variant, number)
            if report.case.run.interleave:
                contestant.cluster.stop()
            # round 0 is not counted: it fills caches and starts I/O workers
            if number > 0:
                report.runs[variant.label][label].append(run)


def _enough(group: list[Variant], report: Report, limits: Limits) -> bool:
    ratios = [ratio for variant in group if (ratio := report.ratio(variant.label))]
    labels = {variant.label for variant in group}
    # the other variants have not been measured yet, or not any more
    ratios += [found.ratio for found in report.contrasts() if {found.of, found.to} <= labels]
    return all(limits.enough(ratio) for ratio in ratios)


def _note(variant: Variant, report: Report, progress: Progress) -> None:
    values = {label: report.values(variant.label, label) for label in report.runs[variant.label]}
    medians = [f"{label} {wording.amount(report.case, median(each))}" for label, each in values.items()]
    runs = max(map(len, values.values()))
    progress.note(f"{report.case.id}: {variant.label}: {', '.join(medians)}: medians of {runs} runs")


def _measure_group(contestants: list[Contestant], group: list[Variant], limits: Limits, report: Report, progress: Progress) -> None:
    able = _able(contestants, group, report, progress)
    for variant in group:
        report.runs[variant.label] = {contestant.info.label: [] for contestant in able[variant]}
    deadline = time.monotonic() + limits.seconds
    for number in range(limits.most_runs + 1):
        if number > limits.runs and (time.monotonic() > deadline or _enough(group, report, limits)):
            break
        _run_round(able, number, report, progress)
    for contestant in contestants:
        contestant.cluster.stop()
    for variant in group:
        if able[variant]:
            _note(variant, report, progress)


def measure(contestants: list[Contestant], variants: tuple[Variant, ...], limits: Limits, report: Report, progress: Progress) -> None:
    """Measures all variants.  All servers run at once and alternate, so that other work on the machine affects them
    alike.  Every other round goes in reverse order."""
    waiting = list(variants)
    try:
        for group in groups(report.case, variants):
            _measure_group(contestants, group, limits, report, progress)
            waiting = [variant for variant in waiting if variant not in group]
    except KeyboardInterrupt:
        for variant in waiting:
            report.runs.pop(variant.label, None)
            report.skipped += [Skipped(contestant.info.label, variant.label, "interrupted") for contestant in contestants]
        raise Interrupted(report) from None
    if not any(report.runs.values()):
        raise ServerError("nothing could be measured, for the reasons above")
