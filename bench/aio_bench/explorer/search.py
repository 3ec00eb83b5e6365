"""Depth first through all schedules, each replayed from its beginning."""

import re
import time
from dataclasses import dataclass, field

from ..project import digest
from . import judge
from .client import Lost
from .engine import Engine, NotPossible, State, Trouble

#: a schedule is not shortened for longer
MOST_TRIES = 80
#: what happens otherwise so often is not deterministic
ATTEMPTS = 3
#: of the runs that come to a known state, one in so many goes on, to see whether it is the same state
SAMPLE = 8


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
    lines: dict[str, list[str]] = field(default_factory=dict)
    edges: dict[str, dict[str, str]] = field(default_factory=dict)
    first: str = ""


@dataclass
class Outcome:
    schedules: int = 0          # that came to an end
    runs: int = 0               # with those that were cut short
    seconds: float = 0.0
    left: int = 0               # choices that were not followed
    merges: int = 0             # known states from which a run went on
    wrong_merges: int = 0       # and came to another state than before
    once: list[str] = field(default_factory=list)   # what was otherwise once, but not again
    graph: Graph = field(default_factory=Graph)
    failure: Failure | None = None

    @property
    def states(self) -> int:
        return len(self.graph.brief)


def run_schedule(engine: Engine, expected: judge.Expected, schedule: list[str], lenient: bool = False, watch=None) -> Failure | None:
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
            if lenient and choice not in state.choices:
                continue
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


class Differs(Exception):
    """A choice has led to another state than the first time: the lines in which they differ."""


def commute(state: State, one: str, other: str) -> bool:
    """Whether two choices lead to the same state in either order, and neither forbids the other.

    Two reads for which nobody waits do: completing them wakes nobody.  Of two failures, there must be two left.
    """
    return (one in state.unwaited and other in state.unwaited and one.split("=")[0] != other.split("=")[0]
            and ("=" in one) + ("=" in other) <= state.failures_left)


class Search:
    """All schedules, but for those that only turn round the order of choices that commute (sleep sets)."""

    def __init__(self, engine: Engine, expected: judge.Expected, most_seconds: float) -> None:
        self.engine = engine
        self.expected = expected
        self.most_seconds = most_seconds
        self.outcome = Outcome()
        #: the choices that sleep in a state: others have led, or will lead, where they lead
        self.asleep: dict[str, frozenset[str]] = {}
        self.path: dict[str, list[str]] = {}

    def explore(self) -> Outcome:
        start = time.monotonic()
        stack: list[tuple[list[str], frozenset[str]]] = [([], frozenset())]
        while stack:
            if time.monotonic() - start > self.most_seconds or self.outcome.failure:
                self.outcome.left = len(stack)
                break
            prefix, asleep = stack.pop()
            self.outcome.failure = self._run(prefix, asleep, stack)
        self.outcome.seconds = time.monotonic() - start
        return self.outcome

    def _run(self, prefix: list[str], asleep: frozenset[str], stack: list) -> Failure | None:
        """One run: what is known first, then what is new, as far as it is new."""
        engine, outcome = self.engine, self.outcome
        happened: list[str] = []
        for _ in range(ATTEMPTS):
            done: list[str] = []
            trace: list[str] = []
            outcome.runs += 1
            try:
                if wrong := engine.reset() + judge.judge_log(engine):
                    return Failure(done, wrong)
                state = engine.settle()
                self._arrive(None, "", state)
                for choice in prefix:
                    state = self._go(state, choice, done, trace)
                failure = self._go_on(state, asleep, done, trace, stack)
                outcome.once += happened
                return failure
            except Differs as differs:
                what = f"another state after {' '.join(done)}{differs}"
            except NotPossible as missing:
                what = f"{missing} was not possible after {' '.join(done[:-1])}"
            except (Trouble, Lost, TimeoutError, RuntimeError) as trouble:
                return Failure(done, [str(trouble), *_last_words(engine)], fatal=True)
            happened.append(what)
            prefix = max(prefix, done, key=len)
        return Failure(prefix, self._not_deterministic(prefix, trace, what))

    def _arrive(self, before: State | None, choice: str, state: State) -> None:
        graph = self.outcome.graph
        if state.digest not in graph.edges:
            graph.brief[state.digest] = state.brief
            graph.lines[state.digest] = state.lines
            graph.edges[state.digest] = {}
        graph.first = graph.first or state.digest
        known = graph.edges[before.digest].setdefault(choice, state.digest) if before else graph.first
        if known != state.digest:
            old, new = graph.lines[known], state.lines
            raise Differs("".join([*(f"\n      - {line}" for line in old if line not in new), *(f"\n      + {line}" for line in new if line not in old)]))

    def _go(self, state: State, choice: str, done: list[str], trace: list[str]) -> State:
        done.append(choice)
        after = self.engine.apply(choice)
        trace.append(after.brief)
        self._arrive(state, choice, after)
        return after

    def _not_deterministic(self, prefix: list[str], trace: list[str], what: str) -> list[str]:
        """The first time and the last one side by side; or it is another path that leads to one of these states."""
        graph, lines, state = self.outcome.graph, list[str](), self.outcome.graph.first
        for choice, now in zip(prefix, trace):
            if (path := self.path.get(state)) and path != prefix[:len(lines)]:
                self.outcome.wrong_merges += 1
                return [f"two states look alike and are not, after {' '.join(path)} and {' '.join(prefix[:len(lines)])}: {what}", *lines]
            state = graph.edges.get(state, {}).get(choice, "")
            lines.append(f"  {choice:20} {graph.brief.get(state, ''):60} | {now}")
            if not state:
                break
        return [f"not deterministic: {what}", *lines]

    def _go_on(self, state: State, asleep: frozenset[str], done: list[str], trace: list[str], stack: list) -> Failure | None:
        while True:
            if wrong := judge.judge_state(self.engine, state):
                return Failure(done, wrong)
            if state.final:
                self.outcome.schedules += 1
                wrong = judge.judge_end(self.engine, self.expected)
                wrong += self.engine.reset() + judge.judge_log(self.engine)
                return Failure(list(done), wrong) if wrong else None
            before = self.asleep.get(state.digest)
            self.asleep[state.digest] = asleep if before is None else before & asleep
            if before is not None:
                # what slept when this state was first there, and does not now
                stack.extend(([*done, choice], frozenset()) for choice in sorted(before - asleep))
                return self._check_merge(state, done, trace)
            self.path[state.digest] = list(done)
            awake = [choice for choice in state.choices if choice not in asleep]
            if not awake:
                return None
            following = []
            for place, choice in enumerate(awake):
                others = asleep | frozenset(awake[:place])
                following.append(([*done, choice], frozenset(other for other in others if commute(state, choice, other))))
            stack.extend(reversed(following[1:]))
            asleep = following[0][1]
            state = self._go(state, awake[0], done, trace)

    def _check_merge(self, state: State, done: list[str], trace: list[str]) -> Failure | None:
        """Goes on from a known state now and then: what follows must be known, too."""
        place = int(digest(also=" ".join(done))[:8], 16)
        if place % SAMPLE:
            return None
        self.outcome.merges += 1
        been: set[str] = set()
        while (following := self.outcome.graph.edges[state.digest]) and state.digest not in been:
            been.add(state.digest)
            state = self._go(state, sorted(following)[place // SAMPLE % len(following)], done, trace)
            if wrong := judge.judge_state(self.engine, state):
                return Failure(done, wrong)
        return None


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
