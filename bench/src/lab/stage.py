"""What every command does first and last: makes a directory with clusters, and removes both at any end."""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from timeline.trace import TraceError

from .arguments import ServerName
from .casefile import CaseError
from .progress import Progress
from .servers import Cluster, ServerError


def perform(program: str, body: Callable[[Console], int], failure: int = 1) -> int:
    """Runs a command's body.  Returns the exit status."""
    # an ordinary user's server must be able to read root's files
    os.umask(0o022)
    # these signals end it as Ctrl-C does: servers stop, directories go
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        return body(Console(highlight=False))
    except (CaseError, ServerError, TraceError, ValueError, OSError) as error:
        print(f"{program}: {error}", file=sys.stderr)
        return failure
    except KeyboardInterrupt:
        print(f"{program}: interrupted", file=sys.stderr)
        return 130


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


@contextmanager
def clusters(servers: Sequence[ServerName], work: Path, progress: Progress) -> Iterator[list[Cluster]]:
    """Makes clusters, with the extension built and staged.  None of them runs yet."""
    made: list[Cluster] = []
    try:
        progress.phase("building the extension, making clusters")
        for number, server in enumerate(servers):
            made.append(Cluster(server.name, work / str(number), server.label, server.extension))
            made[-1].begin_prepare()
        for cluster in made:
            cluster.finish_prepare()
        yield made
    finally:
        for cluster in made:
            cluster.stop()
