"""What a command needs before it begins: modules, and the project's own servers.
Standard library only."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from timeline import requirements

from . import project
from .arguments import ServerName

MODULES = ("matplotlib", "numpy", "plotly", "psycopg", "pydantic", "rich")


def provide(program: str, servers: Sequence[ServerName]) -> bool:
    """Whether all of it is there.  Servers of the project, and where they are
    missing the modules, are set up; or one command is printed that does that."""
    names = [server.name for server in servers if not server.is_own]
    missing = requirements.missing(*MODULES)
    if names and not project.PROVIDE.exists():
        print(f"{program}: {', '.join(names)} can be had in a checkout of test_aio only: --server /path/to/pg_config")
        return False
    if names:
        # one call for all, so that an ordinary user is told one command
        if subprocess.run([project.PROVIDE, *(["bench"] if missing else []), *names]).returncode != 0:
            return False
        missing = requirements.missing(*MODULES)
    return not missing or requirements.provide(program, *missing)
