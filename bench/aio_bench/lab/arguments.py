"""Command lines of the lab and of the demo.  Standard library only, because they are read before anything is
installed or set up."""

import argparse
import os
import re
import sys
import tomllib
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

from .. import project, servers
from . import devices

CASES = project.ROOT / "bench" / "cases"

# R3 on this machine's storage, and on a device of 1 ms
DEMO = ("r03_repeated_blocks", "r03_device")

# an interval of fewer rounds says nothing
MIN_RUNS = 7


@dataclass(frozen=True)
class ServerName:
    #: what servers/run calls the server
    name: str
    #: what the user calls it; empty: by its version
    label: str = ""


def server_name(text: str) -> ServerName:
    """Returns the server that [LABEL=]SERVER names."""
    label, _, name = text.rpartition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"{text!r}: a server, or LABEL=SERVER")
    return ServerName(servers.server_name(name), label)


def _of_environment() -> list[ServerName]:
    """Returns the servers of PG_CONFIG, which blanks or colons separate."""
    return [server_name(path if "/" in path else f"./{path}") for path in os.environ.get("PG_CONFIG", "").replace(":", " ").split()]


def _titles(directory: Path) -> dict[Path, tuple[str, str]]:
    """Returns id and title of each case as its file has them, unchecked."""
    found = {}
    for path in sorted(directory.glob("*.toml")):
        data = tomllib.loads(path.read_text())
        found[path] = (str(data.get("id", "")), str(data.get("title", "")))
    return found


def find_cases(name: str, directory: Path = CASES) -> list[Path]:
    """Returns the case of a path, the case with an id or file name (r1, R1, r01_alternating), all cases of a letter
    (r), or all."""
    if name.endswith(".toml") or "/" in name:
        return [Path(name)]
    titles = _titles(directory)
    letter = re.compile("" if name == "all" else rf"{name}\d" if re.fullmatch("[a-z]", name.lower()) else "$.", re.IGNORECASE)
    found = [path for path, (id, _) in titles.items() if name == path.stem or name.lower() == id.lower() or letter.match(id)]
    if not found:
        raise argparse.ArgumentTypeError(f"no case is called {name!r}; bench/lab --list shows them")
    return found


def _device(text: str) -> str:
    try:
        for name in text.split(","):
            devices.named(name)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _has_own_device(path: Path) -> bool:
    """Returns whether the case is about a device, so that --device must not replace it."""
    return path.is_file() and re.search(r'io_device\(|^device = (?!.*"none")', path.read_text(), re.MULTILINE) is not None


def _runs(text: str) -> int:
    number = int(text)
    if number < MIN_RUNS:
        raise argparse.ArgumentTypeError(f"at least {MIN_RUNS}: the interval of fewer says nothing")
    return number


def _common(parser: argparse.ArgumentParser, output: str) -> None:
    parser.add_argument("--server", dest="servers", action="append", type=server_name, metavar="[LABEL=]SERVER",
                        help="once or twice: the path of a pg_config, a name that servers/provide --list shows, or a source tree,"
                             " source-optimised:PATH[@REVISION]; LABEL is its name in the report (default: the servers of PG_CONFIG,"
                             " else Debian's packages of each version)")
    parser.add_argument("--runs", type=_runs, help="rounds at least (default: what the case says)")
    parser.add_argument("--output", type=Path, default=project.ROOT / "build" / output, metavar="DIR",
                        help=f"where results, pictures and pages go (default: build/{output})")
    parser.add_argument("--work", type=Path, default=Path("/var/tmp"), metavar="DIR",
                        help="where the clusters are meanwhile: its file system is measured (default: %(default)s)")


def _servers(parser: argparse.ArgumentParser, parsed: argparse.Namespace) -> tuple[ServerName, ...]:
    named = tuple(parsed.servers or _of_environment() or map(ServerName, servers.stock_servers()))
    if len(named) > 2:
        parser.error("more than two servers")
    labels = [server.label for server in named if server.label]
    if len(set(labels)) < len(labels):
        parser.error(f"two servers have the label {labels[0]}")
    return named


