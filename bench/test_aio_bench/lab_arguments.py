"""The command line of bench/lab.  Standard library only: it is read before
anything is installed."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

from . import casefile, project
from .arguments import CASES, STOCK, find_case

# of --quick: enough to see whether it works, not to publish
QUICK_SECONDS = 10


@dataclass(frozen=True)
class LabArguments:
    cases: list[Path]
    #: as servers/run calls them
    servers: list[str]
    #: values that a variant must have, separated by commas; empty: all of them
    only: str
    quick: bool
    runs: int | None
    most_runs: int | None
    seconds: float | None
    narrow: float | None
    bisect: float | None
    output: Path
    work: Path


def server_name(text: str) -> str:
    """As servers/run wants it: a bare path is that of a pg_config."""
    return f"pg_config:{Path(text).absolute()}" if "/" in text and not text.startswith("pg_config:") else text


def _positive(text: str) -> float:
    value = float(text)
    if value <= 0:
        raise argparse.ArgumentTypeError("more than 0")
    return value


def _runs(text: str) -> int:
    number = int(text)
    if number < casefile.MIN_RUNS:
        raise argparse.ArgumentTypeError(f"at least {casefile.MIN_RUNS}, or the interval of the ratio says nothing")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench/lab",
        description="Measures cases of bench/cases on two servers, one against the other.",
        epilog="With --bisect the exit status is 0 for good, 1 for bad, 125 for cannot tell, as git bisect run wants it.",
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help="r1, r01_alternating, a path, or: all")
    parser.add_argument("--list", action="store_true", help="show the cases")
    parser.add_argument("--server", action="append", type=server_name, metavar="SERVER",
                        help="once or twice: a name that servers/provide --list shows, or the path of a pg_config"
                             " (default: those of PG_CONFIG, else 18-stock and 19-stock)")
    parser.add_argument("--only", default="", metavar="VALUES",
                        help="of what is varied only this, as: --only 'io_uring, direct'")
    parser.add_argument("--quick", action="store_true",
                        help=f"{casefile.MIN_RUNS} rounds and no more: whether it works and which sign, no figures to keep")
    parser.add_argument("--runs", type=_runs, help="rounds at least (default: what the case says)")
    parser.add_argument("--most-runs", type=_runs, help="rounds at most (default: what the case says)")
    parser.add_argument("--seconds", type=_positive, help="no round of a variant begins later (default: what the case says)")
    parser.add_argument("--narrow", type=_positive, metavar="SHARE",
                        help="rounds are added until the interval's ends are no further apart (default: what the case says, 0.1)")
    parser.add_argument("--bisect", type=_positive, metavar="THRESHOLD",
                        help="bad if the first server's figure is at least so many times the second's")
    parser.add_argument("--output", type=Path, default=project.ROOT / "build" / "lab", metavar="DIR",
                        help="where JSON lines, pictures and the report page go (default: build/lab)")
    parser.add_argument("--work", type=Path, default=Path("/var/tmp"), metavar="DIR",
                        help="where the clusters are meanwhile: its file system is measured (default: %(default)s)")
    return parser


def _show_cases() -> None:
    for path in sorted(CASES.glob("*.toml")):
        case = casefile.load(path)
        print(f"{case.id:10} {path.stem:24} {case.title}")


def parse(argv: list[str] | None = None) -> LabArguments | None:
    """None: there was nothing to measure, only to show."""
    parser = _parser()
    parsed = parser.parse_args(argv)
    if parsed.list:
        _show_cases()
        return None
    if not parsed.cases:
        parser.error("which case? bench/lab --list shows them; all is all of them")
    servers = parsed.server or [f"pg_config:{path}" for path in os.environ.get("PG_CONFIG", "").replace(":", " ").split()] or STOCK
    if len(servers) > 2:
        parser.error("more than two servers")
    if parsed.bisect and (len(servers) != 2 or len(parsed.cases) != 1 or parsed.cases == ["all"]):
        parser.error("--bisect compares two servers by one case: the first is judged, the second is what it is held against")
    try:
        cases = [path for name in parsed.cases
                 for path in (sorted(CASES.glob("*.toml")) if name == "all" else [find_case(name)])]
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))
    return LabArguments(
        list(dict.fromkeys(cases)), servers, parsed.only, parsed.quick, parsed.runs, parsed.most_runs, parsed.seconds,
        parsed.narrow, parsed.bisect, parsed.output.absolute(), parsed.work,
    )
