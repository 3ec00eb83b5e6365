"""The command: explorer/run."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import graphs, judge, scenario as scenarios, search, selftest
from .client import Lost
from .cluster import CHECKOUT, Cluster, ClusterError
from .engine import Engine, NotPossible, Trouble
from .scenario import Scenario

DESCRIPTION = """Explores the orders in which reads complete, fail and are joined.

Sessions run statements; every read of a table is held by the I/O gate.  At each quiet point
the next choice is a session's next statement, a cancel, or the release of one held read.
A run ends when all is done, or at a state that is known already; what is
seen on the way is judged.  See doc/explorer.md."""


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="explorer/run", description=DESCRIPTION,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", help="names of scenarios; default: those of the tier")
    parser.add_argument("--server", default="18-instrumented", type=server_name,
                        help="a name that servers/provide --list shows, or the path of a pg_config")
    parser.add_argument("--method", action="append", choices=scenarios.METHODS, help="default: each of a scenario's")
    parser.add_argument("--tier", choices=scenarios.TIERS, default="quick",
                        help="quick: some scenarios, some seconds each; long: all, two failures in a schedule")
    parser.add_argument("--failures", type=count, help="failures in one schedule; default 1, in the long tier 2")
    parser.add_argument("--seconds", type=seconds,
                        help="longest time for one scenario with so many failures; default 120, in the long tier 60")
    parser.add_argument("--late", action="store_true", help="sessions that have been woken may go on later")
    parser.add_argument("--replay", metavar="SCHEDULE", help="run one schedule of one scenario, and show each step")
    parser.add_argument("--shorten", action="store_true", help="with --replay: leave out the choices that do not matter")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="with --replay: write what was traced, for a timeline")
    parser.add_argument("--keep-graphs", action="store_true", help="keep the graphs of states that are found")
    parser.add_argument("--no-graphs", action="store_true", help="do not compare with the graphs that are kept")
    parser.add_argument("--graphs", type=Path, metavar="DIR",
                        help="directory of the kept graphs, of any server; default: explorer/graphs, for released ones")
    parser.add_argument("--first", action="store_true",
                        help="stop at the first failure, or the first step that is not in the kept graph, and do not shorten it")
    parser.add_argument("--differences", nargs=2, type=int, metavar="MAJOR",
                        help="print in which scenarios the graphs that are kept for two major versions part, and where")
    parser.add_argument("--list", action="store_true", help="print the scenarios and stop")
    parser.add_argument("--staged", type=Path, metavar="DIR", help="where the extension is staged already")
    parser.add_argument("--self-test", action="store_true",
                        help="first see whether planted errors are found, shortened and replayed")
    parser.add_argument("--if-possible", action="store_true", help="without psycopg, say so and succeed")
    parser.add_argument("--work", type=Path, default=Path("/tmp"), help="where clusters are made; default /tmp")
    return parser


class Server:
    """The cluster that scenarios run on; started again when one needs other settings, or has ended it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.running: tuple | None = None

    def get(self, method: str, scenario: Scenario) -> Cluster:
        wanted = (method, scenario.key)
        if self.running != wanted:
            self.cluster.stop()
            self.running = None
            self.cluster.start(method, scenario.settings, scenario.standby)
            self.running = wanted
        return self.cluster

    def discard(self) -> None:
        self.cluster.stop()
        self.running = None


