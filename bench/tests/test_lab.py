"""The lab's command line, contrasts, page and pictures.  Nothing is measured."""

import argparse
import contextlib
import io
import os
import re
import unittest
from dataclasses import replace
from pathlib import Path
from unittest import mock

import psycopg
from aio_bench.lab import arguments, command, measure, output, picture, session, wording
from aio_bench.lab.results import Report
from rich.console import Console

from . import CASES, WithDirectory, load_case
from .test_report import many, report, shown


class CommandLine(unittest.TestCase):
    def test_cases_by_id(self) -> None:
        for name in ("r3", "R3", "r03_repeated_blocks"):
            self.assertEqual(arguments.find_cases(name), [CASES / "r03_repeated_blocks.toml"])
        self.assertEqual(arguments.find_cases("own/x.toml"), [Path("own/x.toml")])
        self.assertEqual([path.stem for path in arguments.find_cases("k")], ["k01_gate", "k02_gate_scan", "k03_trace"])
        self.assertEqual(arguments.find_cases("all"), sorted(CASES.glob("*.toml")))
        with self.assertRaises(argparse.ArgumentTypeError):
            arguments.find_cases("r99")

    def test_servers(self) -> None:
        for text, name, label in (("18-stock", "18-stock", ""), ("/x/bin/pg_config", "pg_config:/x/bin/pg_config", ""),
                                  ("before=/x/bin/pg_config", "pg_config:/x/bin/pg_config", "before"), ("old=18-stock", "18-stock", "old"),
                                  ("new=source:/x@master", "source:/x@master", "new")):
            self.assertEqual(arguments.server_name(text), arguments.ServerName(name, label))

    def test_servers_of_the_environment(self) -> None:
        with mock.patch.dict(os.environ, {"PG_CONFIG": "/x/pg_config:/y/pg_config"}):
            for parse in (lambda: arguments.parse(["r3"]), lambda: arguments.parse_demo([])):
                given = parse()
                assert given
                self.assertEqual([server.name for server in given.servers], ["pg_config:/x/pg_config", "pg_config:/y/pg_config"])

    def test_wrong_arguments_set_nothing_up(self) -> None:
        wrong = [["r99"], [], ["r3", "--runs", "3"], ["r3", "--server", "a", "--server", "b", "--server", "c"], ["r3", "--show", "x"],
                 ["r3", "--server", "a=x", "--server", "a=y"], ["r3", "--device", "gp3,tape"], ["r3", "--query", __file__], ["r3", "--setup", __file__],
                 ["--query", "/nonexistent"], ["--show", "/nonexistent"], ["--show", __file__, "--only", "x", "r3"], ["d1", "r03_device", "--device", "1ms"]]
        with mock.patch.object(command.project, "provide") as provide, contextlib.redirect_stderr(io.StringIO()):
            for argv in wrong:
                self.assertEqual(command.main(argv), 2, argv)
            self.assertEqual(command.main(["r99", "--bisect", "2"]), 129)
        provide.assert_not_called()

    def test_devices_of_cases_are_not_replaced(self) -> None:
        with contextlib.redirect_stderr(io.StringIO()) as said:
            given = arguments.parse(["--server", "a", "r3", "--device", "gp3", "d1", "p1"])
        assert given
        self.assertEqual([path.stem for path in given.cases], ["r03_repeated_blocks", "p01_index_scan"])
        self.assertIn("left out: d01_device", said.getvalue())


class Failures(WithDirectory):
    def test_of_one_case_leave_the_others(self) -> None:
        """An interrupted session keeps them as well."""
        measured = [report(), psycopg.OperationalError("gone"), measure.Interrupted(many())]
        console = Console(file=io.StringIO())
        with (
            mock.patch.object(session.Session, "measure", side_effect=measured), mock.patch.object(command.project, "provide", return_value=True),
            mock.patch.object(session, "Cluster"), mock.patch("rich.console.Console", return_value=console), contextlib.redirect_stderr(io.StringIO()),
        ):
            self.assertEqual(command.main(["r3", "r9", "r10", "r12", "--output", str(self.directory), "--work", str(self.directory)]), 130)
        self.assertEqual(sorted(path.name for path in self.directory.iterdir()),
                         [f"{name}.{suffix}" for name in ("r03_repeated_blocks", "r14_index_patterns") for suffix in ("jsonl", "png", "svg")] + ["report.html"])
        text = (self.directory / "report.html").read_text()
        self.assertIn("R9 could not be measured: OperationalError: gone", text)
        self.assertIn('id="r03_repeated_blocks"', text)
        self.assertIn("R12 could not be measured: interrupted", text)
        self.assertNotIn("R10 could not", text)

    def test_interrupted_variants_are_dropped(self) -> None:
        made = many()
        first, second = (group[0].label for group in measure.groups(made.case, made.case.variants))
        with mock.patch.object(measure, "_measure_group", side_effect=[None, KeyboardInterrupt]), self.assertRaises(measure.Interrupted) as raised:
            measure.measure([mock.Mock(info=made.servers[0])], made.case.variants, mock.Mock(), made, mock.Mock())
        self.assertIn(first, raised.exception.report.runs)
        self.assertNotIn(second, made.runs)
        self.assertIn(f"{second} skipped on 18.6: interrupted", wording.skipped(made))


class Groups(unittest.TestCase):
    def test_one_start_of_the_server_a_group(self) -> None:
        case = load_case("r14_index_patterns")
        groups = measure.groups(case, case.variants)
        self.assertEqual([len(group) for group in groups], [9, 9])
        self.assertEqual({variant.value_of("io_method") for variant in groups[0]}, {"worker"})
        interleaved = load_case("k02_gate_scan")
        self.assertEqual([len(group) for group in measure.groups(interleaved, interleaved.variants)], [6])


class Contrasts(unittest.TestCase):
    def test_variants_that_differ_in_one_value(self) -> None:
        found = many().contrasts()
        self.assertEqual(len(found), 2 * 3 * 2)
        for each in found:
            self.assertEqual(each.of.replace("random", "sequential"), each.to)
            self.assertAlmostEqual(each.ratio.ratio, 3)


class Reports(WithDirectory):
    def drawn(self, made: Report) -> str:
        """Returns the words of a picture."""
        path = self.directory / "x.svg"
        picture.draw(made, path)
        return "\n".join(re.findall("<!-- (.*?) -->", path.read_text(), re.DOTALL))

    def test_picture_says_what_is_varied_and_who_is_better(self) -> None:
        for made in (report(), report(1), report(2, "io_uring"), many()):
            self.assertIn(made.case.told_apart_by, self.drawn(made).splitlines())
        words = self.drawn(report())
        self.assertIn("18.6 is 2.00 times 19rc1, slower, as expected", words)
        self.assertIn("no difference, as expected", words)

    def test_quick_is_stamped(self) -> None:
        self.assertNotIn("QUICK", self.drawn(report()))
        made = replace(report(), quick=True)
        self.assertIn("QUICK", self.drawn(made))
        self.assertIn("Quick: shows which is faster", " ".join(shown(made, 80)))

    def test_page_has_the_tables_and_what_failed(self) -> None:
        page = output.render([report(2, "io_uring"), many()], [("R99", "it <broke>")])
        for words in ("R99 could not be measured: it &lt;broke&gt;", "slower, as expected", "a reason"):
            self.assertIn(words, page)
