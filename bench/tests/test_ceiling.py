"""The tables of the ceiling fit a terminal."""

from __future__ import annotations

import io
import tempfile
import unittest
from pathlib import Path

from rich.console import Console

from test_aio_bench import ceiling, ceiling_picture


class Tables(unittest.TestCase):
    def test_80_columns(self) -> None:
        rows = [
            ceiling.Row("19beta1", "io_uring", scan.name, 1234.5, 12345.6, 100, 100, 1000, 1000, 12345, 12.345, 1234)
            for scan in ceiling.SCANS
        ]
        for columns in (ceiling.REACHED, ceiling.REST):
            console = Console(file=io.StringIO(), width=80)
            console.print(ceiling._table(rows, columns))
            assert isinstance(console.file, io.StringIO)
            self.assertNotIn("…", console.file.getvalue())

    def test_fraction(self) -> None:
        row = ceiling.Row("18.6", "worker", "seq scan", 50, 200, 0, 0, 0, 0, None, None, 0)
        self.assertEqual(row.fraction, 0.25)


class Pictures(unittest.TestCase):
    def test_written(self) -> None:
        rows = [
            ceiling.Row(server, method, scan.name, 50, took, 10, 20, 30 if method == "worker" else 0, took / 2, None, None, 1e4 / took)
            for scan in ceiling.SCANS for server, method, took in (("18.6", "worker", 100), ("19rc1", "worker", 55), ("19rc1", "io_uring", 45))
        ]
        with tempfile.TemporaryDirectory() as directory:
            paths = [Path(directory, f"ceiling.{suffix}") for suffix in ("png", "svg")]
            ceiling_picture.draw(rows, "some device", "some machine", *paths)
            self.assertEqual(paths[0].read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
            self.assertIn("<svg", paths[1].read_text())


if __name__ == "__main__":
    unittest.main()
