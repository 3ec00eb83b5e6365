"""Starts the commands beside it: each is a module of src/ whose main() takes its arguments."""

import importlib
import os
import sys
from pathlib import Path

HERE = Path(__file__).absolute().parent


def run(module: str) -> None:
    """Runs MODULE.main() with the command line, and exits."""
    # root would leave files that the checkout's owner cannot remove
    sys.dont_write_bytecode = True
    environment = Path(os.environ.get("VIRTUAL_ENV", "/"), "bin", "python")
    if environment.exists() and sys.prefix == sys.base_prefix:
        os.execv(environment, [str(environment), "-B", *sys.argv])
    if sys.version_info < (3, 11):
        sys.exit(f"{sys.argv[0]}: needs Python 3.11 or newer, as Debian 12 has it")
    sys.path[0] = str(HERE / "src")
    try:
        sys.exit(importlib.import_module(module).main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
