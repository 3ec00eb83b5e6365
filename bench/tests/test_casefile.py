"""Case files of the project, and errors in others; what is varied; and README's table of cases."""

import json
import re
import unittest
from dataclasses import replace
from unittest import mock

from aio_bench.lab import casefile, devices, measure, runs, wording
from aio_bench.lab.arguments import _has_own_device
from aio_bench.lab.variants import Variant, combinations, for_server
from aio_bench.project import Problem

from . import CASES, WithDirectory, load_case
from .test_report import report


class OurCases(unittest.TestCase):
    def test_all_load(self) -> None:
        """Every query of a real plan names it; cases without EXPLAIN have no plan to name."""
        for path in sorted(CASES.glob("*.toml")):
            with self.subTest(path.name):
                case = casefile.load(path)
                self.assertEqual(casefile.from_data(case.name, json.loads(json.dumps(case.data()))), case)
                if case.id.startswith("P") and (case.explain or case.run.pgbench):
                    self.assertTrue(all(case.expected_plan(variant).names for variant in case.variants))


    def test_signs_are_promised_of_a_pair_around_the_change_only(self) -> None:
        case = load_case("r03_repeated_blocks")
        self.assertEqual(case.expected_sign("worker", 180006, 190000), "slower")
        for pair in ((180006, 180007), (190000, 200000), (190000, 180006)):
            self.assertIsNone(case.expected_sign("worker", *pair))

    def test_plans_by_variant(self) -> None:
        case = load_case("p01_index_scan")
        found = {variant.value_of("direction"): case.expected_plan(variant).names for variant in case.variants if variant.matches("random")}
        self.assertEqual(found, {"forward": ["Index Scan using large_random_idx on large"],
                                 "backward": ["Index Scan Backward using large_random_idx on large"]})


class Devices(unittest.TestCase):
    def test_in_place_of_a_case_s_own(self) -> None:
        case = casefile.changed(load_case("p02_index_only_scan"), "gp3")
        self.assertEqual({variant.value_of("device") for variant in case.variants}, {"gp3"})
        self.assertEqual(casefile.changed(case), case)

    def test_several_are_one_after_the_other(self) -> None:
        case = casefile.changed(load_case("r03_repeated_blocks"), "io2,gp3,io2")
        self.assertEqual([variant.label for variant in case.variants],
                         [f"{device}, {method}" for device in ("io2", "gp3") for method in ("worker", "io_uring", "sync")])
        self.assertEqual(case.expected_sign("gp3, worker", 180006, 190000), "slower")

    def test_reads_come_from_the_page_cache(self) -> None:
        """Neither what is varied nor direct I/O adds real reads, and nothing is said of the real device."""
        for path in sorted(CASES.glob("*.toml")):
            if _has_own_device(path):
                continue
            case = casefile.changed(casefile.load(path), "gp3")
            for variant in case.variants:
                cluster = mock.Mock(build=mock.Mock(version_num=190000))
                self.assertNotIn("debug_io_direct", measure.settings_of(case, True, cluster, variant) | measure.settings_of(case, True, cluster), case.id)
                self.assertNotIn("cold kernel", variant.label)
            made = replace(report(), case=case)
            self.assertNotRegex(f"{wording.storage(made)} {wording.how_read(made)} {case.known}", "/dev|ext4|direct|page cache|hardware")

    def test_the_page_cache_is_filled(self) -> None:
        for state in ("", "cold server", "cold kernel"):
            variant = Variant((("device", "gp3"), ("cache", state)))
            with mock.patch.object(runs, "execute") as execute, mock.patch.object(runs, "pagecache") as pagecache, mock.patch.object(runs, "_value", return_value="x"):
                execute.return_value.fetchall.return_value = [("t",)]
                pagecache.fill.return_value = 1.0
                self.assertEqual(runs._set_caches(mock.Mock(data="/data"), variant), {"page_cache": 1.0})
            pagecache.forget.assert_not_called()
            self.assertEqual(any("evict" in call.args[1] for call in execute.mock_calls if len(call.args) > 1), bool(state))

    def test_another_figure(self) -> None:
        case = load_case("k02_gate_scan")
        self.assertEqual((case.measure, case.run.also), ("instructions", ["cpu", "time"]))
        other = casefile.changed(case, measure="cpu")
        self.assertEqual((other.measure, other.run.also), ("cpu", ["time"]))
        self.assertEqual(casefile.changed(load_case("r03_repeated_blocks"), measure="ios").expected, {})
        with self.assertRaises(Problem):
            casefile.changed(case, measure="speed")

    def test_named(self) -> None:
        assert (preset := devices.named("gp3")) and (other := devices.named("2ms"))
        self.assertEqual(preset.call(), "SELECT io_device(NULL, '1ms', 3, 0, 131072000, everybody => true)")
        self.assertEqual(other.call(), "SELECT io_device(NULL, '2ms', 64, 0, NULL, everybody => true)")
        self.assertIsNone(devices.named("none"))
        with self.assertRaises(ValueError):
            devices.named("1ms', 1); DROP TABLE t; --")


