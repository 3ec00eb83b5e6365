"""What a cluster's processes use: CPU time and memory, as the kernel counts them.

The servers run in a process namespace of their own, so their processes are
found by the directory that they are in, not by the numbers that they know.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")


def _read(file: Path) -> str:
    """Nothing, if the process has ended meanwhile."""
    try:
        return file.read_text()
    except OSError:
        return ""


def of_cluster(data: Path) -> list[Path]:
    """The entries in /proc of the processes in a data directory."""
    found = []
    for process in PROC.glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd") == str(data):
                found.append(process)
        except OSError:
            # gone meanwhile, or somebody else's
            continue
    return found


def cpu_us(process: Path) -> float:
    """CPU time of all of a process's threads, the kernel's for io_uring among them;
    finer than ticks, but without threads that have ended."""
    return sum(int((_read(thread) or "0").split()[0]) for thread in process.glob("task/*/schedstat")) / 1000


def ended_us(stat: str) -> float:
    """CPU time of children that have ended and were waited for, in the kernel's ticks."""
    # the name in parentheses may hold anything
    fields = stat.rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / TICKS * 1e6 if fields else 0.0


def own_memory_kb(process: Path) -> int:
    """Without shared memory, which is the same for all processes."""
    for line in _read(process / "status").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    return 0


@dataclass(frozen=True)
class Used:
    """Microseconds of CPU."""

    all: float
    workers: float


def used(data: Path) -> Used:
    """CPU time of a cluster so far: of processes that run, and of those that have ended."""
    total = workers = 0.0
    for process in of_cluster(data):
        own = cpu_us(process)
        total += own + ended_us(_read(process / "stat"))
        if "io worker" in _read(process / "cmdline"):
            workers += own
    return Used(total, workers)


class MemoryPeak:
    """Looks at the memory of a cluster's processes from time to time, as the kernel
    keeps no peak of what is their own.  kb is how far it rose."""

    def __init__(self, data: Path, every: float = 0.01) -> None:
        processes = of_cluster(data)
        # the postmaster's children are all others, and those to come
        self._children = [file for process in processes for file in process.glob("task/*/children")]
        self._every = every
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._before = self._now()
        self.kb = 0

    def _now(self) -> int:
        pids = {pid for file in self._children for pid in _read(file).split()}
        return sum(own_memory_kb(PROC / pid) for pid in pids)

    def _watch(self) -> None:
        while not self._ended.wait(self._every):
            self.kb = max(self.kb, self._now() - self._before)

    def __enter__(self) -> MemoryPeak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
