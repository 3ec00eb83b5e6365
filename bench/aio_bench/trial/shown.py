"""The patch as the page shows it: each line with what tests did with it.  Standard library only."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..mutants.bugs import without_comments
from .bugs import Tried
from .coverage import Coverage, Gap
from .patch import Patch

#: what a line is, in words, and its sign; a line is the first of these that is true
KINDS = {
    "never": ("✗", "never executed"),
    "unnoticed": ("?", "executed, and a bug in it that no test notices"),
    "branch": ("½", "executed, and an outcome that never happens"),
    "noticed": ("✓", "executed, and each bug in it was noticed"),
    "executed": ("·", "executed"),
}


@dataclass(frozen=True)
class Line:
    #: as in a diff
    text: str
    #: of KINDS; empty: a line that is not new, or that cannot be executed
    kind: str = ""
    notes: tuple[str, ...] = ()


def _line(number: int, text: str, count: int | None, gaps: Sequence[Gap], bugs: Sequence[Tried]) -> Line:
    here = [gap for gap in gaps if gap.first <= number <= gap.last]
    tried = [each for each in bugs if each.point.line == number]
    outcomes = [gap.never for gap in here if gap.never]
    kinds = {"never": len(here) > len(outcomes), "unnoticed": any(not each.by for each in tried), "branch": outcomes, "noticed": tried, "executed": count}
    told = [f"not noticed: {each.point.kind}: {each.point.text}" for each in tried if not each.by] + outcomes
    if by := dict.fromkeys(each.by for each in tried if each.by):
        told.append(f"noticed by {', '.join(by)}")
    return Line(text, next((kind for kind, is_true in kinds.items() if is_true), ""), tuple(told))


def lines_of(patch: Patch, source: Path, covered: Coverage, gaps: Iterable[Gap], bugs: Iterable[Tried]) -> dict[str, list[Line]]:
    found = {}
    for name, diff in patch.shown.items():
        gaps_of, bugs_of = [gap for gap in gaps if gap.file == name], [each for each in bugs if each.point.file == name]
        new, counts = patch.lines.get(name, set()), covered.files[name].lines if name in covered.files else {}
        code = without_comments((source / name).read_text(errors="replace")).split("\n") if new else []
        lines = found[name] = list[Line]()
        for number, text in diff:
            line = _line(number, text, counts.get(number), gaps_of, bugs_of) if number in new else Line(text)
            # a statement's other lines are not counted
            if number in new and not line.kind and number not in counts and code[number - 1].strip() not in ("", "{", "}", "else") and code[number - 2].rstrip()[-1:] not in ("", ";", "{", "}", ":"):
                line = Line(text, lines[-1].kind, line.notes)
            lines.append(line)
    return found
