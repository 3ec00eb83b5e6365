"""CPU time of a cluster's processes, as the kernel counts them.

The servers run in a process namespace of their own, where processes have other numbers.  So they are found by their
current directory.
"""

import os
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


def ended_us(stat: str) -> float:
    """Returns the CPU time of children that have ended and were waited for, in the precision of ticks."""
    # the name in parentheses may contain blanks and parentheses
    fields = stat.rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / TICKS * 1e6 if fields else 0.0


def _running_us(process: Path) -> float:
    """Returns the CPU time of all threads of a process, including the kernel's for io_uring.  It is finer than ticks,
    but lacks threads that have ended."""
    return sum(int((_read(thread) or "0").split()[0]) for thread in process.glob("task/*/schedstat")) / 1000


def cpu_us(data: Path) -> float:
    """Returns the CPU time of a cluster so far, in microseconds, including processes that have ended."""
    return sum(_running_us(process) + ended_us(_read(process / "stat")) for process in of_cluster(data))
