"""One schedule at a time: makes choices, which doc/explorer.md describes, and tells the state between them."""

import select
import time
from dataclasses import dataclass, field, replace

from ..project import digest, wait_for
from . import model as models
from .client import Answer, Connection, Lost
from .cluster import Cluster
from .scenario import FAILURES, Scenario, SessionPlan, parse_step

#: more than the reads of one schedule take
MOST_BUFFERS = 256

#: states of a process in which it waits
WAITS = ("held read", "held wakeup", "unsubmitted read", "lock", "lwlock", "buffer")

#: what processes do, and the handles in use; asked when all is quiet
LOOK = """SELECT a.pid, a.state, a.wait_event_type, a.wait_event, w.pid FROM pg_stat_get_activity(NULL) a
    LEFT JOIN io_held_wakeups_get() w USING (pid) WHERE a.pid = ANY(%s::int[]);
SELECT pid, state, io_id, held, relfilenode, fork, blockno, nblocks, waiters FROM io_handles_get() WHERE held OR pid = ANY(%s::int[])"""


class NotPossible(Exception):
    """A choice that does not exist in this state."""


class Trouble(Exception):
    """What must not happen: the server is gone, or never quiet."""


def state_of(activity: tuple, handle: tuple | None) -> str:
    """What a process does, by pg_stat_activity and the handle for which it waits."""
    _, state, kind, event, woken = activity
    if woken:
        return "held wakeup"
    if (state or "").startswith("idle"):
        return "idle"
    if kind == "Lock":
        return "lock"
    if handle and handle[3] == "t":
        return "held read" if event in ("IoGateHeld", "completion_wait", "AioIoCompletion") else "running"
    if handle:
        return {"DEFINED": "unsubmitted read", "STAGED": "unsubmitted read", "COMPLETED_SHARED": "completed read",
                "COMPLETED_LOCAL": "completed read"}.get(handle[1], "running")
    if kind == "LWLock":
        return "lwlock"
    if event == "BufferIo" or kind in ("Buffer", "BufferPin"):
        return "buffer"
    # of servers with the fix of doc/reports.md#io_uring-wait-hang
    return "unsubmitted read" if event == "AioIoSubmit" else "running"


@dataclass
class Session:
    plan: SessionPlan
    connection: Connection
    position: int = 0
    answers: list[Answer] = field(default_factory=list)
    state: str = "idle"
    waits_for: str = ""
    #: reads of the present statement, in the order of submission, and what became of them
    reads: list[str] = field(default_factory=list)
    outcomes: dict[str, str] = field(default_factory=dict)
    #: blocks of own reads that were made to fail, of all statements: (block, blocks)
    failed: list[tuple[int, int]] = field(default_factory=list)
    waits: int = 0
    interrupted: str = ""
    gone: bool = False

    @property
    def name(self) -> str:
        return self.plan.name

    @property
    def busy(self) -> bool:
        return self.connection.busy

    @property
    def finished(self) -> bool:
        return self.gone or (not self.busy and self.position >= len(self.plan.steps))


@dataclass(frozen=True)
class Held:
    label: str
    pid: int
    io_id: int
    block: int
    nblocks: int
    waiters: tuple[str, ...] = ()


@dataclass(frozen=True)
class State:
    """Everything at a quiet point that may matter for what comes."""

    text: str
    brief: str
    choices: tuple[str, ...]
    final: bool
    stuck: tuple[str, ...]  # who waits, if nothing can be done about it
    unwaited: frozenset[str] = frozenset()  # releases of reads for which nobody waits
    failures_left: int = 0
    hidden: str = ""        # what the model knows besides, such as how far a stream looks ahead

    @property
    def digest(self) -> str:
        return digest(also=self.text + self.hidden)[:8]

    @property
    def lines(self) -> list[str]:
        """What is compared with another server."""
        return [*self.text.splitlines(), f"next {' '.join(sorted(self.choices)) or 'nothing'}"]


