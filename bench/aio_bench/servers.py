"""Servers, by the scripts of servers/: how they are named, asked, compiled otherwise, staged, started and connected to.

servers/run runs each: it drops root's privileges and enters the root file system of the stock servers.  Of other
modules than Python's own only psycopg is needed, and only to connect.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import project
from .project import Problem

if TYPE_CHECKING:
    import psycopg

SCRIPTS = project.ROOT / "servers"
RUN = SCRIPTS / "run"

STATEMENT_TIMEOUT = "5min"


class ServerError(Problem):
    """A server could not be named, made, started or asked."""


def told(error: Exception) -> str:
    """Returns the message of an error; of an error that is not our own, its type as well."""
    return str(error) if isinstance(error, Problem) else f"{type(error).__name__}: {error}"


def server_name(text: str) -> str:
    """Returns what servers/run calls a server.  A path is the path of a pg_config."""
    # a path may follow a word and a colon: pg_config:, source:
    is_path = "/" in text and ":" not in text.partition("/")[0]
    return f"pg_config:{Path(text).absolute()}" if is_path else text


def stock_servers() -> list[str]:
    """Returns the servers of Debian's packages, oldest first."""
    return re.findall(r"^\t'(\S+) +\d+ +stock ", (SCRIPTS / "packages").read_text(), re.MULTILINE)


def is_tree(server: str) -> bool:
    return server.startswith(("source:", "source-optimised:"))


def split_tree(name: str) -> tuple[str, str]:
    """Returns the path of source:PATH[@REVISION], and its revision or nothing."""
    tree = name.partition(":")[2]
    path, _, revision = tree.rpartition("@")
    return (path, revision) if path and not Path(tree).is_dir() else (tree, "")


def source_of(server: str) -> Path:
    """Returns where the source of a server is, of a tree or of one that the project compiles."""
    if is_tree(server):
        return Path(split_tree(server)[0]).resolve()
    return Path(subprocess.check_output([SCRIPTS / "provide", "--source", server.partition("-")[0]], text=True).strip())


def recipe(server: str) -> str:
    """Returns what differs if a server that the project compiles is made otherwise, such as of more parts."""
    return ask_scripts('recipe_of "$1"', server)


