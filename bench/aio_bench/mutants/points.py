"""Points of the server's source at which a small bug can be switched on while the server runs.

A statement is left out; the condition of an "if" is always or never true; one of its terms is
ignored; a bound is off by one.  The text of C that pgindent has formatted is all that this looks
at: it need not find each point, but what it writes must compile.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .bugs import characters, functions_of, split_outside, without_comments

CONDITION = re.compile(r"\t+(?:else )?if \(")
# a call, an increment or an assignment
STATEMENT = re.compile(
    r"(?:\(void\) )?\w+\(|(?:\+\+|--)|\*?\(?\*?[A-Za-z_]\w*(?:(?:->|\.)\w+|\[[^\]]*\]|\))*(?:(?: [-+|&*/]?= )|\+\+;|--;)")
LABEL = re.compile(r"\t+(?:case\b.*|\w+):\s*$")
# Without these nothing works, or nothing changes but the memory and time that is used; or they say
# what went wrong or how far something is, which is for a test of messages to compare.
LEFT_ALONE = re.compile(
    r"\b(?:\w*Assert\w*|elog|ereport|err(?:msg|detail|hint|code|context)\w*|pfree|list_free\w*|palloc\w*|MemSet|memset"
    r"|LOCAL_FCINFO|INJECTION_POINT\w*|CHECK_FOR_INTERRUPTS|TRACE_\w+|VALGRIND_\w+|pg_assume|pg_unreachable|pgaio_debug\w*|va_\w+"
    r"|PG_\w+|START_CRIT_SECTION|END_CRIT_SECTION|HOLD_INTERRUPTS|RESUME_INTERRUPTS|[sdc]*list_init|MemoryContext\w+"
    r"|ConditionVariableInit|LWLockInitialize|SpinLockInit|pg_atomic_init_\w+|pgstat_progress_\w+|\w*_barrier"
    r"|ResourceOwnerEnlarge|ReservePrivateRefCountEntry|error_context_stack|errcallback|\w*spin_delay)\b")
BOUND = re.compile(r"([^<>=!?,\"'()]+(?:->\w+)*) (<=?|>=?) ([^<>=!?,\"']+(?:->\w+)*)")
OTHER_BOUND = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}


@dataclass(frozen=True)
class Point:
    number: int
    file: str
    function: str
    line: int
    kind: str  # "left out", "always", "never", "term ignored", "bound"
    text: str
    last: int = 0  # its last line
    about: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.function}(): {self.kind}: {self.text}"

    @property
    def name(self) -> str:
        return str(self)

    @property
    def place(self) -> str:
        return f"{self.file} {self.function}"


def closing(text: str, start: int) -> int:
    """The position of the parenthesis that closes the one at start."""
    depth = 0
    for position, char in characters(text, start):
        depth += {"(": 1, ")": -1}.get(char, 0)
        if depth == 0:
            return position
    raise ValueError("unbalanced parentheses")


def terms_of(condition: str) -> tuple[list[str], set[str]]:
    """The terms of a condition and the operators between them."""
    terms, operators = split_outside(condition, "&&", "||")
    return terms, set(operators)


class Instrumented:
    """A file of the server with a switch at each point; the first has the number "first"."""

    def __init__(self, file: str, source: str, first: int):
        self.file = file
        self.blank = without_comments(source)
        self.number = first  # of the next point
        self.points: list[Point] = []
        edits: list[tuple[int, int, str]] = []
        for function in functions_of(self.blank):
            self.function = function.name  # for add()
            edits += self.edits_of(function.body + 2, function.end - 1)
        self.text = source
        for start, end, text in reversed(edits):
            self.text = self.text[:start] + text + self.text[end:]

    def add(self, position: int, kind: str, text: str) -> int:
        line = self.blank.count("\n", 0, position) + 1
        last = line + text.strip().count("\n")
        self.points.append(Point(self.number, self.file, self.function, line, kind, " ".join(text.split()), last))
        self.number += 1
        return self.number - 1

    def edits_of(self, start: int, end: int) -> Iterator[tuple[int, int, str]]:
        """What replaces which part of a function's body."""
        position = start
        while position < end:
            stop = self.blank.index("\n", position)
            line = self.blank[position:stop]
            condition = CONDITION.match(line)
            if line.startswith("#"):
                while self.blank[stop - 1] == "\\":
                    stop = self.blank.index("\n", stop + 1)
            elif condition:
                begin = position + condition.end()
                stop = closing(self.blank, begin - 1)
                text = self.blank[begin:stop]
                if "#" not in text and not re.search(r"errstart|message_level_is", text):
                    yield begin, stop, self.switched_condition(begin, text)
            elif re.match(r"\t+[A-Za-z_*(+-]", line):
                begin = position + len(line) - len(line.lstrip("\t"))
                if not LABEL.match(line):
                    # to the end of the statement, or of what stands before a block
                    stop = next(at for at, char in characters(self.blank, begin) if char in ";{}") + 1
                text = self.blank[begin:stop]
                if text.endswith(";") and "#" not in text and STATEMENT.match(text) and not LEFT_ALONE.search(text):
                    number = self.add(begin, "left out", text)
                    # of a variable that has no other value, the compiler assumes that it has this one
                    variable = re.match(r"(\w+)(?:\.\w+|\[[^\]]*\])* = ", text)
                    otherwise = f' else {{ __asm__ volatile ("" : "+m" ({variable[1]})); }}' if variable else ""
                    yield begin, stop, f"{{ if (!MUTANT({number})) {{ {text} }}{otherwise} }}"
            position = self.blank.index("\n", stop) + 1

    def switched_condition(self, position: int, condition: str) -> str:
        """The condition with its switches.  What it does besides happens in any case, and a switch
        is reached only where it would make a difference.
        """
        terms, operators = terms_of(condition)
        text = condition
        if len(operators) == 1:
            operator = operators.pop()
            switched = []
            for term in terms:
                number = self.add(position, "term ignored", f"{term.strip()} in {condition}")
                switched.append(f"(({term}) || MUTANT({number}))" if operator == "&&" else f"(({term}) && !MUTANT({number}))")
            text = f" {operator} ".join(switched)
        # the operands are evaluated twice
        elif not operators and not re.search(r"\+\+|--", condition) and (bound := BOUND.fullmatch(condition)):
            left, sign, right = bound.groups()
            number = self.add(position, "bound", f"{condition} with {OTHER_BOUND[sign]}")
            when_equal = f"!MUTANT({number})" if "=" in sign else f"MUTANT({number})"
            text = f"(({left}) == ({right}) ? {when_equal} : ({left}) {sign} ({right}))"
        always, never = self.add(position, "always", condition), self.add(position, "never", condition)
        return f"(({text}) || MUTANT({always})) && !MUTANT({never})"


def instrument(source: Path, files: Iterable[str], first: int = 1) -> tuple[list[Point], dict[str, str]]:
    """Returns the points in files of a source, and the files with a switch at each; the first has the number "first"."""
    points: list[Point] = []
    texts = {}
    for file in files:
        done = Instrumented(file, (source / file).read_text(errors="replace"), first + len(points))
        points += done.points
        texts[file] = done.text
    return points, texts
