"""The page cache, /proc, and counted instructions."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from aio_bench import processes
from aio_bench.lab import pagecache

from . import WithDirectory


class PageCache(unittest.TestCase):
    def setUp(self) -> None:
        # not /tmp, which may be in memory; servers/run names another writable directory
        self.directory = self.enterContext(tempfile.TemporaryDirectory(dir=os.environ.get("TEST_AIO_WORK", "/var/tmp")))
        self.file = Path(self.directory, "16384")
        for path in (self.file, Path(f"{self.file}.1")):
            path.write_bytes(os.urandom(1 << 20))

    def test_segments(self) -> None:
        self.assertEqual([path.name for path in pagecache.segments(self.file)], ["16384", "16384.1"])

    def test_filled_and_forgotten(self) -> None:
        self.assertEqual(pagecache.fill(self.file), 1)
        if pagecache.forget(self.file) == 1:
            self.skipTest(f"the file system of {self.directory} keeps files in memory")
        self.assertLess(pagecache.cached_share(self.file), 0.05)
        self.assertEqual(pagecache.fill(self.file), 1)

    def test_of_an_empty_file(self) -> None:
        self.file.write_bytes(b"")
        Path(f"{self.file}.1").unlink()
        self.assertEqual(pagecache.cached_share(self.file), 0)


class Processes(WithDirectory):
    """Processes that a test has started in a directory."""

    def test_ended_children_with_any_name(self) -> None:
        stat = "7 (a) b (c) S " + " ".join(["0"] * 12) + f" {2 * processes.TICKS} {processes.TICKS} 0"
        self.assertEqual(processes.ended_us(stat), 3e6)

    def test_cpu_of_those_that_run_and_those_that_ended(self) -> None:
        burn = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass"
        code = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn!r}])\n{burn}\nprint('ready', flush=True)\nsys.stdin.read()"
        child = subprocess.Popen([sys.executable, "-c", code], cwd=self.directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(child.communicate)
        assert child.stdout
        self.assertEqual(child.stdout.readline(), "ready\n")
        self.assertGreater(processes.cpu_us(self.directory), 350_000)
        self.assertEqual(processes.cpu_us(self.directory / "elsewhere"), 0)


class Instructions(unittest.TestCase):
    LOOP = "for _ in range({}): pass"

    def setUp(self) -> None:
        if reason := processes.why_no_instructions([os.getpid()]):
            self.skipTest(reason)

    def of_a_child(self, rounds: int) -> int:
        with processes.counting_instructions([os.getpid()]) as count:
            # without site and with one seed of hashes, the start is nearly the same each time
            subprocess.run([sys.executable, "-S", "-c", self.LOOP.format(rounds)], check=True, env={"PYTHONHASHSEED": "0"})
            return count()

    def test_of_children_that_have_ended(self) -> None:
        start, less, more = (self.of_a_child(rounds) for rounds in (0, 5_000_000, 15_000_000))
        self.assertAlmostEqual((more - start) / (less - start), 3, delta=0.3)

    def test_of_a_process_that_is_gone(self) -> None:
        child = subprocess.Popen([sys.executable, "-c", ""])
        child.wait()
        with processes.counting_instructions([child.pid]) as count:
            self.assertEqual(count(), 0)
