"""The lab's command line, contrasts, page and pictures; nothing is measured."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from unittest import mock

import psycopg
from rich.console import Console

from test_aio_bench import arguments, casefile, lab, lab_arguments, measure, page, picture, stage
from test_aio_bench.results import Report, Run

from .test_report import report, shown

CASES = Path(__file__).absolute().parents[1] / "cases"


def many() -> Report:
    """Of a case with contrasts and more variants than fit beside each other."""
    made = replace(report(), case=casefile.load(CASES / "r14_index_patterns.toml"), runs={})
    for variant in made.case.variants:
        slow = 3 if "random" in variant.label else 1
        made.runs[variant.label] = {
            server.label: [Run(n, {"time": slow * (10 + n / 10), "ios": 5.0}) for n in range(1, 8)] for server in made.servers
        }
    return made


class CommandLine(unittest.TestCase):
    def test_cases_by_id(self) -> None:
        for name in ("r3", "R3", "r03_repeated_blocks"):
            self.assertEqual(arguments.find_case(name), CASES / "r03_repeated_blocks.toml")
        self.assertEqual(arguments.find_case("own/x.toml"), Path("own/x.toml"))
        with self.assertRaises(argparse.ArgumentTypeError):
            arguments.find_case("r99")

    def test_every_behaviour_has_a_case(self) -> None:
        ids = {casefile.load(path).id for path in CASES.glob("*.toml")}
        self.assertLessEqual({f"R{number}" for number in range(1, 15)}, ids)

    def test_servers(self) -> None:
        self.assertEqual(lab_arguments.server_name("18-stock"), "18-stock")
        self.assertEqual(lab_arguments.server_name("/x/bin/pg_config"), "pg_config:/x/bin/pg_config")


class Failures(unittest.TestCase):
    def test_of_one_case_leave_the_others(self) -> None:
        """Neither do they when the session is interrupted."""
        measured = [report(), psycopg.OperationalError("gone"), KeyboardInterrupt()]
        with tempfile.TemporaryDirectory() as directory:
            given = lab_arguments.parse(["r3", "r9", "r10", "--output", directory, "--work", directory])
            assert given
            console = Console(file=io.StringIO())
            with (
                mock.patch.object(lab._Lab, "_measure", side_effect=measured), mock.patch.object(stage, "clusters", return_value=contextlib.nullcontext([])),
                mock.patch.object(stage, "Console", return_value=console), contextlib.redirect_stderr(io.StringIO()),
            ):
                self.assertEqual(lab.main(given), 130)
            self.assertEqual(sorted(path.name for path in Path(directory).iterdir()),
                             ["r03_repeated_blocks.jsonl", "r03_repeated_blocks.png", "r03_repeated_blocks.svg", "report.html"])
            text = Path(directory, "report.html").read_text()
            self.assertIn("R9 could not be measured: OperationalError: gone", text)
            self.assertIn('id="r03_repeated_blocks"', text)


class Groups(unittest.TestCase):
    def test_one_start_of_the_server_a_group(self) -> None:
        case = casefile.load(CASES / "r14_index_patterns.toml")
        groups = measure.groups(case, case.variants)
        self.assertEqual([len(group) for group in groups], [9, 9])
        self.assertEqual({variant.value_of("io_method") for variant in groups[0]}, {"worker"})


class Contrasts(unittest.TestCase):
    def test_variants_that_differ_in_one_value(self) -> None:
        found = many().contrasts()
        self.assertEqual(len(found), 2 * 3 * 2)
        for each in found:
            self.assertEqual(each.of.replace("random", "sequential"), each.to)
            self.assertAlmostEqual(each.ratio.ratio, 3)

    def test_expected_by_server(self) -> None:
        case = casefile.load(CASES / "r09_backward.toml")
        self.assertEqual(case.contrasts[0].expected_sign(180006), "more")
        self.assertIsNone(case.contrasts[0].expected_sign(200000))


class Reports(unittest.TestCase):
    def test_json_lines(self) -> None:
        lines = [json.loads(line) for line in many().as_json_lines().splitlines()]
        kinds = [line["line"] for line in lines]
        self.assertEqual(kinds[0], "provenance")
        self.assertEqual({kind: kinds.count(kind) for kind in kinds[1:]}, {"run": 18 * 2 * 7, "ratio": 18, "contrast": 12})

    def test_page_needs_nothing_else(self) -> None:
        html = page.render([report(), many()], [("R1", "a <reason>")], quick=True)
        self.assertEqual(html.count("<img "), 2)
        self.assertEqual(re.findall(r'(?:src|href)="(?!data:|#)', html), [])
        self.assertIn("a &lt;reason&gt;", html)

    def test_table_in_80_columns(self) -> None:
        lines = shown(many(), 80)
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertNotIn("…", "".join(line for line in lines if "library_path" not in line))

    def test_picture_of_many(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "x.png")
            picture.draw(many(), path)
            self.assertEqual(path.read_bytes()[:8], b"\x89PNG\r\n\x1a\n")


if __name__ == "__main__":
    unittest.main()
