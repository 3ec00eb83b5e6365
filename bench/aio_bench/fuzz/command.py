"""bench/fuzz: random work, settings and faults on a server, judged by oracles that need no stored answer.

A seed gives the settings, the tables, and all statements and faults of a run; runs follow each other until the time is
up.  A failure is made smaller, written to build/fuzz as a script, and replayed three times.
"""

import argparse
import os
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import count, islice
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from .. import project
from ..servers import server_name
from .configuration import draw_settings, draw_setup, draw_shape
from .grammar import Grammar
from .script import Script

if TYPE_CHECKING:
    from .cluster import Cluster
    from .driver import Driver

METHODS = ("worker", "io_uring", "sync")
#: so long a failure is made smaller
SHRINK_SECONDS = 60
#: so many last steps of a failure are shown
TRAIL = 8
FOUND = project.ROOT / "build" / "fuzz"


def draw(seed: int, methods: Sequence[str]) -> Script:
    drawn = random.Random(seed)
    method = drawn.choice(methods)
    settings = draw_settings(drawn, method)
    shape = draw_shape(drawn, settings)
    setup = draw_setup(drawn, shape)
    return Script(seed, method, settings, shape, tuple(setup), tuple(Grammar(drawn, shape).steps(drawn.randrange(1, 4), drawn.choice((30, 60, 150)))))


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench/fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="18-instrumented", type=server_name, help="a name that servers/provide --list shows, or the path of a pg_config")
    parser.add_argument("--before", type=server_name, metavar="SERVER", help="of a failure: does this server fail, too?")
    parser.add_argument("--minutes", type=project.positive, default=1.0, help="stop after so many minutes (1)")
    parser.add_argument("--seed", type=int, help="of the first run; each next run has the next number")
    parser.add_argument("--runs", type=int, metavar="N", help="stop after so many runs")
    parser.add_argument("--method", action="append", choices=METHODS, help="io_method; may be repeated; default: drawn for each run")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run this script three times")
    parser.add_argument("--staged", type=Path, metavar="DIR", help="where the extension is staged already")
    parser.add_argument("--first", action="store_true", help="stop at the first failure, and do not make it smaller")
    parser.add_argument("--if-possible", action="store_true", help="without psycopg, say so and succeed")
    return parser


def runs(arguments: argparse.Namespace, methods: Sequence[str], until: float) -> Iterator[Script]:
    if arguments.replay:
        yield from [Script.load(arguments.replay)] * 3
        return
    for seed in islice(count(arguments.seed), arguments.runs):
        if time.monotonic() > until:
            return
        yield draw(seed, methods)


def prepared(server: str, directory: Path, at_end: ExitStack, staged: Path | None = None) -> "Cluster":
    from .below import Below
    from .cluster import Cluster

    cluster = Cluster(server, directory, staged)
    at_end.callback(cluster.end)
    cluster.prepare()
    cluster.below = Below(cluster)
    return cluster


def show(script: Script, failure: str, driver: "Driver", after: float) -> None:
    print(f"\nseed {script.seed}, {script.method}: FAILED after {after:.0f} s\n{failure}\nthe last steps:")
    print("\n".join(f"  {line[:300]}" for line in driver.trail[-TRAIL:]), flush=True)


def tell(arguments: argparse.Namespace, script: Script, failure: str, cluster: "Cluster", at_end: ExitStack) -> None:
    """Makes a failure smaller, writes it, replays it, and tries it on the other server."""
    from .attempt import attempt
    from .shrink import kind, shrink

    smallest = shrink(script, failure, lambda candidate: attempt(cluster, candidate)[0], SHRINK_SECONDS)
    FOUND.mkdir(parents=True, exist_ok=True)
    file = FOUND / f"{script.seed}.json"
    smallest.save(file)
    again = [attempt(cluster, smallest)[0] for _ in range(3)]
    readable = file.with_suffix(".txt")
    readable.write_text(smallest.text() + "\n")
    project.give_to_owner(FOUND, file, readable)
    print(f"made smaller: {len(script.steps)} steps to {len(smallest.steps)}: {readable.relative_to(project.ROOT)}\n"
          f"fails again {sum(bool(found) and kind(found or '') == kind(failure) for found in again)} of 3 times:"
          f" bench/fuzz --server {arguments.server} --replay {file.relative_to(project.ROOT)}", flush=True)
    if arguments.before:
        other = prepared(arguments.before, cluster.directory.with_name("b"), at_end)
        before = [attempt(other, smallest)[0] for _ in range(3)]
        print(f"{arguments.before} fails {sum(map(bool, before))} of 3 times{next((': ' + found for found in before if found), '')}", flush=True)


def fuzz(arguments: argparse.Namespace) -> int:
    from .attempt import attempt

    if arguments.seed is None:
        # CI is no lottery: it has other seeds only for another version or server
        arguments.seed = int(project.digest(project.ROOT / "META.json", also=arguments.server)[:6], 16) if os.environ.get("CI") else random.SystemRandom().randrange(1 << 24)
    begin = time.monotonic()
    # the rest of the line follows
    print("fuzz: " + (f"--replay {arguments.replay}" if arguments.replay else f"--seed {arguments.seed}"), end="", flush=True)
    memory = Path("/dev/shm")
    with project.directory(memory if memory.is_dir() else Path("/tmp")) as work, ExitStack() as at_end:
        cluster = prepared(arguments.server, work / "c", at_end, arguments.staged)
        methods = [method for method in arguments.method or METHODS if method != "io_uring" or not cluster.why_no_io_uring()]
        if not methods:
            print(f": SKIPPED: {cluster.why_no_io_uring()}")
            return 0
        done = 0
        times: list[tuple[float, str]] = []
        # something is done even where preparing takes long
        until = inf if arguments.replay else max(begin + 60 * arguments.minutes, time.monotonic() + 5)
        failures = 0
        for script in runs(arguments, methods, until):
            failure, driver = attempt(cluster, script, until)
            done += 1
            times += driver.times
            if driver.ended:
                print(f"\nseed {script.seed}: ended early: {driver.ended}", end="", flush=True)
            if failure:
                failures += 1
                show(script, failure, driver, time.monotonic() - begin)
                if arguments.replay:
                    continue
                if not arguments.first:
                    tell(arguments, script, failure, cluster, at_end)
                return 1
        print(f": {project.counted(done, 'run')}, {project.counted(len(times), 'statement')}: {f'{failures} of the runs failed' if failures else 'nothing found'}")
        # ten times longer than locks and held reads explain
        for seconds, what in sorted((each for each in times if each[0] > 5), reverse=True)[:10]:
            print(f"took {seconds:.0f} s: {what[:200]}")
    return 1 if failures else 0


def main(argv: Sequence[str] | None = None) -> int:
    arguments = make_parser().parse_args(argv)
    if arguments.if_possible and project.missing("psycopg"):
        print("fuzz: SKIPPED: it needs psycopg 3 (apt-get install python3-psycopg)")
        return 0
    if any(server and server.endswith("-sanitizers") for server in (arguments.server, arguments.before)):
        print("fuzz: SKIPPED: AddressSanitizer will not start after the library that counts system calls")
        return 0 if arguments.if_possible else 1
    return project.perform("bench/fuzz", lambda: fuzz(arguments), names=[arguments.server, *([arguments.before] if arguments.before else [])], modules=["psycopg"])
