"""CPU time of a cluster's processes, as the kernel counts it, and their instructions in user mode, as the processor does.
Other work on the machine hardly changes the number of instructions, though it changes times a lot.

The servers run in a process namespace of their own, where processes have other numbers.  So they are found by their
current directory.
"""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")


def _read(file: Path) -> str:
    """Returns the file's contents, or nothing if the process has ended."""
    try:
        return file.read_text()
    except OSError:
        return ""


def of_cluster(*directories: Path) -> list[Path]:
    """Returns the entries in /proc of the processes that work in a data directory, or below other directories."""
    found = []
    for process in PROC.glob("[0-9]*"):
        try:
            if any(Path(os.readlink(process / "cwd")).is_relative_to(directory) for directory in directories):
                found.append(process)
        except OSError:
            # it has ended, or belongs to another user
            continue
    return found


def pids(*directories: Path) -> list[int]:
    """Returns the numbers of these processes in our own namespace."""
    return [int(process.name) for process in of_cluster(*directories)]


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


# of perf_event_open(2), for which the C library has no function
_SYSCALL = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}

# linux/perf_event.h: PERF_TYPE_HARDWARE and PERF_COUNT_HW_INSTRUCTIONS; the times that a counter
# was wanted and was there; with children to come, without the kernel and a hypervisor
_HARDWARE, _INSTRUCTIONS = 0, 1
_TIMES = 1 << 0 | 1 << 1
_INHERIT, _NO_KERNEL, _NO_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
_CLOSE_ON_EXEC = 8

_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")

_libc = ctypes.CDLL(None, use_errno=True)


def _why(number: int) -> str:
    """Returns why the kernel does not give us a counter."""
    if number in (errno.EACCES, errno.EPERM):
        return f"not allowed (kernel.perf_event_paranoid = {_PARANOID.read_text().strip() if _PARANOID.exists() else 'unknown'}; 2 allows it)"
    if number in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP):
        return "this machine, perhaps a virtual one, has no counter of them"
    return os.strerror(number)


def _open_counter(pid: int) -> int:
    """Opens a counter of a process and of all its future children."""
    if (syscall := _SYSCALL.get(platform.machine())) is None:
        raise OSError(errno.ENOSYS, f"cannot count instructions: unknown processor {platform.machine()}")
    # struct perf_event_attr, as the first kernel with it had it
    attributes = struct.pack("=IIQQQQQ16x", _HARDWARE, 64, _INSTRUCTIONS, 0, 0, _TIMES, _INHERIT | _NO_KERNEL | _NO_HYPERVISOR)
    counter = _libc.syscall(syscall, attributes, pid, -1, -1, _CLOSE_ON_EXEC)
    if counter < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot count instructions: {_why(number)}")
    return counter


def _read_counter(counter: int) -> int:
    instructions, wanted, counted = struct.unpack("=QQQ", os.read(counter, 24))
    if counted < wanted:
        raise OSError(errno.EBUSY, "cannot count instructions: others use the processor's counters as well")
    return instructions


@contextmanager
def counting_instructions(pids: Iterable[int]) -> Iterator[Callable[[], int]]:
    """Gives a function that returns how many instructions these processes, and all their children since, have
    executed from now on.  Raises OSError."""
    with ExitStack() as stack:
        counters = []
        for pid in pids:
            try:
                counters.append(_open_counter(pid))
            except ProcessLookupError:
                # ended meanwhile
                continue
            stack.callback(os.close, counters[-1])
        yield lambda: sum(map(_read_counter, counters))


def why_no_instructions(pids: Iterable[int]) -> str | None:
    """Returns why the instructions of these processes cannot be counted, or None if they can."""
    try:
        with counting_instructions(pids):
            return None
    except OSError as error:
        return error.strerror
