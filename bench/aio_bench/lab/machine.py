"""The machine that the measurements ran on: kernel, CPU, memory, file system, device."""

import mmap
import os
import platform
import re
import statistics
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

BLOCK = 8192


@dataclass(frozen=True)
class Machine:
    kernel: str
    cpu_model: str
    cpus: int
    memory_gb: float
    #: share of the CPUs' time that other work took just before the runs
    cpu_in_use: float

    @property
    def is_busy(self) -> bool:
        return self.cpu_in_use > 0.1


@dataclass(frozen=True)
class Storage:
    """The storage of the directory that the clusters are in."""

    file_system: str
    mount_options: str
    #: None: this machine sees no block device
    device: str | None
    #: None: direct I/O works
    no_direct_io: str | None
    #: median time of one direct read of a block, one at a time
    direct_read_us: float | None


def _cpu_in_use() -> float:
    """Measures for a second.  The load average would still include our own preparations."""

    def ticks() -> tuple[int, int]:
        user, nice, system, idle, iowait, *rest = map(int, Path("/proc/stat").read_text().split()[1:9])
        return idle + iowait, user + nice + system + idle + iowait + sum(rest)

    idle_before, all_before = ticks()
    time.sleep(1)
    idle_after, all_after = ticks()
    return round(1 - (idle_after - idle_before) / (all_after - all_before), 2)


def describe_machine() -> Machine:
    cpu_model = re.search("^model name\\s*: (.*)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return Machine(
        kernel=f"{platform.system()} {platform.release()} {platform.machine()}",
        cpu_model=" ".join(cpu_model[1].split()) if cpu_model else platform.machine(),
        cpus=len(os.sched_getaffinity(0)),
        memory_gb=round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1024**3, 1),
        cpu_in_use=_cpu_in_use(),
    )


def _try_direct_io(directory: Path) -> tuple[str | None, float | None]:
    """Returns why direct I/O is impossible, or None, and the time of a read in µs."""
    path = directory / "direct_io_probe"
    # anonymous memory is aligned to a page, which direct I/O needs
    buffer = mmap.mmap(-1, BLOCK)
    blocks = 128
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
    except OSError as error:
        return f"open() with O_DIRECT: {error.strerror}", None
    try:
        for block in range(blocks):
            os.pwrite(fd, buffer, block * BLOCK)
        os.fsync(fd)
        times = []
        for block in range(blocks):
            # blocks that are no neighbours, so that nothing reads ahead
            offset = block * 37 % blocks * BLOCK
            start = time.perf_counter()
            os.preadv(fd, [buffer], offset)
            times.append(time.perf_counter() - start)
    except OSError as error:
        return f"direct I/O of {BLOCK} bytes: {error.strerror}", None
    finally:
        os.close(fd)
        path.unlink()
    return None, round(statistics.median(times) * 1e6, 1)


def describe_storage(directory: Path) -> Storage:
    asked = ["findmnt", "--noheadings", "--output", "FSTYPE,OPTIONS,SOURCE", "--target", str(directory.resolve())]
    try:
        kind, options, source = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split(maxsplit=2)
    except (OSError, subprocess.CalledProcessError, ValueError):
        kind, options, source = "unknown", "", ""
    return Storage(kind, options, source.strip() if source.startswith("/dev/") else None, *_try_direct_io(directory))
