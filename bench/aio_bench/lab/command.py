"""bench/lab: measures cases on servers, and writes tables, JSON lines, pictures and a page.  Other modules than
Python's own are imported after provide has made sure of them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .. import project
from . import arguments

if TYPE_CHECKING:
    from argparse import Namespace

    from rich.console import Console

    from .results import Report


def _tell_decision(report: Report, only: str, threshold: float, console: Console) -> int:
    from . import results, session, wording

    labels = [variant.label for variant in session.variants(report.case, only)]
    for label in labels:
        ratio = report.ratio(label)
        told = f"{wording.times(ratio)} {wording.interval(ratio)}" if ratio else "not measured"
        said = results.VERDICTS[results.decide(ratio, threshold)]
        console.print(f"{label}: {told} against {threshold:g}: {said}", markup=False)
    return report.decide(labels, threshold)


def _measured(given: Namespace, console: Console, reports: list[Report], failures: list[tuple[str, str]]) -> None:
    """Adds a report for each case.  If a case fails, the others are still measured."""
    from ..servers import told
    from . import casefile, devices, measure, query, results, session
    from .output import Output

    cases = [query.case_of(given.query, given.setup, given.device or devices.NONE)] if given.query else [casefile.load(path) for path in given.cases]
    cases = [casefile.changed(case, given.device or "", given.measure) for case in cases]
    enough = (lambda ratio: results.decide(ratio, given.bisect) != results.CANNOT_TELL) if given.bisect else None
    effort = session.Effort(given.quick, given.runs, given.most_runs, given.seconds, enough)
    for case in cases:
        # unknown values are an error before anything begins
        session.variants(case, given.only)
    with session.begin(given.servers, given.work, console) as lab:
        lab.expect(cases, effort, given.only)
        for case in cases:
            try:
                report = lab.measure(case, effort, given.only)
                # a report whose picture fails stays out of the page, which would fail as well
                Output(given.output).keep(report)
                reports.append(report)
            except KeyboardInterrupt as interrupt:
                left = cases[cases.index(case):]
                if isinstance(interrupt, measure.Interrupted) and any(interrupt.report.runs.values()):
                    Output(given.output).keep(interrupt.report)
                    reports.append(interrupt.report)
                    del left[0]
                failures += [(each.id, "interrupted") for each in left if reports]
                raise
            except Exception as error:
                failures.append((case.id, told(error)))
                lab.progress.note(f"{case.id} failed: {told(error)}")


def run(given: Namespace) -> int:
    """Measures or reads reports, and shows them.  Returns the exit status."""
    from rich.console import Console

    from . import results, table
    from .output import Output

    console = Console(highlight=False)
    reports: list[Report] = []
    failures: list[tuple[str, str]] = []
    try:
        if given.saved:
            reports += map(results.load, given.saved)
            for report in reports:
                Output(given.output).keep(report)
        else:
            _measured(given, console, reports, failures)
    finally:
        # written before it is shown, and even if interrupted, so that hours of work are not lost
        written = None
        if not given.bisect and (reports or failures):
            written = Output(given.output).write_page(reports, failures)
        if written and sys.exc_info()[0]:
            console.print(f"kept: {written}", soft_wrap=True, markup=False)
        elif isinstance(sys.exc_info()[1], KeyboardInterrupt):
            console.print("nothing was kept: no variant's runs were finished")
    if given.bisect:
        return _tell_decision(reports[0], given.only, given.bisect, console) if reports else results.CANNOT_TELL
    for report in reports:
        table.show(report, console)
    console.print(str(written), soft_wrap=True, markup=False)
    return 1 if failures else 0


def main(argv: list[str] | None = None) -> int:
    # git bisect run takes 1 for "bad", 125 for "cannot tell", and gives up at 128 and more
    bisecting = any(argument.startswith("--bisect") for argument in (sys.argv[1:] if argv is None else argv))
    try:
        given = arguments.parse(argv)
    except SystemExit as status:
        # wrong usage is no verdict on a revision
        return 129 if bisecting and status.code else int(status.code or 0)
    if given is None:
        return 0
    # a revision that cannot be measured is neither good nor bad
    return project.perform("bench/lab", lambda: run(given), 125 if bisecting else 1,
                           [] if given.saved else [server.name for server in given.servers], project.MODULES)
