"""fio on a relation's own file: the speed of the device without a server."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from .machine import BLOCK
from .servers import ServerError


def iolog(file: Path, reads: list[tuple[int, int]]) -> str:
    """Returns reads, each (first block, blocks), in this order and in fio's format."""
    lines = ["fio version 2 iolog", f"{file} add", f"{file} open"]
    lines += [f"{file} read {block * BLOCK} {blocks * BLOCK}" for block, blocks in reads]
    return "\n".join([*lines, f"{file} close"]) + "\n"


def combined(order: list[int], limit: int) -> list[tuple[int, int]]:
    """Returns neighbouring blocks as single reads, as a read stream combines them."""
    reads: list[tuple[int, int]] = []
    for block in order:
        if reads and sum(reads[-1]) == block and reads[-1][1] < limit:
            reads[-1] = (reads[-1][0], reads[-1][1] + 1)
        else:
            reads.append((block, 1))
    return reads


def parse(said: str) -> float:
    """Returns the run's time in ms."""
    # fio's remarks about the machine precede its JSON
    return float(json.loads(said[said.index("{"):])["jobs"][0]["read"]["runtime"])


def run(log: Path, depth: int, longest: int, engine: str = "libaio") -> float:
    """Runs the log's reads, direct and asynchronous, and returns their time in ms.  Never writes."""
    if not shutil.which("fio"):
        raise ServerError("fio is not installed")
    done = subprocess.run(
        ["fio", "--name=ceiling", f"--read_iolog={log}", f"--ioengine={engine}", f"--iodepth={depth}", f"--bs={longest * BLOCK}",
         "--direct=1", "--readonly", "--allow_file_create=0", "--replay_no_stall=1", "--output-format=json"],
        capture_output=True, text=True, cwd=log.parent,
    )
    if done.returncode != 0:
        raise ServerError(f"fio: {done.stderr.strip() or done.stdout.strip()}")
    return parse(done.stdout)
