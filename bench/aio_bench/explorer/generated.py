"""Scenarios that are made up, in random orders; what fails is made as small as it can be.

An order is one of PCT (Burckhardt et al., 2010): each session and each held read has a random
priority, the highest goes first, and at a few random points the one that is to go next falls
behind all others.  A bug that needs d ordered events is met with a known probability.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ..project import ROOT, Problem, missing
from . import judge, search
from .engine import State
from .scenario import Scenario, SessionPlan

if TYPE_CHECKING:
    from .exploration import Exploration

BLOCKS = 6
#: scenarios with the same settings of the server, one after the other
EXAMPLES = 20
#: so long a failure is made smaller
SHRINK_SECONDS = 90
#: catalogs are read in advance, as those reads would need handles, too
WARM_UP = ("SELECT count(*) FROM read_buffers('t', 0, 1)", "SELECT read_rel_block_ll('t', 0)",
           "SELECT sum(i), count(*), sum(length(f)) FROM t", "SELECT blocks FROM read_stream_run('t', ARRAY[0], use_batching => true)",
           "SELECT blocknum FROM read_stream_for_blocks('t', ARRAY[0])",
           "SELECT batch_start(), (SELECT sum(nblocks) FROM start_read_buffers('t', 0, 1)), batch_end()")


class Order:
    """Chooses by priorities that change at "depth" points."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.changes = set(self.random.sample(range(1, 30), self.random.randrange(4)))
        self.priorities: dict[str, float] = {}
        self.step = 0

    def _actor(self, choice: str) -> str:
        return choice.rstrip("0123456789") if ":" not in choice and "_" not in choice else choice.removeprefix("wake_")

    def choose(self, state: State) -> str:
        self.step += 1
        for choice in state.choices:
            # what happens seldom: failures, cancels, terminations
            rare = "=" in choice or choice.startswith(("cancel", "terminate"))
            self.priorities.setdefault(self._actor(choice), self.random.random() * (0.7 if rare else 1))
        best = max(state.choices, key=lambda choice: self.priorities[self._actor(choice)])
        if self.step in self.changes:
            self.priorities[self._actor(best)] = -self.step
            best = max(state.choices, key=lambda choice: self.priorities[self._actor(choice)])
        return best


def scenarios(settings: dict[str, str]):
    """A strategy of hypothesis: scenarios all of whose statements the model knows."""
    from hypothesis import strategies as st

    block = st.integers(0, BLOCKS - 1)
    span = block.flatmap(lambda first: st.tuples(st.just(first), st.integers(1, BLOCKS - first)))
    some = st.lists(block, min_size=1, max_size=5).map(lambda blocks: f"ARRAY{blocks}")
    start = span.map(lambda it: f"SELECT sum(nblocks) FROM start_read_buffers('t', {it[0]}, {it[1]})")
    statement = st.one_of(
        span.map(lambda it: f"SELECT sum(nblocks) FROM read_buffers('t', {it[0]}, {it[1]})"),
        start,
        some.map(lambda blocks: f"SELECT blocknum FROM read_stream_for_blocks('t', {blocks})"),
        some.map(lambda blocks: f"SELECT blocks FROM read_stream_run('t', {blocks}, use_batching => true)"),
        st.just("SELECT sum(i), count(*), sum(length(f)) FROM t"),
        block.map(lambda one: f"SELECT read_rel_block_ll('t', {one}, wait_complete => false)"),
        st.lists(start, min_size=1, max_size=3).map(
            lambda starts: f"SELECT batch_start(), {', '.join(f'({one})' for one in starts)}, batch_end()"),
    )
    plan = st.tuples(st.lists(statement, min_size=1, max_size=3), st.sampled_from((1, 2, 4)), st.sampled_from((16, 2, 1, 0)))

    def made(plans: list, cached: list[int], interrupt: str) -> Scenario:
        sessions = tuple(
            SessionPlan("ABCD"[place], tuple(steps),
                        (f"SET io_combine_limit = {limit}", f"SET effective_io_concurrency = {ios}", *WARM_UP))
            for place, (steps, limit, ios) in enumerate(plans))
        names = ("A",) if interrupt else ()
        return Scenario("made_up", "made up, and made small", sessions, blocks=BLOCKS, cached=tuple(sorted(set(cached))), settings=settings,
                        failures=("EIO", "short", "empty"), cancel=names if interrupt == "cancel" else (),
                        terminate=names if interrupt == "terminate" else (), errors=("55006",), rows_vary=True, check="")

    return st.builds(made, st.lists(plan, min_size=1, max_size=4), st.lists(block, max_size=2),
                     st.sampled_from(("", "", "cancel", "terminate")))


