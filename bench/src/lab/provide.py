"""Provides what a command needs before it begins: modules and the project's own servers.  Standard library only."""

import subprocess
from collections.abc import Sequence

from timeline import requirements

from . import project
from .arguments import ServerName

MODULES = ("jinja2", "matplotlib", "numpy", "psycopg", "pydantic", "rich", "scipy")


def provide(program: str, servers: Sequence[ServerName]) -> bool:
    """Sets up missing servers of the project, and missing modules with them.  Where that is impossible, prints one
    command that does so.  Returns whether everything is there."""
    names = [server.name for server in servers if not server.is_own]
    missing = requirements.missing(*MODULES)
    if names and not project.PROVIDE.exists():
        print(f"{program}: {', '.join(names)} can be had in a checkout of test_aio only: --server /path/to/pg_config")
        return False
    if names:
        # one call for all, so that an ordinary user gets one command
        if subprocess.run([project.PROVIDE, *(["bench"] if missing else []), *names]).returncode != 0:
            return False
        missing = requirements.missing(*MODULES)
    return not missing or requirements.provide(program, *missing)
