"""The system calls of a cluster: which fail, and which files were written and not synced; below.c does it."""

import mmap
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from .cluster import Cluster

FILES = 65536
#: of the counters before the files, and of each file
HEAD, EACH = 32, 32
SIZE = HEAD + EACH * FILES
#: files that need not be synced: of temporary tables, of caches, of sessions, of what is not there any more
VOLATILE = re.compile(r"pgsql_tmp|/t\d+_|pg_internal\.init|\.tmp$")


class Below:
    """The table that the library shares with us."""

    def __init__(self, cluster: Cluster) -> None:
        self.data = cluster.data
        self.path = cluster.directory / "below"
        cluster.must("sh", "-ec", f"head -c {SIZE} /dev/zero >below; gcc -shared -fPIC -O1 -w -o below.so '{Path(__file__).with_name('below.c')}' -ldl")
        with self.path.open("r+b") as file:
            self.map = mmap.mmap(file.fileno(), SIZE)

    def fail(self, what: int, times: int) -> None:
        """Has so many calls fail: 0, interrupted; 1, the disk is full; or 2, take 50 ms."""
        struct.pack_into("q", self.map, 8 * what, times)

    def left(self, what: int) -> int:
        return struct.unpack_from("q", self.map, 8 * what)[0]

    def last(self) -> int:
        return self.left(3)

    def reset(self) -> None:
        """Forgets all but how long the files are that are there."""
        self.map[:] = bytes(SIZE)
        for path in filter(Path.is_file, self.data.rglob("*")):
            file = path.stat()
            struct.pack_into("qqqq", self.map, HEAD + EACH * (file.st_ino % FILES), file.st_ino, 0, 0, file.st_size)

    def unsynced(self, databases: set[str] | None = None, until: int = 1 << 62) -> Iterator[tuple[Path, int]]:
        """Returns the files of tables and indexes in these databases that were written up to this write, and not synced since, and their lengths when they were synced."""
        for directory in ("base", "global", "pg_tblspc"):
            for path in (self.data / directory).rglob("*"):
                try:
                    inode = path.stat().st_ino
                except OSError:
                    continue
                of, written, synced, length = struct.unpack_from("qqqq", self.map, HEAD + EACH * (inode % FILES))
                if path.is_file() and (databases is None or path.parent.name in databases) and of == inode and synced < written <= until and not VOLATILE.search(str(path)):
                    yield path, length

    def lose_power(self) -> None:
        """Loses what files have become longer since they were synced, as a machine that fails may do."""
        for path, length in self.unsynced():
            if path.stat().st_size > length:
                os.truncate(path, length)
