"""What the server promises about reads, as a program: the next state for each choice.

A committer can read this as a specification.  Each rule names the server's function that it
stands for.  Sessions are generators that stop where the server waits.  What the server is free
to do is not compared: which of its handles a session takes, who performs a read, which buffer a
block gets.  What it does wrong today is not built in; see KNOWN_WRONG.

Where 19 joins reads of others instead of waiting for them, and looks ahead in another way than 18,
the rules say so ("self.joins").
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from .scenario import Scenario, SessionPlan

if TYPE_CHECKING:
    from .engine import Engine

#: GetPinLimit() with the explorer's max_connections and shared_buffers
PIN_LIMIT = 24

#: PGAIO_SUBMIT_BATCH_SIZE: so many staged reads are submitted without being asked
BATCH = 32

#: what is wrong in the server today, where the model says what is right, and where it is described
KNOWN_WRONG = {
    "late hit": "a block that counts neither as hit nor as read: doc/reports.md#hit-not-counted",
}


class Failed(Exception):
    """A statement ends with this error: its SQLSTATE, and where it matters its message."""


@dataclass(eq=False)
class Io:
    """A handle in use (PgAioHandle), from pgaio_io_acquire() until it is idle again (pgaio_io_reclaim())."""

    owner: Session
    state: str = "HANDED_OUT"   # then STAGED, SUBMITTED, COMPLETED_SHARED
    first: int = 0
    blocks: int = 0
    zero: bool = False          # zero_damaged_pages of the session that has begun it
    result: int | None = None   # blocks that were read; -1: an error
    error: str = ""
    warning: str = ""

    @property
    def label(self) -> str:
        return f"{self.owner.name}:{self.first}+{self.blocks}"

    @property
    def done(self) -> bool:
        return self.state in ("COMPLETED_SHARED", "IDLE")


@dataclass(eq=False)
class Buffer:
    """A block in the buffer pool (BufferDesc)."""

    valid: bool = False
    error: bool = False         # BM_IO_ERROR
    io: Io | None = None        # BM_IO_IN_PROGRESS, with a wait reference
    claimed: bool = False       # BM_IO_IN_PROGRESS, without one: I/O that is not AIO's
    pins: Counter = field(default_factory=Counter)

    def text(self, block: int) -> str:
        words = ["VALID"] * self.valid + ["IO_IN_PROGRESS"] * bool(self.io or self.claimed) + ["IO_ERROR"] * self.error
        # a process pins a buffer once (PrivateRefCount); AIO has a pin of its own while it reads (buffer_stage_common)
        return f"{block}={','.join(sorted(words))}*{sum(1 for count in self.pins.values() if count > 0) + bool(self.io) + self.claimed}"


@dataclass
class Operation:
    """ReadBuffersOperation."""

    first: int
    blocks: int
    done: int = 0
    io: Io | None = None
    foreign: bool = False
    synchronous: bool = False


Result = TypeVar("Result")
#: "io" and the Io, "buffer" and the block, "lock" and its key
Wait = tuple[str, Any]
Steps = Generator[Wait, None, Result]


@dataclass(eq=False)
class Session:
    name: str
    plan: SessionPlan
    limit: int                  # io_combine_limit
    concurrency: int            # effective_io_concurrency
    zero: bool
    position: int = 0
    program: Steps[object] | None = None
    wait: Wait | None = None
    woken: bool = False         # its wait is over, and its wakeup is held
    gone: bool = False
    in_transaction: bool = False
    staged: list[Io] = field(default_factory=list)
    in_flight: list[Io] = field(default_factory=list)   # in the order of submission
    handed_out: Io | None = None
    batch: bool = False
    stream: Stream | None = None
    told: list[str] = field(default_factory=list)       # warnings
    hits: int = 0
    reads: int = 0
    read_blocks: int = 0
    #: blocks that were pinned while they were read, and are valid when the next read would begin with them
    late_hits: int = 0
    counted: set[int] = field(default_factory=set)
    #: what is seen instead of an answer because of something in KNOWN_WRONG
    wrong: dict[int, tuple[str, str]] = field(default_factory=dict)
    answers: list[str] = field(default_factory=list)    # "" where the model says nothing about rows

    @property
    def handles(self) -> int:
        return len(self.staged) + len(self.in_flight) + (self.handed_out is not None)


class Model:
    """The state of all sessions, handles and buffers, and what a choice does to it."""

    def __init__(self, scenario: Scenario, major: int, method: str) -> None:
        self.scenario = scenario
        self.joins = major >= 19
        self.sync_method = method == "sync"
        self.reaches_synchronous = self.sync_method or scenario.settings.get("test_aio.reach_synchronous_reads") == "on"
        self.max_handles = int(scenario.settings.get("io_max_concurrency", 8))
        self.known_wrong: Counter = Counter()
        self.begin()

    @staticmethod
    def why_not(scenario: Scenario) -> str:
        """Why the model says nothing about a scenario, or nothing."""
        if scenario.hold != ("t",):
            return "reads of other relations"
        if scenario.before:
            return "blocks that change"
        for session in scenario.sessions:
            if session.before or any(re.match(r"SET (?!io_combine_limit|effective_io_concurrency|zero_damaged_pages|enable_)", line)
                                     for line in session.setup):
                return "settings"
            for step in session.steps:
                if not parse(step):
                    return step
        return ""

    def begin(self) -> None:
        """The state before the first choice."""
        self.buffers: dict[int, Buffer] = {block: Buffer(valid=True) for block in self.scenario.cached}
        self.bad = {int(block) for statement in self.scenario.setup
                    for block in re.findall(r"modify_rel_block\('t', (\d+), corrupt_header => true\)", statement)}
        self.locks: dict[str, Session] = {}
        self.held: list[Io] = []
        self.sessions: dict[str, Session] = {}
        for plan in self.scenario.sessions:
            said = dict(re.findall(r"SET (\w+) = (\d+|on)\b", " ".join(plan.setup)))
            self.sessions[plan.name] = Session(plan.name, plan, int(said.get("io_combine_limit", 16)),
                                               int(said.get("effective_io_concurrency", 16)), "zero_damaged_pages" in said)

    # what may be seen

    def observe(self) -> list[str]:
        """The state in the words of the explorer's own description."""
        lines = []
        for session in self.sessions.values():
            state, what = "idle", ""
            if session.gone:
                state = "gone"
            elif session.wait:
                state, on = session.wait
                if session.woken:
                    state, what = "held wakeup", on.label
                elif isinstance(on, Io):
                    state, what = "held read" if on.state == "SUBMITTED" else "unsubmitted read", on.label
            lines.append(f"{session.name}@{session.position} {state} {what}".strip())
        handles = []
        for session in self.sessions.values():
            if session.handed_out:
                handles.append(f"{session.name} HANDED_OUT")
            for io in [*session.staged, *session.in_flight]:
                waiters = sorted(other.name for other in self.sessions.values()
                                 if other.wait and other.wait[1] is io and not other.woken)
                handles.append(f"{io.label} {'HELD' if io in self.held else io.state} <{','.join(waiters)}>")
        lines.append("handles " + "; ".join(sorted(handles)))
        lines.append("buffers " + "; ".join(sorted(buffer.text(block) for block, buffer in self.buffers.items())))
        return lines

    def hidden(self) -> str:
        """What decides what comes next, and cannot be seen: counts, and how far streams look ahead."""
        return "; ".join(f"{session.name} {session.hits} {session.reads} {session.stream.hidden() if session.stream else ''}"
                         for session in self.sessions.values())

    # choices

    def apply(self, choice: str) -> None:
        if ":" in choice:
            label, _, kind = choice.partition("=")
            io = next(io for io in self.held if io.label == label)
            blocks = {"": io.blocks, "EIO": -1, "short": io.blocks - 1, "cut": io.blocks - 1, "empty": 0}[kind]
            where = f"could not read blocks {io.first}..{io.first + io.blocks - 1} in the file"
            # md_readv_complete(): a read that ends before its first block is complete has failed
            io.error = (f"58030: {where}: Input/output error" if blocks < 0 else
                        f"XX001: {where}: read only 0 of {8192 * io.blocks} bytes" if blocks == 0 else "")
            self.complete(io, -1 if io.error else blocks)
            return
        verb, _, step = choice.rpartition("_")
        session = self.sessions[step.rstrip("0123456789")]
        if verb in ("cancel", "terminate"):
            self.interrupt(session, verb)
            return
        session.woken = False
        if not verb:
            session.program = self.statement(session, session.plan.steps[session.position])
        self.run(session)

    def run(self, session: Session, error: Exception | None = None) -> None:
        """A session goes on until it waits, or its statement ends."""
        assert session.program
        session.wait = None
        try:
            session.wait = session.program.throw(error) if error else next(session.program)
            return
        except StopIteration as end:
            answer = str(end.value if end.value is not None else "")
        except Failed as failed:
            answer = f"ERROR {failed}"
            self.submit(session)                    # pgaio_error_cleanup
            session.batch = False
        self.end_statement(session, answer)

    def end_statement(self, session: Session, answer: str) -> None:
        """Resource owners give back what the statement has left (ResourceOwnerRelease)."""
        session.program = session.stream = None
        session.position += 1
        session.answers.append(answer)
        if session.handed_out:                      # pgaio_io_release_resowner
            session.told += ["leaked AIO handle"] * (not answer.startswith("ERROR"))
            session.handed_out = None
        if session.batch:                           # AtEOXact_Aio
            session.told.append("open AIO batch at end of (sub-)transaction")
            self.submit(session)
            session.batch = False
        for buffer in self.buffers.values():
            buffer.pins.pop(session, None)
        if not session.in_transaction:
            for key in [key for key, owner in self.locks.items() if owner is session]:
                self.unlock(key)

    def unlock(self, key: str) -> None:
        del self.locks[key]
        for other in self.sessions.values():
            if other.wait == ("lock", key):
                self.run(other)
                return

    def interrupt(self, session: Session, verb: str) -> None:
        """A wait for I/O or for a lock can be ended; the reads go on."""
        session.woken = False
        if verb == "cancel":
            self.run(session, Failed("57014"))
            return
        session.gone = True
        self.run(session, Failed("57P01"))
        # pgaio_shutdown: it waits for the reads that are in progress, and performs those that are held
        for io in list(session.in_flight):
            if io in self.held:
                self.complete(io, io.blocks)
        session.in_flight = []

    # handles: aio.c

    def acquire(self, session: Session) -> Steps[None]:
        """pgaio_io_acquire(): an idle handle; if there is none, of a read that is complete; else the oldest is waited for."""
        if len(session.staged) >= BATCH:
            self.submit(session)
        if session.handed_out:
            raise Failed("XX000")                   # "Only one IO can be handed out"
        while session.handles >= self.max_handles:
            # bufmgr.c submits what is staged before it waits; so does pgaio_io_wait_for_free()
            self.submit(session)
            if not self.reclaim(session):
                yield from self.wait_for(session.in_flight[0], session)
        session.handed_out = Io(session)

    def reclaim(self, session: Session, io: Io | None = None) -> bool:
        """pgaio_io_reclaim(): a complete handle is idle again."""
        found = [one for one in session.in_flight if one.state == "COMPLETED_SHARED" and io in (None, one)]
        for one in found:
            one.state = "IDLE"
            session.in_flight.remove(one)
        return bool(found)

    def wait_for(self, io: Io, session: Session) -> Steps[None]:
        """pgaio_wref_wait(): until the read is complete; its owner then takes the handle back."""
        while not io.done:
            yield "io", io
        if io.owner is session:
            self.reclaim(session, io)

    def stage(self, session: Session, first: int, blocks: int, synchronous: bool) -> Io:
        """pgaio_io_stage(): defined and staged; submitted at once, but in a batch; performed at once if synchronous."""
        io = session.handed_out
        assert io
        session.handed_out = None
        io.first, io.blocks, io.zero, io.state = first, blocks, session.zero, "STAGED"
        session.reads += 1
        session.read_blocks += blocks
        for block in range(first, first + blocks):
            self.buffers[block].io = io             # buffer_stage_common
        if synchronous and not self.reaches_synchronous:
            io.state = "SUBMITTED"
            session.in_flight.append(io)
            self.complete(io, blocks)
            return io
        session.staged.append(io)
        if not session.batch:
            self.submit(session)
        return io

    def submit(self, session: Session) -> None:
        """pgaio_submit_staged()."""
        for io in session.staged:
            io.state = "SUBMITTED"
            session.in_flight.append(io)
            self.held.append(io)
        session.staged = []

    def complete(self, io: Io, result: int) -> None:
        """pgaio_io_process_completion(): buffers first, then whoever waits.

        buffer_readv_complete(): blocks that were read are valid; of a failed read all are marked.
        """
        if io in self.held:
            self.held.remove(io)
        io.state, io.result = "COMPLETED_SHARED", result
        for place in range(io.blocks):
            buffer = self.buffers[io.first + place]
            # TerminateBufferIO
            buffer.io = None
            buffer.valid = place < result and (io.first + place not in self.bad or io.zero)
            buffer.error = not buffer.valid
            if place < result and io.first + place in self.bad:
                # buffer_readv_complete_one(): a bad page fails, or is zeroed where its reader wants that
                what = f"invalid page in block {io.first + place} of the relation"
                if io.zero:
                    io.warning = io.warning or f"{what}; zeroing out page"
                else:
                    io.error = io.error or f"XX001: {what}"
        for session in self.sessions.values():
            if session.wait and session.wait[1] is io:
                session.woken = True
        if io.owner.gone:
            self.reclaim(io.owner)

    # buffers: bufmgr.c

    def pin(self, session: Session, block: int) -> Buffer:
        """PinBufferForBlock()."""
        buffer = self.buffers.setdefault(block, Buffer())
        buffer.pins[session] += 1
        return buffer

    def unpin(self, session: Session, block: int) -> None:
        self.buffers[block].pins[session] -= 1

    def start_reads(self, session: Session, first: int, blocks: int, pinned: set[int], synchronous: bool = False) -> Steps[tuple[Operation, bool]]:
        """StartReadBuffers(): an operation for as many of the blocks as one read can take, and whether to wait for it.

        "pinned" are the blocks forwarded from the call before, and after this one.
        """
        for place in range(blocks):
            block = first + place
            if block in pinned:
                pinned.discard(block)
                if self.buffers[block].valid and block not in session.counted:
                    # it counts as a hit, as another session has read it
                    session.hits += 1
                    session.late_hits += 1
            else:
                session.hits += self.pin(session, block).valid
                if self.buffers[block].valid:
                    session.counted.add(block)
            session.counted.discard(block) if place == 0 else None
            if self.buffers[block].valid:
                if place == 0:
                    return Operation(block, 1, done=1), False
                # it ends the read, and is forwarded
                pinned.add(block)
                blocks = place
                break
        operation = Operation(first, blocks, synchronous=synchronous or self.sync_method)
        if self.sync_method:
            return operation, True                  # WaitReadBuffers() begins the read
        started = yield from self.start_io(session, operation)
        taken = operation.io.blocks if operation.io and not operation.foreign else 1
        pinned.update(range(first + taken, first + blocks))
        operation.blocks = taken
        return operation, started

    def start_io(self, session: Session, operation: Operation) -> Steps[bool]:
        """AsyncReadBuffers(): begins one read of what is not yet done; False if the first block is valid by now."""
        yield from self.acquire(session)
        operation.io, operation.foreign = None, False
        first, end = operation.first + operation.done, operation.first + operation.blocks
        # StartBufferIO() of the first block
        buffer = self.buffers[first]
        while not buffer.valid and (buffer.io or buffer.claimed):
            if self.joins and buffer.io:
                session.handed_out = None
                operation.io, operation.foreign = buffer.io, True
                return True
            # what is staged is submitted before a wait, else two batches could wait for each other
            self.submit(session)
            if buffer.io:
                yield from self.wait_for(buffer.io, session)
            else:
                yield "buffer", first
        if buffer.valid:
            session.handed_out = None               # pgaio_io_release()
            session.hits += 1
            operation.done += 1
            return False
        # the following ones are not waited for
        last = first + 1
        while last < end and not (self.buffers[last].valid or self.buffers[last].io or self.buffers[last].claimed):
            last += 1
        operation.io = self.stage(session, first, last - first, operation.synchronous)
        return True

    def wait_reads(self, session: Session, operation: Operation) -> Steps[bool]:
        """WaitReadBuffers(): until all blocks are valid, or a read of its own has failed; returns whether it had to wait."""
        waited = False
        while True:
            if io := operation.io:
                # no read is waited for that is only staged
                waited = waited or not io.done
                yield from self.wait_for(io, session)
                if operation.foreign:
                    # a failure of another session's read is not ours: we try ourselves
                    valid = self.buffers[operation.first + operation.done].valid
                    operation.done += valid
                    session.hits += valid           # whoever performs the read counts it as a read
                elif io.error:
                    raise Failed(io.error)          # ProcessReadBuffersResult()
                else:
                    session.told += [io.warning] * bool(io.warning)
                    operation.done += io.result or 0
            if operation.done >= operation.blocks:
                return waited
            waited = True
            yield from self.start_io(session, operation)

    # statements

    def statement(self, session: Session, text: str) -> Steps[object]:
        """The calls of a statement one after the other; the rows, where the model says what they are."""
        calls, result = parse(text), None
        for name, arguments in calls:
            result = getattr(self, f"call_{name}")(session, *arguments)
            if isinstance(result, Generator):
                result = yield from result
        return result if len(calls) == 1 else None

    def call_begin(self, session: Session, begin: bool) -> None:
        session.in_transaction = begin

    def call_lock(self, session: Session, key: str) -> Steps[None]:
        while self.locks.setdefault(key, session) is not session:
            yield "lock", key

    call_handle_get = acquire

    def call_handle_get_and_error(self, session: Session) -> Steps[None]:
        yield from self.acquire(session)
        raise Failed("XX000")

    def call_handle_get_twice(self, session: Session) -> Steps[None]:
        yield from self.acquire(session)
        yield from self.acquire(session)

    def call_batch_start(self, session: Session) -> None:
        if session.batch:
            raise Failed("XX000")                   # pgaio_enter_batchmode: no nested batches
        session.batch = True

    def call_batch_end(self, session: Session) -> None:
        self.submit(session)                        # pgaio_exit_batchmode
        session.batch = False

    def call_buffer_start_io(self, session: Session, block: int) -> Steps[str]:
        """I/O that is not AIO's (StartBufferIO() without a wait reference)."""
        buffer = self.buffers.setdefault(block, Buffer())
        while not buffer.valid and (buffer.io or buffer.claimed):
            if buffer.io:
                yield from self.wait_for(buffer.io, session)
            else:
                yield "buffer", block
        buffer.claimed = not buffer.valid
        return "f" if buffer.valid else "t"

    def call_buffer_terminate_io(self, session: Session, block: int, succeed: bool, error: bool) -> None:
        """TerminateBufferIO(), and WaitIO() of whoever waits goes on."""
        buffer = self.buffers[block]
        if buffer.claimed:
            buffer.claimed, buffer.valid, buffer.error = False, succeed, error
            for other in self.sessions.values():
                if other.wait == ("buffer", block):
                    self.run(other)

    def _start_all(self, session: Session, first: int, blocks: int) -> Steps[list[tuple[Operation, bool]]]:
        if first + blocks > self.scenario.blocks:
            raise Failed("22023")
        operations, pinned, done = [], set[int](), 0
        while done < blocks:
            operation, wait = yield from self.start_reads(session, first + done, min(blocks - done, session.limit), pinned)
            operations.append((operation, wait))
            done += operation.blocks
        return operations

    def _unpin_all(self, session: Session, first: int, blocks: int) -> None:
        for block in range(first, first + blocks):
            self.unpin(session, block)

    def call_read_buffers(self, session: Session, first: int, blocks: int, each: bool) -> Steps[str]:
        operations = yield from self._start_all(session, first, blocks)
        self.submit(session)                        # it leaves the batch while it waits
        batch, session.batch = session.batch, False
        for operation, wait in operations:
            if wait:
                yield from self.wait_reads(session, operation)
        session.batch = batch
        self._unpin_all(session, first, blocks)
        return "; ".join(f"{one.first - first}|{one.blocks}" for one, _ in operations) if each else str(blocks)

    def call_start_read_buffers(self, session: Session, first: int, blocks: int) -> Steps[str]:
        yield from self._start_all(session, first, blocks)
        self._unpin_all(session, first, blocks)
        return str(blocks)

    def call_read_rel_block_ll(self, session: Session, first: int, blocks: int, wait: bool, enter: bool, close: bool, leave: bool) -> Steps[None]:
        for block in range(first, first + blocks):
            # what is in the pool is dropped, unless somebody else has it pinned
            buffer = self.buffers.setdefault(block, Buffer())
            while buffer.io:
                yield from self.wait_for(buffer.io, session)
            if any(buffer.pins.values()):
                raise Failed("55006")
            buffer.valid = buffer.error = False
            self.pin(session, block)
        if enter:
            self.call_batch_start(session)
        yield from self.acquire(session)
        for block in range(first, first + blocks):  # StartBufferIO(), without waiting; somebody may have read it meanwhile
            if (buffer := self.buffers[block]).io or buffer.claimed or buffer.valid:
                for started in range(first, block):
                    self.buffers[started].error = True      # AbortBufferIO
                raise Failed("55006")
        io = self.stage(session, first, blocks, False)
        if close:
            self.submit(session)                    # pgaio_closing_fd: no staged read may lose its file
        if leave:
            self.call_batch_end(session)
        self._unpin_all(session, first, blocks)
        if wait:
            self.submit(session)
            yield from self.wait_for(io, session)
            if io.error:
                raise Failed(io.error)
        return None

    def call_stream(self, session: Session, blocks: list[int], batching: bool, full: bool, rows: str, keeps: bool = False) -> Steps[str]:
        session.hits = session.reads = session.read_blocks = session.late_hits = 0
        session.counted = set()
        stream = session.stream = Stream(self, session, blocks, batching, full)
        pinned: list[int] = []
        while (block := (yield from stream.next_buffer())) is not None:
            pinned.append(block)
            if len(pinned) > keeps:
                self.unpin(session, pinned.pop(0))
        counts = {"blocks": len(blocks), "hits": session.hits, "reads": session.reads, "read_bytes": 8192 * session.read_blocks,
                  "hits_and_reads": session.hits + session.read_blocks}
        if rows == "blocknum":
            return "; ".join(map(str, blocks))
        names = [name for name in rows.split(",") if name in counts]
        # StartReadBuffersImpl() takes a forwarded buffer that is valid by now as it is
        fewer = {name: counts[name] - session.late_hits * ("hits" in name) for name in names}
        if session.late_hits:
            session.wrong[session.position] = "late hit", "|".join(str(fewer[name]) for name in names)
        return "|".join(str(counts[name]) for name in names)

    def call_seq_scan(self, session: Session) -> Steps[str]:
        """heapam: a stream of all blocks in batch mode; the page of the last row stays pinned until the next is there."""
        rows = 4 * self.scenario.blocks
        yield from self.call_stream(session, list(range(self.scenario.blocks)), True, False, "", True)
        return f"{rows * (rows - 1) // 2}|{rows}|{1900 * rows}"

    def call_explain(self, session: Session, first: int, what: str) -> Steps[str]:
        """What EXPLAIN (BUFFERS) or (IO) tells of a scan, which begins at a block."""
        yield from self.call_stream(session, list(range(first, self.scenario.blocks)), True, False, "", True)
        stream = session.stream
        if what == "BUFFERS":
            right, wrong = (f"...Buffers: shared{f' hit={hits}' * (hits > 0)}{f' read={session.read_blocks}' * (session.read_blocks > 0)}"
                            for hits in (session.hits, session.hits - session.late_hits))
            session.wrong[session.position] = "late hit", wrong
            return right
        assert stream
        count = len(stream.started)
        text = f"...Prefetch: avg={sum(stream.depths) / len(stream.depths):.2f} max={max(stream.depths)} capacity={stream.max_pinned}"
        if count:
            text += (f";   I/O: count={count} waits={stream.waits} size={sum(size for size, _ in stream.started) / count:.2f}"
                     f" in-progress={sum(others for _, others in stream.started) / count:.2f}")
        return text


