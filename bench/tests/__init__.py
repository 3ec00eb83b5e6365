"""Tests of what judges servers, which bench/check runs.  Here is what several of them use."""

import tempfile
import unittest
from pathlib import Path

from aio_bench.lab import casefile
from aio_bench.lab.arguments import CASES


def load_case(name: str) -> casefile.Case:
    return casefile.load(CASES / f"{name}.toml")


class WithDirectory(unittest.TestCase):
    """Each test has a directory of its own."""

    def setUp(self) -> None:
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()
