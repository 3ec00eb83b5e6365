"""The report on a terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from . import wording
from .results import Report, Server


# They name a directory that is gone afterwards; the JSON file has them whole.
PATHS = ("dynamic_library_path", "extension_control_path", "unix_socket_directories")


def _settings(server: Server) -> list[str]:
    shown = [f"{setting.name} = {setting.value or repr('')}" for setting in server.settings if setting.name not in PATHS]
    return shown + [f"{setting.name} = …" for setting in server.settings if setting.name in PATHS]


def _own_and_common_settings(report: Report) -> tuple[str, dict[str, str]]:
    """Those that all servers have, and what each has besides."""
    per_server = {server.label: _settings(server) for server in report.servers}
    common = [
        setting for setting in next(iter(per_server.values()))
        if all(setting in settings for settings in per_server.values())
    ]
    return ", ".join(common), {
        label: ", ".join(setting for setting in settings if setting not in common)
        for label, settings in per_server.items()
    }


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
    grid.add_row("varied", Text(", ".join(report.case.varied)))
    grid.add_row("statement", Text(" ".join(report.case.statement.split())))
    grid.add_row("before it", Text(report.case.before))
    return grid


def _results(report: Report) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column(", ".join(report.case.varied), no_wrap=True)
    table.add_column("server", no_wrap=True)
    table.add_column("median", justify="right", no_wrap=True)
    table.add_column("min – max", justify="right", no_wrap=True)
    table.add_column("MAD", justify="right", no_wrap=True)
    if compared := len(report.servers) == 2:
        table.add_column(" / ".join(server.label for server in report.servers), no_wrap=True)
    for variant, by_server in report.runs.items():
        ratio = report.ratio(variant)
        for number, label in enumerate(by_server):
            summary = report.summary(variant, label)
            assert summary
            cells: list[str | Text] = [
                "" if number else variant,
                label,
                Text(wording.ms(summary.median), style="bold"),
                f"{summary.minimum:.0f} – {summary.maximum:.0f}",
                f"{summary.mad:.1f}",
            ]
            if ratio and number == 0:
                cells.append(Text.assemble((wording.factor(ratio.ratio), "bold"), f"  [{ratio.low:.2f}, {ratio.high:.2f}]"))
            elif ratio:
                cells.append(wording.verdict(ratio.sign, report.expected_sign(variant)))
            table.add_row(*cells, end_section=number == len(by_server) - 1)
    if published := report.case.published:
        table.add_row("published", "before", f"{published.before_ms:g} ms", "", "", *[wording.factor(published.ratio)] * compared)
        table.add_row("", "after", f"{published.after_ms:g} ms")
    return table


def show(report: Report, console: Console) -> None:
    case = report.case
    console.print()
    console.print(Text.assemble((f"{case.id}  {case.title}", "bold"), f" (server commit {case.commit})"))
    console.print(_provenance(report))
    console.print(_results(report))
    notes = [
        f"Medians of {wording.number_of_runs(report)}; MAD: median absolute deviation, in ms."
        " Time is the server's own: EXPLAIN (ANALYZE, TIMING OFF), Execution Time.",
    ]
    if len(report.servers) == 2:
        notes.append("Ratio of the medians, with the 95 % interval of a bootstrap over the rounds.")
    if case.published:
        notes.append(f"Published: {case.published.source}.")
    for note in notes:
        console.print(Text(note, style="dim"))
    for skipped in wording.skipped(report):
        console.print(Text(skipped, style="bold red"))
    console.print()
    console.print(Text(wording.finding(report) + ".", style="bold"))
