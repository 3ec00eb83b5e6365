"""The project's own checkout."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).absolute().parents[3]
RUN = ROOT / "servers" / "run"
PROVIDE = ROOT / "servers" / "provide"
PACKAGES = ROOT / "servers" / "packages"


def commit() -> str:
    """What is measured, as git calls it."""
    # git bisect run, of another repository, may have set them
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        # root may ask in an ordinary user's checkout, which git would refuse
        done = subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", ROOT, "describe", "--always", "--dirty"],
            capture_output=True, text=True, check=True, env=environment,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown (not a git checkout)"
    return done.stdout.strip()


def stock_servers() -> list[str]:
    """The servers of Debian's packages, oldest first: rows of servers/packages."""
    return re.findall(r"^\t'(\S+) +\d+ +stock ", PACKAGES.read_text(), re.MULTILINE)


def give_to_owner(*paths: Path) -> None:
    """Root leaves no file behind that the checkout's owner could not replace."""
    if os.geteuid() == 0:
        owner = ROOT.stat()
        for path in paths:
            os.chown(path, owner.st_uid, owner.st_gid)
