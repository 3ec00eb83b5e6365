"""The lines of C that a patch adds or changes, found by comparing two source trees.  Standard library only."""

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from .. import project
from ..mutants.bugs import functions_of, without_comments
from ..servers import ServerError, ask_scripts, split_tree

_FILE = re.compile(r"^\+\+\+ b/(.*)$")
_HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,\d+)? @@")


@dataclass(frozen=True)
class Patch:
    #: numbers of the lines that are new or changed, by file; of files of the server only
    lines: dict[str, set[int]] = field(default_factory=dict)
    #: other files in C that it touches, such as headers and tests
    others: list[str] = field(default_factory=list)
    #: why the lines are those of another range than before..after, or are not known
    note: str = ""
    #: the diff of files in C, without tests: lines with their numbers after the patch; 0: they are not there then
    shown: dict[str, list[tuple[int, str]]] = field(default_factory=dict)


def is_of_server(file: str) -> bool:
    return file.endswith(".c") and file.startswith(("src/backend/", "contrib/"))


def parse(diff: str, note: str = "") -> Patch:
    lines: dict[str, set[int]] = {}
    shown: dict[str, list[tuple[int, str]]] = {}
    file, number = "", 0
    for line in diff.split("\n"):
        if found := _FILE.match(line):
            file, number = found[1], 0
        elif found := _HUNK.match(line):
            # 0: the file is gone
            if number := int(found[1]):
                lines.setdefault(file, set())
                shown.setdefault(file, []).append((0, line))
        elif line.startswith("diff "):
            number = 0
        elif number and line and line[0] in " +-":
            shown[file].append((0 if line[0] == "-" else number, line))
            if line[0] == "+":
                lines[file].add(number)
            number += line[0] != "-"
    return Patch({name: numbers for name, numbers in lines.items() if numbers and is_of_server(name)},
                 sorted(name for name in lines if name.endswith((".c", ".h")) and not is_of_server(name)), note,
                 {name: of_file for name, of_file in shown.items() if name.endswith((".c", ".h")) and not name.startswith("src/test/")})


def compare(before: Path, after: Path, note: str = "") -> Patch:
    done = subprocess.run(
        ["git", "-c", "core.quotePath=false", "diff", "--no-index", "--no-renames", "--no-color", "-w", str(before), str(after)],
        capture_output=True, text=True, errors="replace",
    )
    if done.returncode not in (0, 1):
        raise ServerError(f"git diff: {done.stderr.strip()}")
    # git writes whole paths, without their first slash
    return parse(done.stdout.replace(f"+++ b{after}/", "+++ b/"), note)


def base(before: str, after: str) -> tuple[str, str]:
    """Returns the tree that the patch was made for, and a note if that is not the server before: in one repository it
    is the merge base."""
    path, revision = split_tree(after)
    from_path, from_revision = split_tree(before)
    if project.git(path, "rev-parse", "--git-common-dir") and project.git(path, "cat-file", "-t", from_commit := project.git(from_path, "rev-parse", from_revision or "HEAD")):
        common = project.git(path, "merge-base", from_commit, revision or "HEAD")
        if common and common != from_commit:
            return f"source:{path}@{common}", f"the patch's lines are counted from {common[:12]}, from which it branched, and not from the server before"
    return before, ""


def unpack(tree: str, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    ask_scripts('unpack_tree "$1" "$2"', tree, str(directory))


def functions(text: str, lines: set[int]) -> set[str]:
    """Returns the functions of a file that have one of these lines."""
    return {function.name for function in functions_of(without_comments(text))
            if lines & set(range(text.count("\n", 0, function.start) + 1, text.count("\n", 0, function.end) + 2))}
