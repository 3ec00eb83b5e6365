"""The command line of bench/demo.  Standard library only: it is read before
anything is installed."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

from . import casefile, project

CASE = project.ROOT / "bench" / "cases" / "r03_repeated_blocks.toml"
STOCK = ["18-stock", "19-stock"]


@dataclass(frozen=True)
class Arguments:
    case: Path
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


def parse() -> Arguments:
    parser = argparse.ArgumentParser(
        prog="bench/demo",
        description="Measures a case on stock 18 and 19, one against the other, and sets up before what is missing."
        " PG_CONFIG in the environment, one or two of them separated by blanks or colons: these servers instead.",
    )
    parser.add_argument("case", nargs="?", type=Path, default=CASE,
                        help="case file (default: bench/cases/r03_repeated_blocks.toml)")
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
        parsed.case, [f"pg_config:{path}" for path in own] or STOCK, parsed.runs, parsed.output.absolute(), parsed.work
    )