# what is replaced in R3's file, by what, and the error
BAD = (
    ('id = "R3"', "", ": id: field required"),
    ("runs = 11", "runs = 3", r"run\.runs: .*greater than or equal to 7"),
    ("runs = 11", "runs = 11\nmost_runs = 10", "at most run.most_runs"),
    ('sync = "same"', 'sync = "better"', r"expect\.sync"),
    ('sync = "same"', 'posix_aio = "same"', "expect.posix_aio"),
    ("runs = 11", 'runs = 11\nmeasure = "speed"', r"run\.measure: .*'mean_blocks'"),
    ("runs = 11", 'runs = 11\nmeasure = "ios"', "nor one of"),
    ("[vary]", '[vary]\ncache = ["lukewarm"]', "vary.cache"),
    ("[vary]", '[vary]\ndevice = ["tape"]', "vary.device: 'tape'"),
    ("runs = 11", 'runs = 11\nplan = {posix_aio = ["Result"]}', "run.plan: 'posix_aio'"),
    ("runs = 11", 'runs = 11\nexplain = false\nplan = ["Result"]', "run.plan and run.counts"),
    ("[expect]", '[[contrast]]\nof = "worker"\nto = "none"\n[expect]', "contrast: 'none'"),
    ("[vary]", "[vary", "bad.toml"),
)


class BadCases(WithDirectory):
    def test_refused(self) -> None:
        text = (CASES / "r03_repeated_blocks.toml").read_text()
        for old, new, why in BAD:
            self.assertIn(old, text)
            with self.subTest(new):
                path = self.directory / "bad.toml"
                path.write_text(text.replace(old, new))
                with self.assertRaisesRegex(Problem, f"(?i){why}"):
                    casefile.load(path)


class Settings(unittest.TestCase):
    def test_own_names_become_the_servers(self) -> None:
        variant = Variant((("io_method", "worker"), ("io", "direct"), ("workers", "4"), ("cache", "warm"), ("order", "random")))
        common = {"io_method": "worker", "debug_io_direct": "data"}
        self.assertEqual(variant.settings(["order"], 180006), common | {"io_workers": "4"})
        self.assertEqual(Variant((("io", "buffered"),)).settings([], 190000), {"debug_io_direct": ""})
        self.assertEqual(variant.settings(["order"], 190000), common | {"io_min_workers": "4", "io_max_workers": "4"})

    def test_of_a_version(self) -> None:
        settings = {"fsync": "on", "18": {"io_workers": 1}, "19": {"io_min_workers": 1}}
        self.assertEqual(for_server(settings, 180006), {"fsync": "on", "io_workers": "1"})
        self.assertEqual(for_server(settings, 200000), {"fsync": "on", "io_min_workers": "1"})


class Labels(unittest.TestCase):
    def test_what_does_not_vary_is_not_said(self) -> None:
        for methods in (["worker", "sync"], ["worker"]):
            self.assertEqual([variant.label for variant in combinations({"io_method": methods, "cache": ["warm"]})], methods)

    def test_matches(self) -> None:
        variant = combinations({"io_method": ["worker"], "cache": ["cold server"]})[0]
        self.assertEqual([variant.matches(words) for words in ("worker", "cold server, worker", "worker, warm")], [True, True, False])


class Tables(unittest.TestCase):
    def test_has_all_cases(self) -> None:
        (table,) = re.findall(r"^\| cases \|.*\n\|[-|]+\n((?:\|.*\n)+)", (CASES.parent / "README.md").read_text(), re.M)
        said: set[str] = set()
        for cell in re.findall(r"^\|([^|]*)", table, re.M):
            for first, last in re.findall(r"([A-Z]\d+)(?: to [A-Z](\d+))?", cell):
                said |= {f"{first[0]}{number}" for number in range(int(first[1:]), int(last or first[1:]) + 1)}
        there = {re.sub(r"^([a-z])0*(\d+)_.*", lambda match: match[1].upper() + match[2], path.stem) for path in CASES.glob("*.toml")}
        self.assertEqual(said, there)
