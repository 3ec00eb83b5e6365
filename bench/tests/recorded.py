"""A trace recorded by a real server, the one of PG_CONFIG, which servers/run sets."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

import psycopg

ROOT = Path(__file__).absolute().parents[2]

SETTINGS = """
shared_preload_libraries = 'test_aio'
io_method = worker
autovacuum = off
"""

# whole, short and failed reads, a read that another session joins, a lookup by index
STATEMENTS = (
    "CREATE EXTENSION test_aio",
    "CREATE TABLE large (id int PRIMARY KEY, filler text STORAGE PLAIN)",
    "INSERT INTO large SELECT i, repeat('x', 5000) FROM generate_series(1, 300) i",
    "VACUUM (FREEZE) large",
    "SELECT evict_rel('large')",
    "SELECT io_trace_start()",
    "SELECT count(filler) FROM large",
    "SELECT evict_rel('large')",
    "SELECT io_device('2ms', rel => 'large')",
    "SELECT count(*) FROM read_stream_for_blocks('large', ARRAY(SELECT i * 37 % 100 FROM generate_series(0, 199) i))",
    "SELECT io_device_end()",
    "SELECT evict_rel('large')",
    "SELECT io_fail('large', 8192, 32)",
)
FAILING = ("SELECT io_fail('large', -5, 200)", "SELECT count(filler) FROM large")


class Recorded:
    """A private server, which is removed at the end."""

    def __init__(self) -> None:
        if not os.environ.get("PG_CONFIG"):
            raise unittest.SkipTest("PG_CONFIG is not set; servers/run NAME $PWD/bench/check sets it")
        # a socket's path must fit into 107 bytes
        self.work = Path(tempfile.mkdtemp(prefix="aio.", dir="/tmp"))
        self._server: subprocess.Popen[str] | None = None
        self._environment = {**os.environ, "TEST_AIO_SOURCE": str(ROOT), "TEST_AIO_WORK": str(self.work)}

    def __enter__(self) -> Recorded:
        try:
            self._start()
            with psycopg.connect(self.dsn, autocommit=True) as session:
                self._record(session)
        except BaseException:
            self.__exit__()
            raise
        return self

    @property
    def dsn(self) -> str:
        return f"host={self.work} user=postgres dbname=postgres"

    def _start(self) -> None:
        done = subprocess.run([ROOT / "bench/inside/prepare"], env=self._environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        (self.work / "settings.conf").write_text(SETTINGS)
        self._server = subprocess.Popen(
            [ROOT / "bench/inside/serve"], env=self._environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._server.stdout
        if self._server.stdout.readline() != "ready\n":
            raise AssertionError((self.work / "server.log").read_text())

    def _record(self, session: psycopg.Connection[Any]) -> None:
        for statement in STATEMENTS:
            session.execute(statement.encode())
        try:
            for statement in FAILING:
                session.execute(statement.encode())
        except psycopg.errors.IoError:
            pass
        session.execute("SELECT io_trace_stop()")
        self.rows = [row for (row,) in session.execute("SELECT to_jsonb(t) FROM io_trace t")]

    def __exit__(self, *_: object) -> None:
        if self._server:
            # it stops at the end of its input
            self._server.communicate()
        shutil.rmtree(self.work, ignore_errors=True)
