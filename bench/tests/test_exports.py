"""Exports of the trace, read by other programs."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import unittest
from collections import Counter
from pathlib import Path
from typing import Any

from timeline import command, export, panels, trace

from . import browser, perfetto, recorded


THREADS = "SELECT id FROM thread_track"


class Exports(unittest.TestCase):
    recorded: recorded.Recorded
    rows: list[dict[str, Any]]
    fio_log: str
    directory: Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.recorded = cls.enterClassContext(recorded.Recorded())
        cls.rows = cls.recorded.rows
        cls.fio_log = export.fio_log(trace.from_rows("recorded", cls.rows))
        cls.directory = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))

    def test_there_is_what_is_to_be_read(self) -> None:
        self.assertGreater(len(self.rows), 100)
        self.assertLessEqual({"OK", "PARTIAL", "ERROR"}, {row["result"] for row in self.rows})
        self.assertGreater(sum(row["waits"] for row in self.rows), 0)

    def test_timeline_of_it(self) -> None:
        drawn = panels.of([trace.from_server(self.recorded.dsn)])
        self.assertEqual(sum(len(panel.ios) for panel in drawn), len(self.rows))
        path = self.directory / "timeline.svg"
        with contextlib.redirect_stdout(None):
            self.assertEqual(command.main([self.recorded.dsn, "-o", str(path)]), 0)
        self.assertIn("<svg", path.read_text())

    def test_perfetto(self) -> None:
        with browser.Browser() as running, perfetto.Perfetto(running) as reader:
            reader.open(export.chrome(trace.from_rows("recorded", self.rows)))
            self._compare(reader)

    def _compare(self, reader: perfetto.Perfetto) -> None:
        self.assertEqual(reader.query("SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0"), [])
        # overlapping I/Os are on tracks without a thread; the view's times are exact to a microsecond
        lengths = sorted(ns / 1e6 for (ns,) in reader.query(f"SELECT dur FROM slice WHERE track_id NOT IN ({THREADS})"))
        for theirs, own in zip(lengths, sorted(row["latency"] for row in self.rows), strict=True):
            self.assertAlmostEqual(theirs, own, delta=0.002)
        for begin, column in (("stage", "pid"), ("wait for", "waiters"), ("complete", "completed_by")):
            found = reader.query(f"""
                SELECT p.pid, count(*) FROM slice s JOIN thread_track t ON s.track_id = t.id JOIN thread USING (utid) JOIN process p USING (upid)
                WHERE s.name LIKE '{begin} %' GROUP BY p.pid""")
            ours = Counter(pid for row in self.rows for pid in (row[column] if isinstance(row[column], list) else [row[column]]) if pid is not None)
            self.assertEqual({pid: number for pid, number in found}, ours, begin)
        [[flows, backward]] = reader.query("""
            SELECT count(*), count(*) FILTER (WHERE b.ts < a.ts)
            FROM flow f JOIN slice a ON f.slice_out = a.id JOIN slice b ON f.slice_in = b.id""")
        self.assertEqual((flows, backward), (sum(row["completed_by"] not in (None, row["pid"]) for row in self.rows), 0))
        counters = reader.query("""
            SELECT t.name LIKE 'look-ahead%', max(c.value) FROM counter c JOIN process_counter_track t ON c.track_id = t.id GROUP BY 1 ORDER BY 1""")
        self.assertEqual(counters, [[0, max(row["in_progress"] for row in self.rows)], [1, max(row["lookahead_distance"] for row in self.rows)]])
        names = [name for (name,) in reader.query("SELECT name FROM process WHERE name IS NOT NULL")]
        self.assertTrue(any("client backend" in name for name in names), names)

    def test_log_has_the_columns_of_fio(self) -> None:
        if not shutil.which("fio"):
            self.skipTest("fio is not installed")
        file = self.directory / "file"
        file.write_bytes(bytes(8 * 8192))
        subprocess.run(
            ["fio", "--name=x", f"--filename={file}", "--size=64k", "--rw=read", "--bs=8k", "--log_offset=1", "--write_lat_log=x", "--output=x.out"],
            check=True, cwd=self.directory, stdout=subprocess.DEVNULL,
        )
        theirs = {line.count(", ") for line in (self.directory / "x_lat.1.log").read_text().splitlines()}
        self.assertEqual({line.count(", ") for line in self.fio_log.splitlines()}, theirs)

    def test_fio2gnuplot(self) -> None:
        if not shutil.which("fio2gnuplot"):
            self.skipTest("fio's fio2gnuplot is not installed")
        lines = [[int(word) for word in line.split(", ")] for line in self.fio_log.splitlines()]
        self.assertEqual(len(lines), sum(row["result"] != "ERROR" for row in self.rows))
        (self.directory / "trace_lat.1.log").write_text(self.fio_log)
        subprocess.run(
            ["fio2gnuplot", "-p", "trace_lat.1.log", "-d", f"{self.directory}/"], check=True, cwd=self.directory,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, stdout=subprocess.DEVNULL,
        )
        found = dict(line.split("=") for line in (self.directory / "trace_lat.1.global").read_text().splitlines())
        # it leaves out I/Os that ended in the first millisecond
        latencies = [line[1] for line in lines if line[0] > 0]
        self.assertEqual(int(found["values_count"]), len(latencies))
        self.assertEqual((float(found["min"]), float(found["max"])), (min(latencies), max(latencies)))
        self.assertAlmostEqual(float(found["avg"]), sum(latencies) / len(latencies), places=1)


if __name__ == "__main__":
    unittest.main()
