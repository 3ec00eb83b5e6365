"""One server, and what is explored on it; two servers, and where they part."""

from __future__ import annotations

import argparse
import json
import shlex
import time

from ..servers import ServerError
from . import compare, judge, search
from . import model as models
from . import scenario as scenarios
from .client import Lost
from .cluster import Cluster
from .engine import Engine, NotPossible, State, Trouble
from .scenario import Scenario


class Exploration:
    """One server, and what is explored on it."""

    def __init__(self, arguments: argparse.Namespace, cluster: Cluster) -> None:
        self.arguments = arguments
        self.cluster = cluster
        self.major = cluster.build.major
        self.engine: Engine | None = None
        self.unfinished: list[str] = []

    @property
    def long(self) -> bool:
        return self.arguments.tier == "long"

    def budgets(self, scenario: Scenario) -> list[int]:
        """With how many failures in a schedule to explore a scenario, one after the other."""
        if not scenario.failures:
            return [0]
        return [1, 2] if self.long and not self.arguments.before else [1]

    def connect(self, scenario: Scenario, method: str, budget: int) -> Engine:
        self.disconnect()
        self.engine = Engine(self.cluster.serve(method, scenario), scenario, method, budget, self.major)
        self.engine.connect()
        return self.engine

    def disconnect(self) -> None:
        if self.engine:
            self.engine.close()
            self.engine = None

    def explore(self, scenario: Scenario, method: str, budget: int) -> dict:
        """What was found, as a row for JSON; "graph" is there if all choices were followed."""
        row = {"scenario": scenario.name, "method": method, "failures": budget, "result": "well"}
        try:
            engine = self.connect(scenario, method, budget)
            expected = judge.learn(engine)
        except (Trouble, Lost, TimeoutError, RuntimeError) as trouble:
            print(f"FAILED: {scenario.name} ({method}): without a hold: {trouble}", flush=True)
            self.disconnect()
            self.cluster.stop()
            return row | {"result": "failed", "schedule": "", "reasons": [f"without a hold: {trouble}"]}
        outcome = search.Search(engine, expected, self.arguments.seconds or (60 if self.long else 120)).explore()
        self.report(scenario, method, budget, outcome, expected)
        row |= {"states": outcome.states, "schedules": outcome.schedules, "seconds": round(outcome.seconds, 1),
                "merges_checked": outcome.merges, "wrong_merges": outcome.wrong_merges, "once": outcome.once}
        if failure := outcome.failure:
            row |= {"result": "failed", "schedule": " ".join(failure.schedule), "reasons": failure.reasons}
            self.explain(scenario, method, budget, expected, failure)
        elif outcome.left:
            self.unfinished.append(f"{scenario.name} ({method}, {self.failures_in(budget)})")
            # few choices, and much time: it hangs, or the machine does
            row["result"] = "unfinished" if self.long or self.arguments.seconds is not None else "failed"
        else:
            row["graph"] = outcome.graph
        self.disconnect()
        return row

    @staticmethod
    def failures_in(budget: int) -> str:
        return f"{budget} read{'' if budget == 1 else 's'} may fail" if budget else "no read fails"

    def report(self, scenario: Scenario, method: str, budget: int, outcome: search.Outcome, expected: judge.Expected) -> None:
        notes = []
        if outcome.left:
            notes.append(f"NOT FINISHED: {outcome.left} choices left")
        if not self.engine or not self.engine.model:
            notes.append("without the model")
        else:
            notes += [f"known to be wrong, {times} times: {models.KNOWN_WRONG[name]}" for name, times in self.engine.model.known_wrong.items()]
        if outcome.wrong_merges:
            notes.append(f"{outcome.wrong_merges} WRONG MERGES")
        if outcome.once:
            notes.append(f"{len(outcome.once)} times once, but not again: {outcome.once[0]}")
        if not expected.all_orders:
            notes.append(f"rows from {expected.orders} serial orders, not all")
        print(f"{scenario.name:22} {method:9} {self.failures_in(budget):16} {outcome.schedules:6} schedules {outcome.states:6} states"
              f" {outcome.runs:6} runs {outcome.merges:4} merges checked {outcome.seconds:6.1f} s"
              f" {outcome.runs / max(outcome.seconds, 1e-3):5.0f} runs/s" + "".join(f"; {note}" for note in notes), flush=True)

    def explain(self, scenario: Scenario, method: str, budget: int, expected: judge.Expected, failure: search.Failure) -> None:
        print(f"\nFAILED: {scenario.name} ({method}), PostgreSQL {self.major}: {failure}", flush=True)
        if self.arguments.first or not failure.schedule:
            return

        def restart() -> Engine:
            self.cluster.stop()
            return self.connect(scenario, method, budget)

        try:
            assert self.engine
            short = search.shorten(restart() if failure.fatal else self.engine, expected, failure, restart)
            if short is not failure:
                print(f"shortened from {len(failure.schedule)} choices to {len(short.schedule)}: {short}", flush=True)
            print(shlex.join(["bench/explorer", "--server", self.cluster.server, "--method", method, scenario.called, "--replay", " ".join(short.schedule)]) + "\n", flush=True)
            if short.fatal:
                restart()
            self.show(expected, short.schedule)
        except Exception as trouble:
            print(f"  (while shortening: {trouble})", flush=True)
        self.cluster.stop()

    def walk(self, scenario: Scenario, method: str, budget: int, schedule: list[str]) -> list[tuple[str, str, list[str]]]:
        """A schedule, step by step: each choice, the state after it in brief, and all of it; up to what is not possible."""
        steps: list[tuple[str, str, list[str]]] = []
        try:
            search.run_schedule(self.connect(scenario, method, budget), judge.Expected(), schedule,
                                watch=lambda choice, state: steps.append((choice or "(begin)", state.brief, state.lines)))
        except (NotPossible, Trouble, Lost, TimeoutError, RuntimeError) as trouble:
            steps.append(("", f"({trouble})", [str(trouble)]))
        self.disconnect()
        self.cluster.stop()
        return steps[:len(schedule) + 1]

    def show(self, expected: judge.Expected, schedule: list[str]) -> search.Failure | None:
        """One schedule, step by step."""
        assert self.engine
        sessions = self.engine.sessions
        answers: list[str] = []

        def watch(choice: str, state: State) -> None:
            print(f"  {choice or '(begin)':24} {state.brief}", flush=True)
            answers[:] = [f"{name}{number + 1}: {str(answer)[:150]}" for name, session in sessions.items()
                          for number, answer in enumerate(session.answers)]

        try:
            found = search.run_schedule(self.engine, expected, schedule, watch=watch)
        except NotPossible as missing:
            print(f"  {missing} is not possible here; possible: {' '.join(self.engine.choices()) or 'nothing'}")
            return search.Failure(schedule, [f"{missing} is not possible"])
        print("  " + "\n  ".join([*answers, *(found.reasons if found else ["all is as it should be"])]), flush=True)
        return found

    def replay(self, scenario: Scenario) -> int:
        arguments = self.arguments
        schedule = arguments.replay.split()
        method = (arguments.method or scenario.methods)[0]
        budget = max([sum("=" in choice for choice in schedule), *self.budgets(scenario)])
        engine = self.connect(scenario, method, budget)
        expected = judge.learn(engine)
        if arguments.trace:
            engine.observer.ask("SELECT io_trace_reset(), io_trace_start()")
        found = self.show(expected, schedule)
        if arguments.trace:
            engine.observer.ask("SELECT io_trace_stop()")
            lines = engine.observer.ask("SELECT to_jsonb(t)::text FROM io_trace t")[0]
            arguments.trace.write_text("".join(f"{line[0]}\n" for line in lines))
            print(f"  timeline: {arguments.trace}")
        return 1 if found else 0

    def compare(self, other: Exploration, scenario: Scenario, row: dict) -> dict:
        """Adds to a row where this server and another one, the server before, part."""
        method, budget = row["method"], row["failures"]
        if scenario.versions and other.major not in scenario.versions:
            return row | {"result": "nothing to compare with"}
        print("before: ", end="")
        before = other.explore(scenario, method, budget).get("graph")
        if before is None:
            return row | {"result": "nothing to compare with"}
        found = compare.parting(before, row["graph"])
        if found is None:
            return row | {"result": "same"}
        why = compare.why_known((other.major, self.major), scenario.name, found)
        row |= {"schedule": " ".join(found.schedule), "before": found.before, "after": found.after, "why": why,
                "states_before": len(before.edges), "result": "known" if why else "differs"}
        if why:
            print(f"  differs, as is known, after {row['schedule']}: {why}", flush=True)
            return row
        now = self.walk(scenario, method, budget, found.schedule)
        then = other.walk(scenario, method, budget, found.schedule)
        repeated = then[-1][2] != now[-1][2]
        if not repeated:
            row["result"] = "differed once"
        row["replay"] = [[choice, then[place][1] if place < len(then) else "", brief] for place, (choice, brief, _) in enumerate(now)]
        print(f"\n{'DIFFERS' if repeated else 'DIFFERED ONCE, BUT NOT AGAIN'}: {scenario.name} ({method}) after {row['schedule'] or 'nothing'}")
        for choice, one, another in row["replay"]:
            print(f"  {choice:20} before {one}\n  {'':20} after  {another}")
        print("".join(f"  - {line}\n" for line in found.before) + "".join(f"  + {line}\n" for line in found.after), flush=True)
        return row


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


