"""A trace as Chrome trace events, which Perfetto opens."""

import json
from collections.abc import Iterator
from typing import Any

from .trace import Io, Trace

Event = dict[str, Any]


def _event(phase: str, pid: int, name: str, ms: float, **more: Any) -> Event:
    """Returns an event of a process at a time in ms; the format has microseconds."""
    return {"ph": phase, "pid": pid, "tid": pid, "cat": "io", "name": name, "ts": round(ms * 1000, 3), **more}


def _slice(pid: int, name: str, begin: float, end: float) -> Event:
    return _event("X", pid, name, begin, dur=round((end - begin) * 1000, 3))


def _events_of(io: Io, last: float) -> Iterator[Event]:
    end = max(io.start, last) if io.end is None else io.end
    # ids of their own for each process, or viewers show the I/Os of all processes on one track
    own = {"id2": {"local": io.seq}}
    yield _event("b", io.pid, f"read {io.target}", io.start, **own,
                 args={"block": io.block, "blocks": io.blocks, "in_progress": io.in_progress, "lookahead_distance": io.lookahead, "held": io.held})
    yield _event("e", io.pid, f"read {io.target}", end, **own, args={"completed": io.end is not None, "result": io.result, "executed_by": io.executed_by})
    if io.in_progress is not None:
        yield _slice(io.pid, f"stage {io.target}", io.staged, io.start)
    for wait in io.waits:
        yield _slice(wait.pid, f"wait for {io.target}", wait.start, wait.end)
    if io.end is not None and io.completed_by is not None:
        yield _slice(io.completed_by, f"complete {io.target}", end, end)
        if io.completed_by != io.pid:
            yield _event("s", io.pid, "completion", io.staged, id=io.seq)
            yield _event("f", io.completed_by, "completion", end, id=io.seq, bp="e")


def _nest(events: list[Event]) -> None:
    """Times are exact to a microsecond, so a slice may seem to begin before the one before has ended; readers drop such slices."""
    open_until: dict[int, list[float]] = {}
    for event in sorted((event for event in events if event["ph"] == "X"), key=lambda event: (event["ts"], -event["dur"])):
        ends, end = open_until.setdefault(event["tid"], []), event["ts"] + event["dur"]
        while ends and ends[-1] <= event["ts"]:
            ends.pop()
        while ends and ends[-1] < end:
            event["ts"] = ends.pop()
            event["dur"] = round(end - event["ts"], 3)
        ends.append(end)


def chrome(trace: Trace) -> str:
    """Returns Chrome trace events as a JSON document."""
    last = max((io.end if io.end is not None else io.start) for io in trace.ios)
    pids = sorted({pid for io in trace.ios for pid in (io.pid, io.completed_by, *(wait.pid for wait in io.waits)) if pid is not None})
    named = [_event("M", pid, kind, 0, args={"name": trace.name_of(pid)}) for pid in pids for kind in ("process_name", "thread_name")]
    events = [*named, *(event for io in trace.ios for event in _events_of(io, last))]
    # the first I/O was staged before the trace's time begins, and readers drop what is before 0
    first = min(io.staged for io in trace.ios)
    for event in events:
        if event["ph"] != "M":
            event["ts"] = round(event["ts"] - first * 1000, 3)
    _nest(events)
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events})
