"""Modules other than Python's own: whether they are there, and what provides them.  Standard library only."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).absolute().parents[3]
PROVIDE = CHECKOUT / "servers" / "provide"


def missing(*modules: str) -> list[str]:
    importlib.invalidate_caches()
    return [module for module in modules if importlib.util.find_spec(module) is None]


def provide(program: str, *modules: str) -> bool:
    """Installs missing modules as root on Debian, or prints the command that does so.  Returns whether all modules
    are there."""
    if not missing(*modules):
        return True
    if shutil.which("dpkg-query") and PROVIDE.exists():
        # it tells an ordinary user what root must run
        if subprocess.run([PROVIDE, "bench"]).returncode != 0:
            return False
        if not missing(*modules):
            return True
    environment = CHECKOUT / "build" / "venv"
    print(f"{program}: {sys.executable} has no {', '.join(missing(*modules))}\n"
          "  run this, then the same command again with VIRTUAL_ENV set to that directory:\n"
          f"  python3 -m venv {environment} && {environment}/bin/pip install -e {CHECKOUT / 'bench'}", file=sys.stderr)
    return False
