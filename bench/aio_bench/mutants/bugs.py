"""The lists of seeded bugs, *.bugs: edits of C source, to be put into the server or into this library.

    @ src/backend/storage/buffer/bufmgr.c
    name-of-the-bug: what is wrong with it
    - the text that stands in the file once
    + what stands there instead
    another-bug [19]: "+" lines are left out if the text is only removed
    in TerminateBufferIO
    - a text that stands in this function once
    - in two lines

White space and comments do not count when the text of "-" is looked for, so it need not be broken into
lines as the source is.  "@" names the file of the bugs that follow; after a name, that of the bug's
further edits.  "in" names the function, where the text stands in several.  A further "-" after a "+" is
a further edit of the same bug.  [18] is a bug of 18 and before, [19] one of 19 and later; without that,
the edit fits every version.  A line that begins with "#" is a comment.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..project import ROOT, Problem

HERE = ROOT / "bench/bugs"
HEADER = re.compile(r"([\w.-]+)(?: \[(\d+)\])?: (.*)")
NEWEST_WITHOUT_19 = 18
CONSTANT_OR_CHARACTER = re.compile(r""" "(?:\\.|[^"\\])*"? | '(?:\\.|[^'\\])*'? | (.) """, re.DOTALL | re.VERBOSE)


@dataclass(frozen=True)
class Edit:
    file: str  # as the server's source names it, or this checkout (src/gate/…)
    old: str
    new: str
    function: str = ""  # where the text is looked for; "": in the whole file


@dataclass(frozen=True)
class Bug:
    name: str
    edits: tuple[Edit, ...]
    about: str = ""
    version: int = 0  # 18: 18 and before, 19: 19 and later, 0: all

    def is_for(self, major: int) -> bool:
        return not self.version or (self.version <= NEWEST_WITHOUT_19) == (major <= NEWEST_WITHOUT_19)

    @property
    def place(self) -> str:
        return f"{self.edits[0].file} {self.edits[0].function or self.edits[0].old[:20]}"

    @property
    def is_own(self) -> bool:
        """Is this a bug of our library?"""
        return all((ROOT / edit.file).exists() for edit in self.edits)


def characters(text: str, start: int = 0) -> Iterator[tuple[int, str]]:
    """The characters outside of string and character constants, with their positions."""
    for found in CONSTANT_OR_CHARACTER.finditer(text, start):
        if found[1]:
            yield found.start(), found[1]


def split_outside(text: str, *separators: str) -> tuple[list[str], list[str]]:
    """The parts of a text between separators that stand outside of parentheses and constants; and these separators."""
    parts, found, depth, begin = [], [], 0, 0
    for position, char in characters(text):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(char, 0)
        for separator in separators:
            if depth == 0 and text.startswith(separator, position):
                parts.append(text[begin:position])
                found.append(separator)
                begin = position + len(separator)
    return [*parts, text[begin:]], found


@dataclass(frozen=True)
class Function:
    """A function of a C file that pgindent has formatted: text[start:body] is its head, text[body] is "{"."""

    name: str
    start: int
    body: int
    end: int
    text: str

    @property
    def head(self) -> str:
        return self.text[self.start:self.body]

    def arguments(self) -> list[str] | None:
        """The names of the arguments; None for a variable number of arguments."""
        inside = self.head[self.head.index(self.name + "(") + len(self.name) + 1:self.head.rindex(")")].replace("PG_FUNCTION_ARGS", "FunctionCallInfo fcinfo")
        names = []
        for part in split_outside(inside, ",")[0]:
            part = re.sub(r"\b(?:pg_attribute_\w+(?:\(\))?|PG_USED_FOR_ASSERTS_ONLY)|\[[^]]*\]", "", part).strip()
            if part == "...":
                return None
            if part != "void":
                pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)", part)
                names.append(pointer.group(1) if pointer else re.findall(r"\w+", part)[-1])
        return names


def without_comments(text: str) -> str:
    """The same text with blanks in the place of each comment."""
    return re.sub(r"/\*.*?\*/", lambda found: re.sub(r"[^\n]", " ", found.group()), text, flags=re.DOTALL)


