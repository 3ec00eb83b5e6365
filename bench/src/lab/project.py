"""The project's own checkout: its paths and its commit."""

import os
import re
import subprocess
from pathlib import Path

from timeline.requirements import CHECKOUT as ROOT
from timeline.requirements import PROVIDE as PROVIDE

RUN = ROOT / "servers" / "run"
PACKAGES = ROOT / "servers" / "packages"


def commit() -> str:
    """Returns the checkout's commit, as git describes it."""
    # git bisect run in another repository may have set them
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        # git would refuse root in an ordinary user's checkout
        done = subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", ROOT, "describe", "--always", "--dirty"],
            capture_output=True, text=True, check=True, env=environment,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown (not a git checkout)"
    return done.stdout.strip()


def stock_servers() -> list[str]:
    """Returns the servers of Debian's packages, oldest first, from servers/packages."""
    return re.findall(r"^\t'(\S+) +\d+ +stock ", PACKAGES.read_text(), re.MULTILINE)


def give_to_owner(*paths: Path) -> None:
    """Gives files that root has made to the checkout's owner."""
    if os.geteuid() == 0:
        owner = ROOT.stat()
        for path in paths:
            os.chown(path, owner.st_uid, owner.st_gid)
