"""Table, JSON lines and picture of an invented report."""

import io
import json
import unittest
from dataclasses import replace

from aio_bench.lab import results, table, wording
from aio_bench.lab.figures import FIGURES
from aio_bench.lab.machine import Machine, Storage
from aio_bench.lab.results import BAD, CANNOT_TELL, GOOD, Report, Run, Server, Setting, Skipped, decide
from aio_bench.lab.stats import Ratio
from rich.console import Console

from . import WithDirectory, load_case

TIMES = {"worker": (800, 400), "io_uring": (700, 250), "sync": (900, 900)}


def report(servers: int = 2, *without: str) -> Report:
    made = Report(
        load_case("r03_repeated_blocks"), "v1.0-3-gabcdef0", "2026-01-02T03:04:05+0000",
        Machine("Linux 6.1.0 x86_64", "Some CPU", 2, 16, 0.0), Storage("ext4", "rw", "/dev/sda1", None, 80),
        [
            Server("18-stock", "18.6", "PostgreSQL 18.6 on some machine", 180006,
                   (Setting("shared_buffers", "256MB", "128MB"), Setting("jit", "off", "on"))),
            Server("19-stock", "19rc1", "PostgreSQL 19rc1 on some machine", 190000,
                   (Setting("shared_buffers", "256MB", "128MB"),)),
        ][:servers],
    )
    for variant, medians in TIMES.items():
        made.runs[variant] = {}
        for server, median in zip(made.servers, medians):
            if variant in without:
                made.skipped.append(Skipped(server.label, variant, "a reason"))
            else:
                made.runs[variant][server.label] = [Run(n, {"time": median + n - 4, "read_blocks": 10003}) for n in range(1, 8)]
    return made


def many() -> Report:
    """Returns a report of a case with contrasts, and with more variants than fit beside each other."""
    made = replace(report(), case=load_case("r14_index_patterns"), runs={})
    for variant in made.case.variants:
        slow = 3 if "random" in variant.label else 1
        made.runs[variant.label] = {
            server.label: [Run(n, {"time": slow * (10 + n / 10), "ios": 5.0}) for n in range(1, 8)] for server in made.servers
        }
    return made