def _found(parser: argparse.ArgumentParser, names: list[str]) -> tuple[Path, ...]:
    try:
        return tuple(dict.fromkeys(path for name in names for path in find_cases(name)))
    except (argparse.ArgumentTypeError, OSError, tomllib.TOMLDecodeError) as error:
        parser.error(str(error))


def parse_demo(argv: list[str] | None = None) -> Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/demo",
        description="Shows R3, a read stream that meets its own blocks again, on two servers: measured with direct I/O and on a simulated"
        " device of 1 ms, then drawn as a timeline of I/Os.  Missing servers and packages are set up first.",
    )
    _common(parser, "demo")
    parsed = parser.parse_args(argv)
    parsed.cases, parsed.servers, parsed.output = _found(parser, list(DEMO)), _servers(parser, parsed), parsed.output.absolute()
    return parsed


def parse(argv: list[str] | None = None) -> Namespace | None:
    """Returns the lab's arguments.  Returns None if there was only something to show."""
    parser = argparse.ArgumentParser(
        prog="bench/lab",
        description="Measures cases of bench/cases on two servers, one against the other, or on one.",
        epilog="With --bisect the exit status is 0 for good, 1 for bad, 125 for cannot tell, as git bisect run wants it.",
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help="r1, r01_alternating, a path; a letter: all cases of that letter; or: all")
    parser.add_argument("--query", type=Path, metavar="FILE",
                        help="measure the last statement of FILE in place of a case, after all relations have been evicted from the buffer pool")
    parser.add_argument("--setup", type=Path, metavar="FILE", help="statements that prepare the database for the query, run once on each server")
    parser.add_argument("--device", type=_device, metavar="NAME[,NAME]…",
                        help=f"simulate storage devices: {', '.join(devices.PRESETS)} (bench/README.md), a latency such as 1ms, or none")
    parser.add_argument("--measure", default="", metavar="FIGURE", help="compare by another figure than the case's: cpu, ios … (bench/README.md)")
    parser.add_argument("--list", action="store_true", help="show the cases")
    _common(parser, "lab")
    parser.add_argument("--only", default="", metavar="VALUES",
                        help="only variants with these values, such as --only 'io_uring, direct'")
    parser.add_argument("--quick", action="store_true",
                        help=f"{MIN_RUNS} rounds and no more: shows whether it works and which is faster; do not quote")
    parser.add_argument("--most-runs", type=_runs, help="rounds at most (default: what the case says)")
    parser.add_argument("--seconds", type=project.positive, help="no further round of a variant begins later (default: what the case says)")
    parser.add_argument("--bisect", type=project.positive, metavar="THRESHOLD",
                        help="bad if the first server's figure is at least THRESHOLD times the second's")
    parser.add_argument("--show", dest="saved", action="extend", nargs="+", type=Path, default=[], metavar="FILE",
                        help="measure nothing: show saved results, such as build/lab/*.jsonl, and draw their pictures and page; once or several times")
    parsed = parser.parse_intermixed_args(argv)
    if parsed.list:
        for path, (id, title) in _titles(CASES).items():
            print(f"{id:10} {path.stem:24} {title}")
        return None
    if sum(map(bool, (parsed.cases, parsed.saved, parsed.query))) != 1:
        parser.error("name a case, which bench/lab --list shows, or all; or --show FILE, saved results; or --query FILE: one of the three")
    if parsed.setup and not parsed.query:
        parser.error("--setup goes with --query; a case has its own")
    for path in filter(None, (parsed.query, parsed.setup, *parsed.saved)):
        if not path.is_file():
            parser.error(f"{path}: no file")
    parsed.cases, parsed.servers, parsed.output = _found(parser, parsed.cases), _servers(parser, parsed), parsed.output.absolute()
    if parsed.device and (own := [path for path in parsed.cases if _has_own_device(path)]):
        told = f"{', '.join(path.stem for path in own)}: --device cannot replace a case's own device"
        if len(own) == len(parsed.cases):
            parser.error(told)
        print(f"bench/lab: left out: {told}", file=sys.stderr)
        parsed.cases = tuple(path for path in parsed.cases if path not in own)
    if parsed.bisect and (len(parsed.servers) != 2 or len(parsed.cases) + bool(parsed.query) != 1):
        parser.error("--bisect needs one case and two servers: the first is judged against the second")
    return parsed
