"""The outputs of shell commands that README.md shows are what the commands print.

t/extension/documents.pl runs README's SQL.  Here the probe is run.  The lab does not measure
again: it shows a saved measurement, the one in README.  The suite is not run: the last
line is compared with the form that servers/check gives it, and the tests named above it
exist.  "make demo" and "make deb" are run by .ci/run, by way of readme.py.
"""

import os
import re
import resource
import subprocess
import unittest
from pathlib import Path

from aio_bench.results import REGRESSION, Assertion, File, Suite

from . import WithDirectory
from .readme import ROOT, not_printed, output_of, shown, without_numbers

SAVED = Path(__file__).absolute().parent / "saved" / "r03_device.jsonl"


# by readme.py
RUN_BY_CI = {"make demo"}


class Commands(WithDirectory):
    def test_none_is_left_out(self) -> None:
        """A command with an output that README shows has a test below."""
        self.assertEqual({command.split(" --")[0].split(":")[0] for command in shown()},
                         {"servers/io_uring_probe", "bench/lab 'R3 device'", "SERVER=source", *RUN_BY_CI})

    def test_ci_runs_the_rest(self) -> None:
        steps = (ROOT / ".ci" / "run").read_text()
        for command in RUN_BY_CI:
            self.assertIn(f"bench/tests/readme.py '{command}'", steps)

    def test_what_is_not_printed_is_noticed(self) -> None:
        printed = ["took 12 s\n", "a  1.5\n", "b\n"]
        self.assertIsNone(not_printed(["took 7 s", "…", "b"], printed))
        self.assertEqual(not_printed(["b", "a 2"], printed), "a 2", "another order")
        self.assertEqual(not_printed(["took 7 s", "took 7 s"], printed), "took 7 s", "once only")

    def test_ten_lines(self) -> None:
        for command, lines in shown().items():
            self.assertLessEqual(len(lines), 10, command)

    def test_lab(self) -> None:
        said = subprocess.run([ROOT / "bench/lab", "--show", SAVED, "--output", self.directory], capture_output=True, text=True,
                              env={**os.environ, "COLUMNS": "80"})
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIsNone(not_printed(output_of("bench/lab"), said.stdout.splitlines()))

    @unittest.skipUnless(os.environ.get("PG_CONFIG"), "PG_CONFIG is not set: no server to probe")
    def test_probe(self) -> None:
        probe = [f"{ROOT}/servers/io_uring_probe", "--explain", os.environ["PG_CONFIG"]]
        plain = subprocess.run(probe, capture_output=True, text=True)
        if plain.returncode != 0:
            self.skipTest(f"io_uring cannot be used here anyway: {plain.stdout}{plain.stderr}")
        limited = subprocess.run(probe, capture_output=True, text=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)))
        # locked memory may be unlimited here
        here = [re.sub(r"unlimited\)", "8192 kB)", line) for line in limited.stdout.splitlines()]
        self.assertIsNone(not_printed(output_of("servers/io_uring_probe"), here))

    def test_check(self) -> None:
        """servers/check prints such a last line, and the tests above it exist."""
        lines = output_of("SERVER=source")
        passed = File(True, (Assertion("x", True),) * 2)
        form = Suite(3, "", {REGRESSION: passed, "t/x.pl": passed}, "PostgreSQL 20").summary()
        self.assertEqual(re.sub("[#]+", "#", without_numbers(lines[-1])), without_numbers(form))
        tests = [test for line in lines for test in re.findall(r"^(t/[\w/]+\.pl) \.+ ok$|^ok \d+ +- (\w+) ", line)]
        self.assertGreater(len(tests), 2)
        for tap, regress in tests:
            self.assertTrue((ROOT / (tap or f"sql/{regress}.sql")).is_file(), tap or regress)
