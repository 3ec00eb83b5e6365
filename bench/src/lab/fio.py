"""fio on a relation's own file: what the device gives, without any server."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from .machine import BLOCK
from .servers import ServerError


def iolog(file: Path, reads: list[tuple[int, int]]) -> str:
    """These reads, (first block, blocks), in this order, in fio's own format."""
    lines = ["fio version 2 iolog", f"{file} add", f"{file} open"]
    lines += [f"{file} read {block * BLOCK} {blocks * BLOCK}" for block, blocks in reads]
    return "\n".join([*lines, f"{file} close"]) + "\n"


def combined(order: list[int], limit: int) -> list[tuple[int, int]]:
    """Runs of neighbours as single reads, as a read stream makes them."""
    reads: list[tuple[int, int]] = []
    for block in order:
        if reads and sum(reads[-1]) == block and reads[-1][1] < limit:
            reads[-1] = (reads[-1][0], reads[-1][1] + 1)
        else:
            reads.append((block, 1))
    return reads


def parse(said: str) -> float:
    """The run's time in ms."""
    # what fio has to say of the machine comes before its JSON
    return float(json.loads(said[said.index("{"):])["jobs"][0]["read"]["runtime"])


def run(log: Path, depth: int, longest: int, engine: str = "libaio") -> float:
    """The time in ms of the log's reads: direct, asynchronous, never writing."""
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
