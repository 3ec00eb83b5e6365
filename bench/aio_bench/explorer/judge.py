"""What must be so after a schedule, whatever its order was."""

import itertools
import re
from dataclasses import dataclass, field

from .client import Answer
from .engine import Engine, State, Trouble

#: more serial orders than this are not tried
MOST_ORDERS = 150

#: messages of errors that an own failed read explains, and where they name its blocks
READ_ERROR = re.compile(r"could not read blocks? (\d+)(?:\.\.(\d+))? in the file")

ALARM = re.compile(
    r"TRAP:|PANIC|terminated by signal|exited with exit code|AddressSanitizer|runtime error:"
    r"|(?:WARNING|FATAL):|LOG: .*(?:invalid page|could not|zeroing|checksum)|wrong state|shouldn't get here|no free IOs")


@dataclass
class Expected:
    """The rows of serial runs, without a hold."""

    answers: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    checks: set[str] = field(default_factory=set)
    orders: int = 0
    all_orders: bool = True


def serial_orders(engine: Engine) -> tuple[list[tuple[str, ...]], bool]:
    """Orders of whole statements: all, if they are not too many, else session by session."""
    counts = {name: len(session.plan.steps) for name, session in engine.sessions.items()}

    def extend(prefix: tuple[str, ...], left: dict[str, int]):
        if not any(left.values()):
            yield prefix
        for name, count in left.items():
            if count:
                yield from extend((*prefix, name), {**left, name: count - 1})

    orders = list(itertools.islice(extend((), counts), MOST_ORDERS + 1))
    if len(orders) <= MOST_ORDERS:
        return orders, True
    return [tuple(name for name in order for _ in range(counts[name])) for order in itertools.permutations(counts)][:MOST_ORDERS], False


def learn(engine: Engine) -> Expected:
    """Runs the statements one after the other, in different orders."""
    expected = Expected()
    orders, expected.all_orders = serial_orders(engine)
    # the statements may change what the check finds
    changes = bool(engine.scenario.before) and bool(engine.scenario.check)
    # with a check, what was left out by a cancel or a failure matters too
    runs = sorted({order[:end] for order in orders for end in (range(len(order) + 1) if changes else (len(order),))},
                  key=lambda order: (len(order), order))
    for order in runs[:4 * MOST_ORDERS]:
        engine.reset(hold=False)
        todo = list(order)
        # a statement that waits for a lock lets the next session go on
        while able := [name for name in todo if f"{name}{engine.sessions[name].position + 1}" in engine.choices()]:
            engine.apply(f"{able[0]}{engine.sessions[able[0]].position + 1}")
            todo.remove(able[0])
        engine.settle()
        for name, session in engine.sessions.items():
            for number, answer in enumerate(session.answers):
                if answer.sqlstate and answer.sqlstate not in engine.scenario.errors:
                    raise Trouble(f"{name}{number + 1} ends with {answer}, which the scenario does not expect")
                expected.answers.setdefault((name, number), set()).add(str(answer))
        # one that still waits for a lock may have locked others out
        if engine.scenario.check and not any(session.busy for session in engine.sessions.values()):
            expected.checks.add(final_check(engine))
        expected.orders += 1
    return expected


def final_check(engine: Engine) -> str:
    return str(engine.observer.ask(engine.scenario.check)[0])


def _explained(engine: Engine, name: str, number: int, answer: Answer) -> bool:
    """Is this an error that belongs to the session?"""
    session = engine.sessions[name]
    own = {*engine.scenario.errors, {f"cancel in {number + 1}": "57014", f"terminate in {number + 1}": "57P01"}.get(session.interrupted)}
    if any(earlier.sqlstate for earlier in session.answers[:number]):
        own.add("25P02")    # after a failure in a transaction
    if answer.sqlstate in own:
        return True
    if found := READ_ERROR.search(answer.message):
        first, last = int(found[1]), int(found[2] or found[1])
        return any(first <= block + count - 1 and block <= last for block, count in session.failed)
    return False


def judge_answers(engine: Engine, expected: Expected) -> list[str]:
    wrong = []
    for name, session in engine.sessions.items():
        for number, answer in enumerate(session.answers):
            if answer.sqlstate:
                if not _explained(engine, name, number, answer) and str(answer) not in expected.answers.get((name, number), ()):
                    wrong.append(f"{name}{number + 1} ends with an error that is not its own: {answer}")
            elif not engine.scenario.rows_vary and str(answer) not in expected.answers.get((name, number), ()):
                if answer.tag == "ROLLBACK" and any(earlier.sqlstate for earlier in session.answers[:number]):
                    continue
                wrong.append(f"{name}{number + 1} returns {answer}; no serial run does:"
                             f" {' / '.join(sorted(expected.answers.get((name, number), {'nothing'})))}")
    return wrong


def judge_state(engine: Engine, state: State) -> list[str]:
    """At every quiet point."""
    wrong = list(engine.wrong)
    if state.stuck:
        wrong.append("they wait, and no read is held that could be released: " + "; ".join(state.stuck))
    wrong += [f"{name} has not been woken, though the read that it waits for is complete"
              for name, session in engine.sessions.items() if session.state == "completed read"]
    wrong += [f"a block is valid, and its read has failed: {buffer}" for buffer in engine.buffers
              if "VALID" in re.split("[=,*]", buffer) and "IO_ERROR" in buffer]
    for name, session in engine.sessions.items():
        mine = [handle for handle in engine.handles if re.match(rf"{name}[ :]", handle)]
        if session.state == "idle" and not session.busy and f"{name} HANDED_OUT" in mine:
            wrong.append(f"{name} has a handle in hand after its statement")
        if session.state in ("held read", "held wakeup") and any(" STAGED" in handle or " DEFINED" in handle for handle in mine):
            wrong.append(f"{name} waits, and has not submitted what it has staged: {'; '.join(mine)}")
    if not engine.scenario.staged:
        wrong += [f"{label} is not submitted, though it is waited for" for _, label in engine.unsubmitted]
    else:
        wrong += [f"{label} is not submitted, though it is waited for, and its owner does nothing"
                  for owner, label in engine.unsubmitted
                  if owner not in engine.sessions or engine.sessions[owner].state in ("idle", "held read", "held wakeup")]
    return wrong


def judge_end(engine: Engine, expected: Expected) -> list[str]:
    wrong = judge_answers(engine, expected)
    # each statement may read each block, and again after a failure and an eviction; 20 are for other relations
    blocks = engine.scenario.blocks * len(engine.sessions) * max(len(s.plan.steps) for s in engine.sessions.values())
    if engine.reads > 3 * blocks + 20:
        wrong.append(f"{engine.reads} reads were made for at most {blocks} blocks")
    if engine.scenario.check:
        engine.observer.ask("SELECT io_hold_end(everybody => true), io_hold_wakeups(false)")
        found = final_check(engine)
        if found not in expected.checks:
            wrong.append(f"in the end there is {found}; after no serial run there is")
    return wrong


def judge_log(engine: Engine) -> list[str]:
    wrong = []
    for line in engine.cluster.new_log_lines():
        if not ALARM.search(line) or any(re.search(pattern, line) for pattern in engine.scenario.log):
            continue
        if engine.scenario.terminate and "terminating connection due to administrator command" in line:
            continue
        if engine.budget and re.search(r"LOG: +could not read blocks", line):
            continue
        wrong.append(f"log: {line}")
    return wrong
