"""A run of the lab: measures cases on servers, one after another.

This is the API for programs.  bench/lab, bench/demo and bench/trial use it.

    with session.begin(servers, Path("/var/tmp"), Console()) as lab:
        report = lab.measure(casefile.load(path))

A report (results.py) has the runs, ratios and contrasts.  output.py writes it.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from .. import project
from ..servers import Cluster
from ..timeline import trace
from . import casefile, machine, measure
from .arguments import ServerName
from .casefile import Case
from .measure import Contestant, Limits
from .progress import Progress
from .results import Report
from .runs import execute, run_once
from .stats import NARROW, Ratio
from .variants import Variant

# seconds for a variant with --quick: enough to see whether it works, too few to publish
QUICK_SECONDS = 10


@dataclass(frozen=True)
class Effort:
    """How long a case is measured.  None: as long as the case says."""

    quick: bool = False
    runs: int | None = None
    most_runs: int | None = None
    seconds: float | None = None
    #: whether an interval needs no more rounds; None: if it decides and is narrow
    enough: Callable[[Ratio], bool] | None = None

    def limits(self, case: Case) -> Limits:
        runs = self.runs or (casefile.MIN_RUNS if self.quick else case.run.runs)
        most_runs = self.most_runs or (runs if self.quick else case.run.most_runs)
        return Limits(
            runs, max(runs, most_runs), self.seconds or (QUICK_SECONDS if self.quick else case.run.seconds),
            self.enough or (lambda ratio: ratio.sign is not None and ratio.high <= ratio.low * (1 + NARROW)),
        )


def variants(case: Case, only: str = "") -> tuple[Variant, ...]:
    """Returns the variants that have these values, which commas separate."""
    chosen = tuple(variant for variant in case.variants if not only or variant.matches(only))
    if not chosen:
        raise project.Problem(f"{case.id} has no variant with {only!r}: {'; '.join(each.label for each in case.variants)}")
    return chosen


class Session:
    """Clusters with the extension, on a machine that has been described."""

    def __init__(self, clusters: list[Cluster], work: Path, progress: Progress) -> None:
        self._clusters = clusters
        self.progress = progress
        self.machine = machine.describe_machine()
        self.storage = machine.describe_storage(work)
        self._set_up: tuple[Case, list[Contestant]] | None = None
        self._comparisons = 0

    def expect(self, cases: Sequence[Case], effort: Effort, only: str = "") -> None:
        """Tells how long it will take at most, and the reports how many comparisons there will be."""
        servers = len(self._clusters)
        self._comparisons = sum(case.number_of_comparisons(variants(case, only), servers) for case in cases)
        seconds = sum(effort.limits(case).seconds * len(measure.groups(case, variants(case, only))) for case in cases)
        self.progress.note(f"measuring, about {-(-seconds // 60):.0f} min at most, unless a variant's first rounds take longer")

    def measure(self, case: Case, effort: Effort = Effort(), only: str = "") -> Report:
        """Measures a case on all servers and returns its report.  Raises ServerError."""
        try:
            contestants = measure.introduce(self._clusters, case, self.storage.no_direct_io is None, self.progress)
            self._set_up = case, contestants
            report = Report(
                case, project.commit(), time.strftime("%Y-%m-%dT%H:%M:%S%z"), self.machine, self.storage,
                [contestant.info for contestant in contestants], quick=effort.quick, comparisons=self._comparisons,
            )
            measure.measure(contestants, variants(case, only), effort.limits(case), report, self.progress)
            return report
        except Exception:
            for cluster in self._clusters:
                cluster.stop()
            raise

    def record(self, variant: Variant) -> list[tuple[list[dict[str, Any]], int]]:
        """Runs a variant of the case measured last on each server.  Returns the rows of io_trace and how many more
        there were."""
        assert self._set_up
        case, contestants = self._set_up
        found = []
        for contestant in contestants:
            self.progress.running(f"{case.id}: {contestant.info.label}: tracing")
            cluster = contestant.cluster
            settings = measure.settings_of(case, self.storage.no_direct_io is None, cluster, variant)
            libraries = filter(None, [*settings.get("shared_preload_libraries", "").split(","), "test_aio"])
            cluster.start(settings | {"shared_preload_libraries": ",".join(dict.fromkeys(libraries))})
            # the first run is not typical: it fills caches and starts I/O workers
            run_once(cluster, case, variant, 0)
            execute(cluster, "SELECT io_trace_start(pid => pg_backend_pid())")
            run_once(cluster, case, variant, 1)
            execute(cluster, "SELECT io_trace_stop()")
            found.append(trace.rows_of_session(cluster.session))
            cluster.stop()
        return found


@contextmanager
def begin(servers: Sequence[ServerName], work: Path, console: Console) -> Iterator[Session]:
    """Begins a session in a directory for clusters, which has the extension built and staged, and removes the directory
    at its end.  No server runs yet."""
    made: list[Cluster] = []
    with project.directory(work) as directory, Progress(console) as progress:
        try:
            progress.note("building the extension, making clusters")
            for number, server in enumerate(servers):
                made.append(Cluster(server.name, directory / str(number), server.label))
                made[-1].begin_prepare()
            for cluster in made:
                cluster.finish_prepare()
            yield Session(made, directory, progress)
        finally:
            for cluster in made:
                cluster.stop()
