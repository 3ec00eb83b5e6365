"""Medians, ratios and their intervals."""

from __future__ import annotations

import unittest

import numpy

from lab import stats


class Summaries(unittest.TestCase):
    def test_one_slow_run_moves_neither_median_nor_mad(self) -> None:
        summary = stats.summarize([100, 101, 102, 103, 104, 105, 900])
        self.assertEqual((summary.median, summary.mad), (103, 2))
        self.assertEqual((summary.minimum, summary.maximum), (100, 900))


class Ratios(unittest.TestCase):
    def noisy(self, median: float, noise: float, seed: int) -> list[float]:
        return list(median * (1 + noise * numpy.random.default_rng(seed).standard_normal(11)))

    def test_twice_as_long(self) -> None:
        ratio = stats.compare(self.noisy(800, 0.05, 1), self.noisy(400, 0.05, 2))
        self.assertEqual(ratio.sign, "higher")
        self.assertLess(ratio.low, ratio.ratio)
        self.assertLess(ratio.ratio, ratio.high)

    def test_half_as_long(self) -> None:
        self.assertEqual(stats.compare(self.noisy(400, 0.05, 1), self.noisy(800, 0.05, 2)).sign, "lower")

    def test_little_noise_and_no_difference(self) -> None:
        self.assertEqual(stats.compare(self.noisy(800, 0.02, 1), self.noisy(800, 0.02, 2)).sign, "same")

    def test_much_noise_tells_nothing(self) -> None:
        self.assertIsNone(stats.compare(self.noisy(800, 0.4, 1), self.noisy(800, 0.4, 2)).sign)

    def test_exact_counts_are_equal_or_not(self) -> None:
        self.assertEqual(stats.compare([250] * 7, [250] * 7, same=0).sign, "same")
        self.assertEqual(stats.compare([249] * 7, [250] * 7, same=0).sign, "lower")
        self.assertIsNone(stats.compare([249, 250, 251, 250, 249, 251, 250], [250] * 7, same=0).sign)

    def test_what_slows_down_both_is_no_difference(self) -> None:
        # the machine becomes three times as slow during the runs
        drift = numpy.linspace(1, 3, 11)
        ratio = stats.compare(list(drift * 800), list(drift * 400))
        self.assertAlmostEqual(ratio.low, 2)
        self.assertAlmostEqual(ratio.high, 2)

    def test_interval_holds_the_truth_about_as_often_as_it_says(self) -> None:
        held = 0
        for seed in range(200):
            ratio = stats.compare(self.noisy(800, 0.1, 2 * seed), self.noisy(400, 0.1, 2 * seed + 1))
            held += ratio.low <= 2 <= ratio.high
        self.assertGreater(held, 0.9 * 200)

    def test_unequal_numbers_of_runs(self) -> None:
        with self.assertRaises(ValueError):
            stats.compare([1, 2, 3], [1, 2])


if __name__ == "__main__":
    unittest.main()
