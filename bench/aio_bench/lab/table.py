"""The report as tables on a terminal."""

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from . import wording
from .results import Report

# These settings name a directory that is gone afterwards.  The JSON file has them whole.
PATHS = ("dynamic_library_path", "extension_control_path", "unix_socket_directories")


def _own_and_common_settings(report: Report) -> tuple[str, dict[str, str]]:
    """Returns the settings that all servers share, and each server's others."""
    per_server = {server.label: [f"{setting.name} = …" if setting.name in PATHS else str(setting) for setting in server.settings] for server in report.servers}
    first, *others = per_server.values()
    common = [setting for setting in first if all(setting in settings for settings in others)]
    return ", ".join(common), {label: ", ".join(each for each in settings if each not in common) for label, settings in per_server.items()}


def _table(report: Report, *figures: str) -> Table:
    """Returns a table of variants and servers without rows."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column(report.case.told_apart_by, overflow="fold", min_width=10)
    table.add_column("server", no_wrap=True)
    for name in figures:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _other_figures(report: Report) -> Table:
    """Returns the medians of the figures beside the case's own."""
    table = _table(report, *(wording.column(name).replace(" ", "\n") for name in report.case.run.also))
    for variant, by_server in report.runs.items():
        for number, label in enumerate(by_server):
            summaries = [report.summary(variant, label, name) for name in report.case.run.also]
            table.add_row("" if number else variant, label, *(wording.number(each.median) if each else "–" for each in summaries))
    return table


def _provenance(report: Report) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for number, server in enumerate(report.servers):
        # the rest of version() says for which machine and by which compiler
        version = server.version.partition(" on ")[0]
        grid.add_row("" if number else "servers", Text(f"{server.label}: {version}, {server.name}"))
    grid.add_row("project", Text(f"test_aio {report.commit}"))
    grid.add_row("machine", Text(wording.machine(report)))
    if report.machine.is_busy:
        grid.add_row("", Text(f"busy: something else used {report.machine.cpu_in_use:.0%} of the CPU before the first run", style="bold red"))
    grid.add_row("storage", Text(wording.storage(report)))
    common, own = _own_and_common_settings(report)
    grid.add_row("not default", Text(common))
    for label, settings in own.items():
        if settings:
            grid.add_row("", Text(f"{label} only: {settings}"))
    grid.add_row("varied", Text(report.case.told_apart_by))
    if report.case.constants:
        grid.add_row("not varied", Text(report.case.constants))
    for what, statements in (("statement", report.case.statement), ("before it", report.case.before), ("after it", report.case.after)):
        if statements:
            grid.add_row(what, Text(" ".join("; ".join(statements).split())))
    return grid


def _results(report: Report) -> Table:
    table = _table(report, "median", "min – max", "MAD")
    if len(report.servers) == 2:
        table.add_column(" / ".join(server.label for server in report.servers))
    for variant, by_server in report.runs.items():
        ratio = report.ratio(variant)
        for number, label in enumerate(by_server):
            summary = report.summary(variant, label)
            if not summary:
                continue
            cells: list[str | Text] = [
                "" if number else variant,
                label,
                # a count's unit may be long, and is in the notes
                Text(wording.ms(summary.median) if report.case.unit == "ms" else wording.number(summary.median), style="bold"),
                f"{wording.number(summary.minimum)} – {wording.number(summary.maximum)}",
                wording.number(summary.mad),
            ]
            # the verdict is on the first server, and stands in its row
            if ratio and number == 0:
                cells.append(wording.verdict(report.case.figure.sign(ratio.sign), report.expected_sign(variant)))
            elif ratio:
                cells.append(Text.assemble((wording.times(ratio), "bold"), f"  {wording.interval(ratio)}"))
            table.add_row(*cells, end_section=number == len(by_server) - 1)
    return table


def _clock(report: Report) -> str:
    if report.case.measure != "time":
        return ""
    if report.case.explain:
        return " Time is the server's own: EXPLAIN (ANALYZE, TIMING OFF), Execution Time."
    return " Time is the client's: there is no EXPLAIN of this statement."


def show(report: Report, console: Console, whole: bool = True) -> None:
    """Shows the report.  If not whole, it leaves out the provenance and how it was measured."""
    case = report.case
    console.print()
    console.print(Text.assemble((f"{case.id}  {case.title}", "bold"), f" (server commit {case.file.commit})" if case.file.commit else ""))
    if whole:
        console.print(_provenance(report))
    console.print(_results(report))
    if report.case.run.also:
        console.print(_other_figures(report))
    unit = "" if case.unit in ("", "ms") else f", in {case.unit}"
    notes = [f"Medians of {wording.number_of_runs(report)}{unit}; MAD: median absolute deviation.{_clock(report)}"]
    if len(report.servers) == 2:
        notes.append(f"Ratio: geometric mean of the rounds, with its interval, {wording.confidence(report)}.")
    if report.quick:
        notes.append("Quick: shows which is faster; do not quote.")
    notes += [f"{line}." for line in wording.devices(report)]
    notes += [f"Known: {case.known}"] * bool(case.known)
    for note in notes if whole else notes[-1:]:
        console.print(Text(note, style="dim"))
    for found in report.contrasts():
        console.print(Text(wording.contrast(report, found)))
    for skipped in wording.skipped(report):
        console.print(Text(skipped, style="bold red"))
    console.print()
    console.print(Text(wording.finding(report) + ".", style="bold"))
    if told := wording.promise(report):
        console.print(Text(told, style="bold green" if all(report.promises().values()) else "bold red"))
