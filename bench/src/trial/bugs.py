"""Bugs seeded by rule into a patch's own lines: all in one server, a switch each (mutants/points.py), tried with the
tests that reach them (mutants/engine.py).  Standard library only."""

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import engine  # of mutants/
import points
from switches import with_switch

from .sides import SideError

# the file that gets the switch itself
DEFINES = engine.DEFINES[0]
# so many tests are tried for a bug, those first that are about its place
MOST_TESTS = 25


@dataclass(frozen=True)
class Tried:
    point: points.Point
    #: the test that noticed it, or None; and by what
    by: str | None
    reason: str


def instrument(source: Path, lines: dict[str, set[int]]) -> tuple[list[points.Point], dict[str, str]]:
    """Returns the points in these lines, and the files of a source with their switches."""
    number, chosen, texts = 0, [], {}
    for name in sorted({*lines, DEFINES}):
        text = (source / name).read_text(errors="replace")
        if name in lines:
            done = points.Instrumented(name, text, number + 1)
            number, text = number + len(done.points), done.text
            chosen += [point for point in done.points if lines[name] & set(range(point.line, point.last + 1))]
        texts[name] = with_switch(text, defines=name == DEFINES)
    return chosen, texts


class Switched(engine.Engine):
    """A server with bugs in a patch, and what becomes of them in the tests."""

    failure = SideError

    def __init__(self, server: str, directory: Path, tests: Sequence[str]) -> None:
        """Only these tests are run; all if there are none."""
        super().__init__(server=f"pg_config:{directory}/server/bin/pg_config", directory=directory)
        self.base, self.tests = server, tests

    def reach(self, tier: str = "short") -> set[int]:
        self.install({}, {})
        tree = self.work / "tree"
        for path in [*tree.glob("t/**/*.pl"), *tree.glob("t/recordings/*.sql")]:
            if self.tests and str(path.relative_to(tree)) not in self.tests:
                path.unlink()
        self.must("mutants/inside", "template")
        return super().reach(tier)

    def left_out(self) -> list[str]:
        """Returns the tests that fail without a bug, and are not tried."""
        return json.loads((self.work / "reach-short/left_out.json").read_text())


def run(server: Switched, to_do: Sequence[points.Point], results: Path, minutes: float, note: Callable[[str], None]) -> None:
    """Tries bugs in random order, and keeps a line for each in results."""
    begun = said = time.monotonic()
    with results.open("a") as kept:
        for tried, result in enumerate(server.tries(random.Random(1).sample(to_do, len(to_do)), minutes=minutes, most=MOST_TESTS), 1):
            print(json.dumps(result), file=kept, flush=True)
            if time.monotonic() - said > 30:
                said = time.monotonic()
                note(f"  {said - begun:.0f} s: {tried} of {len(to_do)} bugs")


def _lines(results: Path) -> Iterator[dict]:
    if results.exists():
        for line in results.read_text().splitlines():
            if line.endswith("}"):
                yield json.loads(line)


def tried(chosen: Sequence[points.Point], results: Path) -> list[Tried]:
    by_name = {str(point): point for point in chosen}
    found = {each["name"]: Tried(by_name[each["name"]], (each["by"] or [None])[0], each["reason"]) for each in _lines(results) if each["name"] in by_name}
    return sorted(found.values(), key=lambda each: (each.point.file, each.point.line, each.point.number))
