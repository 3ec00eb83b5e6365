"""Which lines, branches and functions of a server tests execute, by gcov.  Standard library only.

Each test file has a directory of its own for what its servers count, so that it is known which test executes what.
What a process counts is lost if it is killed, as at an immediate shutdown.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from .. import servers
from ..mutants import points
from ..mutants.bugs import without_comments
from ..results import REGRESSION, Suite
from . import suite

# no statement, or one that is for the case that the server has a bug
_NOT_TAKEN = re.compile(r"\b(Assert\w*|ereport|elog|CHECK_FOR_INTERRUPTS|INJECTION_POINT\w*)\(")


@dataclass
class File:
    #: how often a line was executed, by number
    lines: dict[int, int] = field(default_factory=dict)
    #: how often each branch of a line was taken; the first of two is the one that falls through
    branches: dict[int, list[int]] = field(default_factory=dict)
    functions: dict[str, int] = field(default_factory=dict)

    def add(self, other: File) -> None:
        for line, count in other.lines.items():
            self.lines[line] = self.lines.get(line, 0) + count
        for line, counts in other.branches.items():
            old = self.branches.get(line, [0] * len(counts))
            self.branches[line] = [a + b for a, b in zip(old, counts, strict=True)] if len(old) == len(counts) else old
        for name, count in other.functions.items():
            self.functions[name] = self.functions.get(name, 0) + count


@dataclass
class Coverage:
    files: dict[str, File] = field(default_factory=dict)
    #: what each test file executes
    by_test: dict[str, dict[str, File]] = field(default_factory=dict)

    def add(self, test: str, found: dict[str, File]) -> None:
        for name, file in found.items():
            self.files.setdefault(name, File()).add(file)
            self.by_test.setdefault(test, {}).setdefault(name, File()).add(file)


def from_data(data: dict[str, Any]) -> Coverage:
    """Returns the coverage of asdict(), without what each test executes."""
    def by_line(values: dict[Any, Any]) -> dict[int, Any]:
        return {int(line): value for line, value in values.items()}

    return Coverage({name: File(by_line(each["lines"]), by_line(each["branches"]), each["functions"]) for name, each in data["files"].items()})


def parse(report: dict[str, Any], wanted: Collection[str]) -> dict[str, File]:
    """Returns what gcov's JSON says of these files of a source tree."""
    found: dict[str, File] = {}
    for each in report["files"]:
        name = next((name for name in wanted if each["file"].endswith(f"/{name}")), None)
        if name is None:
            continue
        file = File(functions={function["name"]: function["execution_count"] for function in each["functions"]})
        for line in each["lines"]:
            file.add(File({line["line_number"]: line["count"]}))
            # gcov lists a line of an inlined function more than once
            if line["branches"]:
                file.add(File(branches={line["line_number"]: [branch["count"] for pair in _pairs(line["branches"]) for branch in pair]}))
        found.setdefault(name, File()).add(file)
    return found


def _pairs(branches: list[dict[str, Any]]) -> Iterable[list[dict[str, Any]]]:
    """Returns the branches two by two, the one that falls through first; more of a switch together."""
    if len(branches) % 2 or any(first["fallthrough"] == second["fallthrough"] for first, second in zip(branches[::2], branches[1::2])):
        return [branches]
    return [sorted(pair, key=lambda branch: not branch["fallthrough"]) for pair in zip(branches[::2], branches[1::2])]


def count(server: str, directory: Path, files: Sequence[str], logs: Path, tests: Sequence[str], note: Callable[[str], None],
          more: Mapping[str, str] = {}) -> tuple[list[str], Suite, Coverage]:
    """Makes a server like another, whose files count what is executed, and runs the suite on it, and each recording once.
    Returns the files that are left out, the run, and what was counted.  Raises ServerError."""
    left_out = servers.variant(server, directory, "--coverage -O0 -w", *files)
    work = directory / "work"
    shutil.rmtree(work, ignore_errors=True)
    ran = suite.run(f"pg_config:{directory}/server/bin/pg_config", work, logs, tests, note,
                    {"GCOV_PREFIX": str(work / "gcov"), "PROVE_FLAGS": "--exec=servers/prefixed", "TEST_AIO_RECORD_INTO": str(work / "recorded"), **more})
    if ran.broken:
        raise servers.ServerError(f"the suite with counts cannot be run: {ran.broken.strip().splitlines()[-1]}")
    return left_out, ran, read(directory)


def _of_test(counts: Path, notes: Path, wanted: Collection[str]) -> dict[str, File]:
    with tempfile.TemporaryDirectory() as directory:
        for number, path in enumerate(sorted(counts.rglob("*.gcda"))):
            name = next((name for name in wanted if str(path).endswith(f"/{name[:-2]}.gcda")), None)
            if name:
                shutil.copyfile(path, Path(directory, f"{number}.gcda"))
                shutil.copyfile(notes / f"{name[:-2]}.gcno", Path(directory, f"{number}.gcno"))
        counted = sorted(path.name for path in Path(directory).glob("*.gcda"))
        if not counted:
            return {}
        done = subprocess.run(["gcov", "--json-format", "--branch-probabilities", "--stdout", *counted], cwd=directory, capture_output=True, text=True, check=True)
    found: dict[str, File] = {}
    for line in done.stdout.splitlines():
        for name, file in parse(json.loads(line), wanted).items():
            found.setdefault(name, File()).add(file)
    return found


