"""The tables of the ceiling fit a terminal."""

from __future__ import annotations

import io
import unittest

from rich.console import Console

from test_aio_bench import ceiling


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


if __name__ == "__main__":
    unittest.main()
