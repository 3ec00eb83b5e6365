"""Graphs of states that are kept, and the first place where another one parts from them.

A file holds the graph of one scenario for one major version and one io_method. A line
is a state: its number, what stands in its text as a digest, and where its choices lead:

    0 5f2c9a1b A1>1 B1>2
"""

from __future__ import annotations

from pathlib import Path

from .search import Graph

DIRECTORY = Path(__file__).resolve().parents[1] / "graphs"


def file_of(scenario: str, major: int, method: str, directory: Path = DIRECTORY) -> Path:
    """io_methods share a graph unless one has a file of its own."""
    own = directory / f"{scenario}.{major}.{method}"
    return own if own.exists() else directory / f"{scenario}.{major}"


def keep(graph: Graph, scenario: str, major: int, method: str, directory: Path = DIRECTORY) -> None:
    text = text_of(graph)
    shared = directory / f"{scenario}.{major}"
    own = directory / f"{scenario}.{major}.{method}"
    if method == "worker" or not shared.exists() or shared.read_text() == text:
        shared.write_text(text)
        own.unlink(missing_ok=True)
    else:
        own.write_text(text)


def _in_order(graph: Graph) -> list[str]:
    """States in the order of a breadth first walk."""
    order, queue = {graph.first: 0}, [graph.first]
    for state in queue:
        for choice in sorted(graph.edges.get(state, {})):
            after = graph.edges[state][choice]
            if after not in order:
                order[after] = len(order)
                queue.append(after)
    return queue


def text_of(graph: Graph) -> str:
    order = _in_order(graph)
    number = {state: place for place, state in enumerate(order)}
    lines = []
    for state in order:
        choices = " ".join(f"{choice}>{number[after]}" for choice, after in sorted(graph.edges.get(state, {}).items()))
        lines.append(f"{number[state]} {state} {choices}".rstrip())
    return "\n".join(lines) + "\n"


def parse(text: str) -> Graph:
    graph = Graph()
    rows = [line.split(" ") for line in text.splitlines()]
    digests = [row[1] for row in rows]
    for row in rows:
        graph.brief[row[1]] = ""
        graph.edges[row[1]] = {choice: digests[int(place)] for choice, _, place in
                               (part.rpartition(">") for part in row[2:])}
    graph.first = digests[0]
    return graph


def first_difference(kept: Graph, found: Graph) -> tuple[list[str], str] | None:
    """The shortest path after which the two are not the same, and in what."""
    if kept.first != found.first:
        return [], "the first state is another one"
    paths: dict[str, list[str]] = {kept.first: []}
    queue = [kept.first]
    for state in queue:
        before, after = kept.edges.get(state, {}), found.edges.get(state, {})
        for choice in sorted(set(before) | set(after)):
            path = [*paths[state], choice]
            if choice not in after:
                return path, f"{choice} is not possible; the kept graph has it"
            if choice not in before:
                return path, f"{choice} is possible; the kept graph does not have it"
            if before[choice] != after[choice]:
                return path, (f"{choice} leads to another state than in the kept graph; next come there"
                              f" {', '.join(sorted(kept.edges[before[choice]])) or 'nothing'},"
                              f" and here {', '.join(sorted(found.edges[after[choice]])) or 'nothing'}")
            if before[choice] not in paths:
                paths[before[choice]] = path
                queue.append(before[choice])
    return None


def first_parting(one: Graph, other: Graph) -> tuple[list[str], set[str], set[str]] | None:
    """The shortest schedule after which not the same choices are possible, and what only one has."""
    start = (one.first, other.first)
    paths: dict[tuple[str, str], list[str]] = {start: []}
    queue = [start]
    for pair in queue:
        left, right = one.edges.get(pair[0], {}), other.edges.get(pair[1], {})
        if set(left) != set(right):
            return paths[pair], set(left) - set(right), set(right) - set(left)
        for choice in sorted(left):
            after = (left[choice], right[choice])
            if after not in paths:
                paths[after] = [*paths[pair], choice]
                queue.append(after)
    return None


def print_differences(scenario: str, majors: list[int], directory: Path = DIRECTORY) -> bool:
    """Prints how large the graphs of two versions are and where they part; returns whether they do."""
    files = [directory / f"{scenario}.{major}" for major in majors]
    if not all(file.exists() for file in files):
        return False
    one, other = (parse(file.read_text()) for file in files)
    parting = first_parting(one, other)
    if parting is None and len(one.edges) == len(other.edges):
        return False
    sizes = "   ".join(f"{major}: {len(graph.edges)} states, {sum(map(len, graph.edges.values()))} choices"
                       for major, graph in zip(majors, (one, other)))
    print(f"{scenario:22} {sizes}")
    if parting:
        path, left, right = parting
        print(f"    {' '.join(path) or '(begin)'}\n    then " + "; ".join(
            f"only {major}: {' '.join(sorted(found))}" for major, found in zip(majors, (left, right)) if found))
    return True
