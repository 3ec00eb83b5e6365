"""bench/explorer: explores the orders in which reads complete, fail and are joined.

Sessions run statements; every read of a table is held by the I/O gate.  At each quiet point
the next choice is a session's next statement, a cancel, or the release of one held read.
A run ends when all is done, or at a state that is known already; what is
seen on the way is judged.  See doc/explorer.md.
"""

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from .. import project
from ..servers import server_name
from . import scenario as scenarios


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench/explorer", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", help="names of scenarios, FILE or FILE:NAME; default: those of the tier")
    parser.add_argument("--server", default="18-instrumented", type=server_name,
                        help="a name that servers/provide --list shows, or the path of a pg_config")
    parser.add_argument("--method", action="append", choices=scenarios.METHODS, help="default: each of a scenario's")
    parser.add_argument("--tier", choices=scenarios.TIERS, default="quick",
                        help="quick: some scenarios, some seconds each; long: all, two failures in a schedule")
    parser.add_argument("--seconds", type=project.positive,
                        help="longest time for one scenario with so many failures; default 120, in the long tier 60")
    parser.add_argument("--replay", metavar="SCHEDULE", help="run one schedule of one scenario, and show each step")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="with --replay: write what was traced, for bench/timeline")
    parser.add_argument("--before", type=server_name, metavar="SERVER",
                        help="explore this server, too, and tell where the two part")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was found, too, as JSON")
    parser.add_argument("--first", action="store_true", help="stop at the first failure, and do not shorten it")
    parser.add_argument("--list", action="store_true", help="print the scenarios and stop")
    parser.add_argument("--staged", type=Path, metavar="DIR", help="where the extension is staged already")
    parser.add_argument("--self-test", action="store_true",
                        help="first see whether planted errors are found, shortened and replayed")
    parser.add_argument("--if-possible", action="store_true", help="without psycopg, say so and succeed")
    return parser


def explore(arguments: argparse.Namespace, named: list[scenarios.Scenario]) -> int:
    from . import selftest
    from .cluster import Cluster
    from .exploration import Exploration, choose, explore_all

    with project.directory(Path("/tmp")) as work, ExitStack() as at_end:
        def prepared(server: str, name: str, stage: Path | None = None) -> Exploration:
            cluster = Cluster(server, work / name, stage)
            at_end.callback(cluster.stop)
            exploration = Exploration(arguments, cluster)
            cluster.begin_prepare()
            cluster.finish_prepare()
            return exploration

        exploration = prepared(arguments.server, "c", arguments.staged)
        cluster = exploration.cluster
        chosen = choose(arguments, named, exploration.major)
        if why_not := cluster.serve("worker", named[0]).why_no_gate():
            # the version of this server is not known, or the gate was compiled for another one
            print(f"explorer: {'SKIPPED' if arguments.if_possible else 'FAILED'}, and its self-test, too:"
                  f" the gate is off on PostgreSQL {cluster.build.number}: {why_not}", flush=True)
            return 0 if arguments.if_possible else 1
        if arguments.self_test and not selftest.passes(make_parser(), exploration):
            return 1
        if arguments.replay is not None:
            if not chosen:
                raise project.Problem(f"{named[0].name} is not for PostgreSQL {cluster.build.major}")
            return exploration.replay(chosen[0])
        before = prepared(arguments.before, "before") if arguments.before else None
        return explore_all(arguments, exploration, chosen, before)


def main(argv: Sequence[str] | None = None) -> int:
    parser = make_parser()
    arguments = parser.parse_args(argv)
    if arguments.trace and arguments.replay is None:
        parser.error("--trace goes with --replay")
    files = [path.resolve().parent for path in (arguments.trace, arguments.json) if path]
    if missing := [str(directory) for directory in (*files, arguments.staged) if directory and not directory.is_dir()]:
        parser.error(f"there is no directory {missing[0]}")
    if arguments.if_possible and project.missing("psycopg"):
        print("explorer: SKIPPED: it needs psycopg 3 (apt-get install python3-psycopg)")
        return 0

    def body() -> int:
        named = scenarios.load_all(arguments.scenarios)
        if arguments.replay is not None and len(named) != 1:
            parser.error("--replay is about one scenario")
        if arguments.list:
            for one in named:
                print(f"{one.name:28} {one.tier:6} {one.about}")
            return 0
        if not project.provide("bench/explorer", [arguments.server, *filter(None, [arguments.before])], ["psycopg"]):
            return 2
        return explore(arguments, named)

    return project.perform("bench/explorer", body, 2)
