"""Two servers, the same scenarios: the shortest schedule on which they part.

The graph of the first server is kept in the cache, by what the server's program is and by
what the scenario, the explorer and the extension are.
"""

import gzip
import json
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

from .. import project
from .scenario import Scenario
from .search import Graph

#: differences between major versions that are meant, with the reason
KNOWN = Path(__file__).with_name("known.toml")


class Store:
    """Graphs of one server."""

    def __init__(self, server: str, directory: Path = project.CACHE / "graphs") -> None:
        self.directory = directory / server
        #: what an exploration depends on besides the server and the scenario
        self.tools = project.digest(*sorted(Path(__file__).parent.glob("*.py")), *sorted((project.ROOT / "src").rglob("*.[ch]")))

    def _path(self, scenario: Scenario, method: str, budget: int) -> Path:
        what = project.digest(also=f"{self.tools} {scenario!r}")[:16]
        return self.directory / f"{scenario.name}.{method}.{budget}.{what}.json.gz"

    def get(self, scenario: Scenario, method: str, budget: int) -> Graph | None:
        path = self._path(scenario, method, budget)
        if not path.exists():
            return None
        return Graph(**json.loads(gzip.decompress(path.read_bytes())))

    def put(self, scenario: Scenario, method: str, budget: int, graph: Graph) -> None:
        path = self._path(scenario, method, budget)
        path.parent.mkdir(parents=True, exist_ok=True)
        # of what a scenario was before, or was explored with, nothing is needed
        for old in self.directory.glob(f"{scenario.name}.{method}.{budget}.*.gz"):
            old.unlink(missing_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(gzip.compress(json.dumps(vars(graph)).encode(), mtime=0))
        part.rename(path)


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
