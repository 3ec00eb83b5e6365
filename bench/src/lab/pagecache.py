"""What the kernel's page cache holds of a relation, and how to empty it.

Without root there is only POSIX_FADV_DONTNEED, which is advice.  The kernel keeps pages that are dirty, mapped or in
use at that moment.  Caches below it, the device's own and the host's of a virtual machine, are not affected.  So each
run counts and reports what is left.
"""

import ctypes
import mmap
import os
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
_MAP_FAILED = ctypes.c_void_p(-1).value


def segments(file: Path) -> list[Path]:
    """Returns the files of a fork, 1 GB each, in order."""
    found = [file]
    while (following := file.with_name(f"{file.name}.{len(found)}")).exists():
        found.append(following)
    return found


def _cached_pages(fd: int, size: int) -> int:
    address = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
    if address == _MAP_FAILED:
        raise OSError(ctypes.get_errno(), "mmap")
    pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    try:
        if _libc.mincore(address, size, pages) != 0:
            raise OSError(ctypes.get_errno(), "mincore")
    finally:
        _libc.munmap(address, size)
    # the other bits are reserved
    return sum(page & 1 for page in bytes(pages))


def cached_share(file: Path) -> float:
    cached = pages = 0
    for segment in segments(file):
        fd = os.open(segment, os.O_RDONLY)
        try:
            if size := os.fstat(fd).st_size:
                cached += _cached_pages(fd, size)
                pages += -(-size // mmap.PAGESIZE)
        finally:
            os.close(fd)
    return cached / pages if pages else 0.0


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
