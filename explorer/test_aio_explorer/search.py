"""Depth first through all schedules, each replayed from its beginning."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field

from . import judge
from .client import Lost
from .engine import Engine, NotPossible, State, Trouble


#: a schedule is not shortened for longer
MOST_TRIES = 80


@dataclass
class Failure:
    schedule: list[str]
    reasons: list[str]
    fatal: bool = False  # the server has to be started again

    @property
    def kind(self) -> str:
        """What went wrong, without the numbers and names that differ from schedule to schedule."""
        return re.sub(r"\b[A-Z]\w*\b|\d+", "", self.reasons[0].split(":")[0].split(";")[0])

    def __str__(self) -> str:
        return f"{' '.join(self.schedule)}\n" + "\n".join(f"    {reason}" for reason in self.reasons)


@dataclass
class Graph:
    """States that were found, and where choices lead."""

    brief: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    edges: dict[str, dict[str, str]] = field(default_factory=dict)
    first: str = ""

    def add(self, state: State) -> None:
        self.brief.setdefault(state.digest, state.brief)
        self.texts.setdefault(state.digest, state.text)
        self.edges.setdefault(state.digest, {})

    def deviation(self, before: State | None, choice: str, after: State) -> str:
        """How a step, or the first state, differs from this graph, in which all choices were followed."""
        wanted = self.first if before is None else self.edges.get(before.digest, {}).get(choice, "")
        if wanted != after.digest:
            return f"{choice or 'the beginning'} leads to another state"
        choices = set() if after.final else set(after.choices)
        if choices != set(self.edges[after.digest]):
            return f"after {choice or 'the beginning'}, other choices are possible"
        return ""


@dataclass
class Outcome:
    schedules: int = 0          # that came to an end
    runs: int = 0               # with those that were cut short
    steps: int = 0
    seconds: float = 0.0
    left: int = 0               # choices that were not followed
    mismatches: int = 0         # replays that did not go the same way
    mismatch: str = ""          # the first of them
    graph: Graph = field(default_factory=Graph)
    failures: list[Failure] = field(default_factory=list)

    @property
    def states(self) -> int:
        return len(self.graph.brief)


def run_schedule(engine: Engine, expected: judge.Expected, schedule: list[str], lenient: bool = False,
                 watch=None) -> Failure | None:
    """One schedule to its end; choices that are missing are the first ones there are."""
    done: list[str] = []
    try:
        engine.reset()
        state = engine.settle()
        todo = list(schedule)
        if watch:
            watch("", state)
        while True:
            if wrong := judge.judge_state(engine, state):
                return Failure(done, wrong)
            if state.final:
                break
            choice = todo.pop(0) if todo else state.choices[0]
            if choice not in state.choices and not (choice.endswith("=ok") and choice[:-3] in state.choices):
                if lenient:
                    continue
                raise NotPossible(choice)
            state = engine.apply(choice)
            done.append(choice)
            if watch:
                watch(choice, state)
        wrong = judge.judge_end(engine, expected) + engine.reset() + judge.judge_log(engine)
        return Failure(done, wrong) if wrong else None
    except (Trouble, Lost, TimeoutError, RuntimeError) as trouble:
        return Failure([*done], [str(trouble), *_last_words(engine)], fatal=True)


def _last_words(engine: Engine) -> list[str]:
    time.sleep(0.3)
    return judge.judge_log(engine)[:5]


class Deviation(Exception):
    """A schedule does not go as in the graph that is kept."""


class Search:
    """All schedules; with a kept graph, up to the first step that is not the same there."""

    def __init__(self, engine: Engine, expected: judge.Expected, most_seconds: float, most_failures: int = 1,
                 kept: Graph | None = None) -> None:
        self.engine = engine
        self.expected = expected
        self.most_seconds = most_seconds
        self.most_failures = most_failures
        self.kept = kept
        self.outcome = Outcome()
        self.visited: set[str] = set()

    def explore(self) -> Outcome:
        start = time.monotonic()
        stack: list[list[str]] = [[]]
        while stack:
            if time.monotonic() - start > self.most_seconds or len(self.outcome.failures) >= self.most_failures:
                self.outcome.left = len(stack)
                break
            prefix = stack.pop()
            if failure := self._run(prefix, stack):
                self.outcome.failures.append(failure)
                if failure.fatal:
                    self.outcome.left = len(stack)
                    break
        self.outcome.seconds = time.monotonic() - start
        return self.outcome

    def _run(self, prefix: list[str], stack: list[list[str]]) -> Failure | None:
        """One run: what is known first, then what is new, as far as it is new."""
        engine, outcome, graph = self.engine, self.outcome, self.outcome.graph
        deviations = 0
        # what happens once only (a schedule that cannot be repeated, a state that differs) is tried again
        for _ in range(3):
            done: list[str] = []
            outcome.runs += 1
            try:
                wrong = engine.reset() + judge.judge_log(engine)
                if wrong:
                    return Failure(done, wrong)
                state = engine.settle()
                graph.add(state)
                graph.first = graph.first or state.digest
                if graph.first != state.digest:
                    self._differs(done, graph.texts[graph.first], state.text)
                self._compare(None, done, state)
                todo = list(prefix)
                while todo:
                    state = self._go(state, todo.pop(0), done)
                return self._go_on(state, done, stack)
            except Deviation as deviation:
                # what happens once only is no difference between servers
                deviations += 1
                if deviations == 2:
                    # if the schedule goes wrong further on, that says more than another state
                    return (run_schedule(engine, self.expected, done, lenient=True)
                            or Failure(done, [f"the states are not those kept: {deviation}"]))
                prefix = max(prefix, done, key=len)
                outcome.mismatches += 1
                outcome.mismatch = outcome.mismatch or f"{deviation}, after {' '.join(done)}"
            except NotPossible as missing:
                outcome.mismatches += 1
                outcome.mismatch = outcome.mismatch or f"{missing} was not possible after {' '.join(done)}"
            except (Trouble, Lost, TimeoutError, RuntimeError) as trouble:
                return Failure(done, [str(trouble), *_last_words(engine)], fatal=True)
        return None

    def _go(self, state: State, choice: str, done: list[str]) -> State:
        graph = self.outcome.graph
        graph.add(state)
        done.append(choice)
        after = self.engine.apply(choice)
        self.outcome.steps += 1
        graph.add(after)
        before = graph.edges[state.digest].setdefault(choice, after.digest)
        if before != after.digest:
            self._differs(done, graph.texts[before], after.text)
        self._compare(state, done, after)
        return after

    def _compare(self, before: State | None, done: list[str], after: State) -> None:
        """Raises Deviation unless the kept graph, if there is one, has this step, too."""
        if self.kept and (how := self.kept.deviation(before, done[-1] if done else "", after)):
            raise Deviation(how)

    def _differs(self, done: list[str], before: str, after: str) -> None:
        """A replay has come to another state than the first time."""
        self.outcome.mismatches += 1
        if not self.outcome.mismatch:
            lines = [f"- {line}" for line in before.splitlines() if line not in after.splitlines()]
            lines += [f"+ {line}" for line in after.splitlines() if line not in before.splitlines()]
            self.outcome.mismatch = f"after {' '.join(done)}:\n    " + "\n    ".join(lines)

    def _go_on(self, state: State, done: list[str], stack: list[list[str]]) -> Failure | None:
        while True:
            if wrong := judge.judge_state(self.engine, state):
                return Failure(done, wrong)
            if state.final:
                self.outcome.schedules += 1
                self.outcome.graph.add(state)
                wrong = judge.judge_end(self.engine, self.expected)
                wrong += self.engine.reset() + judge.judge_log(self.engine)
                return Failure(list(done), wrong) if wrong else None
            if state.digest in self.visited:
                return None
            self.visited.add(state.digest)
            stack.extend([*done, choice] for choice in reversed(state.choices[1:]))
            state = self._go(state, state.choices[0], done)


def shorten(engine: Engine, expected: judge.Expected, failure: Failure, restart) -> Failure:
    """Leaves out choices as long as the schedule fails in the same manner.

    What is left are the choices that matter: a run of them is completed by the first
    choices there are.
    """
    best = failure
    tries = 0

    def still_fails(schedule: list[str]) -> Failure | None:
        nonlocal engine, tries
        tries += 1
        found = run_schedule(engine, expected, schedule, lenient=True)
        if found and found.fatal:
            engine = restart()
        return Failure(schedule, found.reasons, found.fatal) if found and found.kind == failure.kind else None

    # the end first: what the first choices do anyway
    while best.schedule and tries < MOST_TRIES and (found := still_fails(best.schedule[:-1])):
        best = found
    length = max(len(best.schedule) // 2, 1)
    while length >= 1:
        start = 0
        while start < len(best.schedule) and tries < MOST_TRIES:
            if found := still_fails(best.schedule[:start] + best.schedule[start + length:]):
                best = found
            else:
                start += length
        length //= 2
    return best
