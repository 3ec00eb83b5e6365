"""What is read out of EXPLAIN and pgbench."""

from __future__ import annotations

import unittest
from typing import Any

from lab.runs import figures_of_pgbench, figures_of_plan
from lab.servers import ServerError


def explained(**more: Any) -> dict[str, Any]:
    return {"Execution Time": 12.5, "Plan": {"Shared Read Blocks": 30, "Local Read Blocks": 2, **more}}


def scan(ios: int, waits: int, in_progress: float) -> dict[str, Any]:
    return {"I/O Count": ios, "I/O Waits": waits, "Average I/Os In Progress": in_progress}


class Plans(unittest.TestCase):
    def test_of_18(self) -> None:
        self.assertEqual(figures_of_plan(explained()), {"time": 12.5, "read_blocks": 32})

    def test_read_time_where_it_is_tracked(self) -> None:
        figures = figures_of_plan(explained(**{"Shared I/O Read Time": 3.5, "Local I/O Read Time": 0.5}))
        self.assertEqual(figures["read_time"], 4)

    def test_scans_are_added_up(self) -> None:
        figures = figures_of_plan(explained(Plans=[scan(30, 5, 4.0), {"Plans": [scan(10, 1, 2.0)]}]))
        self.assertEqual((figures["waits"], figures["in_progress"]), (6, 3.5))

    def test_a_function_has_no_scan(self) -> None:
        self.assertNotIn("waits", figures_of_plan(explained(Plans=[scan(0, 0, 0.0)])))


class Pgbench(unittest.TestCase):
    def test_latency(self) -> None:
        said = "number of failed transactions: 0 (0.000%)\nlatency average = 3.141 ms\ntps = 10 (including reconnection times)\n"
        self.assertEqual(figures_of_pgbench(said), {"latency": 3.141, "tps": 10})

    def test_failures_are_no_figures(self) -> None:
        with self.assertRaises(ServerError):
            figures_of_pgbench("number of failed transactions: 3 (3.000%)\nlatency average = 3.141 ms\n")


if __name__ == "__main__":
    unittest.main()
