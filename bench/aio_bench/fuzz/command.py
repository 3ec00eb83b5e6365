"""bench/fuzz: random work, settings and faults on a server, judged by oracles that need no stored answer.

A seed gives the settings, the tables, and all statements and faults of a run; runs follow each other until the time is
up.  A failure is made smaller, written as a script, and replayed.
"""

import argparse
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from .. import project
from ..servers import server_name
from .configuration import draw_settings, draw_setup, draw_shape
from .grammar import Grammar
from .script import Script

METHODS = ("worker", "io_uring", "sync")


def draw(seed: int, methods: Sequence[str], faults: bool) -> Script:
    drawn = random.Random(seed)
    method = drawn.choice(methods)
    settings, shape = draw_settings(drawn, method), draw_shape(drawn)
    setup = draw_setup(drawn, shape)
    return Script(seed, method, settings, shape, tuple(setup), tuple(Grammar(drawn, shape, faults).steps(drawn.randrange(2, 5), drawn.choice((40, 100, 200)))))


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench/fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="18-instrumented", type=server_name, help="a name that servers/provide --list shows, or the path of a pg_config")
    parser.add_argument("--before", type=server_name, metavar="SERVER", help="of a failure: does this server fail, too?")
    parser.add_argument("--minutes", type=project.positive, default=1.0, help="begin no run after so many minutes (1)")
    parser.add_argument("--seed", type=int, help="of the first run; each next run has the next number")
    parser.add_argument("--method", action="append", choices=METHODS, help="io_method; may be repeated; default: drawn for each run")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run this script")
    parser.add_argument("--staged", type=Path, metavar="DIR", help="where the extension is staged already")
    parser.add_argument("--first", action="store_true", help="stop at the first failure, and do not make it smaller")
    parser.add_argument("--trail", type=int, default=8, metavar="N", help="of a failure, show the last N steps (8)")
    parser.add_argument("--no-faults", action="store_true", help="no errors, holds, delays, cancels")
    parser.add_argument("--if-possible", action="store_true", help="without psycopg, say so and succeed")
    return parser


def runs(arguments: argparse.Namespace, methods: Sequence[str]) -> Iterator[Script]:
    if arguments.replay:
        yield Script.load(arguments.replay)
        return
    deadline = time.monotonic() + 60 * arguments.minutes
    seed = arguments.seed
    while time.monotonic() < deadline:
        yield draw(seed, methods, not arguments.no_faults)
        seed += 1


def fuzz(arguments: argparse.Namespace) -> int:
    from .attempt import attempt
    from .below import Below
    from .cluster import Cluster

    if arguments.seed is None:
        arguments.seed = random.SystemRandom().randrange(1 << 24)
    print(f"fuzz: --seed {arguments.seed}", flush=True)
    memory = Path("/dev/shm")
    with project.directory(memory if memory.is_dir() else Path("/tmp")) as work, ExitStack() as at_end:
        cluster = Cluster(arguments.server, work / "c", arguments.staged)
        at_end.callback(cluster.stop)
        cluster.prepare()
        cluster.below = Below(cluster)
        methods = arguments.method or [method for method in METHODS if method != "io_uring" or not cluster.why_no_io_uring()]
        count = statements = 0
        for script in runs(arguments, methods):
            start = time.monotonic()
            failure, driver = attempt(cluster, script)
            count, statements = count + 1, statements + driver.statements
            if failure:
                print(f"seed {script.seed}, {script.method}: FAILED after {time.monotonic() - start:.1f} s\n{failure}\n" + "\n".join(line[:300] for line in driver.trail[-arguments.trail:]), flush=True)
                return 1
            print(f"seed {script.seed}, {script.method}: {driver.statements} statements, {time.monotonic() - start:.1f} s", flush=True)
        print(f"fuzz: {count} runs, {statements} statements: nothing found")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    arguments = make_parser().parse_args(argv)
    if arguments.if_possible and project.missing("psycopg"):
        print("fuzz: SKIPPED: no psycopg")
        return 0
    return project.perform("bench/fuzz", lambda: fuzz(arguments), names=[arguments.server, *([arguments.before] if arguments.before else [])], modules=["psycopg"])
