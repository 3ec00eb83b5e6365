"""bench/lab: cases on two servers, told as tables, JSON lines, pictures and a page."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from . import casefile, decision, machine, measure, page, picture, project, stage, table
from .casefile import Case
from .lab_arguments import QUICK_SECONDS, LabArguments
from .progress import Progress
from .results import Report
from .servers import Cluster, ServerError
from .stats import Ratio
from .variants import Variant


def _enough(case: Case, arguments: LabArguments) -> Callable[[Ratio], bool]:
    if arguments.bisect:
        threshold = arguments.bisect
        return lambda ratio: decision.decide(ratio, threshold) != decision.CANNOT_TELL
    narrow = arguments.narrow or case.narrow
    return lambda ratio: measure.tells(ratio) and ratio.is_narrow(narrow)


def _limits(case: Case, arguments: LabArguments) -> measure.Limits:
    runs = arguments.runs or (casefile.MIN_RUNS if arguments.quick else case.runs)
    most_runs = arguments.most_runs or (runs if arguments.quick else case.most_runs)
    seconds = arguments.seconds or (QUICK_SECONDS if arguments.quick else case.seconds)
    return measure.Limits(runs, max(runs, most_runs), seconds, _enough(case, arguments))


def _variants(case: Case, only: str) -> tuple[Variant, ...]:
    chosen = tuple(variant for variant in case.variants if not only or variant.matches(only))
    if not chosen:
        raise casefile.CaseError(f"{case.id} has no variant with {only!r}: {'; '.join(each.label for each in case.variants)}")
    return chosen


class _Lab:
    def __init__(self, arguments: LabArguments, console: Console, work: Path) -> None:
        self.arguments = arguments
        self.console = console
        self.machine = machine.describe_machine()
        self.storage = machine.describe_storage(work)
        self.reports: list[Report] = []
        #: cases that could not be measured, and why
        self.failures: list[tuple[str, str]] = []

    def _measure(self, case: Case, clusters: list[Cluster], progress: Progress) -> Report:
        contestants = measure.introduce(clusters, case, self.storage.no_direct_io is None, progress)
        report = Report(
            case, project.commit(), time.strftime("%Y-%m-%dT%H:%M:%S%z"), self.machine, self.storage,
            [contestant.info for contestant in contestants],
        )
        measure.measure(contestants, _variants(case, self.arguments.only), _limits(case, self.arguments), report, progress)
        return report

    def _keep(self, report: Report) -> None:
        output = self.arguments.output
        output.mkdir(parents=True, exist_ok=True)
        paths = [output / f"{report.case.name}.{suffix}" for suffix in ("jsonl", "png", "svg")]
        paths[0].write_text(report.as_json_lines())
        picture.draw(report, *paths[1:])
        self._own(*paths)

    def _own(self, *paths: Path) -> None:
        if self.arguments.output.is_relative_to(project.ROOT):
            project.give_to_owner(self.arguments.output.parent, self.arguments.output, *paths)

    def perform(self, cases: list[Case], work: Path) -> None:
        """A case that fails does not keep the others from being measured."""
        servers = self.arguments.servers
        with Progress(self.console) as progress, stage.clusters(servers, work, progress) as clusters:
            planned = [
                measure.steps(case, _variants(case, self.arguments.only), len(servers), _limits(case, self.arguments).runs)
                for case in cases
            ]
            progress.expect(sum(planned))
            for case in cases:
                try:
                    report = self._measure(case, clusters, progress)
                    # a picture that cannot be drawn would fail in the page again
                    self._keep(report)
                    self.reports.append(report)
                except Exception as error:
                    for cluster in clusters:
                        cluster.stop()
                    told = str(error) if isinstance(error, ServerError) else f"{type(error).__name__}: {error}"
                    self.failures.append((case.id, told))
                    progress.note(f"{case.id} failed: {told}")

    def write_page(self) -> Path:
        path = self.arguments.output / "report.html"
        self.arguments.output.mkdir(parents=True, exist_ok=True)
        path.write_text(page.render(self.reports, self.failures, quick=self.arguments.quick))
        self._own(path)
        return path


def _tell_decision(lab: _Lab, case: Case, console: Console) -> int:
    threshold = lab.arguments.bisect
    assert threshold
    if not lab.reports:
        return decision.CANNOT_TELL
    report = lab.reports[0]
    labels = [variant.label for variant in _variants(case, lab.arguments.only)]
    for label in labels:
        ratio = report.ratio(label)
        told = f"{ratio.ratio:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]" if ratio else "not measured"
        said = decision.NAMES[decision.decide(ratio, threshold)]
        console.print(f"{label}: {told} against {threshold:g}: {said}", markup=False)
    return decision.decide_all(report, labels, threshold)


def main(arguments: LabArguments) -> int:
    def body(work: Path, console: Console) -> int:
        cases = [casefile.load(path) for path in arguments.cases]
        lab = _Lab(arguments, console, work)
        try:
            lab.perform(cases, work)
        finally:
            # before it is shown, and even if interrupted: hours of measuring are not lost
            written = None if arguments.bisect else lab.write_page()
        if arguments.bisect:
            return _tell_decision(lab, cases[0], console)
        for report in lab.reports:
            table.show(report, console)
        console.print(str(written), soft_wrap=True, markup=False)
        return 1 if lab.failures else 0

    # a revision that cannot be measured is neither good nor bad
    return stage.perform("bench/lab", arguments.work, body, decision.CANNOT_TELL if arguments.bisect else 1)
