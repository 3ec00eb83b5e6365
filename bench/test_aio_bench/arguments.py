"""The command line of bench/demo.  Standard library only: it is read before
anything is installed."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

from . import casefile, project

CASES = project.ROOT / "bench" / "cases"
STOCK = ["18-stock", "19-stock"]

# R3 on this machine's storage, and the same where each read takes 1 ms
DEMO = ("r03_repeated_blocks", "r03_device")


@dataclass(frozen=True)
class Arguments:
    cases: list[Path]
    #: no case was named: all that there is to be seen, in two minutes
    demo: bool
    #: as servers/run calls them
    servers: list[str]
    #: None: what the case says
    runs: int | None
    output: Path
    work: Path


def _runs(text: str) -> int:
    number = int(text)
    if number < casefile.MIN_RUNS:
        raise argparse.ArgumentTypeError(f"at least {casefile.MIN_RUNS}, or the interval of the ratio says nothing")
    return number


def find_case(name: str, directory: Path = CASES) -> Path:
    """A path, or one of ours by its id or file name: r1, R1, r01_alternating."""
    if name.endswith(".toml") or "/" in name:
        return Path(name)
    for path in sorted(directory.glob("*.toml")):
        if name == path.stem or name.lower() == casefile.load(path).id.lower():
            return path
    raise argparse.ArgumentTypeError(f"no case is called {name!r}; bench/lab --list shows them")


def parse() -> Arguments:
    parser = argparse.ArgumentParser(
        prog="bench/demo",
        description="Shows R3, a read stream that meets its own blocks again, on stock 18 and 19: measured with direct I/O and on a simulated"
        " device of 1 ms, then drawn as a timeline of I/Os.  Or measures the case that is named.  What is missing is set up before."
        " PG_CONFIG in the environment, one or two of them separated by blanks or colons: these servers instead.",
    )
    parser.add_argument("case", nargs="?", type=find_case, help="r1, r01_alternating, a path; bench/lab --list shows them")
    parser.add_argument("--runs", type=_runs,
                        help="runs of each server with each io_method or what else is varied; more are added while they do not tell"
                             " (default: what the case says)")
    parser.add_argument("--output", type=Path, default=project.ROOT / "build" / "demo", metavar="DIR",
                        help="where JSON and pictures go (default: build/demo)")
    parser.add_argument("--work", type=Path, default=Path("/var/tmp"), metavar="DIR",
                        help="where the clusters are meanwhile: its file system is measured (default: %(default)s)")
    parsed = parser.parse_args()
    own = os.environ.get("PG_CONFIG", "").replace(":", " ").split()
    if len(own) > 2:
        parser.error("PG_CONFIG names more than two servers")
    return Arguments(
        [parsed.case] if parsed.case else [find_case(name) for name in DEMO], parsed.case is None,
        [f"pg_config:{path}" for path in own] or STOCK, parsed.runs, parsed.output.absolute(), parsed.work,
    )
