"""The two servers of a trial, each with a build for the suite and one for the lab.  Standard library only."""

import hashlib
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lab import project

ROLES = ("before", "after")


class SideError(Exception):
    """A server cannot be named, built or asked."""


@dataclass(frozen=True)
class Side:
    #: one of ROLES
    role: str
    #: what servers/run calls the servers
    suite: str
    lab: str


def side(role: str, text: str) -> Side:
    """Returns the side that a text names.  source:PATH[@REVISION] is compiled twice, for the suite and for the lab.
    Of two servers with a comma between them the first is for the suite.  Raises SideError."""
    if is_tree(text):
        # with its revision, if it has one
        tree = Path(text.partition(":")[2]).absolute()
        return Side(role, f"source:{tree}", f"source-optimised:{tree}")
    suite, comma, lab = text.partition(",")
    if not suite or (comma and not lab):
        raise SideError(f"{text!r}: a server, or two with a comma between them")
    return Side(role, project.server_name(suite), project.server_name(lab or suite))


def is_tree(server: str) -> bool:
    return server.startswith(("source:", "source-optimised:"))


def ask_servers(words: str, *arguments: str) -> str:
    """Runs a shell script that knows servers/lib.sh.  Returns its output."""
    done = subprocess.run(["bash", "-euc", f'. "$0"; {words}', project.ROOT / "servers" / "lib.sh", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise SideError(done.stderr.strip().removeprefix("error: "))
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
            raise SideError(f"cannot run {path}, or it has no server: {error}") from error
        return f"own-{hashlib.sha256(f'{path} {postgres.st_mtime_ns} {postgres.st_size}'.encode()).hexdigest()[:12]}"
    return ask_servers('server_column "$1" how >/dev/null && server_label "$1"', server)


def split_tree(name: str) -> tuple[str, str]:
    """Returns the path of source:PATH[@REVISION], and its revision or nothing."""
    tree = name.partition(":")[2]
    path, _, revision = tree.rpartition("@")
    return (path, revision) if path and not Path(tree).is_dir() else (tree, "")


def _subject(server: str) -> str:
    """Returns the commit of a tree and its subject, or nothing outside of git."""
    path, revision = split_tree(server)
    return project.git(path, "log", "-1", "--format=%h %ci %s", revision or "HEAD") if Path(path).is_dir() else ""


@dataclass(frozen=True)
class Build:
    #: what servers/run calls it
    name: str
    identity: str
    version: str
    configure: str
    cflags: str
    #: of a source tree in git
    commit: str

    @property
    def has_assertions(self) -> bool:
        return "--enable-cassert" in self.configure

    @property
    def has_injection_points(self) -> bool:
        return "--enable-injection-points" in self.configure


def describe(server: str) -> Build:
    """Returns how an existing server was built.  Raises SideError."""
    words = 'for what in version configure cflags; do "$PG_CONFIG" --$what; done'
    with tempfile.TemporaryDirectory(prefix="aio.") as directory:
        Path(directory).chmod(0o755)
        done = subprocess.run([project.RUN, "--work", f"{directory}/work", server, "sh", "-c", words], capture_output=True, text=True)
    lines = done.stdout.splitlines()
    if done.returncode != 0 or len(lines) < 3:
        raise SideError(f"{server}: {done.stderr.strip()}")
    return Build(server, identity(server), lines[0], lines[1], lines[2], _subject(server) if is_tree(server) else "")