@cache
def functions_of(blank: str) -> tuple[Function, ...]:
    """The functions of a file without comments."""
    found = []
    for brace in re.finditer(r"^\{", blank, re.MULTILINE):
        lines = blank[:brace.start()].split("\n")[:-1]
        first = len(lines)
        # a line between arguments, where a parenthesis ends that begins before, may have been a comment
        while first > 0 and (lines[first - 1].strip() or "".join(lines[first:]).count(")") > "".join(lines[first:]).count("(")) and not re.search(r"[;}]\s*$|^#", lines[first - 1]):
            first -= 1
        start = sum(len(line) + 1 for line in lines[:first])
        name = re.search(r"^(\w+)\(", blank[start:brace.start()], re.MULTILINE) or re.search(r"(\w+)\(", blank[start:brace.start()])
        end = re.search(r"^\}", blank[brace.start():], re.MULTILINE)
        if name and end and blank[start:brace.start()].rstrip().endswith(")"):
            found.append(Function(name.group(1), start, brace.start(), brace.start() + end.end(), blank))
    return tuple(found)


@cache
def blank_of(path: Path) -> str:
    return without_comments(path.read_text())


def place_of(edit: Edit, root: Path) -> tuple[int, int, Function | None]:
    """Where in the file the old text stands, and in which function; Problem unless it does so once."""
    if not (root / edit.file).exists():
        raise Problem(f"there is no {edit.file}")
    blank = blank_of(root / edit.file)
    functions = functions_of(blank)
    pattern = re.compile(r"\s+".join(map(re.escape, edit.old.split())))
    where = [(function.start, function.end) for function in functions if function.name == edit.function] if edit.function else [(0, len(blank))]
    found = [match for start, end in where for match in pattern.finditer(blank, start, end)]
    if len(found) != 1:
        raise Problem(f"{edit.file}{edit.function and f', {edit.function}()'}: {len(found)} times instead of once: {edit.old}")
    start, end = found[0].span()
    inside = [function for function in functions if function.start <= start and end <= function.end]
    return start, end, inside[0] if inside else None


def load(major: int, lists: Iterable[Path] = ()) -> list[Bug]:
    """The bugs of a major version of the server in these lists, or in all of bench/bugs."""
    bugs = [bug for path in (lists or sorted(HERE.glob("*.bugs"))) for bug in parse(path.read_text(), str(path)) if bug.is_for(major)]
    names = [bug.name for bug in bugs]
    if doubles := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"names used twice: {', '.join(sorted(doubles))}")
    return bugs


def parse(text: str, where: str = "") -> list[Bug]:
    bugs: list[dict] = []
    file = ""
    edits: list[tuple[str, str, list[str], list[str]]] | None = None  # of the bug that is read: file, function, old, new
    for number, line in enumerate(text.splitlines(), 1):
        mark, rest = line[:2].rstrip(), line[2:]
        if line.startswith("#"):
            continue
        if not line.strip():
            edits = None
        elif mark == "@" and edits:
            edits.append((rest, "", [], []))
        elif mark == "@":
            file = rest
        elif edits and line.startswith("in "):
            edits.append((edits[-1][0], line[3:].strip(), [], []))
        elif edits and mark == "-":
            if edits[-1][3]:
                edits.append((*edits[-1][:2], [], []))
            edits[-1][2].append(rest)
        elif edits and mark == "+":
            edits[-1][3].append(rest)
        elif found := HEADER.fullmatch(line):
            edits = [(file, "", [], [])]
            bugs.append({"name": found[1], "version": int(found[2] or 0), "about": found[3], "edits": edits})
        else:
            raise ValueError(f"{where}:{number}: what is \"{line}\"?")
    for bug in bugs:
        bug["edits"] = tuple(Edit(file, "\n".join(old), "\n".join(new), function) for file, function, old, new in bug["edits"] if old)
        if not bug["edits"]:
            raise ValueError(f"{where}: {bug['name']} changes nothing")
    return [Bug(**bug) for bug in bugs]


def major_of(source: Path) -> int:
    """The major version of an unpacked source."""
    found = re.search(r"^PACKAGE_VERSION='(\d+)", (source / "configure").read_text(), re.MULTILINE)
    if not found:
        raise ValueError(f"{source}/configure does not name a version")
    return int(found.group(1))
