"""CPU time and memory of a cluster's processes, as the kernel counts them.

The servers run in a process namespace of their own, where processes have other numbers.  So they are found by their
current directory.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")


def _read(file: Path) -> str:
    """Returns the file's contents, or nothing if the process has ended."""
    try:
        return file.read_text()
    except OSError:
        return ""


def of_cluster(data: Path) -> list[Path]:
    """Returns the entries in /proc of the processes in a data directory."""
    found = []
    for process in PROC.glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd") == str(data):
                found.append(process)
        except OSError:
            # it has ended, or belongs to another user
            continue
    return found


def pids(data: Path) -> list[int]:
    """Returns the numbers of these processes in our own namespace."""
    return [int(process.name) for process in of_cluster(data)]


def sessions(data: Path) -> int:
    """Returns how many of these processes serve a client on this machine, by their titles."""
    return sum("[local]" in _read(process / "cmdline") for process in of_cluster(data))


def cpu_us(process: Path) -> float:
    """Returns the CPU time of all threads of a process, including the kernel's for io_uring.  It is finer than ticks,
    but lacks threads that have ended."""
    return sum(int((_read(thread) or "0").split()[0]) for thread in process.glob("task/*/schedstat")) / 1000


def ended_us(stat: str) -> float:
    """Returns the CPU time of children that have ended and were waited for, in the precision of ticks."""
    # the name in parentheses may contain blanks and parentheses
    fields = stat.rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / TICKS * 1e6 if fields else 0.0


def own_memory_kb(process: Path) -> int:
    """Returns a process's memory without shared memory, which is the same for all processes."""
    for line in _read(process / "status").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    return 0


@dataclass(frozen=True)
class Used:
    """CPU time in microseconds."""

    all: float
    workers: float


def used(data: Path) -> Used:
    """Returns the CPU time of a cluster so far, including processes that have ended."""
    total = workers = 0.0
    for process in of_cluster(data):
        own = cpu_us(process)
        total += own + ended_us(_read(process / "stat"))
        if "io worker" in _read(process / "cmdline"):
            workers += own
    return Used(total, workers)


class MemoryPeak:
    """Samples the own memory of a cluster's processes, for which the kernel keeps no peak.  kb is how far it rose."""

    def __init__(self, data: Path, every: float = 0.01) -> None:
        processes = of_cluster(data)
        # all others, and future ones, are children of the postmaster
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
