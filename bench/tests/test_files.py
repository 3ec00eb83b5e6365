"""The page cache, fio's order of reads, and what /proc says."""

from __future__ import annotations

import json
import os
import tempfile
import unittest
from pathlib import Path

from test_aio_bench import ceiling, fio, pagecache, processes


class PageCache(unittest.TestCase):
    def setUp(self) -> None:
        # not /tmp, which may be memory itself; servers/run says where else one may write
        self.directory = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_AIO_WORK", "/var/tmp"))
        self.addCleanup(self.directory.cleanup)
        self.file = Path(self.directory.name, "16384")
        for path in (self.file, Path(f"{self.file}.1")):
            path.write_bytes(os.urandom(1 << 20))

    def test_segments(self) -> None:
        self.assertEqual([path.name for path in pagecache.segments(self.file)], ["16384", "16384.1"])

    def test_filled_and_forgotten(self) -> None:
        self.assertEqual(pagecache.fill(self.file), 1)
        if pagecache.forget(self.file) == 1:
            self.skipTest(f"the file system of {self.directory.name} keeps files in memory")
        self.assertLess(pagecache.cached_share(self.file), 0.05)
        self.assertEqual(pagecache.fill(self.file), 1)

    def test_of_an_empty_file(self) -> None:
        self.file.write_bytes(b"")
        Path(f"{self.file}.1").unlink()
        self.assertEqual(pagecache.cached_share(self.file), 0)


class Fio(unittest.TestCase):
    def test_neighbours_are_combined_up_to_the_limit(self) -> None:
        self.assertEqual(fio.combined([0, 1, 2, 3, 4, 9, 8, 9], 4), [(0, 4), (4, 1), (9, 1), (8, 2)])

    def test_every_block_once(self) -> None:
        for order in ceiling.orders(100).values():
            self.assertEqual(sorted(order), list(range(100)))

    def test_log(self) -> None:
        self.assertEqual(
            fio.iolog(Path("/f"), [(2, 1), (0, 2)]).splitlines(),
            ["fio version 2 iolog", "/f add", "/f open", "/f read 16384 8192", "/f read 0 16384", "/f close"],
        )

    def test_result(self) -> None:
        job = {"read": {"runtime": 200, "io_bytes": 10**8, "clat_ns": {"mean": 50000.0}}, "usr_cpu": 10.0, "sys_cpu": 20.0}
        result = fio.parse("note: something\n" + json.dumps({"jobs": [job]}))
        self.assertEqual((result.ms, result.mb_per_s, result.latency_us), (200, 500, 50))
        self.assertAlmostEqual(result.cpu, 0.3)


class Processes(unittest.TestCase):
    def test_name_in_the_inner_namespace(self) -> None:
        self.assertEqual(processes.inner_pid("Name:\tpostgres\nNSpid:\t13433\t7\n"), 7)
        self.assertIsNone(processes.inner_pid("Name:\tpostgres\n"))

    def test_cpu_with_any_name(self) -> None:
        stat = "7 (a) b (c) S " + " ".join(["0"] * 10) + f" {2 * processes.TICKS} {processes.TICKS} 0"
        self.assertEqual(processes.cpu_of_stat(stat), processes.Cpu(2, 1))

    def test_ours(self) -> None:
        ours = Path("/proc/self")
        self.assertGreater(processes.cpu_us([ours]), 0)
        with processes.MemoryPeak([ours]) as peak:
            held = bytearray(os.urandom(1 << 24))
        self.assertGreater(peak.kb, 0)
        del held

    def test_ended_meanwhile(self) -> None:
        self.assertIsNone(processes.inner_pid(processes._read(Path("/proc/nonexistent/status"))))
        self.assertEqual(processes.cpu_us([Path("/proc/nonexistent")]), 0)

    def test_processes_that_cannot_be_seen(self) -> None:
        with self.assertRaises(ProcessLookupError):
            processes.find_all(Path("/nonexistent"), {1})


if __name__ == "__main__":
    unittest.main()
