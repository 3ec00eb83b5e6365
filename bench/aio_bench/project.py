"""The project's own checkout: its paths, its commit, and how a command begins and ends.  Standard library only."""

import argparse
import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).absolute().parents[2]
PROVIDE = ROOT / "servers" / "provide"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "test_aio"

MODULES = ("jinja2", "matplotlib", "numpy", "psycopg", "pydantic", "rich", "scipy")


class Problem(Exception):
    """What the user is told without a traceback."""


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


def perform(program: str, body: Callable[[], int], failure: int = 1, names: Sequence[str] = (), modules: Sequence[str] = ()) -> int:
    """Runs a command's body, which needs these servers and modules.  Returns the exit status."""
    # an ordinary user's server must be able to read root's files
    os.umask(0o022)
    # these signals end it as Ctrl-C does: servers stop, directories go
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        return body() if provide(program, names, modules) else failure
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (Problem, ValueError, OSError, subprocess.CalledProcessError) as error:
        print(f"{program}: {error}", file=sys.stderr)
        return failure
    except KeyboardInterrupt:
        print(f"{program}: interrupted", file=sys.stderr)
        return 130
    except Exception:
        traceback.print_exc()
        return failure


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


def lock(directory: Path, told: str) -> IO[str]:
    """Keeps others out of a directory until this process ends, or the file is closed.  Raises Problem."""
    directory.mkdir(parents=True, exist_ok=True)
    file = (directory / ".lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise Problem(told) from None
    return file


def wait_for(condition: Callable[[], Any], seconds: float, pause: float = 0.002) -> Any:
    """Waits until a condition is true, at most so long.  Returns its last value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < deadline:
        time.sleep(pause)
    return value


def positive(text: str) -> float:
    """Returns the number of an option."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError("more than 0")
    return value


def digest(*paths: Path, also: str = "") -> str:
    """Returns a digest of files, below directories too, with their names, and of a text."""
    found = hashlib.sha256(also.encode())
    for path in (file for each in paths for file in ([each] if each.is_file() else sorted(each.rglob("*"))) if file.is_file()):
        found.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()


def write_files(directory: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def json_lines(*paths: Path) -> Iterator[Any]:
    for path in paths:
        # one that was written last may be incomplete
        yield from (json.loads(line) for line in path.read_text().splitlines() if line.endswith("}"))


def give_to_owner(*paths: Path) -> None:
    """Gives files that root has made in the checkout to its owner."""
    owner = ROOT.stat()
    for path in paths:
        if os.geteuid() == 0 and path.is_relative_to(ROOT):
            os.chown(path, owner.st_uid, owner.st_gid)


def missing(*modules: str) -> list[str]:
    importlib.invalidate_caches()
    return [module for module in modules if importlib.util.find_spec(module) is None]


def provide(program: str, names: Sequence[str], modules: Sequence[str]) -> bool:
    """Sets up missing servers of the project, and missing modules: as root on Debian, else it prints the command that
    does so.  Returns whether everything is there."""
    names = [name for name in names if not name.startswith("pg_config:")]
    if names and not PROVIDE.exists():
        print(f"{program}: {', '.join(names)} can be had in a checkout of test_aio only: --server /path/to/pg_config")
        return False
    can_install = shutil.which("dpkg-query") and PROVIDE.exists()
    if missing(*modules) and can_install:
        # one call for all, so that an ordinary user gets one command
        names = ["bench", *names]
    if names and (can_install or not missing(*modules)) and subprocess.run([PROVIDE, *names]).returncode != 0:
        return False
    if not missing(*modules):
        return True
    environment = ROOT / "build" / "venv"
    print(f"{program}: {sys.executable} has no {', '.join(missing(*modules))}\n"
          "  run this, then the same command again with VIRTUAL_ENV set to that directory:\n"
          f"  python3 -m venv {environment} && {environment}/bin/pip install -e {ROOT / 'bench'}", file=sys.stderr)
    return False