def text_of(scenario: Scenario, why: str) -> str:
    """A scenario as a file; JSON's texts, lists and numbers are TOML's, too."""
    names = ("about", "blocks", "check", "rows_vary", "failures", "cancel", "terminate", "errors", "cached")
    entries = {name: getattr(scenario, name) for name in names} | {f"settings.{name}": value for name, value in scenario.settings.items()}
    for session in scenario.sessions:
        entries |= {f"{session.name}.setup": session.setup, f"{session.name}.steps": session.steps}
    return "\n".join([*(f"# {line}" for line in why.splitlines()), f"[{scenario.name}]",
                      *(f"{name} = {json.dumps(value)}" for name, value in entries.items())]) + "\n"


class Round:
    """Some scenarios with these settings of the server; what fails is made smaller."""

    def __init__(self, exploration: Exploration, method: str, until: float) -> None:
        self.exploration = exploration
        self.method = method
        self.until = until
        self.made = self.steps = 0
        self.found: tuple[Scenario, search.Failure] | None = None
        self.found_at = 0.0

    def fails(self, scenario: Scenario, order: int) -> search.Failure | None:
        self.made += 1
        engine = self.exploration.connect(scenario, self.method, 3)
        chosen = Order(order)
        failure = search.run_schedule(engine, judge.Expected(), [], choose=chosen.choose)
        self.steps += chosen.step
        if failure and failure.fatal:
            self.exploration.cluster.stop()
        return failure

    def look(self, seed: int, settings: dict[str, str]) -> None:
        import hypothesis
        from hypothesis import strategies as st

        @hypothesis.seed(seed)
        @hypothesis.settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck),
                             phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink), print_blob=False)
        @hypothesis.given(scenarios(settings), st.integers(0, 2**32))
        def check(scenario: Scenario, order: int) -> None:
            now = time.monotonic()
            if not self.found and now > self.until or self.found and now > self.found_at + SHRINK_SECONDS:
                return
            if failure := self.fails(scenario, order):
                self.found_at = self.found_at if self.found else now
                self.found = (scenario, failure)
                raise AssertionError(str(failure))

        try:
            check()
        except BaseException as error:
            if not self.found or isinstance(error, KeyboardInterrupt):
                raise


def run(exploration: Exploration, arguments: argparse.Namespace) -> int:
    if missing("hypothesis"):
        raise Problem("--random needs hypothesis: apt-get install python3-hypothesis")
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(2**32)
    print(f"explorer: --random {arguments.random:.0f} --seed {seed} on PostgreSQL {exploration.major}", flush=True)
    start = time.monotonic()
    chosen = random.Random(seed)
    methods = arguments.method or ["worker"]
    rounds = made = steps = failures = 0
    while time.monotonic() < start + arguments.random and failures < 5:
        settings = {"io_max_concurrency": chosen.choice(("8", "2", "1"))}
        one = Round(exploration, methods[rounds % len(methods)], start + arguments.random)
        one.look(chosen.randrange(2**32), settings)
        rounds, made, steps = rounds + 1, made + one.made, steps + one.steps
        if one.found:
            failures += 1
            scenario, failure = one.found
            path = Path(ROOT / "build" / f"found-{seed}-{rounds}.toml")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text_of(scenario, f"{one.method}, PostgreSQL {exploration.major}, --seed {seed}, round {rounds}\n{failure}"))
            print(f"\nFAILED ({one.method}, round {rounds}), see {path}:\n{path.read_text()}", flush=True)
    exploration.disconnect()
    print(f"explorer: {failures} failures in {made} scenarios that were made up, each in one order, {steps} steps,"
          f" {rounds} servers, in {time.monotonic() - start:.0f} s; seed {seed}", flush=True)
    return 1 if failures else 0
