"""All bugs in one build, each with a switch.

Each function that a bug edits is there once more before it, with the edit; the original calls this copy if the
bug is switched on.  Which bug that is says $MUTANT when a process starts.  What a run reaches is noted
at the place of the edit, in a file that all processes share, $MUTANTS_REACHED.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from ..project import ROOT, Problem
from .bugs import Bug, Function, blank_of, place_of

DECLARATIONS = """\
extern int {prefix}mutant_on;
extern unsigned char *{prefix}mutants_reached;
#ifdef FRONTEND
#define MUTANT_ON(number) 0
#define MUTANT_NEAR(number) 1
#else
#define MUTANT_ON(number) (__builtin_expect({prefix}mutant_on == (number), 0))
#define MUTANT_NEAR(number) ({prefix}mutants_reached[number] = 1)
#endif
#define MUTANT(number) (MUTANT_NEAR(number), MUTANT_ON(number))
"""
DEFINITIONS = """
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int			{prefix}mutant_on = 0;
static unsigned char mutants_unshared[{size}];
unsigned char *{prefix}mutants_reached = mutants_unshared;

__attribute__((constructor)) static void
mutants_init(void)
{{
	const char *number = getenv("MUTANT");
	const char *path = getenv("MUTANTS_REACHED");
	int			fd;

	if (number)
		{prefix}mutant_on = atoi(number);
	if (!path)
		return;
	/* a place that is reached unseen would never be tried */
	if ((fd = open(path, O_RDWR | O_CREAT, 0666)) < 0 || ftruncate(fd, {size}) != 0)
		abort();
	{prefix}mutants_reached = mmap(NULL, {size}, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if ({prefix}mutants_reached == MAP_FAILED)
		abort();
	close(fd);
}}
"""
DEFINES = "src/backend/storage/aio/aio.c"  # the server's file that defines them
SIZE = 32768  # of the map of what is reached: more than there are switches
STATEMENT = re.compile(r"\t+(?!else\b|case\b|default\b|\w+:\s*$|[#{}&|?:.,+\-/%<>=!)\]])\S")


def edited(bug: Bug, root: Path) -> dict[str, str]:
    """The texts of the files with the bug."""
    texts: dict[str, str] = {}
    edits: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for edit in bug.edits:
        start, end, _ = place_of(edit, root)
        edits[edit.file].append((start, end, edit.new))
    for file, places in edits.items():
        texts[file] = replaced((root / file).read_text(), places)
    return texts


def replaced(text: str, places: Iterable[tuple[int, int, str]]) -> str:
    for start, end, new in sorted(places, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def statement_before(function: Function, position: int) -> int:
    """Where in the function a statement can be put that runs whenever the text at this position is reached."""
    blank = function.text
    at = blank.rindex("\n", 0, position) + 1
    most = len(blank)
    while at > function.body + 2:
        stop = blank.index("\n", at)
        line = blank[at:stop]
        indent = len(line) - len(line.lstrip("\t"))
        if line.strip() and not line.startswith("#") and (indent < most or most == len(blank)):
            most = min(most, indent + 1)
        if STATEMENT.match(line) and indent < most and is_boundary(blank, function.body, at):
            return at
        at = blank.rindex("\n", 0, at - 1) + 1
    return function.body + 2


def is_boundary(blank: str, start: int, at: int) -> bool:
    """Does a statement end before this line?"""
    before = re.sub(r"^#.*(?:\\\n.*)*", "", blank[start:at], flags=re.MULTILINE)
    before = re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'', "", before).rstrip()
    last = before[before.rfind("\n") + 1:]
    if before.count("(") != before.count(")") or before.endswith("= {"):
        return False
    # the end of "do { … } while (…);"
    if before.endswith("}") and blank[at:].lstrip().startswith("while"):
        return False
    return before.endswith((";", "{", "}")) or bool(re.match(r"\s*(?:case\b.*|\w+)\s*:$", last))


def instrumented(file: str, root: Path, bugs: Iterable[tuple[int, Bug]]) -> str:
    """The text of a file with the switches of bugs, whose numbers are given."""
    text = (root / file).read_text()
    blank = blank_of(root / file)
    copies: dict[Function, list[str]] = defaultdict(list)
    places: list[tuple[int, int, str]] = []
    for number, bug in bugs:
        in_function: dict[Function, list[tuple[int, int, str]]] = defaultdict(list)
        for edit in bug.edits:
            if edit.file == file:
                start, end, function = place_of(edit, root)
                assert function  # sort_out() has seen to that
                in_function[function].append((start - function.start, end - function.start, edit.new))
                near = statement_before(function, start)
                places.append((near, near, f"MUTANT_NEAR({number});\n"))
        for function, edits in in_function.items():
            name = f"{function.name}__mutant_{number}"
            head = re.sub(r"\b(?:extern|PGDLLEXPORT)\s+", "", function.head)
            if not re.search(r"\bstatic\b", head):
                head = "static " + head
            head = re.sub(rf"\b{function.name}\(", f"{name}(", head, count=1)
            body = replaced(blank[function.start:function.end], edits)[function.body - function.start:]
            call = f"{name}({', '.join(function.arguments() or [])});"
            call = f"{{ {call} return; }}" if re.search(r"\bvoid\s+\w+__mutant", head) else f"return {call}"
            places.append((function.body + 2, function.body + 2, f"if (MUTANT_ON({number})) {call}\n"))
            # what is defined for the function and what comes after it stays defined for the original
            copies[function].append(f"{head}{re.sub(r'^#undef.*', '', body, flags=re.MULTILINE)}\n\n")
    for function, parts in copies.items():
        places.append((function.start, function.start, f"{function.head.rstrip()};\n" + "".join(parts)))
    return replaced(text, places)


def with_switches(texts: dict[str, str], root: Path, own: bool = False) -> dict[str, str]:
    """Files of the server, or own ones of the library, with what their switches need, and the file that defines that."""
    prefix, defines = ("test_aio_", "src/test_aio.c") if own else ("", DEFINES)
    if not texts:
        return {}
    return {file: DECLARATIONS.format(prefix=prefix) + text + (DEFINITIONS.format(prefix=prefix, size=SIZE) if file == defines else "")
            for file, text in ({defines: (root / defines).read_text()} | texts).items()}


def sort_out(bugs: Iterable[Bug], source: Path) -> tuple[list[Bug], list[Bug], list[str]]:
    """Those that can have a switch, those that are compiled one by one, and what does not fit."""
    switched, alone, wrong = list[Bug](), list[Bug](), []
    for bug in bugs:
        try:
            places = [place_of(edit, ROOT if bug.is_own else source) for edit in bug.edits]
        except Problem as error:
            wrong.append(f"{bug.name}: {error}")
            continue
        fits = all(edit.file.endswith(".c") and place[2] and place[2].body < place[0] and place[2].arguments() is not None
                   for edit, place in zip(bug.edits, places, strict=True))
        (switched if fits else alone).append(bug)
    return switched, alone, wrong