class Stream:
    """read_stream.c: the blocks in the order of the callback, some of them in progress."""

    def __init__(self, model: Model, session: Session, blocks: list[int], batching: bool, full: bool) -> None:
        self.model, self.session, self.blocks, self.batching = model, session, list(blocks), batching
        self.joins = model.joins
        self.limit = session.limit
        self.synchronous = session.concurrency == 0
        self.max_ios = max(session.concurrency, 1)
        # read_stream_begin_impl: a read more than may be in progress, so that one can be consumed meanwhile
        self.max_pinned = min((session.concurrency + 1) * self.limit, PIN_LIMIT)
        self.distance = self.combine = min(self.max_pinned, self.limit) if full else 1
        self.holdoff = 0
        self.pending: list[int] = []
        self.queue: list[int] = []                      # pinned, in the order in which they are returned
        self.ios: list[tuple[int, Operation]] = []      # by the place of their first block among all returned
        self.returned = 0
        self.ungotten: int | None = None
        self.forwarded: set[int] = set()
        self.fast = False
        #: what EXPLAIN (IO) tells: pins at each block that is returned; size and others in progress of each read; waits
        self.depths: list[int] = []
        self.started: list[tuple[int, int]] = []
        self.waits = 0

    def hidden(self) -> str:
        return f"{self.distance} {self.combine} {self.holdoff} {self.pending} {self.queue} {len(self.ios)} {sorted(self.forwarded)} {self.fast} \
{sum(self.depths)} {self.started} {self.waits}"

    def get_block(self) -> int | None:
        if self.ungotten is not None:
            block, self.ungotten = self.ungotten, None
            return block
        return self.blocks.pop(0) if self.blocks else None

    def start_pending(self) -> Steps[None]:
        """read_stream_start_pending_read(): how far it looks ahead shrinks with each hit."""
        operation, wait = yield from self.model.start_reads(
            self.session, self.pending[0], len(self.pending), self.forwarded, self.synchronous)
        if wait:
            self.ios.append((self.returned + len(self.queue), operation))
            self.started.append((operation.blocks, len(self.ios)))
        elif not self.joins:
            self.distance -= self.distance > 1
        elif not self.ios:
            # 19: not while a read is in progress, and not soon after one
            if self.holdoff > 0:
                self.holdoff -= 1
            else:
                self.distance -= self.distance > 1
                self.combine -= self.combine > 1
        self.queue += self.pending[:operation.blocks]
        self.pending = self.pending[operation.blocks:]

    def should_look_ahead(self) -> bool:
        """read_stream_should_look_ahead(): never more reads than effective_io_concurrency."""
        if self.distance == 0 or len(self.ios) >= self.max_ios:
            return False
        if self.joins and self.pending and not self.queue and len(self.pending) < self.combine:
            return True
        return len(self.queue) + len(self.pending) < self.distance

    def should_issue(self) -> bool:
        """read_stream_should_issue_now(): a read that cannot grow, or nothing else is there to return."""
        if not self.pending or len(self.ios) >= self.max_ios:
            return False
        if self.joins:
            return (self.distance == 0 or len(self.pending) >= self.combine
                    or not self.queue and not self.should_look_ahead())
        return (len(self.pending) == self.limit or len(self.pending) >= self.distance and not self.queue
                or self.distance == 0)

    def look_ahead(self) -> Steps[None]:
        """read_stream_look_ahead()."""
        if self.batching:
            self.session.batch = True
        yield from self._look_ahead()
        if self.batching:
            self.model.submit(self.session)
            self.session.batch = False

    def _look_ahead(self) -> Steps[None]:
        while self.should_look_ahead():
            if self.should_issue() if self.joins else len(self.pending) == self.limit:
                yield from self.start_pending()
                continue
            block = self.get_block()
            if block is None:
                self.distance = self.combine = 0
                break
            if self.pending and self.pending[-1] + 1 == block:
                self.pending.append(block)
                continue
            while self.pending:
                yield from self.start_pending()
                if len(self.ios) == self.max_ios:
                    self.ungotten = block
                    return
            self.pending = [block]
        if self.should_issue():
            yield from self.start_pending()

    def next_buffer(self) -> Steps[int | None]:
        """read_stream_next_buffer(): the next block, pinned and valid; None at the end."""
        if self.fast:
            return (yield from self._next_fast())
        if not self.queue and self.distance:
            yield from self.look_ahead()
        if not self.queue:
            return None
        if self.ios and self.ios[0][0] == self.returned:
            _, operation = self.ios[0]
            waited = yield from self.model.wait_reads(self.session, operation)
            self.ios.pop(0)
            self.waits += waited or operation.synchronous
            # the distance doubles after a read; on 19 only if it had to be waited for
            if self.distance > 0 and (waited or operation.synchronous or not self.joins):
                self.distance = min(2 * self.distance, self.max_pinned)
            self.holdoff = self.max_pinned
            if 0 < self.combine < self.limit:
                self.combine = min(2 * self.combine, self.limit, self.max_pinned)
        self.depths.append(len(self.queue))
        block = self.queue.pop(0)
        self.returned += 1
        yield from self.look_ahead()
        # the fast path for scans of what is cached
        self.fast = (not self.ios and not self.forwarded and len(self.queue) == 1 and self.distance == 1
                     and (self.combine == 1 or not self.joins) and not self.pending)
        return block

    def _next_fast(self) -> Steps[int]:
        """One block is pinned in advance; on 19, if it has to be read, synchronously."""
        self.depths.append(1)
        block = self.queue.pop(0)
        self.returned += 1
        following = self.get_block()
        if following is None:
            self.distance = self.combine = 0
            self.fast = False
            return block
        operation, wait = yield from self.model.start_reads(
            self.session, following, 1, self.forwarded, self.synchronous or self.joins)
        self.queue.append(following)
        if wait:
            self.ios.append((self.returned, operation))
            self.started.append((1, 1))
            self.fast = False
        return block


