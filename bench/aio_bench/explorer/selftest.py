"""Tests the explorer: errors that are planted must be found, shortened, replayed and traced."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import shlex
import tempfile
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from ..project import ROOT, Problem
from . import scenario as scenarios

if TYPE_CHECKING:
    from .exploration import Exploration

PLANTED = ROOT / "bench/tests/planted.toml"


def must(true: object, what: str, output: str = "") -> None:
    if not true:
        raise Problem(f"{what}\n{output}")


class SelfTest:
    def __init__(self, parser: argparse.ArgumentParser, exploration: Exploration, directory: Path) -> None:
        self.parser = parser
        self.exploration = exploration
        self.directory = directory

    def explore(self, *options: str) -> tuple[bool, str]:
        """Explores the scenario that the options name, or replays it; returns whether all was well, and what was printed."""
        arguments = self.exploration.arguments = self.parser.parse_args(["--method", "worker", *options])
        [scenario] = scenarios.load_all(arguments.scenarios)
        with contextlib.redirect_stdout(io.StringIO()) as output:
            replayed = arguments.replay is not None
            well = self.exploration.replay(scenario) == 0 if replayed else self.exploration.explore(scenario, "worker", 1)["result"] == "well"
        return well, output.getvalue()

    def planted_error_is_found_and_replayed(self) -> None:
        well, output = self.explore(str(PLANTED))
        must(not well and "B1 returns 1; no serial run does: 0" in output, "a planted error is not found", output)
        shortened = re.search(r"shortened from (\d+) choices to (\d+): (.*)", output)
        must(shortened and int(shortened[1]) > int(shortened[2]) == 1 and shortened[3] == "A1",
             "its schedule is not shortened to the one choice that matters", output)
        line = re.search(r"^bench/explorer (.*)$", output, re.MULTILINE)
        must(line, "no command replays it", output)
        assert line
        trace = self.directory / "trace.json"
        well, output = self.explore(*shlex.split(line[1]), "--trace", str(trace))
        must(not well and "B1 returns 1; no serial run does: 0" in output, "its replay does not fail", output)
        must(re.search(r"^  A1 +B@0 -  A@0 A:0\+1", output, re.MULTILINE), "its replay does not show who waits for what", output)
        ios = [json.loads(line) for line in trace.read_text().splitlines()]
        must(len(ios) > 1, f"its trace has {len(ios)} I/Os")
        # the other order is right
        well, output = self.explore(str(PLANTED), "--replay", "B1 A1")
        must(well and "all is as it should be" in output, "a schedule that is right fails", output)

    def other_servers_are_noticed(self) -> None:
        """A graph in which one state is another one stands for another server."""
        [right] = scenarios.load_all(["one_session"])
        with contextlib.redirect_stdout(io.StringIO()) as output:
            row = self.exploration.explore(right, "worker", 1)
            graph = deepcopy(row["graph"])
            other = cast("Exploration", SimpleNamespace(
                major=self.exploration.major, explore=lambda *_: {"graph": graph}, walk=lambda *_: [("A1", "", ["what the other server does not have"])]))
            same = self.exploration.compare(other, right, row)
            graph.lines[graph.edges[graph.first]["A1"]].append("what the other server does not have")
            differs = self.exploration.compare(other, right, row)
        must(same["result"] == "same", f"a server that does the same differs: {same['result']}", output.getvalue())
        must(differs["result"] == "differs" and differs["schedule"] == "A1"
             and differs["before"] == ["what the other server does not have"] and "DIFFERS: one_session (worker) after A1" in output.getvalue(),
             "a server that differs in a state is not noticed", output.getvalue())

    def the_model_judges(self) -> None:
        """By the model of another version, this server joins reads that it must not join, or does not join them."""
        major = self.exploration.major
        self.exploration.major = 19 if major < 19 else 18
        try:
            well, output = self.explore("overlapping", "--first")
        finally:
            self.exploration.major = major
        must(not well and re.search(r'^    the model says "', output, re.MULTILINE), "a server that does not do what the model says is not noticed", output)

    def unfinished_is_said(self) -> None:
        self.exploration.unfinished = []
        well, output = self.explore("one_session", "--seconds", "0.000001")
        must("NOT FINISHED" in output and self.exploration.unfinished, "a search that does not end is not told", output)


def passes(parser: argparse.ArgumentParser, exploration: Exploration) -> bool:
    """Runs all of it on the cluster of an exploration, which is as before afterwards."""
    before = (exploration.arguments, exploration.unfinished)
    try:
        with tempfile.TemporaryDirectory() as directory:
            test = SelfTest(parser, exploration, Path(directory))
            test.planted_error_is_found_and_replayed()
            test.other_servers_are_noticed()
            test.the_model_judges()
            test.unfinished_is_said()
    except Problem as failed:
        print(f"FAILED: the explorer's self-test: {failed}", flush=True)
        return False
    finally:
        exploration.disconnect()
        exploration.arguments, exploration.unfinished = before
    print("the explorer's self-test: planted errors are found, shortened, replayed and traced", flush=True)
    return True