def ask_scripts(words: str, *arguments: str) -> str:
    """Runs a shell script that knows servers/lib.sh.  Returns its output."""
    done = subprocess.run(["bash", "-euc", f'. "$0"; {words}', SCRIPTS / "lib.sh", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise ServerError(done.stderr.strip().removeprefix("error: "))
    return done.stdout.strip()


def identity(server: str) -> str:
    """Returns a name for files that differs if the server does.  It depends on a tree's commit or contents, and on
    the path and the compilation time of a user's own server."""
    if server.startswith("pg_config:"):
        path = Path(server.partition(":")[2])
        try:
            bindir = subprocess.run([path, "--bindir"], capture_output=True, text=True, check=True).stdout.strip()
            postgres = Path(bindir, "postgres").stat()
        except (OSError, subprocess.CalledProcessError) as error:
            raise ServerError(f"cannot run {path}, or it has no server: {error}") from error
        return f"own-{project.digest(also=f'{path} {postgres.st_mtime_ns} {postgres.st_size}')[:12]}"
    return ask_scripts('server_column "$1" how >/dev/null && server_label "$1"', server)


def variant(server: str, directory: Path, options: str, *files: str, before: tuple[str, ...] = ()) -> list[str]:
    """Makes directory/server like another server, but with files that are compiled with these options of gcc.  Returns
    those that are left out.  before are options of servers/variant."""
    done = subprocess.run([SCRIPTS / "variant", *before, server, directory, options, *files], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise ServerError(f"servers/variant cannot compile {server}")
    return done.stdout.split()


def command(server: str, work: Path, *words: str | Path, read: Path | None = None, data: bool = False) -> list[str]:
    """Returns the command that runs another one with a server, which may write to the directory work, and read one
    besides the checkout."""
    return [str(word) for word in (RUN, *["--data"] * data, "--work", work, *(["--read", read] if read else []), server, *words)]


@dataclass(frozen=True)
class Build:
    """How a server was built."""

    #: what servers/run calls it
    name: str
    identity: str
    #: "PostgreSQL 18.6 (Debian …)", "PostgreSQL 19rc1"
    version: str
    configure: str
    cflags: str
    #: of a source tree in git: the commit, its time and subject
    commit: str

    @property
    def number(self) -> str:
        return self.version.split()[1]

    @property
    def version_num(self) -> int:
        """The server_version_num, of a beta that of the release."""
        major, minor = re.findall(r"^(\d+)(?:\.(\d+))?", self.number)[0]
        return int(major) * 10000 + int(minor or 0)

    @property
    def major(self) -> int:
        return self.version_num // 10000

    @property
    def has_assertions(self) -> bool:
        return "--enable-cassert" in self.configure


def describe(server: str, work: Path | None = None) -> Build:
    """Asks an existing server how it was built."""
    if work is None:
        with project.directory(Path("/tmp")) as directory:
            return describe(server, directory / "work")
    words = 'for what in version configure cflags; do "$PG_CONFIG" --$what; done'
    done = subprocess.run(command(server, work, "sh", "-c", words), stdin=subprocess.DEVNULL, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    if done.returncode != 0 or len(lines) < 3 or not lines[0].startswith("PostgreSQL "):
        raise ServerError(f"{server}: {done.stderr.strip().removeprefix('error: ') or done.stdout}")
    path, revision = split_tree(server)
    commit = project.git(path, "log", "-1", "--format=%h %ci %s", revision or "HEAD") if is_tree(server) and Path(path).is_dir() else ""
    return Build(server, identity(server), lines[0], lines[1], lines[2], commit)


def _tail(path: Path, lines: int = 15) -> str:
    try:
        return "\n".join("  | " + line for line in path.read_text(errors="replace").splitlines()[-lines:])
    except OSError as error:
        return f"  | {error}"


class Cluster:
    """A private cluster with the extension, in a directory of its own, and a session that asks it."""

    #: how pg_ctl stops the server
    stop_mode = "fast"
    port = 5432
    #: options of its own, and what its data and log are called if not so
    options: tuple[str, ...] = ()

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
        self.log = directory / "server.log"
        self._read_up_to = 0
        directory.mkdir(exist_ok=True)

    def _command(self, *words: str | Path) -> list[str]:
        return command(self.server, self.directory, *words, read=self.extension)

    def _begin(self, what: str, *arguments: str) -> None:
        """Starts servers/cluster, and keeps its stderr in a file."""
        with self._log_of(what).open("w") as errors:
            self._process = subprocess.Popen(
                self._command(SCRIPTS / "cluster", what, *arguments),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                # Ctrl-C must reach only us, so that servers are stopped in order
                start_new_session=True,
            )

    def _log_of(self, what: str) -> Path:
        # beside it: servers/run takes an empty directory only
        return self.directory.with_name(f"{self.directory.name}.{self.data.name}.{what}.log")

    def ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self._command(*words), stdin=subprocess.DEVNULL, capture_output=True, text=True)

    @cached_property
    def build(self) -> Build:
        return describe(self.server, self.directory)

    def begin_prepare(self) -> None:
        self._begin("prepare", *([str(self.extension)] if self.extension else []))

    def finish_prepare(self) -> None:
        assert self._process
        self._process.communicate()
        # if that is interrupted, stop() waits for it
        process, self._process = self._process, None
        if process.returncode != 0:
            raise ServerError(f"{self.server}: building the extension or making a cluster failed:\n{_tail(self._log_of('prepare'))}")

    def start(self, settings: dict[str, str]) -> None:
        lines = [f"{name} = '{value}'\n" for name, value in settings.items()]
        (self.directory / "settings.conf").write_text("".join(lines))
        self._begin("serve", self.stop_mode, *self.options)
        assert self._process and self._process.stdout
        if self._process.stdout.readline() != "ready\n":
            self.stop()
            raise ServerError(f"{self.server} did not start:\n{_tail(self._log_of('serve'))}\n{_tail(self.log)}")

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

    def new_log_lines(self) -> list[str]:
        """Returns what has been logged since this was asked last."""
        if not self.log.exists():
            return []
        with self.log.open("rb") as file:
            file.seek(self._read_up_to)
            text = file.read()
        # a line that is being written is left for the next time
        end = text.rfind(b"\n") + 1
        self._read_up_to += end
        return text[:end].decode(errors="replace").splitlines()

    def use(self, database: str) -> None:
        self._disconnect()
        self.database = database

    def why_no_io_uring(self) -> str | None:
        """Returns why the server cannot use io_uring here, or None.  It asks where the server will run, because
        limits and seccomp filters are inherited."""
        said = self.ask("sh", "-c", 'exec "$TEST_AIO_SOURCE/servers/io_uring_probe" --brief "$PG_CONFIG"')
        if said.returncode == 0:
            return None
        if said.returncode == 1:
            return said.stdout.strip()
        raise ServerError(f"{self.server}: {said.stderr.strip()}")

    def connect(self, setting: str) -> psycopg.Connection[Any]:
        import psycopg

        return psycopg.connect(host=str(self.directory), port=self.port, user="postgres", dbname=self.database, autocommit=True, options=f"-c {setting}")

    @property
    def session(self) -> psycopg.Connection[Any]:
        if self._session is None:
            # a statement that hangs is an error, not a benchmark without end
            self._session = self.connect(f"statement_timeout={STATEMENT_TIMEOUT}")
        return self._session
