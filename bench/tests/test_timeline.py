"""Timelines of invented traces."""

import contextlib
import io
import json
import unittest
from collections import Counter
from itertools import permutations
from pathlib import Path

from aio_bench.timeline import command, export, panels, trace
from aio_bench.timeline.panels import Window

from . import WithDirectory, traces


def written(directory: Path, name: str, rows: list[dict[str, object]]) -> str:
    path = directory / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def run(*arguments: str) -> tuple[int, str]:
    """Runs the command.  Returns its exit status and its output."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = command.main(list(arguments))
    return status, said.getvalue()


class Rows(unittest.TestCase):
    def test_times_count_from_the_first_submission(self) -> None:
        made = trace.from_rows("x", traces.varied())
        self.assertEqual([round(each.start, 3) for each in made.ios], [0, 0.1, 0.5, 0.7, 0.9, 1.2])
        [wait] = made.ios[0].waits
        self.assertEqual((wait.pid, round(wait.start, 3), round(wait.end, 3)), (100, 0.2, 1.1))

    def test_outcomes(self) -> None:
        made = trace.from_rows("x", traces.varied())
        self.assertEqual([each.outcome for each in made.ios], ["ok", "ok", "short", "error", "open", "ok"])

    def test_a_result_that_nobody_has_named(self) -> None:
        for raw, outcome in ((8192, "ok"), (4096, "short"), (-5, "error")):
            [only] = trace.from_rows("x", [traces.row(1, 0, 1, 0, raw_result=raw, result="UNKNOWN")]).ios
            self.assertEqual(only.outcome, outcome)

    def test_what_is_a_connection(self) -> None:
        for text in ("host=/tmp dbname=x", "postgresql://a/b", "postgres:///"):
            self.assertTrue(trace.is_dsn(text))
        for text in ("18.jsonl", "/tmp/a", "directory/a"):
            self.assertFalse(trace.is_dsn(text))


class Panels(unittest.TestCase):
    def test_in_progress(self) -> None:
        [panel] = panels.of([trace.from_rows("x", [traces.row(1, 0, 2, 0), traces.row(2, 1, 3, 1)])])
        self.assertEqual([(round(at), number) for at, number in panel.in_progress()], [(0, 1), (1, 2), (2, 1), (3, 0)])

    def test_a_panel_a_relation(self) -> None:
        rows = [traces.row(n, n, n + 1, n, relation="abcde"[n % 5], fork="main") for n in range(16)]
        made = panels.of([trace.from_rows("x", rows)])
        self.assertEqual(len(made), panels.MOST_PANELS)
        self.assertEqual(made[0].target, "a")
        self.assertEqual(made[0].left_out, "not shown: d, e")
        hardly = trace.from_rows("x", traces.parallel(40) + [dict(traces.row(41, 0, 1, 0), relation="pg_proc")])
        self.assertEqual([(panel.target, panel.left_out) for panel in panels.of([hardly])], [("large", "not shown: pg_proc")])

    def test_more_values_than_pixels(self) -> None:
        self.assertEqual(panels.highest([(0, 1), (0.5, 9), (0.9, 2), (3, 4)], Window(0, 4), 4), [(0, 9), (3, 4)])

    def test_a_part(self) -> None:
        [panel] = panels.of([trace.from_rows("x", traces.serial(10, 2, 0))])
        part = panel.within(Window(4.5, 9))
        assert part
        self.assertEqual(len(part.ios), 3)
        self.assertTrue(part.summary().startswith("3 I/Os of 1 block in 6.0 ms; one at a time, for 100 % of it"), part.summary())
        self.assertIsNone(panel.within(Window(50, 60)))


class Files(WithDirectory):
    def out(self, name: str) -> str:
        return str(self.directory / name)

    def test_pictures(self) -> None:
        first = written(self.directory, "18.jsonl", traces.serial(50))
        second = written(self.directory, "19.jsonl", traces.varied())
        names = [self.out("x.png"), self.out("x.svg")]
        status, said = run(first, "--zoom", "5", second, "-o", names[0], "-o", names[1])
        self.assertEqual((status, said.split()), (0, names))
        self.assertEqual(Path(names[0]).read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
        drawn = Path(names[1]).read_text()
        self.assertIn("<svg", drawn)
        again = self.out("again.svg")
        run(first, second, "--zoom", "5", "-o", again)
        self.assertEqual(Path(again).read_text(), drawn)

    def test_one_io_and_none(self) -> None:
        for status, end, *part in ((0, 1), (0, None), (1, 1, "--from", "5", "--to", "9")):
            found, said = run(written(self.directory, "1.jsonl", [traces.row(1, 0, end, 0)]), *part, "-o", self.out("x.png"))
            self.assertEqual(found, status, said)

    def test_what_cannot_be_read(self) -> None:
        empty, other = written(self.directory, "empty.jsonl", []), written(self.directory, "other.jsonl", [{"seq": 1}])
        for source in (empty, other, self.out("none.jsonl"), "host=/nonexistent"):
            status, said = run(source, "-o", self.out("x.png"))
            self.assertEqual(status, 1)
            self.assertTrue(said.startswith("bench/timeline: "), said)
            self.assertNotIn("Traceback", said)


class Export(unittest.TestCase):
    def test_chrome(self) -> None:
        """Each I/O begins and ends, arrows go forward, and slices of a process nest."""
        # the one before the last is staged shortly before a wait has ended
        rows = [*traces.varied(), traces.row(7, 1.107, 2, 40), traces.row(8, 2.5, 3, 50, completed_by=100)]
        events = json.loads(export.chrome(trace.from_rows("varied", rows)))["traceEvents"]
        kinds = Counter(event["ph"] for event in events)
        self.assertEqual((kinds["b"], kinds["s"]), (kinds["e"], kinds["f"]))
        self.assertEqual((kinds["b"], kinds["s"]), (len(rows), len(rows) - 2))
        starts = {event["id"]: event["ts"] for event in events if event["ph"] == "s"}
        self.assertTrue(all(starts[event["id"]] <= event["ts"] for event in events if event["ph"] == "f"))
        slices = [(event["tid"], event["ts"], event["ts"] + event["dur"]) for event in events if event["ph"] == "X"]
        self.assertFalse([(one, other) for one, other in permutations(slices, 2) if one[0] == other[0] and one[1] < other[1] < one[2] < other[2]])
