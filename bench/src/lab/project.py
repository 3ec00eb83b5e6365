"""The project's own checkout: its paths, its commit, and what it provides before a command begins.  Standard library only."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from timeline import requirements
from timeline.requirements import CHECKOUT as ROOT

RUN = ROOT / "servers" / "run"
PACKAGES = ROOT / "servers" / "packages"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "test_aio"

MODULES = ("jinja2", "matplotlib", "numpy", "psycopg", "pydantic", "rich", "scipy")


def git(path: str | Path, *arguments: str) -> str:
    """Returns what git prints, or nothing outside of git."""
    # git bisect run in another repository may have set variables of git's; git would refuse root in an ordinary user's checkout
    environment = {"PATH": "/usr/bin:/bin", "GIT_CEILING_DIRECTORIES": str(Path(path).parent)}
    try:
        done = subprocess.run(["git", "-c", "safe.directory=*", "-C", path, *arguments], capture_output=True, text=True, env=environment)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def commit() -> str:
    return git(ROOT, "describe", "--always", "--dirty") or "unknown (not a git checkout)"


def server_name(text: str) -> str:
    """Returns what servers/run calls a server.  A path is the path of a pg_config."""
    # a path may follow a word and a colon: pg_config:, source:
    is_path = "/" in text and ":" not in text.partition("/")[0]
    return f"pg_config:{Path(text).absolute()}" if is_path else text


def stock_servers() -> list[str]:
    """Returns the servers of Debian's packages, oldest first, from servers/packages."""
    return re.findall(r"^\t'(\S+) +\d+ +stock ", PACKAGES.read_text(), re.MULTILINE)


def end_as_by_interrupt() -> None:
    """Prepares a process that runs servers."""
    # an ordinary user's server must be able to read root's files
    os.umask(0o022)
    # these signals end it as Ctrl-C does: servers stop, directories go
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)


@contextmanager
def directory(where: Path) -> Iterator[Path]:
    """Makes a directory for clusters."""
    # a short name, as a socket's path has to fit into 107 bytes
    work = Path(tempfile.mkdtemp(prefix="aio.", dir=where)).resolve()
    try:
        work.chmod(0o755)
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def give_to_owner(*paths: Path) -> None:
    """Gives files that root has made to the checkout's owner."""
    if os.geteuid() == 0:
        owner = ROOT.stat()
        for path in paths:
            os.chown(path, owner.st_uid, owner.st_gid)


def provide(program: str, names: Sequence[str]) -> bool:
    """Sets up missing servers of the project, and missing modules with them.  Where that is impossible, prints one
    command that does so.  Returns whether everything is there."""
    names = [name for name in names if not name.startswith("pg_config:")]
    if names and not requirements.PROVIDE.exists():
        print(f"{program}: {', '.join(names)} can be had in a checkout of test_aio only: --server /path/to/pg_config")
        return False
    # one call for all, so that an ordinary user gets one command
    if names and subprocess.run([requirements.PROVIDE, *["bench"] * bool(requirements.missing(*MODULES)), *names]).returncode != 0:
        return False
    return requirements.provide(program, *MODULES)
