"""Verdicts: good, bad, cannot tell."""

import unittest

from lab.decision import BAD, CANNOT_TELL, GOOD, decide, decide_all
from lab.stats import Ratio

from .test_report import report


class One(unittest.TestCase):
    def test_interval_on_one_side(self) -> None:
        self.assertEqual(decide(Ratio(2.4, 2.1, 2.8), 1.5), BAD)
        self.assertEqual(decide(Ratio(1.0, 0.9, 1.1), 1.5), GOOD)

    def test_interval_around_the_threshold(self) -> None:
        self.assertEqual(decide(Ratio(1.6, 1.2, 2.0), 1.5), CANNOT_TELL)

    def test_not_measured(self) -> None:
        self.assertEqual(decide(None, 1.5), CANNOT_TELL)

    def test_gits_numbers(self) -> None:
        self.assertEqual((GOOD, BAD, CANNOT_TELL), (0, 1, 125))


class Several(unittest.TestCase):
    # worker 2.0, io_uring 2.8, sync 1.0
    def test_one_bad_is_enough(self) -> None:
        self.assertEqual(decide_all(report(), ["sync", "worker"], 1.5), BAD)

    def test_good_only_if_all_are(self) -> None:
        self.assertEqual(decide_all(report(), ["sync"], 1.5), GOOD)
        self.assertEqual(decide_all(report(2, "io_uring"), ["sync", "io_uring"], 1.5), CANNOT_TELL)
