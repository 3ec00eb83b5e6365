"""The outputs of shell commands that README.md shows are what the commands print.

t/001_documents.pl runs README's SQL.  Here the probe is run.  The lab does not measure
again: it shows a saved measurement, the one in README.  The suite is not run: the last
line is compared with the form that servers/check gives it, and the tests named above it
exist.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).absolute().parents[2]
SAVED = Path(__file__).absolute().parent / "saved" / "r03_device.jsonl"


def shown() -> dict[str, list[str]]:
    """README's commands that are followed by their output at once, with its lines."""
    text = (ROOT / "README.md").read_text()
    return {command: output.splitlines() for command, output in re.findall(r"^```sh\n([^\n]*)\n```\n```text\n(.*?)^```$", text, re.M | re.S)}


def output_of(start: str) -> list[str]:
    found = [lines for command, lines in shown().items() if command.startswith(start)]
    assert len(found) == 1, f"README shows {start} {len(found)} times"
    return found[0]


def without_numbers(line: str) -> str:
    return re.sub(r"\d+", "#", line).strip()


class Commands(unittest.TestCase):
    def test_none_is_left_out(self) -> None:
        """A command with an output that README shows has a test below."""
        self.assertEqual({command.split(" --")[0].split(":")[0] for command in shown()},
                         {"servers/io_uring_probe", "bench/lab 'R3 device'", "SERVER=source"})

    def test_ten_lines(self) -> None:
        for command, lines in shown().items():
            self.assertLessEqual(len(lines), 10, command)

    def test_lab(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            said = subprocess.run([ROOT / "bench/lab", "--show", SAVED, "--output", directory], capture_output=True, text=True,
                                  env={**os.environ, "COLUMNS": "80"})
        self.assertEqual(said.returncode, 0, said.stderr)
        printed = iter([line.rstrip() for line in said.stdout.splitlines()])
        for line in output_of("bench/lab"):
            if line != "…":
                self.assertIn(line, printed, "in this order")

    @unittest.skipUnless(os.environ.get("PG_CONFIG"), "PG_CONFIG is not set: no server to probe")
    def test_probe(self) -> None:
        probe = [ROOT / "servers/io_uring_probe", "--explain", os.environ["PG_CONFIG"]]
        plain = subprocess.run(probe, capture_output=True, text=True)
        if plain.returncode != 0:
            self.skipTest(f"io_uring cannot be used here anyway: {plain.stdout}{plain.stderr}")
        limited = subprocess.run(probe, capture_output=True, text=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)))
        # what can be locked may be without a limit here
        here = [re.sub(r"unlimited\)", "8192 kB)", line) for line in limited.stdout.splitlines()]
        self.assertEqual(list(map(without_numbers, here)), list(map(without_numbers, output_of("servers/io_uring_probe"))))

    def test_check(self) -> None:
        """servers/check prints such a last line, and the tests above it exist."""
        lines = output_of("SERVER=source")
        (form,) = re.findall(r"printf '(PASSED on .*)\\n'", (ROOT / "servers/check").read_text())
        for place in ("PostgreSQL .+", "#", "#", "TAP files: # with # assertions"):
            form = form.replace("%s", place, 1)
        self.assertRegex(without_numbers(lines[-1]), f"^{form}$")
        tests = [test for line in lines for test in re.findall(r"^(t/\w+\.pl) \.+ ok$|^ok \d+ +- (\w+) ", line)]
        self.assertGreater(len(tests), 2)
        for tap, regress in tests:
            self.assertTrue((ROOT / (tap or f"sql/{regress}.sql")).is_file(), tap or regress)


if __name__ == "__main__":
    unittest.main()
