"""The trial in twenty lines of plain text, for a mail."""

import re
from collections.abc import Sequence

from ..lab import wording
from ..project import counted
from ..servers import Build
from . import suite
from .arguments import PARTS
from .findings import Findings

LINES = 20
LAB_LINES = 5
WIDTH = 76


def _shortened(line: str) -> str:
    """Returns a line that fits, with the names of source files in place of their paths."""
    line = re.sub(r"\S*/(?=\w+\.c:)", "", line.replace("×", "x"))
    return line if len(line) <= WIDTH else line[: WIDTH - 3] + "..."


def build(build: Build) -> str:
    return f"{build.version.removeprefix('PostgreSQL ')}, {build.commit or build.name.partition(':')[2] or build.name}"


def _names(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def right(found: Findings) -> list[str]:
    if not found.suites:
        return ["suite: has not been run on both servers"]
    lines = [f"suite, {role}: could not be run" for role in found.broken]
    if lines:
        return lines
    before, after = (found.suites[role][0] for role in ("before", "after"))
    lines.append(f"suite: {len(after.files)} files, {after.number_of_assertions:,} assertions")
    for verdict, told in (("broken", "fail after, passed before"), ("doubtful", "fail sometimes after, never before"),
                          ("both", "fail on both"), ("unsteady", "fail sometimes"), ("mended", "failed before, pass after")):
        files_ = found.files(verdict)
        if files_ or verdict == "broken":
            lines.append(f"  {told}: " + (f"{len(files_)}: {_names([each.name for each in files_])}" if files_ else "none"))
    if skipped := suite.only_after(before, after):
        lines.append(f"  skipped after, and not before: {'; '.join(skipped)}")
    if other := suite.other_assertions(before, after):
        lines.append(f"  other assertions in {counted(len(other), 'file')} that pass: {other[0]}")
    return lines


def _some(told: Sequence[object], most: int, what: str) -> list[str]:
    """Returns lines for the first of these, and how many more there are."""
    shown = told if len(told) <= most else told[: most - 1]
    return [f"  {each}" for each in shown] + [f"  and {len(told) - len(shown)} more {what}, in the report"] * (len(told) > len(shown))


def changes(found: Findings, most: int = 3) -> list[str]:
    compared = [each.what for each in found.changes]
    differs = any(each.told for each in found.changes)
    lines = _some([f"{each.what}: {each.told or 'nothing else'}" for each in found.changes], most, "changes") if differs else []
    if not compared:
        return ["what else changed: not looked at"] + [f"  {note}" for note in found.notes["changes"]]
    told = "differences" if lines else "nothing else"
    return [f"what else changed, by {' and '.join(compared)}: {told}", *lines, *(f"  {note}" for note in found.notes["changes"])]


def uncovered(found: Findings, most: int = 4, most_notes: int = 1) -> list[str]:
    notes = [f"  {note}" for note in found.notes["lines"]]
    if not found.share:
        return ["lines of the patch that nothing executes: not counted", *notes]
    lines, of_lines, taken, of_taken = found.share
    never = _some(found.gaps, most, "that nothing executes")
    return [f"lines of the patch: {lines} of {of_lines} executed, {taken} of {of_taken} branches taken", *never, *notes[:most_notes]]


def unnoticed(found: Findings, most: int = 4, most_notes: int = 1) -> list[str]:
    if not found.bugs_reached and not found.bugs:
        return ["bugs in the patch's lines: none was tried", *(f"  {note}" for note in found.notes["bugs"][:most_notes + 1])]
    kept = [each for each in found.bugs if not each.by]
    rest = found.bugs_reached - len(found.bugs)
    told = f"bugs in them: {len(found.bugs)} tried, {len(found.bugs) - len(kept)} noticed, {len(kept)} not"
    told += f"; no time for {rest}" * (rest > 0)
    unreached = [f"{len(found.bugs_unreached)} never reached, such as {found.bugs_unreached[0]}"] if found.bugs_unreached else []
    unreached += found.notes["bugs"][:most_notes]
    return [told, *_some([each.point for each in kept], most, "that nothing notices"), *(f"  {line}" for line in unreached)]


def counts(found: Findings) -> str:
    return ", ".join(f"{found.verdicts[verdict]} {verdict}" for verdict in ("better", "worse", "changed", "same", "cannot tell") if found.verdicts[verdict])


def compared(found: Findings) -> str:
    """Returns how many figures have been compared: between the servers, and of two variants on each."""
    told = f"{counted(len(found.reports), 'case')}, {counted(found.verdicts.total(), 'comparison')}"
    contrasts = sum(len(report.contrasts()) for report in found.reports)
    return told + f" and {counted(contrasts, 'contrast')}" * bool(contrasts)


def effect(found: Findings, lines_left: int) -> list[str]:
    """Returns the lines about the lab, at most this many."""
    if not found.reports:
        return ["lab: nothing was measured"] + [f"  failed: {_names(list(found.failures))}"] * bool(found.failures)
    lines = [f"lab{' (quick)' if found.quick else ''}: {compared(found)}: {counts(found)}"]
    if found.failures:
        lines.append(f"  could not be measured: {_names(list(found.failures))}")
    if found.left_out:
        lines.append(f"  not measured yet: {counted(len(found.left_out), 'case')}: {_names(found.left_out, lines_left)}")
    return lines + _some([f"{report.case.id}: {wording.finding(report)}" for report in found.changed], max(lines_left - len(lines), 1), "cases that changed")


def text(found: Findings) -> str:
    lines = [f"test_aio trial of {found.started[:10]}, test_aio {found.project}"]
    builds = found.suite_builds or found.lab_builds
    lines += [f"{role:6}  {build(each)}" for role, each in builds.items()]
    if found.reports:
        report = found.reports[0]
        busy = f", {report.machine.cpu_in_use:.0%} of it in use" if report.machine.is_busy else ""
        lines.append(f"on      {report.machine.cpus} x {report.machine.cpu_model}{busy}, {report.machine.kernel}")
    if others := [part for part in PARTS if part not in found.parts]:
        lines.append(f"left out, as --parts says: {', '.join(others)}")
    # as many examples as there is room for
    for most in (4, 3, 2, 1):
        parts = {"suite": right(found), "changes": changes(found, most), "lines": uncovered(found, most), "bugs": unnoticed(found, most)}
        told = [line for part, lines_ in parts.items() if part in found.parts for line in lines_]
        if len(lines) + len(told) + LAB_LINES * ("lab" in found.parts) <= LINES:
            break
    lines += told
    if "lab" in found.parts:
        lines += effect(found, LINES - len(lines))
    return "".join(f"{_shortened(line)}\n" for line in lines[:LINES])
