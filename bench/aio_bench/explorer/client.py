"""Connections whose statements are sent now and answered later."""

import re
import select
import time
from dataclasses import dataclass

import psycopg
from psycopg import pq

from ..servers import Cluster

#: an answer that takes longer than this never comes
PATIENCE = 20.0

ROWS = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.EMPTY_QUERY)


class Lost(Exception):
    """The connection has ended."""


@dataclass(frozen=True)
class Answer:
    """What became of a statement."""

    rows: tuple[tuple[str | None, ...], ...] = ()
    tag: str = ""
    sqlstate: str = ""
    message: str = ""

    def __str__(self) -> str:
        if self.sqlstate:
            return f"ERROR {self.sqlstate}: {self.message}"
        if self.rows:
            return "; ".join("|".join("NULL" if value is None else value for value in row) for row in self.rows)
        return self.tag


def normal(message: str) -> str:
    """A message without what differs from run to run."""
    message = re.sub(r'file "[^"]*"', "the file", message)
    message = re.sub(r'relation "(?:base|global|pg_tblspc)/[^"]*"', "the relation", message)
    return re.sub(r"\b(?:process|PID) \d+", "process N", message)


class Connection:
    def __init__(self, cluster: Cluster) -> None:
        try:
            self._session = cluster.connect("client_min_messages=warning")
        except psycopg.Error as error:
            raise Lost(str(error)) from None
        self._pg = self._session.pgconn
        self.notices: list[str] = []
        self._session.add_notice_handler(lambda notice: self.notices.append(normal(notice.message_primary or "")))
        self.pid = self._pg.backend_pid
        self._answers: list[Answer] = []
        self.busy = False

    @property
    def socket(self) -> int:
        return self._pg.socket

    @property
    def in_transaction(self) -> bool:
        return self._pg.transaction_status not in (pq.TransactionStatus.IDLE, pq.TransactionStatus.UNKNOWN)

    def close(self) -> None:
        self._session.close()

    def send(self, sql: str) -> None:
        self._answers = []
        self.busy = True
        try:
            self._pg.send_query(sql.encode())
        except psycopg.Error as error:
            raise Lost(str(error)) from None

    def poll(self) -> list[Answer] | None:
        """The answers to what was sent, one for each statement in it; None: not all are there yet."""
        try:
            self._pg.consume_input()
            while not self._pg.is_busy():
                result = self._pg.get_result()
                if result is None:
                    self.busy = False
                    return self._answers
                self._answers.append(self._answer(result))
                result.clear()
        except psycopg.Error as error:
            raise Lost(str(error)) from None
        return None

    def _answer(self, result: pq.abc.PGresult) -> Answer:
        if result.status not in ROWS:
            sqlstate = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
            message = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or result.error_message).decode(errors="replace")
            if not sqlstate:
                raise Lost(message)
            return Answer(sqlstate=sqlstate, message=normal(message))
        rows = tuple(
            tuple(None if (value := result.get_value(row, column)) is None else value.decode(errors="backslashreplace")
                  for column in range(result.nfields))
            for row in range(result.ntuples))
        return Answer(rows, (result.command_status or b"").decode())

    def ask(self, sql: str) -> list[tuple[tuple[str | None, ...], ...]]:
        """Rows of each statement; an error is an exception."""
        self.send(sql)
        deadline = time.monotonic() + PATIENCE
        while (answers := self.poll()) is None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"no answer after {PATIENCE:.0f} s")
            select.select([self.socket], [], [], left)
        for answer in answers:
            if answer.sqlstate:
                raise RuntimeError(f"{sql}: {answer}")
        return [answer.rows for answer in answers]
