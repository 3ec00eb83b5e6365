"""Case files: those of the project, and what is wrong with others."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from test_aio_bench import casefile

CASES = sorted((Path(__file__).absolute().parents[1] / "cases").glob("*.toml"))

R3 = next(path for path in CASES if path.stem == "r03_repeated_blocks")


class OurCases(unittest.TestCase):
    def test_all_load(self) -> None:
        self.assertTrue(CASES)
        for path in CASES:
            with self.subTest(path.name):
                self.assertGreaterEqual(casefile.load(path).runs, 7)


class Expectations(unittest.TestCase):
    def test_only_of_a_pair_around_the_change(self) -> None:
        case = casefile.load(R3)
        self.assertEqual(case.expected_sign("worker", 180006, 190000), "slower")
        for pair in ((180006, 180007), (190000, 200000), (190000, 180006)):
            self.assertIsNone(case.expected_sign("worker", *pair))


class BadCases(unittest.TestCase):
    def check_refused(self, old: str, new: str, why: str) -> None:
        text = R3.read_text()
        self.assertIn(old, text)
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "bad.toml")
            path.write_text(text.replace(old, new))
            with self.assertRaisesRegex(casefile.CaseError, why):
                casefile.load(path)

    def test_missing(self) -> None:
        self.check_refused('id = "R3"', "", "id must be given, as a string")

    def test_wrong_type(self) -> None:
        self.check_refused("runs = 11", 'runs = "11"', "run.runs must be given, as an integer")

    def test_too_few_runs(self) -> None:
        self.check_refused("runs = 11", "runs = 3", "at least 7")

    def test_most_runs_fewer_than_runs(self) -> None:
        self.check_refused("most_runs = 21", "most_runs = 10", "at most run.most_runs")

    def test_unknown_sign(self) -> None:
        self.check_refused('sync = "same"', 'sync = "better"', "expect.sync")

    def test_sign_of_no_variant(self) -> None:
        self.check_refused('sync = "same"', 'posix_aio = "same"', "expect.posix_aio")

    def test_unknown_key(self) -> None:
        self.check_refused("most_runs = 21", "most_runs = 21\nwarmup = 3", "run.warmup is not known")

    def test_unknown_figure(self) -> None:
        self.check_refused("most_runs = 21", 'most_runs = 21\nmeasure = "speed"', "'speed' is no figure")

    def test_sign_of_another_figure(self) -> None:
        self.check_refused("most_runs = 21", 'most_runs = 21\nmeasure = "ios"', "nor one of")

    def test_unknown_state_of_caches(self) -> None:
        self.check_refused("[vary]", '[vary]\ncache = ["lukewarm"]', "vary.cache")

    def test_caches_of_no_relation(self) -> None:
        self.check_refused("[vary]", '[vary]\ncache = ["warm"]', "setup.relation")

    def test_contrast_of_no_value(self) -> None:
        self.check_refused("[expect]", '[[contrast]]\nof = "worker"\nto = "none"\n[expect]', "contrast: 'none'")

    def test_no_toml(self) -> None:
        self.check_refused("[vary]", "[vary", "bad.toml")


if __name__ == "__main__":
    unittest.main()
