"""Two servers, the same scenarios: the shortest schedule on which they part."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from .search import Graph

#: differences between major versions that are meant, with the reason
KNOWN = Path(__file__).with_name("known.toml")


@dataclass
class Parting:
    """Where two servers part, and how."""

    schedule: list[str]
    before: list[str]       # what only the state of the first has, and its choices
    after: list[str]


def parting(before: Graph, after: Graph) -> Parting | None:
    """The first of the shortest schedules after which two servers are not in the same state."""
    start = (before.first, after.first)
    paths: dict[tuple[str, str], list[str]] = {start: []}
    queue = [start]
    for pair in queue:
        one, other = before.lines[pair[0]], after.lines[pair[1]]
        if one != other:
            return Parting(paths[pair], [line for line in one if line not in other], [line for line in other if line not in one])
        left, right = before.edges.get(pair[0], {}), after.edges.get(pair[1], {})
        for choice in sorted(set(left) & set(right)):
            pair_after = (left[choice], right[choice])
            if pair_after not in paths:
                paths[pair_after] = [*paths[pair], choice]
                queue.append(pair_after)
    return None


def why_known(majors: tuple[int, int], scenario: str, found: Parting) -> str:
    """The reason for a difference between two major versions that is meant, or nothing."""
    line = f"{scenario}: {' '.join(found.schedule)}".strip()
    for entry in tomllib.loads(KNOWN.read_text())["difference"]:
        if majors[0] in entry["before"] and majors[1] in entry["after"] and line in entry["partings"]:
            return entry["why"]
    return ""
