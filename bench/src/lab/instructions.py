"""Counts the instructions of processes in user mode with the processor's counters.  Other work on the machine hardly
changes their number, though it changes times a lot."""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

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


def _told(number: int) -> str:
    """Returns why the kernel does not give us a counter."""
    if number in (errno.EACCES, errno.EPERM):
        return f"not allowed (kernel.perf_event_paranoid = {_PARANOID.read_text().strip() if _PARANOID.exists() else 'unknown'}; 2 allows it)"
    if number in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP):
        return "this machine, perhaps a virtual one, has no counter of them"
    return os.strerror(number)


def _open(pid: int) -> int:
    """Opens a counter of a process and of all its future children."""
    if (syscall := _SYSCALL.get(platform.machine())) is None:
        raise OSError(errno.ENOSYS, f"cannot count instructions: unknown processor {platform.machine()}")
    # struct perf_event_attr, as the first kernel with it had it
    attributes = struct.pack("=IIQQQQQ16x", _HARDWARE, 64, _INSTRUCTIONS, 0, 0, _TIMES, _INHERIT | _NO_KERNEL | _NO_HYPERVISOR)
    counter = _libc.syscall(syscall, attributes, pid, -1, -1, _CLOSE_ON_EXEC)
    if counter < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot count instructions: {_told(number)}")
    return counter


def _read(counter: int) -> int:
    instructions, wanted, counted = struct.unpack("=QQQ", os.read(counter, 24))
    if counted < wanted:
        raise OSError(errno.EBUSY, "cannot count instructions: others use the processor's counters as well")
    return instructions


@contextmanager
def counting(pids: Iterable[int]) -> Iterator[Callable[[], int]]:
    """Gives a function that returns how many instructions these processes, and all their children since, have
    executed from now on.  Raises OSError."""
    with ExitStack() as stack:
        counters = []
        for pid in pids:
            try:
                counters.append(_open(pid))
            except ProcessLookupError:
                # ended meanwhile
                continue
            stack.callback(os.close, counters[-1])
        yield lambda: sum(map(_read, counters))


def why_not(pids: Iterable[int]) -> str | None:
    """Returns why the instructions of these processes cannot be counted, or None if they can."""
    try:
        with counting(pids):
            return None
    except OSError as error:
        return error.strerror