class Exploration:
    def __init__(self, arguments: argparse.Namespace, server: Server, major: int) -> None:
        self.arguments = arguments
        self.server = server
        self.major = major
        self.graphs = arguments.graphs or graphs.DIRECTORY
        self.engine: Engine | None = None
        self.unfinished: list[str] = []

    @property
    def long(self) -> bool:
        return self.arguments.tier == "long"

    @property
    def seconds(self) -> float:
        return self.arguments.seconds or (60.0 if self.long else 120.0)

    def budgets(self, scenario: Scenario) -> list[int]:
        """With how many failures in a schedule to explore a scenario, one after the other."""
        if not scenario.failures:
            return [0]
        if self.arguments.failures is not None:
            return [self.arguments.failures]
        # first one, as that is what the graphs are kept for
        return [1, 2] if self.long else [1]

    def connect(self, scenario: Scenario, method: str, budget: int) -> Engine:
        self.disconnect()
        self.engine = Engine(self.server.get(method, scenario), scenario, budget, self.arguments.late)
        self.engine.connect()
        return self.engine

    def disconnect(self) -> None:
        if self.engine:
            self.engine.close()
            self.engine = None

    def explore(self, scenario: Scenario, method: str) -> bool:
        """Whether all was well."""
        return all(self.explore_with(scenario, method, budget) for budget in self.budgets(scenario))

    def explore_with(self, scenario: Scenario, method: str, budget: int) -> bool:
        try:
            engine = self.connect(scenario, method, budget)
            expected = judge.learn(engine)
        except (Trouble, Lost, TimeoutError, RuntimeError) as trouble:
            print(f"{scenario.name} ({method}): without a hold: {trouble}", flush=True)
            self.disconnect()
            self.server.discard()
            return False
        compares = self.compares(budget)
        kept = self.kept(scenario, method) if compares and self.arguments.first else None
        outcome = search.Search(engine, expected, self.seconds, kept=kept).explore()
        self.report(scenario, method, budget, outcome, expected)
        for failure in outcome.failures:
            self.explain(scenario, method, budget, expected, failure)
        well = not outcome.failures
        if well and outcome.left:
            self.unfinished.append(f"{scenario.name} ({method}, {self.failures_in(budget)})")
            # few choices, and much time: it hangs, or the machine does
            well = self.long or self.arguments.seconds is not None
        elif well and compares:
            well = self.compare(scenario, method, expected, outcome)
        self.disconnect()
        return well

    def compares(self, budget: int) -> bool:
        """Whether there is a graph to compare with: one of more failures, or with late wakes, is another one."""
        return budget <= 1 and not self.arguments.late and not self.arguments.no_graphs

    def kept(self, scenario: Scenario, method: str) -> search.Graph | None:
        path = graphs.file_of(scenario.name, self.major, method, self.graphs)
        return graphs.parse(path.read_text()) if path.exists() and not self.arguments.keep_graphs else None

    @staticmethod
    def failures_in(budget: int) -> str:
        return f"{budget} failure{'' if budget == 1 else 's'}"

    def report(self, scenario: Scenario, method: str, budget: int, outcome: search.Outcome, expected: judge.Expected) -> None:
        notes = []
        if outcome.left:
            notes.append(f"NOT FINISHED: {outcome.left} choices left")
        if outcome.mismatches:
            notes.append(f"{outcome.mismatches} replays went another way, the first {outcome.mismatch}")
        if not expected.all_orders:
            notes.append(f"rows from {expected.orders} serial orders, not all")
        print(f"{scenario.name:22} {method:9} {self.failures_in(budget):10} {outcome.schedules:6} schedules {outcome.states:6} states"
              f" {outcome.runs:6} runs {outcome.steps:7} steps {outcome.seconds:6.1f} s"
              f" {outcome.runs / max(outcome.seconds, 1e-3):5.0f} runs/s" + "".join(f"; {note}" for note in notes), flush=True)

    def explain(self, scenario: Scenario, method: str, budget: int, expected: judge.Expected, failure: search.Failure) -> None:
        print(f"\nFAILED: {scenario.name} ({method}), PostgreSQL {self.major}: {failure}", flush=True)
        if self.arguments.first:
            return
        if failure.fatal:
            self.server.discard()
            engine = self.connect(scenario, method, budget)
        else:
            assert self.engine
            engine = self.engine

        def restart() -> Engine:
            self.server.discard()
            return self.connect(scenario, method, budget)

        try:
            short = search.shorten(engine, expected, failure, restart)
            if short is not failure:
                print(f"shortened from {len(failure.schedule)} choices to {len(short.schedule)}: {short}", flush=True)
            late = "--late " if self.arguments.late else ""
            print(f"explorer/run --server {self.server.cluster.server} --method {method} {late}{scenario.name}"
                  f" --replay '{' '.join(short.schedule)}'\n", flush=True)
            if short.fatal:
                restart()
            self.show(expected, short.schedule)
        except Exception as trouble:
            print(f"  (while shortening: {trouble})", flush=True)
        self.server.discard()

    def show(self, expected: judge.Expected, schedule: list[str]) -> search.Failure | None:
        """One schedule, step by step."""
        assert self.engine
        sessions = self.engine.sessions
        answers: list[str] = []

        def watch(choice: str, state) -> None:
            print(f"  {choice or '(begin)':24} {state.brief}", flush=True)
            answers[:] = [f"{name}{number + 1}: {str(answer)[:150]}" for name, session in sessions.items()
                          for number, answer in enumerate(session.answers)]

        try:
            found = search.run_schedule(self.engine, expected, schedule, watch=watch)
        except NotPossible as missing:
            print(f"  {missing} is not possible here")
            return search.Failure(schedule, [f"{missing} is not possible"])
        for answer in answers:
            print(f"  {answer}")
        print("  " + ("\n  ".join(found.reasons) if found else "all is as it should be"), flush=True)
        return found

    def replay(self, scenario: Scenario, arguments: argparse.Namespace) -> int:
        schedule = arguments.replay.split()
        method = (arguments.method or scenario.methods)[0]
        budget = sum("=" in choice and not choice.endswith("=ok") for choice in schedule)
        budget = max([budget, *self.budgets(scenario)])
        engine = self.connect(scenario, method, budget)
        expected = judge.learn(engine)
        if arguments.shorten:
            found = search.run_schedule(engine, expected, schedule)
            if found:
                self.explain(scenario, method, budget, expected, search.Failure(schedule, found.reasons, found.fatal))
            else:
                print("all is as it should be: there is nothing to shorten")
            return 1 if found else 0
        observer = engine.observers[engine.observed]
        if arguments.trace:
            observer.ask("SELECT io_trace_reset(), io_trace_start()")
        found = self.show(expected, schedule)
        if arguments.trace:
            observer = engine.observers[engine.observed]
            observer.ask("SELECT io_trace_stop()")
            lines = observer.ask("SELECT io_trace_chrome()")[0]
            arguments.trace.write_text("\n".join(str(line[0]) for line in lines) + "\n")
            print(f"  timeline: {arguments.trace}")
        return 1 if found else 0

    def compare(self, scenario: Scenario, method: str, expected: judge.Expected, outcome: search.Outcome) -> bool:
        """With the graph that is kept for this major version."""
        path = graphs.file_of(scenario.name, self.major, method, self.graphs)
        if self.arguments.keep_graphs:
            graphs.keep(outcome.graph, scenario.name, self.major, method, self.graphs)
            return True
        if not path.exists():
            # a version that is not released yet has none
            if not list(self.graphs.glob(f"*.{self.major}")):
                print(f"  SKIPPED: no graphs are kept for PostgreSQL {self.major}; nothing to compare with", flush=True)
                return True
            print(f"\nFAILED: {scenario.name} ({method}): no graph of it is kept for PostgreSQL {self.major}"
                  f" (--keep-graphs keeps one)", flush=True)
            return False
        kept = graphs.parse(path.read_text())
        difference = graphs.first_difference(kept, outcome.graph)
        if difference is None:
            return True
        # what happens once only is no difference between servers
        assert self.engine
        outcome = search.Search(self.engine, expected, self.seconds).explore()
        again = graphs.first_difference(kept, outcome.graph)
        if again is None and not outcome.failures and not outcome.left:
            print(f"  once, but not again, the states were others than those kept for PostgreSQL {self.major}:"
                  f" {difference[1]}, after {' '.join(difference[0])}", flush=True)
            return True
        difference = again or difference
        schedule, what = difference
        print(f"\nFAILED: {scenario.name} ({method}): the states are not those kept for PostgreSQL {self.major}"
              f" ({path.name}): {what}, after\n  {' '.join(schedule)}", flush=True)
        if self.arguments.first:
            return False
        try:
            self.show(expected, [choice for choice in schedule])
        except (Trouble, Lost, TimeoutError, RuntimeError) as trouble:
            print(f"  ({trouble})")
        return False