# Statements that the model knows.

_FLAGS = ("wait_complete", "batchmode_enter", "smgrreleaseall", "batchmode_exit")
_WITHOUT_ARGUMENTS = ("batch_start", "batch_end", "handle_get", "handle_get_and_error", "handle_get_twice")
_OF_NO_CONCERN = ("sum", "count", "array", "generate_series", "length", "buffer_create_toy", "buffer_state", "any")


def _arguments(text: str, start: int) -> str:
    depth = 1
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return text[start:place]
    return text[start:]


def _blocks(text: str) -> list[int] | None:
    if found := re.search(r"ARRAY\[([\d, ]+)\]", text):
        return [int(block) for block in found[1].split(",")]
    if found := re.search(r"generate_series\((\d+), (\d+)\)", text):
        return list(range(int(found[1]), int(found[2]) + 1))
    return None


def parse(text: str) -> list[tuple[str, tuple]]:
    """The calls of a statement, in their order; none if the model does not know one of them."""
    calls: list[tuple[str, tuple]] = []
    if text.startswith("BEGIN; "):
        calls.append(("begin", (True,)))
    if text == "COMMIT":
        return [("begin", (False,))]
    if text == "SELECT sum(i), count(*), sum(length(f)) FROM t":
        return [("seq_scan", ())]
    if found := re.fullmatch(r"EXPLAIN \(ANALYZE, (BUFFERS|IO), .*\) SELECT FROM t(?: WHERE ctid >= '\((\d+),0\)')?", text):
        return [("explain", (int(found[2] or 0), found[1]))]
    for found in re.finditer(r"\b([a-z_]\w*)\(", text, re.I):
        name, inside = found[1].lower(), _arguments(text, found.end())
        if name in _OF_NO_CONCERN:
            continue
        if name in ("read_buffers", "start_read_buffers"):
            if not (numbers := re.fullmatch(r"'t', (\d+), (\d+)", inside)):
                return []
            each = (text.startswith("SELECT blockoff, nblocks FROM"),) if name == "read_buffers" else ()
            calls.append((name, (int(numbers[1]), int(numbers[2]), *each)))
        elif name == "read_rel_block_ll":
            if not (numbers := re.match(r"'t', (\d+)", inside)):
                return []
            blocks = re.search(r"nblocks => (\d+)", inside)
            flags = [f"{flag} => true" in inside or flag == "wait_complete" and f"{flag} => false" not in inside for flag in _FLAGS]
            calls.append((name, (int(numbers[1]), int(blocks[1]) if blocks else 1, *flags)))
        elif name in ("read_stream_for_blocks", "read_stream_run"):
            blocks_wanted = _blocks(inside)
            others = set(re.findall(r'"?(\w+)"? =>', inside)) - {"use_batching", "full"}
            if not inside.startswith("'t', ") or blocks_wanted is None or others:
                return []
            calls.append(("stream", (blocks_wanted, "use_batching => true" in inside, '"full" => true' in inside or name == "read_stream_for_blocks",
                                     re.sub(r"hits \+ read_bytes / 8192 AS | |FROM.*|SELECT", "", text))))
        elif name in _WITHOUT_ARGUMENTS:
            calls.append((name, ()))
        elif name in ("buffer_call_start_io", "buffer_call_terminate_io"):
            if not (place := re.search(r"buffer_(?:create_toy|state)\('t', (\d+)\)", text)) or "for_input => false" in text or ", false," in text:
                return []
            calls.append((f"buffer_{name[12:]}", (int(place[1]), *([f"{what} => true" in inside for what in ("succeed", "io_error")] if "term" in name else ()))))
        elif name == "pg_advisory_xact_lock":
            calls.append(("lock", (inside,)))
        else:
            return []
    return calls


