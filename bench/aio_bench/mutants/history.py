"""Real bugs: what commits of PostgreSQL have fixed, put back.  bench/bugs/history/commits.tsv names the commits.

The reverse of a commit's difference comes from a clone of PostgreSQL, by git, and is never stored here.
edits.bugs beside it has the smallest edit with the same effect where that does not fit.
"""

import csv
import re
import subprocess
import tempfile
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path

from ..project import json_lines, write_files
from .bugs import HERE, Bug, Edit, functions_of, parse, without_comments

COMMITS = HERE / "history/commits.tsv"
EDITS = HERE / "history/edits.bugs"
# columns of servers, with assertions or "plain"; a cell is "short" or "long", which tier notices the bug, "no", "?" (not tried), or "-" (does not fit)
SERVERS = ("18", "18-plain", "19", "19-plain")
# of the server and its modules, not of their tests
PATHS = ("src/backend", "src/include", "src/port", "src/common", "contrib", ":!*/sql/*", ":!*/expected/*", ":!*/t/*",
         ":!*.sql", ":!*/Makefile", ":!*/meson.build", ":!*/README*", ":!src/include/catalog/catversion.h")
# what may stay when nothing uses it: includes, prototypes, functions
UNUSED = re.compile(r"(?:\s*(?:#include [^\n]*|[\w *]+\n?\w+\([^;{}]*\)(?:;|\n\{\n.*?\n\})))*\s*", re.DOTALL)


def table() -> list[dict[str, str]]:
    return [*csv.DictReader(COMMITS.open(), delimiter="\t", quoting=csv.QUOTE_NONE)]


def hunks(file: str, before: str, after: str) -> Iterator[Edit]:
    """The difference of two texts as edits, each with as many lines around it as make it unique."""
    old, new = ([line for line in without_comments(text).splitlines() if line.strip()] for text in (before, after))
    blank = "\n".join(old) + "\n"
    line_of = lambda position: blank.count("\n", 0, position)  # noqa: E731
    functions = [(function.name, line_of(function.start), line_of(function.body) + 1, line_of(function.end))
                 for function in functions_of(blank)] if file.endswith(".c") else []
    groups: list[tuple[int, int, int, int, str]] = []
    for kind, first, last, new_first, new_last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        gone, come = "\n".join(old[first:last]), "\n".join(new[new_first:new_last])
        if kind == "equal" or gone.split() == come.split():
            continue
        function, head, low, high = next((place for place in functions if place[2] <= first and last <= place[3]), ("", 0, 0, len(old)))
        if not function and not come.strip() and UNUSED.fullmatch(gone):
            continue
        text = "\n".join(old[head:high])

        def is_unique(start: int, end: int, text: str = text) -> bool:
            words = " ".join(old[start:end]).split()
            return bool(words) and len(re.findall(r"\s+".join(map(re.escape, words)), text)) == 1

        start, end = first, last
        while not is_unique(start, end) and (start > low or end < high):
            start, end = max(low, start - 1), min(high, end + 1)
        # the place of a bug is where it begins
        while start < first and is_unique(start + 1, end):
            start += 1
        new_start = new_first - (first - start)
        if groups and start <= groups[-1][1]:
            start, before_end, new_start, *_ = groups.pop()
            end = max(end, before_end)
        groups.append((start, end, new_start, new_last + (end - last), function))
    for start, end, new_start, new_end, function in groups:
        yield Edit(file, "\n".join(old[start:end]), "\n".join(new[new_start:new_end]), function)


def revert(commit: str, source: Path, clone: Path) -> Bug | None:
    """The bug that a commit has fixed, for this source; None if the reverse of its difference does not fit."""
    difference = subprocess.run(["git", "-C", str(clone), "diff", f"{commit}^", commit, "--", *PATHS], check=True, stdout=subprocess.PIPE, text=True).stdout
    files = re.findall(r"^\+\+\+ b/(.*)$", difference, re.MULTILINE)
    if not files or not all((source / file).exists() for file in files):
        return None
    with tempfile.TemporaryDirectory() as directory:
        write_files(Path(directory), {file: (source / file).read_text() for file in files})
        done = subprocess.run(["patch", "-R", "-p1", "-F3", "-s", "-f", "-d", directory], input=difference, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            return None
        edits = [edit for file in files for edit in hunks(file, (source / file).read_text(), (Path(directory) / file).read_text())]
    return Bug(commit, tuple(edits)) if edits else None


def history(major: int, source: Path, clone: Path) -> list[Bug]:
    """The bugs in scope that can be put into this source."""
    smallest = {bug.name: bug for bug in parse(EDITS.read_text(), str(EDITS)) if bug.is_for(major)}
    found = []
    for row in table():
        if row[str(min(major, 19))] != "-" and (bug := smallest.get(row["commit"]) or revert(row["commit"], source, clone)):
            found.append(Bug(bug.name, bug.edits, f"{row['subject']} ({row['what']})", major))
    return found


def known_tests() -> dict[str, str]:
    return {row["commit"]: row["test"] for row in table() if row["test"]}


def record(column: str, files: list[str]) -> None:
    rows = table()
    for result in json_lines(*map(Path, files)):
        row = next(row for row in rows if row["commit"] == result["name"])
        row[column] = result["tier"] if result["by"] else "no"
        if result["by"]:
            row["test"] = result["by"][0]
    with COMMITS.open("w") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