def shown(made: Report, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    table.show(made, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


class Words(unittest.TestCase):
    def test_finding(self) -> None:
        self.assertEqual(
            wording.finding(report()),
            "18.6 takes 2.00 times (worker) and 2.80 times (io_uring) as long as 19rc1;"
            " no difference with sync",
        )

    def test_small_differences_of_instructions(self) -> None:
        made = replace(report(), case=load_case("k02_gate_scan"), runs={})
        for gate, instructions in (("without", 391_000.0), ("filter", 392_000.0)):
            made.runs[f"worker, {gate}"] = {server.label: [Run(n, {"instructions": instructions + n}) for n in range(1, 8)] for server in made.servers}
        [found, _] = made.contrasts()
        self.assertEqual(wording.contrast(made, found), "18.6: worker, filter against worker, without: 1.0026  [1.0026, 1.0026]  no difference")
        self.assertIn("no difference in instructions in user mode between 18.6 and 19rc1", wording.finding(made).lower())
        self.assertNotIn("…", "".join(shown(made, 80)))

    def test_better_and_worse(self) -> None:
        judged = {name: FIGURES[name].judged("higher") for name in ("time", "ios", "mean_blocks", "tps", "value")}
        self.assertEqual(judged, {"time": "worse", "ios": "worse", "mean_blocks": "better", "tps": "better", "value": ""})
        self.assertEqual([FIGURES["time"].judged(sign) for sign in ("lower", "same", None)], ["better", "", ""])
        self.assertEqual([FIGURES["time"].judged(sign, "slower") for sign in ("higher", "lower", "same", None)], ["better", "worse", "worse", ""])
        self.assertEqual([FIGURES["time"].judged(sign, "same") for sign in ("higher", "same")], ["worse", ""])

    def test_how_far_an_interval_reaches(self) -> None:
        made = report()
        made.runs = {"worker": {server.label: [Run(n, {"time": 100.0 + slow * (n % 2)}) for n in range(1, 8)] for server, slow in zip(made.servers, (30, 0))}}
        ratio = made.ratio("worker")
        assert ratio and ratio.sign is None
        self.assertEqual(wording.finding(made), f"Cannot tell whether 18.6 and 19rc1 differ ({ratio.low:.2f} to {ratio.high:.2f} times)")

    def test_finding_of_one_server(self) -> None:
        self.assertEqual(wording.finding(report(1)), "18.6 takes 800 ms (worker), 700 ms (io_uring) and 900 ms (sync)")
        made = replace(report(1), case=load_case("d01_device"))
        made.runs = {variant.label: {"18.6": [Run(1, {"value": place})]} for place, variant in enumerate(made.case.variants, 1)}
        self.assertEqual(wording.finding(made), "18.6 has 1 to 36 times the ideal time (in 36 combinations)")

    def test_a_reason_is_said_once(self) -> None:
        self.assertEqual(wording.skipped(report(2, "io_uring")), ["io_uring skipped on 18.6 and 19rc1: a reason"])
        cold = replace(report(), case=load_case("p01_index_scan"))
        self.assertEqual(wording.skipped(cold), [])
        cold.runs = {"worker": {"18.6": [Run(1, {"time": 0.02, "read_blocks": 0.0})]}}
        self.assertEqual(wording.skipped(cold), ["no run has read a block: nothing here is about reads"])
        busy = replace(report(), case=load_case("d01_device"), skipped=[])
        self.assertEqual(wording.skipped(busy), [])
        busy.machine = replace(busy.machine, cpu_in_use=0.3)
        self.assertEqual(wording.skipped(busy), ["no core to spare: reads on the simulated device are late"])


class Promises(unittest.TestCase):
    def test_met_and_not_met(self) -> None:
        made = replace(report(), case=load_case("r03_device"))
        del made.runs["sync"]
        self.assertEqual(made.promises(), {"worker": False, "io_uring": False})
        self.assertEqual(wording.promise(made), "promised: 18.6 at least 5 times 19rc1: NOT MET with worker and io_uring")
        made.runs["worker"]["18.6"] = [Run(n, {"time": 2000.0 + n}) for n in range(1, 8)]
        self.assertEqual(made.promises(), {"worker": True, "io_uring": False})
        self.assertEqual(wording.promise(made), "promised: 18.6 at least 5 times 19rc1: met with worker; NOT MET with io_uring")
        self.assertIn("NOT MET with io_uring", " ".join(shown(made, 80)))

        self.assertEqual(wording.promise(report()), "", "R3 itself promises none")
        self.assertEqual(replace(report(1), case=load_case("r03_device")).promises(), {})


class Tables(unittest.TestCase):
    def test_nothing_is_cut_off(self) -> None:
        for width in (80, 120):
            for made in (report(), report(1), report(2, "io_uring"), many()):
                with self.subTest(width=width, servers=len(made.servers), skipped=len(made.skipped)):
                    lines = shown(made, width)
                    self.assertLessEqual(max(map(len, lines)), width)
                    self.assertNotIn("…", "".join(lines))

    def test_settings_that_only_one_server_has(self) -> None:
        lines = [" ".join(line.split()) for line in shown(report(), 80)]
        self.assertIn("not default shared_buffers = 256MB", lines)
        self.assertIn("18.6 only: jit = off", lines)


class Saved(WithDirectory):
    def test_a_report_is_read_again(self) -> None:
        made = report(2, "io_uring")
        path = self.directory / "x.jsonl"
        path.write_text(made.as_json_lines())
        again = results.load(path)
        self.assertEqual(again.as_json_lines(), made.as_json_lines())
        self.assertEqual(shown(again, 80), shown(made, 80))
        for wrong in ("{}\n", "", "no JSON"):
            path.write_text(wrong)
            with self.assertRaisesRegex(ValueError, "x.jsonl: not the results"):
                results.load(path)

    def test_lines(self) -> None:
        kinds = [json.loads(line)["line"] for line in many().as_json_lines().splitlines()]
        self.assertEqual(kinds[0], "provenance")
        self.assertEqual({kind: kinds.count(kind) for kind in kinds[1:]}, {"run": 18 * 2 * 7, "ratio": 18, "contrast": 12})
        lines = [json.loads(line) for line in report(2, "io_uring").as_json_lines().splitlines()]
        self.assertEqual(
            [(line["variant"], round(line["ratio"], 3), line["sign"], line["expected_sign"]) for line in lines if line["line"] == "ratio"],
            [("worker", 2.0, "slower", "slower"), ("sync", 1.0, "same", "same")],
        )
        self.assertNotIn('"ratio"', report(1).as_json_lines())


class Decisions(unittest.TestCase):
    def test_only_an_interval_on_one_side_decides(self) -> None:
        for ratio, verdict in ((Ratio(2.4, 2.1, 2.8), BAD), (Ratio(1.0, 0.9, 1.1), GOOD), (Ratio(1.6, 1.2, 2.0), CANNOT_TELL), (None, CANNOT_TELL)):
            self.assertEqual(decide(ratio, 1.5), verdict)
        self.assertEqual((GOOD, BAD, CANNOT_TELL), (0, 1, 125), "git's numbers")

    def test_bad_if_one_is_and_good_if_all_are(self) -> None:
        # worker 2.0, io_uring 2.8, sync 1.0
        self.assertEqual(report().decide(["sync", "worker"], 1.5), BAD)
        self.assertEqual(report().decide(["sync"], 1.5), GOOD)
        self.assertEqual(report(2, "io_uring").decide(["sync", "io_uring"], 1.5), CANNOT_TELL)