def read(directory: Path) -> Coverage:
    notes, gcov = directory / "notes", directory / "work" / "gcov"
    wanted = [f"{str(path.relative_to(notes))[:-5]}.c" for path in sorted(notes.rglob("*.gcno"))]
    # a test's directory is named after it; what lies elsewhere is of the regression tests
    tests = sorted(path for path in gcov.rglob("*.pl") if path.is_dir())
    where = [(str(path.relative_to(gcov)), path) for path in tests]
    where += [(REGRESSION, path) for path in sorted(gcov.glob("*")) if not any(test.is_relative_to(path) for test in tests)]
    found = Coverage()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for (test, _), files in zip(where, pool.map(lambda each: _of_test(each[1], notes, wanted), where)):
            found.add(test, files)
    # no test has executed anything of these
    for name in wanted:
        found.files.setdefault(name, File())
    return found


@dataclass(frozen=True)
class Gap:
    """Lines, or an outcome of a condition, that nothing has executed."""

    file: str
    first: int
    last: int
    #: the text of the lines
    text: str
    #: what never happens; empty: the lines are not executed
    never: str = ""

    @property
    def lines(self) -> str:
        return f"{self.first}–{self.last}" if self.last > self.first else str(self.first)

    def __str__(self) -> str:
        text = " ".join(self.text.split())
        return f"{self.file}:{self.lines.replace('–', '-')}: {f'{self.never}: ' if self.never else ''}{text}"


def _conditions(blank: str) -> Iterable[tuple[int, int, list[tuple[int, str]], set[str]]]:
    """Returns the condition of each "if": its first and last line, its terms, each with its line, and the operators."""
    for found in re.finditer(r"^\t+(?:\} )?(?:else )?if \(", blank, re.MULTILINE):
        position = found.end()
        try:
            stop = points.closing(blank, position - 1)
        except ValueError:
            continue
        terms, operators = points.terms_of(blank[position:stop])
        placed = []
        for term in terms:
            begin = position + len(term) - len(term.lstrip())
            placed.append((blank.count("\n", 0, begin) + 1, " ".join(term.split())))
            position += len(term) + 2
        yield blank.count("\n", 0, found.end()) + 1, blank.count("\n", 0, stop) + 1, placed, operators


def never(blank: str, branches: dict[int, list[int]]) -> dict[int, list[str]]:
    """Returns which outcomes of branches never happened, in words, by line; of lines that are executed."""
    told: dict[int, list[str]] = {}
    left = dict(branches)
    for first, last, terms, operators in _conditions(blank):
        counts = [count for line in range(first, last + 1) for count in branches.get(line, [])]
        # gcc gives the branches of a condition to one of its lines, or to several; a macro has branches of its own
        if len(operators) > 1 or len(counts) != 2 * len(terms):
            continue
        for line in range(first, last + 1):
            left.pop(line, None)
        for number, ((line, term), falls, jumps) in enumerate(zip(terms, counts[::2], counts[1::2])):
            is_true, is_false = (jumps, falls) if operators == {"||"} and number < len(terms) - 1 else (falls, jumps)
            if bool(is_true) != bool(is_false):
                told.setdefault(line, []).append(f"{term} is never {'false' if is_true else 'true'}")
    for line, counts in left.items():
        if any(counts) and not all(counts):
            told.setdefault(line, []).append(f"{counts.count(0)} of {len(counts)} branches are never taken")
    return told


def gaps(found: Coverage, source: Path, lines: dict[str, set[int]]) -> list[Gap]:
    """Returns what is not executed of these lines of files."""
    told = []
    for name, wanted in sorted(lines.items()):
        file = found.files.get(name)
        if file is None:
            continue
        text = (source / name).read_text(errors="replace")
        blank, each_line = without_comments(text), text.splitlines()
        missed = {line for line in wanted if file.lines.get(line) == 0}
        # a statement's other lines, and what cannot be executed between two that are not
        joined = sorted(missed | {line + 1 for line in missed if line + 1 not in file.lines and line + 2 in missed})
        # of neighbouring lines the number less the place is the same
        for _, run in groupby(enumerate(joined), lambda each: each[1] - each[0]):
            (_, first), *_, (_, last) = [*run] * 2
            told.append(Gap(name, first, last, "\n".join(each_line[first - 1:last])))
        for line, outcomes in never(blank, file.branches).items():
            if line in wanted and not _NOT_TAKEN.search(each_line[line - 1]):
                told += [Gap(name, line, line, each_line[line - 1], outcome) for outcome in outcomes]
    return sorted(told, key=lambda gap: (gap.file, gap.first, gap.last, gap.never))


def share(found: Coverage, lines: dict[str, set[int]] | None = None) -> tuple[int, int, int, int]:
    """Returns how many lines are executed, of how many, and how many branches; of all or of these lines."""
    counted = [0] * 4
    for name, file in found.files.items():
        wanted = set(file.lines) if lines is None else lines.get(name, set())
        counts = [count for line, count in file.lines.items() if line in wanted]
        taken = [count for line, branches in file.branches.items() if line in wanted for count in branches]
        for at, values in ((0, counts), (2, taken)):
            counted[at] += sum(bool(value) for value in values)
            counted[at + 1] += len(values)
    return counted[0], counted[1], counted[2], counted[3]


def lcov(found: Coverage, source: Path) -> str:
    written = []
    for name, file in sorted(found.files.items()):
        written.append(f"TN:\nSF:{source / name}")
        written += [f"DA:{line},{count}" for line, count in sorted(file.lines.items())]
        written += [f"BRDA:{line},0,{number},{count}" for line, counts in sorted(file.branches.items()) for number, count in enumerate(counts)]
        written.append("end_of_record")
    return "\n".join(written) + "\n"
