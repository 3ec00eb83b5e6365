"""What is varied, and its settings of a server."""

import unittest

from lab.variants import Variant, combinations, for_server


class Settings(unittest.TestCase):
    def test_own_names_become_the_servers(self) -> None:
        variant = Variant((("io_method", "worker"), ("io", "direct"), ("workers", "4"), ("cache", "warm"), ("order", "random")))
        common = {"io_method": "worker", "debug_io_direct": "data"}
        self.assertEqual(variant.settings(["order"], 180006), common | {"io_workers": "4"})
        self.assertEqual(variant.settings(["order"], 190000), common | {"io_min_workers": "4", "io_max_workers": "4"})

    def test_buffered(self) -> None:
        self.assertEqual(Variant((("io", "buffered"),)).settings([], 190000), {"debug_io_direct": ""})

    def test_of_a_version(self) -> None:
        settings = {"fsync": "on", "18": {"io_workers": 1}, "19": {"io_min_workers": 1}}
        self.assertEqual(for_server(settings, 180006), {"fsync": "on", "io_workers": "1"})
        self.assertEqual(for_server(settings, 200000), {"fsync": "on", "io_min_workers": "1"})


class Labels(unittest.TestCase):
    def test_what_does_not_vary_is_not_said(self) -> None:
        labels = [variant.label for variant in combinations({"io_method": ["worker", "sync"], "cache": ["warm"]})]
        self.assertEqual(labels, ["worker", "sync"])

    def test_a_single_one_has_a_name(self) -> None:
        self.assertEqual([variant.label for variant in combinations({"io_method": ["worker"], "cache": ["warm"]})], ["worker"])

    def test_matches(self) -> None:
        variant = combinations({"io_method": ["worker"], "cache": ["cold server"]})[0]
        self.assertTrue(variant.matches("worker"))
        self.assertTrue(variant.matches("cold server, worker"))
        self.assertFalse(variant.matches("worker, warm"))
