"""bench/coverage: which lines and branches of a server's read path does the suite execute?  Standard library only."""

import argparse
import os
import shutil
import subprocess
import tempfile
from fnmatch import fnmatch
from pathlib import Path

from .. import project
from ..servers import identity, is_tree, source_of
from . import changed, coverage, patch

READ_PATH = ("src/backend/storage/aio/*.c", "src/backend/storage/buffer/*.c", "src/backend/storage/smgr/md.c")


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} % of {whole:,}" if whole else "none"


def told(found: coverage.Coverage) -> list[str]:
    rows = []
    for name in sorted(found.files):
        lines, of_lines, taken, of_taken = coverage.share(coverage.Coverage({name: found.files[name]}))
        rows.append(f"  {Path(name).name:24} lines {_percent(lines, of_lines):18} branches {_percent(taken, of_taken)}")
    lines, of_lines, taken, of_taken = coverage.share(found)
    return [*rows, f"{len(found.files)} files: lines {_percent(lines, of_lines)}, branches {_percent(taken, of_taken)}"]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench/coverage", description="Runs the tests of make check and the recordings on a server that counts which lines and branches are executed; with TEST_AIO_LONG=1 those of make check-long.")
    parser.add_argument("server", metavar="SERVER", help="source:PATH[@REVISION], or an instrumented server that servers/provide --list shows")
    parser.add_argument("--file", action="append", default=[], metavar="PATTERN", help=f"count these files, too; default: {' '.join(READ_PATH)}")
    given = parser.parse_args(argv)
    return project.perform("bench/coverage", lambda: run(given))


def run(given: argparse.Namespace) -> int:
    server = given.server
    output = project.ROOT / "build" / "coverage" / identity(server)
    output.mkdir(parents=True, exist_ok=True)
    directory = output / "server"
    with tempfile.TemporaryDirectory() as unpacked:
        if is_tree(server):
            patch.unpack(server, Path(unpacked))
        source = Path(unpacked) if is_tree(server) else source_of(server)
        names = [str(path.relative_to(source)) for top in ("src/backend", "contrib") for path in sorted((source / top).rglob("*.c"))]
    wanted = [name for name in names if any(fnmatch(name, pattern) or fnmatch(Path(name).name, pattern) for pattern in (*READ_PATH, *given.file))]
    left_out, ran, found = coverage.count(server, directory, wanted, output / "logs", [], print,
                                           {"TEST_AIO_LONG": os.environ.get("TEST_AIO_LONG", "")})
    if left_out:
        print(f"left out, since they are not compiled by themselves: {', '.join(left_out)}")
    source = directory / "source"
    (output / "coverage.info").write_text(coverage.lcov(found, source))
    changed.keep_reach(found)
    if not shutil.which("genhtml"):
        print("no HTML report: genhtml is missing (apt-get install lcov)")
    else:
        subprocess.run(["genhtml", "--quiet", "--branch-coverage", "--prefix", source, "--title", given.server, "--output-directory", output / "html", output / "coverage.info"], check=True)
    gaps = coverage.gaps(found, source, {name: set(file.lines) for name, file in found.files.items()})
    (output / "gaps.txt").write_text("".join(f"{gap}\n" for gap in gaps))
    summary = "\n".join(told(found)) + "\n"
    (output / "summary.txt").write_text(summary)
    print(f"{summary}{len(ran.files)} files of the suite in {ran.seconds:.0f} s, failed: {', '.join(ran.failed) or 'none'}\n{output}/: html/index.html, gaps.txt, coverage.info")
    shutil.rmtree(directory / "work", ignore_errors=True)
    return 0
