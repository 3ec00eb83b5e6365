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


@dataclass(frozen=True)
class Cpu:
    """Seconds."""

    user: float
    system: float

    @property
    def total(self) -> float:
        return self.user + self.system

    def __sub__(self, other: Cpu) -> Cpu:
        return Cpu(self.user - other.user, self.system - other.system)

    def __add__(self, other: Cpu) -> Cpu:
        return Cpu(self.user + other.user, self.system + other.system)


def inner_pid(status: str) -> int | None:
    """What a process is called in its own namespace."""
    for line in status.splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    return None


def cpu_of_stat(stat: str) -> Cpu:
    # the name in parentheses may hold anything
    fields = stat.rpartition(")")[2].split()
    return Cpu(int(fields[11]) / TICKS, int(fields[12]) / TICKS)


def _of_cluster(data: Path) -> list[Path]:
    found = []
    for process in PROC.glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd") == str(data):
                found.append(process)
        except OSError:
            # gone meanwhile, or somebody else's
            continue
    return found


def _read(file: Path) -> str:
    """Nothing, if the process has ended meanwhile."""
    try:
        return file.read_text()
    except OSError:
        return ""


def find_all(data: Path, pids: set[int]) -> list[Path]:
    """The entries in /proc of backends that call themselves so."""
    found = [process for process in _of_cluster(data) if inner_pid(_read(process / "status")) in pids]
    if len(found) != len(pids):
        raise ProcessLookupError(f"of the processes {sorted(pids)} in {data} {len(found)} can be seen")
    return found


def workers(data: Path) -> list[Path]:
    """The I/O workers' entries in /proc."""
    return [process for process in _of_cluster(data) if "io worker" in _read(process / "cmdline")]


def cpu_of(processes: list[Path]) -> Cpu:
    """All of them together; those that are gone count nothing."""
    total = Cpu(0, 0)
    for process in processes:
        try:
            total += cpu_of_stat((process / "stat").read_text())
        except OSError:
            continue
    return total


def cpu_us(processes: list[Path]) -> float:
    """All of their threads, the kernel's for io_uring among them; finer than
    ticks, but not told apart by user and system, and without threads that have
    ended."""
    total = 0
    for process in processes:
        for thread in process.glob("task/*/schedstat"):
            try:
                total += int(thread.read_text().split()[0])
            except OSError:
                continue
    return total / 1000


def own_memory_kb(process: Path) -> int:
    """Without shared memory, which is the same for all backends."""
    for line in (process / "status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    return 0


class MemoryPeak:
    """Looks at a process's memory from time to time, as the kernel keeps no
    peak of what is its own."""

    def __init__(self, processes: list[Path], every: float = 0.01) -> None:
        self._processes = processes
        self._every = every
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.kb = 0

    def _look(self) -> None:
        try:
            self.kb = max(self.kb, sum(map(own_memory_kb, self._processes)))
        except OSError:
            self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(self._every):
            self._look()

    def __enter__(self) -> MemoryPeak:
        self._look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
