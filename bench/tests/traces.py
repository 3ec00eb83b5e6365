"""Invented traces, as rows of io_trace, with the columns that bench/timeline reads."""

from datetime import UTC, datetime, timedelta
from typing import Any

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def at(ms: float) -> str:
    return (START + timedelta(milliseconds=ms)).isoformat()


def row(seq: int, start: float, end: float | None, block: int, blocks: int = 1, pid: int = 100, **other: Any) -> dict[str, Any]:
    """Returns a row.  other are columns with other values."""
    made: dict[str, Any] = {
        "seq": seq, "pid": pid,
        "off": block * 8192, "length": blocks * 8192, "target": "smgr",
        "target_desc": f"blocks {block}..{block + blocks - 1} in file \"base/5/16384\"",
        "raw_result": None if end is None else blocks * 8192, "result": "UNKNOWN" if end is None else "OK",
        "relation": "large", "fork": "main", "blockno": block, "nblocks": blocks,
        "staged_at": at(start - 0.01), "submitted_at": at(start), "completed_at": None if end is None else at(end),
        "in_progress": 1, "lookahead_distance": blocks, "executed_by": 200, "completed_by": None if end is None else 200,
        "waiters": None, "wait_starts": None, "wait_times": None, "held": False,
        "backend_type": "client backend",
    }
    return made | other


def waited(by: int, start: float, length: float) -> dict[str, Any]:
    """Returns the columns of an I/O that a process waited for."""
    return {"waiters": [by], "wait_starts": [at(start)], "wait_times": [length]}


def serial(ios: int, latency: float = 1.0, think: float = 0.05) -> list[dict[str, Any]]:
    """Returns I/Os one after the other.  The process waits for each."""
    rows, now = [], 0.0
    for number in range(ios):
        rows.append(row(number + 1, now, now + latency, number, lookahead_distance=2, **waited(100, now + 0.02, latency)))
        now += latency + think
    return rows


def parallel(ios: int, latency: float = 1.0, depth: int = 16) -> list[dict[str, Any]]:
    """Returns I/Os of which depth are under way at once, as of a stream that looks far ahead."""
    rows = []
    for number in range(ios):
        start = number * latency / depth
        waits = waited(100, start + latency * 0.8, latency * 0.2) if number % depth == 0 else {}
        rows.append(row(number + 1, start, start + latency, number, in_progress=min(number + 1, depth),
                        lookahead_distance=min(number + 1, depth) * 4, **waits))
    return rows


def varied() -> list[dict[str, Any]]:
    """Returns a few I/Os with everything that a timeline can show."""
    return [
        row(1, 0, 1, 0, 4, **waited(100, 0.2, 0.9)),
        row(2, 0.1, 1.4, 8, 4),
        row(3, 0.5, 1.6, 16, 4, result="PARTIAL", raw_result=8192),
        row(4, 0.7, 1.8, 24, 2, result="ERROR", raw_result=-5, **waited(101, 1, 0.8)),
        row(5, 0.9, None, 30, 2, pid=101),
        row(6, 1.2, 2.4, 12, 2, pid=101, held=True, **waited(100, 1.3, 1.0)),
    ]