def explore_all(arguments: argparse.Namespace, exploration: Exploration, chosen: list[Scenario], before: Exploration | None) -> int:
    start, version = time.monotonic(), exploration.cluster.build.number
    rows: list[dict] = []
    usable = list(arguments.method or scenarios.METHODS)
    if "io_uring" in usable and (reason := exploration.cluster.why_no_io_uring()):
        print(f"without io_uring: {reason}", flush=True)
        usable.remove("io_uring")
    jobs = methods_of(arguments, chosen, usable)
    if not jobs:
        print("explorer: FAILED: no scenario is for this server and these methods")
        return 1
    for scenario, method in jobs:
        for budget in exploration.budgets(scenario):
            try:
                row = exploration.explore(scenario, method, budget)
                if before and "graph" in row:
                    row = exploration.compare(before, scenario, row)
            except ServerError as error:
                print(f"FAILED: {error}", flush=True)
                exploration.cluster.stop()
                row = {"scenario": scenario.name, "method": method, "failures": budget, "result": "failed", "reasons": [str(error)]}
            row.pop("graph", None)
            rows.append(row)
            if row["result"] == "failed":
                break
        if arguments.first and row["result"] in ("failed", "differs"):
            break

    def named(result: str) -> list[str]:
        return [f"{row['scenario']} ({row['method']})" for row in rows if row["result"] == result]

    seconds = time.monotonic() - start
    merges, wrong = (sum(row.get(key, 0) for row in rows) for key in ("merges_checked", "wrong_merges"))
    summary = {"server": arguments.server, "version": version, "before": arguments.before,
               "before_version": before and before.cluster.build.number, "failed": named("failed"), "differs": named("differs"),
               "known": named("known"), "differed_once": named("differed once"), "not_compared": named("nothing to compare with"),
               "unfinished": exploration.unfinished, "merges_checked": merges, "wrong_merges": wrong, "seconds": round(seconds, 1)}
    if arguments.json:
        arguments.json.write_text(json.dumps(summary | {"scenarios": rows}, indent=1) + "\n")
    if merges:
        print(f"explorer: merged states checked: {merges}, wrong: {wrong}")
    if once := sum(len(row.get("once", ())) for row in rows):
        print(f"explorer: {once} times something was otherwise once, but not again")
    if exploration.unfinished:
        print(f"explorer: NOT FINISHED: {', '.join(exploration.unfinished)}")
    if before:
        print(f"explorer: compared with {before.cluster.build.number}: {len(named('same'))} the same, {len(named('known'))} differ as is known,"
              f" {len(summary['differs'])} DIFFER, {len(summary['differed_once'])} differed once, but not again,"
              f" {len(summary['not_compared']) + len(summary['failed'])} not compared")
    if bad := summary["failed"] + summary["differs"]:
        print(f"explorer: FAILED on PostgreSQL {version} in {seconds:.0f} s: {', '.join(bad)}")
        return 1
    print(f"explorer: PASSED on PostgreSQL {version} in {seconds:.0f} s: {len(rows)} explorations")
    return 0