def count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise ValueError(text)
    return number


def check_arguments(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Refuses, before anything is set up, what cannot be carried out."""
    if arguments.replay is None:
        for option in ("shorten", "trace"):
            if getattr(arguments, option):
                parser.error(f"--{option} goes with --replay")
    elif len(arguments.scenarios) != 1:
        parser.error("--replay is about one scenario")
    for directory in (arguments.staged, arguments.work, arguments.trace and arguments.trace.resolve().parent):
        if directory and not directory.is_dir():
            parser.error(f"there is no directory {directory}")
    for major in arguments.differences or ():
        if not list(graphs.DIRECTORY.glob(f"*.{major}")):
            parser.error(f"no graphs are kept for PostgreSQL {major}")


def server_name(text: str) -> str:
    """The server as servers/run names it."""
    return f"pg_config:{Path(text).resolve()}" if "/" in text and ":" not in text else text


def version_of(server: str, work: Path) -> tuple[int, bool]:
    """The major version, and whether it is one before the first release candidate."""
    done = subprocess.run([CHECKOUT / "servers/run", "--work", str(work), server, "sh", "-c", '"$PG_CONFIG" --version'],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    found = re.search(r"PostgreSQL (\d+)(devel|alpha|beta)?", done.stdout)
    if not found:
        raise ClusterError(done.stderr.strip().removeprefix("error: ") or f"{server}: pg_config --version says {done.stdout!r}")
    return int(found[1]), bool(found[2])


def why_no_io_uring(server: str, work: Path) -> str:
    """Why io_uring cannot be used here, or nothing."""
    said = subprocess.run([CHECKOUT / "servers/run", "--work", str(work), server, "sh", "-c",
                           '"$TEST_AIO_SOURCE/servers/io_uring_probe" --brief "$PG_CONFIG"'],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout.strip()
    return "" if said.startswith("usable") else said or "the probe says nothing"


def choose(arguments: argparse.Namespace, chosen: list[Scenario], major: int) -> list[Scenario]:
    if not arguments.scenarios and arguments.tier == "quick":
        chosen = [one for one in chosen if one.tier == "quick"]
    return [one for one in chosen if not one.versions or major in one.versions]


def methods_of(arguments: argparse.Namespace, chosen: list[Scenario], usable: list[str]) -> list[tuple[Scenario, str]]:
    """Each scenario with the methods to explore it with: all, or in the quick tier one after the other."""
    in_turn = arguments.tier == "quick" and not arguments.scenarios and not arguments.method
    jobs = []
    for place, scenario in enumerate(sorted(chosen, key=lambda one: one.name)):
        methods = [method for method in scenario.methods if method in usable]
        jobs += [(scenario, method) for method in ([methods[place % len(methods)]] if in_turn and methods else methods)]
    return sorted(jobs, key=lambda job: (scenarios.METHODS.index(job[1]), job[0].tier != "quick", job[0].key, job[0].name))


def explore_all(arguments: argparse.Namespace, exploration: Exploration, chosen: list[Scenario], work: Path) -> int:
    start = time.monotonic()
    failed = []
    usable = arguments.method or list(scenarios.METHODS)
    if "io_uring" in usable:
        obstacle = why_no_io_uring(arguments.server, work)
        if obstacle:
            print(f"without io_uring: {obstacle}", flush=True)
            usable = [method for method in usable if method != "io_uring"]
    jobs = methods_of(arguments, chosen, usable)
    if not jobs:
        print("explorer: FAILED: no scenario is for this server and these methods")
        return 1
    for scenario, method in jobs:
        try:
            well = exploration.explore(scenario, method)
        except ClusterError as error:
            print(f"FAILED: {error}", flush=True)
            exploration.server.discard()
            well = False
        if not well:
            failed.append(f"{scenario.name} ({method})")
            if arguments.first:
                break
    seconds = time.monotonic() - start
    if exploration.unfinished:
        print(f"explorer: NOT FINISHED, so not compared: {', '.join(exploration.unfinished)}")
    if failed:
        print(f"explorer: FAILED on PostgreSQL {exploration.major} in {seconds:.0f} s: {', '.join(failed)}")
        return 1
    print(f"explorer: PASSED on PostgreSQL {exploration.major} in {seconds:.0f} s: {len(jobs)} explorations")
    return 0


def main() -> int:
    parser = make_parser()
    arguments = parser.parse_args()
    check_arguments(parser, arguments)
    try:
        named = scenarios.load_all(arguments.scenarios)
        if arguments.list:
            for one in named:
                print(f"{one.name:28} {one.tier:6} {one.about}")
            return 0
        if arguments.differences:
            for one in named:
                graphs.print_differences(one.name, arguments.differences)
            return 0
        os.umask(0o022)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler)
        # a short name, as a socket's path has to fit into 107 bytes
        work = Path(tempfile.mkdtemp(prefix="aioexp.", dir=arguments.work)).resolve()
        work.chmod(0o755)
        cluster = None
        try:
            probe = work / "probe"
            probe.mkdir()
            major, early = version_of(arguments.server, probe)
            if early and not arguments.no_graphs and not arguments.graphs and arguments.replay is None:
                print(f"SKIPPED: the comparison with kept graphs: {major} is not a release candidate yet", flush=True)
                arguments.no_graphs = True
            chosen = choose(arguments, named, major)
            home = work / "c"
            home.mkdir()
            cluster = Cluster(arguments.server, home, arguments.staged)
            cluster.prepare()
            exploration = Exploration(arguments, Server(cluster), major)
            if arguments.self_test and not selftest.passes(make_parser(), exploration):
                return 1
            if arguments.replay is not None:
                if not chosen:
                    sys.exit(f"explorer/run: {named[0].name} is not for PostgreSQL {major}")
                return exploration.replay(chosen[0], arguments)
            return explore_all(arguments, exploration, chosen, probe)
        finally:
            if cluster:
                cluster.stop()
            shutil.rmtree(work, ignore_errors=True)
    except (scenarios.ScenarioError, ClusterError) as error:
        print(f"explorer/run: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        return 130
