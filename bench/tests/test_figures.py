"""What the documents count and list is what the checkout has: cases and devices."""

import re
import unittest
from pathlib import Path

from lab import devices

ROOT = Path(__file__).absolute().parents[2]


def document(name: str) -> str:
    return (ROOT / name).read_text()


def rows(text: str, first: str) -> list[list[str]]:
    """The rows of the table whose first heading is that; their cells without backticks."""
    (table,) = re.findall(rf"^\| {re.escape(first)} \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.M)
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in table.splitlines()]


class Cases(unittest.TestCase):
    def test_table_has_all(self) -> None:
        said: set[str] = set()
        for cell, *_ in rows(document("bench/README.md"), "cases"):
            for first, last in re.findall(r"([A-Z]\d+)(?: to [A-Z](\d+))?", cell):
                said |= {f"{first[0]}{number}" for number in range(int(first[1:]), int(last or first[1:]) + 1)}
        there = {re.sub(r"^([a-z])0*(\d+)_.*", lambda match: match[1].upper() + match[2], path.stem) for path in (ROOT / "bench" / "cases").glob("*.toml")}
        self.assertEqual(said, there)


class Devices(unittest.TestCase):
    def test_table_has_the_presets(self) -> None:
        said = {}
        for name, latency, depth, bandwidth, *_ in rows(document("bench/README.md"), "preset"):
            milliseconds, jitter = re.fullmatch(r"([\d.]+) ms(?: ± (\d+) %)?", latency).groups()
            said[name] = (float(milliseconds), int(jitter or 0), int(depth), int(re.sub(r"[^\d]", "", bandwidth) or 0))
        there = {}
        for name, device in devices.PRESETS.items():
            amount, unit = re.fullmatch(r"(\d+)(us|ms)", device.latency).groups()
            there[name] = (int(amount) / {"us": 1000, "ms": 1}[unit], round(100 * device.jitter), device.queue_depth, round((device.bytes_per_second or 0) / 1e6))
        self.assertEqual(said, there)