def _fits(expected: str, answer: str) -> bool:
    """Does an answer begin as expected, or end so after "..."?"""
    if expected.startswith("..."):
        return answer.endswith(expected[3:])
    return answer.startswith(expected) and answer.startswith("ERROR") == expected.startswith("ERROR")


def disagreement(model: Model, engine: Engine) -> list[str]:
    """What the explorer sees otherwise than the model has it."""
    # which lock or buffer it is, is not the model's business
    seen = [f"{session.name}@{session.position} {session.state} {'' if session.state in ('lock', 'buffer') else session.waits_for}".strip()
            for session in engine.sessions.values()]
    seen += ["handles " + "; ".join(engine.handles), "buffers " + "; ".join(engine.buffers)]
    wrong = [f"the model says \"{said}\", and there is \"{there}\""
             for said, there in zip(model.observe(), seen, strict=True) if said != there]
    for session, real in zip(model.sessions.values(), engine.sessions.values(), strict=True):
        told, is_told = "; ".join(session.told), "; ".join(real.connection.notices)
        if told != is_told:
            wrong.append(f"the model says that {session.name} is told \"{told}\", and it is told \"{is_told}\"")
        for number, expected in enumerate(session.answers):
            said = str(real.answers[number]) if number < len(real.answers) else ""
            name, instead = session.wrong.get(number, ("", expected))
            if _fits(expected, said):
                continue
            if _fits(instead, said):
                model.known_wrong[name] += 1
            else:
                wrong.append(f"the model says that {session.name}{number + 1} gives \"{expected or 'no error'}\", and there is \"{said}\"")
    return wrong
