"""Private clusters of the servers to measure.

servers/run runs each server: it drops root's privileges and enters the root file system of the stock servers.
"""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import psycopg

from . import project

STATEMENT_TIMEOUT = "5min"
STANDBY_PORT = 5433


class ServerError(Exception):
    """A server could not be made, started or asked."""


def told(error: Exception) -> str:
    """Returns the message of an error; of an error that is not our own, its type as well."""
    return str(error) if isinstance(error, ServerError) else f"{type(error).__name__}: {error}"


def _tail(path: Path, lines: int = 15) -> str:
    try:
        return "\n".join("  | " + line for line in path.read_text(errors="replace").splitlines()[-lines:])
    except OSError as error:
        return f"  | {error}"


class Cluster:
    """A cluster in a directory of its own, and the one session that measures it."""

    #: how pg_ctl stops the server
    stop_mode = "fast"

    def __init__(self, server: str, directory: Path, label: str = "", extension: Path | None = None) -> None:
        #: what servers/run calls the server
        self.server = server
        #: what the user calls it; empty: by its version
        self.label = label
        #: the checkout of test_aio to build, or where it is staged already; None: this one
        self.extension = extension
        self.directory = directory
        self.data = directory / "data"
        #: what sessions connect to
        self.database = "postgres"
        self._process: subprocess.Popen[str] | None = None
        self._session: psycopg.Connection[Any] | None = None
        self._version_num: int | None = None
        directory.mkdir()

    def _command(self, *command: str) -> list[str]:
        read = ["--read", str(self.extension)] if self.extension else []
        return [str(project.RUN), "--work", str(self.directory), *read, self.server, *command]

    def _begin(self, what: str, *arguments: str) -> None:
        """Starts servers/cluster, and keeps its stderr in a file."""
        with self._log_of(what).open("w") as errors:
            self._process = subprocess.Popen(
                self._command(str(project.ROOT / "servers/cluster"), what, *arguments),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                # Ctrl-C must reach only us, so that servers are stopped in order
                start_new_session=True,
            )

    def _log_of(self, what: str) -> Path:
        # beside it: servers/run takes an empty directory only
        return self.directory.with_name(f"{self.directory.name}.{what}.log")

    def ask(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self._command(*command), stdin=subprocess.DEVNULL, capture_output=True, text=True)

    def begin_prepare(self) -> None:
        self._begin("prepare", *([str(self.extension)] if self.extension else []))

    def finish_prepare(self) -> None:
        assert self._process
        self._process.communicate()
        # if that is interrupted, stop() waits for it
        process, self._process = self._process, None
        if process.returncode != 0:
            raise ServerError(f"{self.server}: building the extension or making a cluster failed:\n{_tail(self._log_of('prepare'))}")

    def make_standby(self, wanted: bool) -> None:
        """Makes a standby of the running server, or removes the standby of another case.  From then on
        it starts with the server.  It has the server's settings and a port of its own."""
        standby = self.directory / "standby"
        shutil.rmtree(standby, ignore_errors=True)
        if wanted:
            made = self.ask("pg_basebackup", f"--host={self.directory}", "--username=postgres", f"--pgdata={standby}",
                            "--checkpoint=fast", "--write-recovery-conf")
            if made.returncode != 0:
                raise ServerError(f"{self.server}: {made.stderr.strip()}")
            with (standby / "postgresql.auto.conf").open("a") as settings:
                settings.write(f"port = {STANDBY_PORT}\n")

    def start(self, settings: dict[str, str]) -> None:
        lines = [f"{name} = '{value}'\n" for name, value in settings.items()]
        (self.directory / "settings.conf").write_text("".join(lines))
        self._begin("serve", self.stop_mode)
        assert self._process and self._process.stdout
        if self._process.stdout.readline() != "ready\n":
            self.stop()
            raise ServerError(f"{self.server} did not start:\n{_tail(self._log_of('serve'))}\n{_tail(self.directory / 'server.log')}")

    def _disconnect(self) -> None:
        if self._session:
            self._session.close()
            self._session = None

    def stop(self) -> None:
        """Ends what runs here in order, by closing its standard input."""
        self._disconnect()
        if self._process:
            self._process.communicate()
            self._process = None

    def use(self, database: str) -> None:
        self._disconnect()
        self.database = database

    @property
    def version_num(self) -> int:
        """The server_version_num.  Settings depend on it, so it is known without a connection."""
        if self._version_num is None:
            said = self.ask("sh", "-c", '"$PG_CONFIG" --version').stdout
            # "PostgreSQL 18.6 (Debian …)", "PostgreSQL 19rc1"
            found = re.search(r"PostgreSQL (\d+)(?:\.(\d+))?", said)
            if not found:
                raise ServerError(f"{self.server}: pg_config --version says {said!r}")
            self._version_num = int(found[1]) * 10000 + int(found[2] or 0)
        return self._version_num

    def why_no_io_uring(self) -> str | None:
        """Returns why the server cannot use io_uring here, or None.  It asks where the server will run, because
        limits and seccomp filters are inherited."""
        said = self.ask("sh", "-c", 'exec "$TEST_AIO_SOURCE/servers/io_uring_probe" --brief "$PG_CONFIG"')
        if said.returncode == 0:
            return None
        if said.returncode == 1:
            return said.stdout.strip()
        raise ServerError(f"{self.server}: {said.stderr.strip()}")

    @property
    def session(self) -> psycopg.Connection[Any]:
        if self._session is None:
            # a statement that hangs is an error, not a benchmark without end
            self._session = psycopg.connect(host=str(self.directory), user="postgres", dbname=self.database, autocommit=True,
                                            options=f"-c statement_timeout={STATEMENT_TIMEOUT}")
        return self._session
