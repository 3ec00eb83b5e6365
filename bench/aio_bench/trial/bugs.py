"""Bugs seeded by rule into a patch's own lines: all in one server, a switch each (mutants/points.py), tried with the
tests that reach them (mutants/engine.py).  Standard library only."""

import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import project
from ..mutants import points, switches
from ..mutants.engine import Engine
from ..mutants.points import Point

# so many tests are tried for a bug, those first that are about its place
MOST_TESTS = 25


@dataclass(frozen=True)
class Tried:
    point: Point
    #: the test that noticed it, or None
    by: str | None


def instrument(source: Path, lines: dict[str, set[int]]) -> tuple[list[Point], dict[str, str]]:
    """Returns the points in these lines, and the files of a source with their switches."""
    found, texts = points.instrument(source, sorted(lines))
    return [point for point in found if lines[point.file] & set(range(point.line, point.last + 1))], switches.with_switches(texts, source)


def run(server: Engine, to_do: Sequence[Point], results: Path, minutes: float, note: Callable[[str], None]) -> None:
    """Tries bugs in random order, and keeps a line for each in results."""
    begun = said = time.monotonic()
    with results.open("a") as kept:
        for tried, result in enumerate(server.tries(random.Random(1).sample(to_do, len(to_do)), minutes=minutes, most=MOST_TESTS), 1):
            print(json.dumps(result), file=kept, flush=True)
            if time.monotonic() - said > 30:
                said = time.monotonic()
                note(f"  {said - begun:.0f} s: {tried} of {len(to_do)} bugs")


def tried(chosen: Sequence[Point], results: Path) -> list[Tried]:
    by_name = {str(point): point for point in chosen}
    lines = project.json_lines(results) if results.exists() else ()
    found = {each["name"]: Tried(by_name[each["name"]], (each["by"] or [None])[0]) for each in lines if each["name"] in by_name}
    return sorted(found.values(), key=lambda each: (each.point.file, each.point.line, each.point.number))
