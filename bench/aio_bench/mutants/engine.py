"""A server, or this library on a server, with a switch for each bug; and what becomes of each bug in the tests.

    engine = Engine("source:/a/tree")            # or Engine(), for 18; or Engine(server="19-stock"), for bugs of the library alone
    engine.build(bugs)                           # a list of bugs.Bug; compiles and links once
    engine.reach()                               # runs the suite once without a bug
    for result in engine.tries(bugs):            # what inner.py says of each bug
        print(result["name"], result["by"])

A bug that no switch can turn on, since it is in a header, in a macro or outside of functions, is compiled by
itself; tries() does that last.
"""

import json
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from .. import servers
from ..project import CACHE, ROOT, Problem, digest, lock, write_files
from ..servers import ServerError
from . import points, switches
from .bugs import Bug, major_of
from .points import Point
from .switches import edited, instrumented, sort_out

TREE = ("Makefile", "meson.build", "meson_options.txt", "test_aio.control", "src", "sql", "expected", "t", "doc", "servers")
Texts = dict[str, str]


class Engine:
    """Two engines of one version, or server, cannot be used at the same time: they have one directory."""

    def __init__(self, base: str = "18-instrumented", server: str = "", assertions: bool = True,
                 only: Iterable[str] = (), directory: Path | None = None, kind: str = ""):
        #: what servers/variant makes the server of; empty: the server is taken as it is
        self.base = "" if server else base
        self.assertions = assertions
        self.only = " ".join(only)  # patterns of the tests that are run, such as t/extension/*
        if server:
            self.label = f"own-{server.replace('/', '-').replace(':', '-')}"
        else:
            self.label = directory.name if directory else f"{self.major}{'' if assertions else '-plain'}"
        # runs with other bugs have builds and results of their own
        self.label += f"-{kind}" if kind else ""
        self.directory = directory or CACHE / "mutants" / self.label
        self.work = self.directory / "work"
        self.server = server or f"pg_config:{self.directory}/server/bin/pg_config"
        self.numbers: dict[str, int] = {}  # of the switches
        self.alone: list[Bug] = []
        self.points: list[Point] = []
        self.texts: tuple[Texts, Texts] = ({}, {})  # what has been built, of the server and of the library

    @cached_property
    def source(self) -> Path | None:
        return servers.source_of(self.base) if self.base else None

    @cached_property
    def major(self) -> int:
        return major_of(self.source) if self.source else int(self.server.split("-")[0]) if self.server[0].isdigit() else 0

    # Running something inside servers/run.

    def command(self, *words: str | Path) -> list[str]:
        return servers.command(self.server, self.work, "env", f"MUTANTS_ONLY={self.only}", f"PYTHONPATH={ROOT}/bench", *words,
                               read=self.directory / "checkout", data=True)

    def inner(self, *words: str) -> list[str]:
        return self.command("python3", "-B", "-m", "aio_bench.mutants.inner", *words)

    def must(self, command: list[str]) -> str:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise ServerError(f"{' '.join(command)} failed: {done.stdout[-3000:]}")
        return done.stdout

    # Compiling.

    def build(self, bugs: Iterable[Bug], files: Iterable[str] = ()) -> None:
        """Compiles and links everything with a switch for each bug, and with those of points.py in files of the server."""
        self.locked = lock(self.directory, f"another run uses {self.directory}")
        switched, self.alone, wrong = sort_out(bugs, self.source or ROOT)
        if wrong:
            raise Problem("\n".join(wrong))
        self.numbers = {bug.name: number for number, bug in enumerate(switched, 1)}
        by_file: tuple[dict[str, list], dict[str, list]] = (defaultdict(list), defaultdict(list))
        for bug in switched:
            for file in {edit.file for edit in bug.edits}:
                by_file[bug.is_own][file].append((self.numbers[bug.name], bug))
        of_server, own = ({file: instrumented(file, root, those) for file, those in each.items()}
                          for root, each in zip((self.source or ROOT, ROOT), by_file, strict=True))
        if self.source:
            self.points, texts = points.instrument(self.source, files, len(switched) + 1)
            of_server = switches.with_switches(of_server | texts, self.source)
        self.texts = of_server, switches.with_switches(own, ROOT, own=True)
        if not self.base and not self.server.startswith("pg_config:"):
            subprocess.run([servers.SCRIPTS / "provide", self.server], check=True)
        self.make(*self.texts)

    def make(self, server: Texts, own: Texts) -> None:
        """Makes all that tests need, while no bug is switched on."""
        self.install(server, own)
        self.must(self.command(servers.SCRIPTS / "tests", self.work / "template"))

    def install(self, server: Texts, own: Texts) -> None:
        """Compiles and installs the server and the library with these files in the place of the source's."""
        if self.base:
            self.compile(server)
        checkout = self.directory / "checkout"
        shutil.rmtree(checkout, ignore_errors=True)
        checkout.mkdir(parents=True)
        for path in [*map(ROOT.joinpath, TREE), *ROOT.glob("*.sql")]:
            if path.is_dir():
                # with new times: what had a bug the last time is compiled again
                shutil.copytree(path, checkout / path.name, symlinks=True, ignore=shutil.ignore_patterns("*.o", "*.bc"), copy_function=shutil.copy)
            elif path.exists():
                shutil.copy(path, checkout)
        write_files(checkout, own)
        self.must(self.command("/usr/bin/env", "COPT=-w", servers.SCRIPTS / "stage", checkout))

    def compile(self, texts: Texts) -> None:
        """Makes the server with these files in the place of the source's, unless this has been done."""
        stamp, state = self.directory / "stamp", digest(also=f"{servers.identity(self.base)}{servers.recipe(self.base)}{json.dumps(texts, sort_keys=True)}")
        if stamp.exists() and stamp.read_text() == state:
            return
        stamp.unlink(missing_ok=True)
        directory = self.directory / "texts"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        write_files(directory, texts)
        files = {file for file in texts if file.endswith(".c")} | {switches.DEFINES}
        if self.source and any(file.endswith(".h") for file in texts):
            # nobody tells make which files include it; ccache knows what is the same
            files |= {str(path.relative_to(self.source)) for path in self.source.glob("src/backend/**/*.c")}
        before = (*([] if self.assertions else ["--without-assertions"]), "--text", str(directory))
        # a variable that is not assigned is 0 (points.py keeps the compiler from concluding that it must be assigned)
        servers.variant(self.base, self.directory, "-w -ftrivial-auto-var-init=zero", *sorted(files), before=before)
        stamp.write_text(state)

    # Testing.

    def fingerprint(self) -> str:
        """Of all that the suite runs with."""
        return digest(self.directory / "server/bin/postgres", self.work / "stage", self.work / "tree/t", self.work / "tree/doc/reports", also=json.dumps([self.numbers, self.only]))

    def reach(self, tier: str = "short") -> set[int]:
        """Runs the suite once, unless this has been done; returns the switches that it reaches."""
        directory = self.work / f"reach-{tier}"
        stamp, fingerprint = directory / "stamp", self.fingerprint()
        if not stamp.exists() or stamp.read_text() != fingerprint:
            if said := self.must(self.inner("reach", tier)).rstrip():
                print(said, flush=True)
            stamp.write_text(fingerprint)
        return set(json.loads((directory / "reached.json").read_text()))

    def left_out(self) -> list[str]:
        """Returns the tests that fail without a bug, and are not tried."""
        return json.loads((self.work / "reach-short/left_out.json").read_text())

    def tries(self, bugs: Iterable[Bug | Point], tier: str = "short", minutes: float = 1e6, most: int = 1000,
              expected: dict[str, str] | None = None) -> Iterator[dict]:
        """Tries bugs of those that were built.  The test that notices a bug is tried first in the next run."""
        kept = self.work / "before.json"
        before: dict[str, str] = (json.loads(kept.read_text()) if kept.exists() else {}) | (expected or {})
        options = {"tier": tier, "minutes": minutes, "most": most, "before": before}
        bugs = list(bugs)
        switched = [bug for bug in bugs if bug not in self.alone]
        batches: list[Sequence[Bug | Point]] = [switched, *([bug] for bug in self.alone if bug in bugs)]
        try:
            for batch in filter(None, batches):
                if batch is not switched:
                    bug = batch[0]
                    assert isinstance(bug, Bug)
                    files = edited(bug, ROOT if bug.is_own else self.source or ROOT)
                    self.install(*((self.texts[0], self.texts[1] | files) if bug.is_own else (self.texts[0] | files, self.texts[1])))
                for result in self.try_batch(batch, options):
                    if result["by"]:
                        before[result["name"]] = result["by"][0]
                    yield result
                    kept.write_text(json.dumps(before))
        finally:
            if any(bug in self.alone for bug in bugs):
                self.install(*self.texts)

    def try_batch(self, bugs: Sequence[Bug | Point], options: dict) -> Iterator[dict]:
        rows = [{"number": bug.number if isinstance(bug, Point) else self.numbers.get(bug.name, 0), "name": bug.name, "place": bug.place} for bug in bugs]
        with subprocess.Popen(self.inner("try"), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin and process.stdout
            process.stdin.write(json.dumps({"bugs": rows, **options}))
            process.stdin.close()
            for line in process.stdout:
                yield json.loads(line)
        if process.returncode != 0:
            raise ServerError(f"inner.py failed with {process.returncode}")
