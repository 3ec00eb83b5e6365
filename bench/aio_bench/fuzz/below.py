"""The system calls of a cluster: which fail, and which files were written and not synced; below.c does it."""

import mmap
import re
import struct
from pathlib import Path

from .cluster import Cluster

FILES = 65536
SIZE = 24 + 24 * FILES
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
        """Has so many calls fail: 0, interrupted; 1, the disk is full."""
        struct.pack_into("q", self.map, 8 * what, times)

    def last(self) -> int:
        return struct.unpack_from("q", self.map, 16)[0]

    def reset(self) -> None:
        self.map[:] = bytes(SIZE)

    def not_synced(self, until: int, databases: set[str]) -> list[str]:
        """Returns the files of tables and indexes in these databases that were written up to this write, and not synced since."""
        found = []
        for directory in ("base", "global", "pg_tblspc"):
            for path in (self.data / directory).rglob("*"):
                try:
                    inode = path.stat().st_ino
                except OSError:
                    continue
                of, written, synced = struct.unpack_from("qqq", self.map, 24 + 24 * (inode % FILES))
                name = str(path.relative_to(self.data))
                if path.is_file() and path.parent.name in databases and of == inode and synced < written <= until and not VOLATILE.search(name):
                    found.append(name)
        return found
