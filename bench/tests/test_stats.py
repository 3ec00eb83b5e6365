"""Medians, ratios and their intervals."""

import unittest

import numpy
from aio_bench.lab import stats


class Summaries(unittest.TestCase):
    def test_one_slow_run_moves_neither_median_nor_mad(self) -> None:
        summary = stats.summarize([100, 101, 102, 103, 104, 105, 900])
        self.assertEqual((summary.median, summary.mad), (103, 2))
        self.assertEqual((summary.minimum, summary.maximum), (100, 900))


class Ratios(unittest.TestCase):
    def noisy(self, median: float, noise: float, seed: int) -> list[float]:
        return list(median * (1 + noise * numpy.random.default_rng(seed).standard_normal(11)))

    def test_signs(self) -> None:
        for first, second, noise, sign in ((800, 400, 0.05, "higher"), (400, 800, 0.05, "lower"), (800, 800, 0.02, "same"), (800, 800, 0.4, None)):
            self.assertEqual(stats.compare(self.noisy(first, noise, 1), self.noisy(second, noise, 2)).sign, sign)

    def test_counts_that_all_runs_repeat(self) -> None:
        self.assertEqual(stats.compare([250] * 7, [250] * 7).sign, "same")
        self.assertEqual(stats.compare([200] * 7, [250] * 7).sign, "lower")

    def test_sure_but_small_is_no_difference(self) -> None:
        self.assertEqual(stats.compare([105, 105.1, 105, 105.1, 105], [100] * 5).sign, "same")
        self.assertEqual(stats.compare([105, 105.1, 105, 105.1, 105], [100] * 5, same=0.01).sign, "higher")

    def test_what_slows_down_both_is_no_difference(self) -> None:
        # the machine becomes three times as slow during the runs
        drift = numpy.linspace(1, 3, 11)
        ratio = stats.compare(list(drift * 800), list(drift * 400))
        self.assertAlmostEqual(ratio.low, 2)
        self.assertAlmostEqual(ratio.high, 2)

    def test_intervals_of_many_comparisons_are_wider(self) -> None:
        a, b = self.noisy(800, 0.1, 1), self.noisy(400, 0.1, 2)
        self.assertLess(stats.compare(a, b, comparisons=24).low, stats.compare(a, b).low)


class Intervals(unittest.TestCase):
    def test_they_hold_the_truth_as_often_as_they_say(self) -> None:
        chance = numpy.random.default_rng(1)
        ends = [stats.interval(numpy.log(1.2) + 0.07 * chance.standard_normal(7), 0.9)[1:] for _ in range(1000)]
        self.assertAlmostEqual(sum(low <= 1.2 <= high for low, high in ends) / 1000, 0.9, delta=0.03)
