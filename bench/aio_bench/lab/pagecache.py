"""What the kernel's page cache holds of a relation, and how to empty it.

Without root there is only POSIX_FADV_DONTNEED, which is advice.  The kernel keeps pages that are dirty, mapped or in
use at that moment.  Caches below it, the device's own and the host's of a virtual machine, are not affected.  So each
run counts and reports what is left.
"""

import mmap
import os
import subprocess
from pathlib import Path


def segments(file: Path) -> list[Path]:
    """Returns the files of a fork, 1 GB each, in order."""
    found = [file]
    while (following := file.with_name(f"{file.name}.{len(found)}")).exists():
        found.append(following)
    return found


def cached_share(file: Path) -> float:
    # fincore asks mincore(), for which Python has no function
    said = subprocess.check_output(["fincore", "--raw", "--bytes", "--noheadings", "--output=PAGES,SIZE", *segments(file)], text=True)
    found = [tuple(map(int, line.split())) for line in said.splitlines()]
    pages = sum(-(-size // mmap.PAGESIZE) for _, size in found)
    return sum(cached for cached, _ in found) / pages if pages else 0.0


def forget(file: Path) -> float:
    """Drops the file from the page cache.  Returns the share that stayed."""
    for segment in segments(file):
        fd = os.open(segment, os.O_RDONLY)
        try:
            # the kernel keeps dirty pages, so they are written first
            os.fdatasync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)
    return cached_share(file)


def fill(file: Path) -> float:
    """Reads the file into the page cache.  Returns the share that is there."""
    for segment in segments(file):
        with segment.open("rb", buffering=0) as opened:
            while opened.read(1 << 20):
                pass
    return cached_share(file)
