"""Rows of the view io_trace, from a file or from a server."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..project import Problem

if TYPE_CHECKING:
    import psycopg

# users run it with psql as well; to_jsonb() keeps arrays and NULLs apart from text
QUERY = "SELECT to_jsonb(t) FROM io_trace t"


@dataclass(frozen=True)
class Wait:
    """A wait of a process.  Times are in ms since the trace's first I/O."""

    pid: int
    start: float
    end: float


@dataclass(frozen=True)
class Io:
    seq: int
    pid: int
    backend_type: str
    #: relation and fork, or another target of the I/O
    target: str
    block: int
    blocks: int
    staged: float
    start: float
    #: None: not completed while the trace was on
    end: float | None
    #: a key of OUTCOMES
    outcome: str
    in_progress: int | None
    lookahead: int | None
    executed_by: int | None
    completed_by: int | None
    #: whether the gate held it
    held: bool
    #: the server's word, and the errno or the bytes
    result: str
    waits: tuple[Wait, ...]


OUTCOMES = {"ok": "complete", "short": "short", "error": "failed", "open": "not completed"}


@dataclass(frozen=True)
class Trace:
    label: str
    ios: tuple[Io, ...]
    #: I/Os for which the trace had no room
    lost: int = 0

    def name_of(self, pid: int) -> str:
        """Returns the type and number of a process.  The type is known if it issued I/Os."""
        return f"{next((io.backend_type for io in reversed(self.ios) if io.pid == pid), 'process')} {pid}"


def _ms(text: str) -> float:
    return datetime.fromisoformat(text).timestamp() * 1000


def _outcome(row: dict[str, Any]) -> str:
    if not row["completed_at"]:
        return "open"
    raw = row["raw_result"]
    if row["result"] == "ERROR" or (raw is not None and raw < 0):
        return "error"
    if row["result"] == "PARTIAL" or (raw is not None and row["result"] == "UNKNOWN" and raw < row["length"]):
        return "short"
    return "ok"


def _target(row: dict[str, Any]) -> str:
    if not row["relation"]:
        return str(row["target_desc"] or row["target"])
    return str(row["relation"]) + ("" if row["fork"] == "main" else f", {row['fork']}")


def _waits(row: dict[str, Any], zero: float) -> tuple[Wait, ...]:
    return tuple(
        Wait(pid, _ms(start) - zero, _ms(start) - zero + (length or 0))
        for pid, start, length in zip(row["waiters"] or (), row["wait_starts"] or (), row["wait_times"] or ())
    )


def _io(row: dict[str, Any], zero: float) -> Io:
    raw = "" if row["raw_result"] is None else f" ({row['raw_result']})"
    return Io(
        seq=row["seq"], pid=row["pid"], backend_type=row["backend_type"], target=_target(row),
        # the place of other targets is known in bytes only
        block=row["blockno"] if row["blockno"] is not None else row["off"] // 8192,
        blocks=row["nblocks"] or max(1, row["length"] // 8192),
        staged=_ms(row["staged_at"]) - zero, start=_ms(row["submitted_at"] or row["staged_at"]) - zero,
        end=_ms(row["completed_at"]) - zero if row["completed_at"] else None,
        outcome=_outcome(row),
        in_progress=row["in_progress"], lookahead=row["lookahead_distance"],
        executed_by=row["executed_by"], completed_by=row["completed_by"], held=bool(row["held"]),
        result=f"{row['result']}{raw}", waits=_waits(row, zero),
    )


def from_rows(label: str, rows: list[dict[str, Any]], lost: int = 0) -> Trace:
    """Returns the trace of rows of the view.  Its time begins with its first I/O."""
    if not rows:
        raise Problem(f"{label}: the trace is empty")
    try:
        zero = min(_ms(row["submitted_at"] or row["staged_at"]) for row in rows)
        return Trace(label, tuple(_io(row, zero) for row in rows), lost)
    except (KeyError, TypeError, ValueError) as error:
        raise Problem(f"{label}: this is no row of io_trace: {error!r}") from error


def from_file(path: Path) -> Trace:
    try:
        rows = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise Problem(f"{path}: no trace: {error}") from error
    return from_rows(path.stem, rows)


def rows_of_session(session: psycopg.Connection[Any]) -> tuple[list[dict[str, Any]], int]:
    """Returns rows of the view, and how many more there were."""
    rows = [row for (row,) in session.execute(QUERY)]
    [(lost,)] = session.execute("SELECT lost FROM io_trace_status").fetchall()
    return rows, lost


def from_server(dsn: str) -> Trace:
    import psycopg

    try:
        with psycopg.connect(dsn, autocommit=True) as session:
            [(version,)] = session.execute("SELECT current_setting('server_version')")
            return from_rows(version.split()[0], *rows_of_session(session))
    except psycopg.Error as error:
        raise Problem(f"{dsn}: {error}") from error


def is_dsn(text: str) -> bool:
    return re.match(r"postgres(ql)?://|\w+\s*=", text) is not None and not Path(text).exists()