class Engine:
    def __init__(self, cluster: Cluster, scenario: Scenario, method: str, budget: int, major: int) -> None:
        self.cluster = cluster
        self.scenario = scenario
        self.budget = budget
        self.sessions: dict[str, Session] = {}
        self.observer = Connection(cluster)
        self.method = method
        self.major = major
        self.model = None if models.Model.why_not(scenario) else models.Model(scenario, major, method)
        self._begin()

    def _begin(self) -> None:
        """The state before the first choice."""
        self.sessions |= {name: Session(session.plan, session.connection) for name, session in self.sessions.items()}
        self.files: dict[str, str] = {}
        self.held: dict[str, Held] = {}
        self.handles: list[str] = []
        self.buffers: list[str] = []
        self.unsubmitted: list[tuple[str, str]] = []
        self.failures_left = self.budget
        self.reads = 0
        self.known: set[tuple[int, int, str]] = set()
        #: what the model does not agree with
        self.wrong: list[str] = []

    # set-up

    def connect(self) -> None:
        self.cluster.new_log_lines()
        self.observer.ask("CREATE EXTENSION IF NOT EXISTS test_aio; DROP TABLE IF EXISTS t, u CASCADE")
        table = ("CREATE TABLE t (i int, f text STORAGE PLAIN)",
                 # four rows a block
                 f"INSERT INTO t SELECT g, repeat('x', 1900) FROM generate_series(0, {4 * self.scenario.blocks - 1}) g",
                 "VACUUM (FREEZE, ANALYZE) t")
        for statement in (*table, *self.scenario.setup):
            self.observer.ask(statement)
        for plan in self.scenario.sessions:
            self._connect(plan)

    def _connect(self, plan: SessionPlan) -> None:
        session = self.sessions[plan.name] = Session(plan, Connection(self.cluster))
        for statement in plan.setup:
            session.connection.ask(statement)

    def close(self) -> None:
        """Ends all sessions, and first what they are in the midst of."""
        try:
            self.observer.ask("SELECT io_hold_end(everybody => true), io_hold_wakeups(false), io_release_all()")
            self._drain()
        except (Lost, Trouble, TimeoutError, RuntimeError):
            pass
        for connection in (self.observer, *(s.connection for s in self.sessions.values())):
            connection.close()

    # between two schedules

    def reset(self, hold: bool = True) -> list[str]:
        """Ends what is left of a schedule and prepares the next; returns what was wrong."""
        observer = self.observer
        observer.ask("SELECT io_hold_end(everybody => true), io_fail_end(everybody => true), io_hold_wakeups(false), io_release_all()")
        self._drain()
        observer.notices.clear()
        # with io_uring, a read that nobody waits for ends when somebody does
        abandoned = ("SUBMITTED",) if self.method == "io_uring" else ()
        wrong = self._left_over("COMPLETED_SHARED", *self.scenario.leaves, *abandoned)
        self._replace_sessions()
        wrong += self._left_over()
        for statement in self.scenario.before:
            observer.ask(statement)
        for session in self.sessions.values():
            session.connection.notices.clear()
            for statement in session.plan.before:
                session.connection.ask(statement)
            wrong += [f"{session.name}: {notice}" for notice in session.connection.notices]
        self._keep_buffers_in_order()
        relations = [name for name in self.scenario.hold if name != "*"] or ["t"]
        for name in relations:
            observer.ask(f"SELECT evict_rel('{name}')")
        wrong += [f"after the end: {notice}" for notice in observer.notices]
        observer.notices.clear()
        if self.scenario.cached:
            blocks = ", ".join(map(str, self.scenario.cached))
            observer.ask(f"SELECT count(*) FROM read_stream_for_blocks('t', ARRAY[{blocks}])")
        self._begin()
        self.files = {observer.ask(f"SELECT pg_relation_filenode('{name}')")[0][0][0] or "": name for name in relations}
        self.holding = hold
        if hold and self.model:
            self.model.begin()
        if hold:
            held = ["NULL" if name == "*" else f"'{name}'" for name in self.scenario.hold]
            rules = [f"io_hold({relation}, fork => 'main', everybody => true)" for relation in held]
            observer.ask(f"SELECT {', '.join(rules)}, io_hold_wakeups(true)")
        return wrong

    def _keep_buffers_in_order(self) -> None:
        """From 19 on, reads take one buffer after the other: has the last be far away, since DROP and others come to buffers in their order."""
        if self.major >= 19:
            look = f"SELECT buf > pg_size_bytes(current_setting('shared_buffers')) / 8192 - {MOST_BUFFERS} FROM read_stream_for_blocks('pg_am', ARRAY[0])"
            while self.observer.ask(f"SELECT evict_rel('pg_am'); {look}")[-1][0][0] == "t":
                pass

    def _drain(self) -> None:
        """Has every session end its statement and its transaction."""
        deadline = time.monotonic() + 20
        # who waits for an idle session waits for ever
        cancel_at = time.monotonic() + 0.3
        while True:
            waiting = []
            for session in self.sessions.values():
                connection = session.connection
                if session.gone:
                    continue
                try:
                    if connection.busy and connection.poll() is None:
                        waiting.append(session)
                    elif connection.in_transaction:
                        connection.send("ROLLBACK")
                        waiting.append(session)
                except Lost:
                    session.gone = True
            if not waiting:
                return
            select.select([s.connection.socket for s in waiting], [], [], 0.05)
            now = time.monotonic()
            if now > cancel_at:
                cancel_at = now + 3
                for session in waiting:
                    self.observer.ask(f"SELECT pg_cancel_backend({session.connection.pid})")
            if now > deadline:
                raise Trouble("when nothing is held any more, still waiting: " + ", ".join(s.name for s in waiting))

    def _replace_sessions(self) -> None:
        """Replaces sessions that have ended, or that still have handles or I/O."""
        rows, claims = self.observer.ask(
            "SELECT DISTINCT pid FROM pg_aios; SELECT count(*) FROM buffers_in_progress()")
        for session in self.sessions.values():
            connection = session.connection
            # a schedule that was cut short may have left out the step that ends I/O on a buffer
            claims_perhaps = claims[0][0] != "0" and session.position < len(session.plan.steps)
            if not session.gone and (claims_perhaps or (str(connection.pid),) in rows):
                connection.close()
                self._wait_until_gone(connection.pid)
                session.gone = True
            if session.gone:
                self._connect(session.plan)

    def _wait_until_gone(self, pid: int) -> None:
        if not wait_for(lambda: not self.observer.ask(f"SELECT FROM pg_stat_activity WHERE pid = {pid}")[0], 10):
            raise Trouble(f"process {pid} does not end")

    def _left_over(self, *states: str) -> list[str]:
        """Handles in use, but in these states, though all is over."""
        question = ("SELECT 'handle left: ' || state || ' ' || coalesce(target_desc, '') FROM pg_aios"
                    f" WHERE state <> ALL ('{{{','.join(states)}}}')")
        if not states:
            question += " UNION ALL SELECT 'I/O left in progress: block ' || blockno FROM buffers_in_progress()"
        if wait_for(lambda: not self.observer.ask(question)[0], 5):
            return []
        return [str(row[0]) for row in self.observer.ask(question)[0]]

    # during a schedule

    def _name_of(self, pid: int) -> str:
        return next((s.name for s in self.sessions.values() if s.connection.pid == pid), "?")

    def _collect(self) -> None:
        """Takes the answers that have come."""
        for session in self.sessions.values():
            connection = session.connection
            if not session.busy:
                continue
            try:
                answers = connection.poll()
            except Lost as lost:
                if not session.interrupted.startswith("terminate"):
                    raise Trouble(f"{session.name} has lost its connection: {lost}") from None
                session.gone = True
                connection.busy = False
                session.answers.append(Answer(sqlstate="57P01", message="terminated"))
                session.position += 1
                continue
            if answers is not None:
                # of several statements the last tells, or the one that failed
                errors = [answer for answer in answers if answer.sqlstate]
                session.answers.append(errors[0] if errors else answers[-1] if answers else Answer())
                session.position += 1
                session.reads, session.outcomes, session.waits = [], {}, 0

    def settle(self, release: str = "") -> State:
        """Waits until all is quiet, after a call that releases a read; returns the state."""
        deadline = time.monotonic() + 10
        while True:
            self._collect()
            mine = [s for s in self.sessions.values() if not s.gone]
            pids = [s.connection.pid for s in mine]
            file = "".join(f"; SELECT '{name}', fork, blockno, flags, refcount FROM buffers_in_file({oid})"
                           for oid, name in self.files.items() if oid)
            listed = f"'{{{','.join(map(str, pids))}}}'"
            quiet, activities, handles, *buffers = self.observer.ask(
                f"SELECT {release}io_settle({5000 if release else 2000}); " + LOOK % (listed, listed) + file)
            release = ""
            waited_for = {int(pid): row for row in handles for pid in (row[8] or "").strip("{}").split(",") if pid}
            states = dict.fromkeys(pids, ("gone", "", None)) | {
                pid: (state_of(row, waited_for.get(pid)), row[3], waited_for.get(pid)) for row in activities for pid in [int(row[0] or 0)]}
            unread = [s for s in mine if s.busy and states[s.connection.pid][0] in ("idle", "gone")]
            running = [pid for pid, row in states.items() if row[0] == "running"]
            if quiet[0][-1] == "t" and not unread and not running:
                break
            if time.monotonic() > deadline:
                raise Trouble("never quiet: " + ", ".join(f"{self._name_of(pid)} running ({states[pid][1]})" for pid in running)
                              + "".join(f"{s.name} does not answer" for s in unread))
            select.select([s.connection.socket for s in unread], [], [], 0.002)
        # warnings of sessions that wait by now
        self._collect()
        return self._state(states, handles, buffers)

    def _state(self, states: dict, handles: tuple, buffers: list) -> State:
        labels: dict[int, str] = {}
        self.held, self.handles, self.unsubmitted = {}, [], []
        seen: set[tuple[int, int, str]] = set()
        # which of its handles a session takes differs from run to run
        for row in sorted(handles, key=lambda row: (self._name_of(int(row[0])), str(row[5]), int(row[6] or 0), int(row[2]))):
            pid, io_id, held = int(row[0]), int(row[2]), row[3] == "t"
            owner = self._name_of(pid)
            if row[6] is None:
                self.handles.append(f"{owner} {row[1]}")
                continue
            relation = self.files.get(row[4], "other")
            prefix = "" if relation == "t" else f"{relation}."
            if row[5] != "main":
                prefix += f"{row[5]}."
            label = f"{owner}:{prefix}{row[6]}+{row[7]}"
            while held and label in self.held:
                label += "'"
            labels[io_id] = label
            waiters = sorted(self._name_of(int(pid)) for pid in row[8].strip("{}").split(",") if pid)
            self.handles.append(f"{label} {'HELD' if held else row[1]} <{','.join(waiters)}>")
            if held:
                self.held[label] = Held(label, pid, io_id, int(row[6]), int(row[7]), tuple(waiters))
                # a handle may serve the next read by now
                seen.add((pid, io_id, label))
                if (pid, io_id, label) not in self.known:
                    self.reads += 1
                    if owner in self.sessions:
                        self.sessions[owner].reads.append(label)
            elif waiters and row[1] in ("DEFINED", "STAGED"):
                self.unsubmitted.append((owner, label))
        self.known = seen
        self.handles.sort()
        self.buffers = []
        for rows in buffers:
            for name, fork, block, flags, refcount in rows:
                words = sorted(set(flags.strip("{}").split(",")) - {"PERMANENT", "CHECKPOINT_NEEDED", ""})
                place = ("" if name == "t" else f"{name}.") + ("" if fork == "main" else f"{fork}.") + block
                self.buffers.append(f"{place}={','.join(words)}*{refcount}")
        self.buffers.sort()
        for session in self.sessions.values():
            if session.gone:
                session.state, session.waits_for = "gone", ""
            else:
                session.state, event, handle = states[session.connection.pid]
                if session.state != "held wakeup":
                    session.waits_for = labels.get(int(handle[2]), "") if handle else ""
                if session.state in ("lwlock", "buffer"):
                    session.waits_for = event or ""
        return self._describe()

    def _describe(self) -> State:
        lines, brief = [], []
        for session in self.sessions.values():
            results = " / ".join(str(answer) for answer in session.answers)
            reads = " ".join(label.split(":", 1)[1] + (f"={session.outcomes[label]}" if label in session.outcomes else "")
                             for label in session.reads)
            lines.append(f"{session.name}@{session.position} {session.state} {session.waits_for}"
                         f" | {session.interrupted} | {reads} | {session.waits} | {results}")
            if session.connection.notices:
                lines.append("is told " + "; ".join(session.connection.notices))
            what = {"idle": "-", "gone": "gone", "held read": session.waits_for, "held wakeup": f"woken({session.waits_for})",
                    }.get(session.state, f"{session.state}({session.waits_for})")
            brief.append(f"{session.name}@{session.position} {what}")
        if self.held:
            brief.append("held " + " ".join(sorted(self.held)))
        lines.append("handles " + "; ".join(self.handles))
        lines.append("buffers " + "; ".join(self.buffers))
        lines.append(f"left {self.failures_left}")
        waiting = [s for s in self.sessions.values() if s.busy]
        choices = self.choices()
        final = not waiting and not self.held and all(s.finished for s in self.sessions.values())
        stuck = tuple(f"{s.name}: {s.state} {s.waits_for}" for s in waiting) if not choices and not final else ()
        # the reads of temporary tables only their owners perform
        unwaited = {label for label, held in self.held.items() if not held.waiters and "." not in label}
        return State("\n".join(lines), "  ".join(brief), tuple(choices), final, stuck,
                     frozenset(choice for choice in choices if choice.split("=")[0] in unwaited), self.failures_left)

    def _may_begin(self, session: Session) -> bool:
        """Is what this session comes after done?"""
        if not session.plan.after:
            return True
        name, number = parse_step(session.plan.after)
        return self.sessions[name].position >= number or self.sessions[name].gone

    def choices(self) -> list[str]:
        # sessions that have been woken go on first
        if wakes := [f"wake_{s.name}" for s in self.sessions.values() if s.state == "held wakeup"]:
            return wakes
        found = [f"{s.name}{s.position + 1}" for s in self.sessions.values()
                 if not s.busy and not s.gone and s.position < len(s.plan.steps) and self._may_begin(s)]
        for label in sorted(self.held):
            found.append(label)
            if self.failures_left > 0:
                found += [f"{label}={kind}" for kind in self.scenario.failures
                          if kind != "short" or self.held[label].nblocks > 1]
        # one a schedule
        if any(session.interrupted for session in self.sessions.values()):
            return found
        for verb, names in (("cancel", self.scenario.cancel), ("terminate", self.scenario.terminate)):
            found += [f"{verb}_{name}" for name in names
                      if self.sessions[name].busy and self.sessions[name].state in WAITS]
        return found

    def apply(self, choice: str) -> State:
        """Makes a choice, and waits until all is quiet again.  The model makes it, too."""
        state = self._apply(choice)
        if self.model and self.holding:
            try:
                self.model.apply(choice)
                self.wrong = models.disagreement(self.model, self)
                state = replace(state, hidden=self.model.hidden())
            except (KeyError, IndexError, AttributeError, AssertionError, StopIteration) as error:
                self.wrong = [f"the model cannot follow: {error!r}"]
        return state

    def _apply(self, choice: str) -> State:
        if choice not in self.choices():
            raise NotPossible(choice)
        if ":" in choice:
            label, _, kind = choice.partition("=")
            return self._release(self.held[label], kind)
        verb, _, step = choice.rpartition("_")
        session = self.sessions[step.rstrip("0123456789")]
        if verb == "wake":
            self.observer.ask(f"SELECT io_wake({session.connection.pid})")
            session.waits += 1
        elif verb:
            session.interrupted = f"{verb} in {session.position + 1}"
            self.observer.ask(f"SELECT pg_{verb}_backend({session.connection.pid})")
            self._collect_after_signal(session)
            if verb == "terminate" and not session.busy:
                self._wait_until_gone(session.connection.pid)
        else:
            session.connection.send(session.plan.steps[session.position])
        return self.settle()

    def _release(self, held: Held, kind: str) -> State:
        if owner := self.sessions.get(held.label.split(":")[0]):
            owner.outcomes[held.label] = kind or "ok"
            if kind:
                owner.failed.append((held.block, held.nblocks))
        self.failures_left -= bool(kind)
        result = FAILURES[kind](held.nblocks) if kind else "NULL"
        return self.settle(f"io_release({held.pid}, {held.io_id}, {result}), ")

    def _collect_after_signal(self, session: Session) -> None:
        """Waits until a session has answered, or sleeps on because another session must move first.

        A signal makes a sleeping process runnable at once, so one that sleeps has handled it.
        """
        question = f"SELECT pg_read_file('/proc/{session.connection.pid}/status', true) ~ E'\\nState:\\tS'"

        def has_handled() -> bool:
            try:
                sleeps = self.observer.ask(question)[0][0][0] == "t"
            except RuntimeError as error:
                # it exits between the open and the read of its status
                if "No such process" not in str(error):
                    raise
                sleeps = False
            self._collect()
            return sleeps or not session.busy

        if not wait_for(has_handled, 10):
            raise Trouble(f"{session.name} neither answers nor sleeps")
